"""Rows as text: RFC 4180 CSV, JSON, and a table for reading. Nothing here knows about lakes.

Everywhere times are ISO 8601 and binary values are hexadecimal. NULL is an empty field in CSV (an empty text
is ``""``; one that a spreadsheet would take for a formula has an apostrophe before it), ``null`` in JSON and
``NULL`` in a table. NaN and infinities, which JSON does not have, are ``null`` there.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Any, TextIO

from pipelines.terminal import json_text, terminal_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Row = Sequence[Any]

#: A text that begins so is a formula to a spreadsheet; an apostrophe before it makes it text.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def write_csv(out: TextIO, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """A header line and a line for each row, ended by CR LF as RFC 4180 has it.

    A file gets each text as it is; for a terminal, control characters are escaped.
    """
    shown = terminal_text if out.isatty() else str
    out.write(shown(",".join(map(_csv_field, columns))) + "\r\n")
    for row in rows:
        out.write(shown(",".join(map(_csv_field, row))) + "\r\n")


def write_json(out: TextIO, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """A list of objects, one a line. A column name that comes again gets a number (``a``, ``a_2``)."""
    names = [to_json(name) for name in distinct_names(columns)]
    separator = "["
    for row in rows:
        fields = (f"{name}: {to_json(value)}" for name, value in zip(names, row, strict=True))
        out.write(f"{separator}\n{{{', '.join(fields)}}}")
        separator = ","
    out.write("[]\n" if separator == "[" else "\n]\n")


def write_table(
    out: TextIO, columns: Sequence[str], rows: Iterable[Row], max_rows: int, width: int | None = None
) -> int | None:
    """A table of the first ``max_rows`` rows (0: all), numbers to the right and to six digits, but whole ones
    in full.

    ``width`` is that of the terminal; None does not limit it. Rows that are wider are written one column a
    line. Returns the number of rows where all were written, else None.
    """
    from rich.console import Console

    iterator = iter(rows)
    shown = list(islice(iterator, max_rows)) if max_rows else list(iterator)
    complete = not max_rows or next(iterator, None) is None
    cells = [[display(value) for value in row] for row in shown]
    numeric = [_is_numeric([row[i] for row in shown]) for i in range(len(columns))]
    console = Console(file=out, width=width or 1_000_000, highlight=False, markup=False, emoji=False)
    table = _table(columns, cells, numeric)
    if width is None or _natural_width(console, table) <= width:
        console.print(table, soft_wrap=width is None)
    else:
        _write_records(out, columns, cells, width)
    return len(shown) if complete else None


def distinct_names(columns: Sequence[str]) -> list[str]:
    """The names with a number appended where one comes again."""
    taken = set(columns)
    seen: set[str] = set()
    names = []
    for name in columns:
        number = 2
        unique = name
        while unique in seen or (unique != name and unique in taken):
            unique = f"{name}_{number}"
            number += 1
        seen.add(unique)
        names.append(unique)
    return names


def to_json(value: Any) -> str:
    """A value from DuckDB as JSON. Integers and decimals keep all their digits."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "null"
    if isinstance(value, bool | int | float | str):
        return json_text(json.dumps(value, ensure_ascii=False))
    if isinstance(value, Decimal):
        return str(value) if value.is_finite() else "null"
    if isinstance(value, Mapping):
        items = (f"{to_json(to_text(key))}: {to_json(item)}" for key, item in value.items())
        return f"{{{', '.join(items)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(to_json, value))}]"
    return json_text(json.dumps(to_text(value), ensure_ascii=False))


def to_text(value: Any) -> str:
    """A value other than NULL in full, on one line unless it is a text with line ends."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex()
    if isinstance(value, Mapping | list | tuple):
        return to_json(value)
    return str(value)


def display(value: Any) -> str:
    """A value for reading: floats to six digits, control characters escaped so that no data drives the
    terminal.
    """
    if value is None:
        return "NULL"
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:.0f}" if 1e5 <= abs(value) < 1e15 else f"{value:.6g}"
    return terminal_text(to_text(value)).replace("\n", "\\n").replace("\t", "\\t")


def _csv_field(value: Any) -> str:
    if value is None:
        return ""
    text = to_text(value)
    if text.startswith(_FORMULA_STARTS) and not isinstance(value, int | float | Decimal):
        text = f"'{text}"
    if not text or any(character in text for character in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text


def _is_numeric(values: Iterable[Any]) -> bool:
    present = [value for value in values if value is not None]
    return bool(present) and all(
        isinstance(value, int | float | Decimal) and not isinstance(value, bool) for value in present
    )


def _table(columns: Sequence[str], cells: Iterable[Sequence[str]], numeric: Sequence[bool]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name, right in zip(columns, numeric, strict=True):
        table.add_column(Text(display(name)), justify="right" if right else "left", no_wrap=True)
    for row in cells:
        table.add_row(*map(Text, row))
    return table


def _natural_width(console: Console, table: Table) -> int:
    options = console.options.update(width=1_000_000)
    return table.__rich_measure__(console, options).maximum


def _write_records(out: TextIO, columns: Sequence[str], cells: Iterable[Sequence[str]], width: int) -> None:
    names = [display(name) for name in columns]
    margin = max(map(len, names), default=0)
    for number, row in enumerate(cells, start=1):
        out.write(f"row {number}\n")
        for name, cell in zip(names, row, strict=True):
            # a name may be a whole expression: what is left for its value is never nothing
            parts = textwrap.wrap(cell, max(width - margin - 4, 20), break_on_hyphens=False) or [""]
            out.writelines(f"  {label:<{margin}}  {part}\n" for label, part in zip_longest([name], parts, fillvalue=""))
