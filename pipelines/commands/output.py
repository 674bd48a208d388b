"""What commands write for machines."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.terminal import json_text


def print_json(content: object) -> None:
    """JSON for machines and eyes: indented, in UTF-8, names not escaped but for control characters."""
    import json

    print(json_text(json.dumps(content, indent=2, ensure_ascii=False)), flush=True)


def print_answer(output_format: str, content: object, rows: Sequence[Mapping[str, Any]]) -> None:
    """The whole ``content`` as JSON, or its ``rows`` as CSV: what is nested in a row becomes columns ``a.b``."""
    if output_format == "json":
        print_json(content)
        return
    flat = [_flat(row) for row in rows]
    columns = list(dict.fromkeys(name for row in flat for name in row))
    print_records([dict.fromkeys(columns) | row for row in flat], columns, "csv")


def _flat(row: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    import json

    cells: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            cells |= _flat(value, f"{above}{name}.")
        else:
            cells[above + str(name)] = json.dumps(value) if isinstance(value, list | tuple) else value
    return cells


def print_records(records: Sequence[Mapping[str, Any]], columns: Sequence[str], output_format: str) -> None:
    """Records as CSV or JSON on standard output, every digit; a reader that has enough, `head` say, is no error."""
    from pipelines.lake.formats import write_csv, write_json

    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8", newline="")
    write = write_csv if output_format == "csv" else write_json
    try:
        write(sys.stdout, columns, ([record[name] for name in columns] for record in records))
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
