"""A flat table: CSV, one row a request, with columns of these names."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from transforms.traces.formats.values import UnknownTraceError, csv_text, length, number, scaled, whole
from transforms.traces.formats.weka import pause_kind
from transforms.traces.requests import Counts, PauseKind, Request

#: What a column holds: the names it may have. Times in seconds, or in ms where the name ends in ``_ms``.
COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "session": ("session", "session_id", "trace", "conversation_id"),
    "stream": ("stream", "agent", "agent_id"),
    "turn": ("turn", "k", "turn_index", "round_index"),
    "start": ("start_s", "t", "time_s", "start_ms", "time_ms"),
    "input": ("input_tokens", "isl", "input", "prompt_tokens"),
    "output": ("output_tokens", "osl", "output", "completion_tokens"),
    "reused": ("reused_tokens", "hit_tok", "cached_tokens", "prefix_tokens"),
    "pause": ("pause_s", "think", "think_time_s", "pause_ms"),
    "service": ("service_s", "api", "service_time_s", "service_ms"),
    "pause_kind": ("pause_kind",),
    "stop": ("prev_stop",),
    "input_types": ("inp", "input_types"),
}
REQUIRED: Final = ("session", "input", "output")
#: What a server's own cache held, under its usual names.
OBSERVED: Final = ("cached_tokens", "prefix_tokens")
_MAIN: Final = ("", "main")


def columns_of(header: Sequence[str]) -> dict[str, str]:
    """The columns of a header that are known, by what they hold."""
    found = {}
    for held, names in COLUMNS.items():
        name = next((name for name in names if name in header), None)
        if name is not None:
            found[held] = name
    return found


def is_table(header: Sequence[str]) -> bool:
    """Whether these columns are enough."""
    return all(held in columns_of(header) for held in REQUIRED)


def missing_columns(header: Sequence[str]) -> str:
    """The names that one of the header's columns should have, in words."""
    known = columns_of(header)
    return "; nor ".join(" or ".join(COLUMNS[held]) for held in REQUIRED if held not in known)


def read_table(lines: Iterable[bytes], counts: Counts) -> Iterator[Request]:
    """A request a row. Raises ``UnknownTraceError`` where a column is missing."""
    rows = csv.reader(csv_text(lines))
    header = [name.strip() for name in next(rows, [])]
    if not is_table(header):
        raise UnknownTraceError(f"is a table without a column {missing_columns(header)}")
    at = {held: header.index(name) for held, name in columns_of(header).items()}
    factor = {held: 1e-3 if name.endswith("_ms") else 1.0 for held, name in columns_of(header).items()}
    for cells in rows:
        if len(cells) != len(header):
            counts["unreadable_rows"] += bool(cells)
            continue
        row: dict[str, object] = {held: cells[place] for held, place in at.items()}
        stream = str(row.get("stream", "")).strip()
        turn = whole(row.get("turn"))
        yield Request(
            session=str(row["session"]),
            stream="" if stream in _MAIN else stream,
            turn=turn,
            start_s=scaled(row.get("start"), factor.get("start", 1.0)),
            service_s=scaled(row.get("service"), factor.get("service", 1.0)),
            input_tokens=length(row, "input"),
            output_tokens=length(row, "output"),
            reused_tokens=number(row.get("reused")),
            pause_s=scaled(row.get("pause"), factor.get("pause", 1.0)),
            pause_kind=_kind(row),
        )


def _kind(row: dict[str, object]) -> PauseKind | None:
    given = row.get("pause_kind")
    if given == "tool":
        return "tool"
    if given == "person":
        return "person"
    return pause_kind(row.get("stop"), row.get("input_types"))
