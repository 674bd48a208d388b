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
