"""`agent-pareto check`: read and validate tables, publish nothing."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.commands.shared_options import AnswerFormatOption
from pipelines.terminal import say

if TYPE_CHECKING:
    from pipelines.reading.gathering import FileAccount
    from pipelines.reading.read_inputs import Inputs


def check_command(
    tables: Annotated[
        list[Path] | None,
        typer.Option("--tables", help="A table file or a folder of them; may be repeated. Without: those in data/."),
    ] = None,
    hardware: Annotated[Path | None, typer.Option("--hardware", help="Your own hardware catalogue.")] = None,
    models: Annotated[Path | None, typer.Option("--models", help="Your own model catalogue.")] = None,
    output_format: AnswerFormatOption = "table",
) -> None:
    """Read and judge tables: rows accepted, duplicate, superseded and quarantined, files rejected.

    Exit 1 if a row was quarantined or a file rejected.
    """
    from pipelines.progress import progress, shown_progress
    from pipelines.reading.catalogues import SHIPPED_TABLES, load_hardware, load_models, own_models_file
    from pipelines.reading.inputs import search
    from pipelines.reading.read_inputs import READING, read_inputs

    here = search(tuple(tables or (SHIPPED_TABLES,)))
    with shown_progress():
        progress().start(READING, len(here.files))
        inputs = read_inputs(
            here.files,
            load_hardware(hardware),
            load_models(models or own_models_file()),
            on_file=lambda shown: progress().advance(READING),
            keep_points=False,
        )
    inputs = replace(inputs, passed_over=tuple(here.passed_over) if tables else ())
    if output_format != "table":
        _print_files(inputs, output_format)
    else:
        _print_tables(inputs)
    if inputs.faults:
        raise typer.Exit(1)


def _print_files(inputs: "Inputs", output_format: str) -> None:
    from pipelines.commands.output import print_answer

    names = (
        "path", "format", "tool_version", "rows_read", "rows_accepted", "rows_duplicate", "rows_superseded",
        "quarantined", "rejected_reason", "replaced_by",
    )  # fmt: skip
    files = [{name: getattr(account, name) for name in names} for account in inputs.accounts]
    content = {
        "files": files,
        "passed_over": [asdict(item) for item in inputs.passed_over],
        "slow": [asdict(table) for table in inputs.slow],
    }
    print_answer(output_format, content, files)


def _print_tables(inputs: "Inputs") -> None:
    from pipelines.reading.faults import faults_in_words
    from pipelines.reading.folders import passed_over_in_words
    from pipelines.reading.read_inputs import superseded_in_words
    from pipelines.terminal import print_table

    formats = sorted({account.format or "rejected" for account in inputs.accounts})
    rows = []
    for name in formats:
        accounts = [account for account in inputs.accounts if (account.format or "rejected") == name]
        rows.append((name, f"{len(accounts):,}", *_counts(accounts)))
    if len(formats) > 1:
        rows.append(("total", f"{len(inputs.accounts):,}", *_counts(inputs.accounts)))
    print_table(("format", "files", "rows", "accepted", "duplicate", "superseded", "quarantined"), rows)
    if inputs.faults:
        say(f"Not used:\n{faults_in_words(inputs, at_most=40)}")
    slow = [f"slow, {table.sentence}" for table in inputs.slow]
    for line in (*superseded_in_words(inputs.accounts), *slow, passed_over_in_words(inputs.passed_over)):
        if line:
            say(line)
    for account in inputs.accounts:
        if account.format and not account.rows_read:
            say(f"{account.path}: a header and no rows")
    reasons: dict[str, int] = {}
    for account in inputs.accounts:
        for reason, count in account.quarantined.items():
            reasons[reason] = reasons.get(reason, 0) + count
    for reason, count in sorted(reasons.items(), key=lambda item: -item[1]):
        say(f"quarantined, {reason}: {count:,}")


def _counts(accounts: "tuple[FileAccount, ...] | list[FileAccount]") -> tuple[str, ...]:
    names = ("rows_read", "rows_accepted", "rows_duplicate", "rows_superseded", "rows_quarantined")
    return tuple(f"{sum(getattr(account, name) for account in accounts):,}" for name in names)
