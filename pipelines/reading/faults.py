"""What of the files is not used, in words."""

from collections.abc import Sequence

from pipelines.reading.read_inputs import Inputs


def faults_in_words(inputs: Inputs, at_most: int = 10) -> str:
    """What is not used: a line a file, and a line for the rows of a file that have one fault in common."""
    lines = [
        f"  {account.path}: {account.rejected_reason}"
        for account in inputs.accounts
        if account.rejected_reason is not None
    ]
    alike = inputs.quarantine.group_by("source_file", "reason", "detail", maintain_order=True).agg("source_row")
    lines += [
        f"  {file} {_rows_in_words(rows)}: {detail} ({reason})" for file, reason, detail, rows in alike.iter_rows()
    ]
    more = [f"  ... and {len(lines) - at_most:,} more faults"] if len(lines) > at_most else []
    return "\n".join(lines[:at_most] + more)


def _rows_in_words(rows: Sequence[int]) -> str:
    shown = ", ".join(str(row) for row in rows[:5])
    more = f" and {len(rows) - 5:,} more" if len(rows) > 5 else ""
    return f"row{'s' if len(rows) > 1 else ''} {shown}{more}"
