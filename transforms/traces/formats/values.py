"""Values of a row as the formats write them."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Final

from transforms.traces.requests import Counts

#: A line longer than this is no row.
MAX_LINE_BYTES: Final = 256 * 2**20


class UnknownTraceError(Exception):
    """The file is of no format that can be read; the message says what it is instead, as the end of a sentence."""


def number(value: object) -> float | None:
    """A finite number, given as one or as text; None for anything else."""
    kind = type(value)
    if kind is not str and kind is not float and kind is not int:
        return None
    try:
        read = float(value)  # type: ignore[arg-type] # one of these three
    except (ValueError, OverflowError):
        return None
    return read if math.isfinite(read) else None


def length(row: Mapping[str, object], name: str) -> float:
    """A number of tokens; NaN, which no request may have, where there is none."""
    read = number(row.get(name))
    return math.nan if read is None else read


def whole(value: object) -> int | None:
    """A whole number."""
    read = number(value)
    return int(read) if read is not None and read.is_integer() else None


def scaled(value: object, factor: float) -> float | None:
    """A number times a factor, say 1e-3 for milliseconds."""
    read = number(value)
    return None if read is None else read * factor


def moment(value: object) -> float | None:
    """Seconds since 1970 of an ISO 8601 time, taken for UTC where it names no zone."""
    if not isinstance(value, str) or "-" not in value:
        return None
    try:
        read = datetime.fromisoformat(value.strip().removesuffix(" UTC"))
        return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def json_rows(lines: Iterable[bytes], counts: Counts) -> Iterator[dict[str, Any]]:
    """The objects of a JSONL file, or of one JSON text that is a list of them or holds one.

    A line or an item that is no object is counted and left out.
    """
    remaining = iter(lines)
    first = next((line for line in remaining if line.strip()), b"").removeprefix(b"\xef\xbb\xbf")
    value = parse(first)
    if value is None or isinstance(value, list):
        whole_text = first + b"".join(remaining)
        value = parse(whole_text)
        items = list_of_objects(value)
        if items is not None:
            counts["unreadable_rows"] += sum(not isinstance(item, dict) for item in items)
            yield from (item for item in items if isinstance(item, dict))
            return
        remaining = iter(whole_text.splitlines()[1:])
        value = parse(first)
    second = next((line for line in remaining if line.strip()), None)
    if isinstance(value, dict) and second is None and _LISTS & value.keys():
        yield from mappings(next(value[name] for name in value if name in _LISTS))
    elif isinstance(value, dict):
        yield value
    else:
        counts["unreadable_rows"] += bool(first.strip())
    for line in chain([] if second is None else [second], remaining):
        if not line.strip():
            continue
        row = parse(line)
        if isinstance(row, dict):
            yield row
        else:
            counts["unreadable_rows"] += 1


_LISTS: Final = frozenset({"data", "rows", "records", "items", "results", "spans", "events"})


def list_of_objects(value: object) -> list[Any] | None:
    """A JSON list, or the one list of objects that an object holds; a single object is a list of one."""
    if isinstance(value, list):
        return value
    if not isinstance(value, dict):
        return None
    lists = [held for held in value.values() if isinstance(held, list) and held and isinstance(held[0], dict)]
    return lists[0] if len(lists) == 1 else [value]


def parse(text: bytes) -> Any:
    """The value of a JSON text; None where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def csv_text(lines: Iterable[bytes]) -> Iterator[str]:
    """The lines of a CSV file as text, without a byte order mark."""
    for number_of_line, line in enumerate(lines):
        text = line.decode("utf-8", "replace")
        yield text if number_of_line else text.removeprefix("\ufeff")


def delimiter_of(header: str) -> str:
    """What parts the cells of a table: a comma, or a semicolon or tab where the header has more of them."""
    return max((",", ";", "\t"), key=header.count)


def mappings(value: object) -> list[dict[str, Any]]:
    """The objects of a list; empty where there is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
