"""A table of requests: CSV with a header, or JSON objects one a line or in a list; one row a request.

Usage exports of providers and gateways, logs of servers and the results of vLLM's multi-turn benchmark have this
form. Sessions must be named. What the columns mean is settled by their arithmetic (``transforms.traces.dialect``).
"""

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any, Final

from transforms.traces.dialect import (
    PROBED_REQUESTS,
    TIME_UNITS,
    Usage,
    in_order,
    input_holds_cached,
    out_of_order,
    probed,
    refuse_impossible_times,
    refuse_other_counts,
    settle_time_unit,
)
from transforms.traces.formats.columns import (
    BOUNDS,
    COLUMNS,
    EITHER_MEANING,
    HOLDS_CACHED,
    REQUIRED,
    THOUGHTS,
    Columns,
    columns_of,
    normal,
    rivals,
)
from transforms.traces.formats.values import UnknownTraceError, csv_text, delimiter_of, json_rows, moment, number, whole
from transforms.traces.formats.weka import pause_kind
from transforms.traces.requests import Asked, Counts, PauseKind, Reading, Request

Rows = Iterator[Mapping[str, Any]]
RowReader = Callable[[Iterable[bytes], Counts], Rows]
_MAIN: Final = ("", "main")
_NO_ERROR: Final = frozenset({"", "0", "false", "none", "null", "no", "nan", "[]", "{}"})
_FAILED: Final = frozenset(
    {"error", "failed", "failure", "cancelled", "canceled", "timeout", "aborted", "status_code_error", "incomplete"}
)
_ROWS_FOR_COLUMNS: Final = 1_000


def is_table(header: Sequence[str]) -> bool:
    """Whether these columns are enough."""
    return not columns_of(header).missing


def missing_columns(header: Sequence[str]) -> str:
    """The names that one of the header's columns should have, in words."""
    return "; nor ".join(" or ".join(COLUMNS[held][:4]) for held in columns_of(header).missing)


def settle_csv(lines: Iterable[bytes], asked: Asked) -> Reading:
    """How a CSV table is read. Raises ``UnknownTraceError``."""
    return settle_rows(lines, asked, csv_rows)


def settle_json(lines: Iterable[bytes], asked: Asked) -> Reading:
    """How a table of JSON objects is read. Raises ``UnknownTraceError``."""
    return settle_rows(lines, asked, flat_rows)


def csv_rows(lines: Iterable[bytes], counts: Counts) -> Rows:
    """The rows of a CSV file by the names of its header."""
    texts = csv_text(lines)
    first = next(texts, "")
    rows = csv.reader(chain([first], texts), delimiter=delimiter_of(first))
    header = [name.strip() for name in next(rows, [])]
    twice = sorted({name for name in header if name and header.count(name) > 1})
    if twice:
        raise UnknownTraceError(f"is a table with more than one column {', '.join(twice)}")
    for cells in rows:
        if len(cells) == len(header):
            yield dict(zip(header, cells, strict=True))
        else:
            counts["unreadable_rows"] += bool(cells)
    if not header:
        raise UnknownTraceError("is empty")


def flat_rows(lines: Iterable[bytes], counts: Counts) -> Rows:
    """JSON objects with their nested fields named by a path of dots."""
    for row in json_rows(lines, counts):
        yield flat(row)


def flat(row: Mapping[str, Any], before: str = "", depth: int = 0) -> dict[str, Any]:
    """One object, nested ones taken apart."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        path = f"{before}{name}"
        if isinstance(value, dict) and depth < _DEPTH:
            found |= flat(value, f"{path}.", depth + 1)
        else:
            found[path] = value
    return found


_DEPTH: Final = 8


def settle_rows(lines: Iterable[bytes], asked: Asked, rows_of: RowReader, *, title: str = "table") -> Reading:
    """How such rows are read: columns, units, whether the input holds what was cached, and their order."""
    probe = list(islice(rows_of(lines, Counts()), PROBED_REQUESTS))
    header = list(dict.fromkeys(name for row in probe[:_ROWS_FOR_COLUMNS] for name in row))
    columns = columns_of(header)
    if columns.missing:
        raise UnknownTraceError(f"is a {title} without a column {missing_columns(header)}")
    _refuse_rivals(columns, header, probe)
    _refuse_likely(columns)
    _refuse_thoughts(columns, probe)
    as_they_stand = partial(_requests, columns=columns, holds_cached=_holds_cached(columns, probe))
    unit, notes = _start_unit(columns, probe, probed(as_they_stand(probe, Counts(), start_unit=None)), asked)
    read = probed(as_they_stand(probe, Counts(), start_unit=unit))
    sort = out_of_order(read)
    refuse_other_counts(in_order(read) if sort else read)
    if not read:
        raise UnknownTraceError("has no row of a request with a session: there are no turns to fit")
    if columns.unread:
        notes += (f"Columns not read: {_listed(columns.unread)}.",)
    if not {"turn", "start"} & columns.given.keys() and any(count > 1 for count in _sizes(read).values()):
        notes += ("No column says turns or times: the rows of a session are taken in the order of the file.",)
    if sort:
        notes += ("Rows were put in the order of their turns or times.",)

    def reader(again: Iterable[bytes], counts: Counts) -> Iterator[Request]:
        requests = as_they_stand(rows_of(again, counts), counts, start_unit=unit)
        yield from in_order(requests) if sort else requests

    reuse = "observed" if "reused" in columns.known and columns.known["reused"] not in BOUNDS else "bounded"
    return Reading(reader, "observed" if reuse == "observed" else "bounded", notes)


def _sizes(requests: Sequence[Request]) -> Mapping[str, int]:
    return Counter(request.session for request in requests)


def _refuse_rivals(columns: Columns, header: Sequence[str], probe: Sequence[Mapping[str, Any]]) -> None:
    """Two columns of one meaning must hold the same."""
    for held in ("input", "output", "reused"):
        if held not in columns.given:
            continue
        for rival in rivals(columns, held, header):
            pairs = [(number(row.get(columns.given[held])), number(row.get(rival))) for row in probe]
            if any(one is not None and other is not None and one != other for one, other in pairs):
                raise UnknownTraceError(
                    f"has two columns that may be its {held} tokens and differ: {columns.given[held]} and {rival}."
                    " Leave one of them out"
                )


def _refuse_likely(columns: Columns) -> None:
    for name, meaning in columns.likely:
        known = COLUMNS["start" if "arrival" in meaning else "reused"]
        wanted = "timestamp" if "arrival" in meaning else "cached_tokens or cache_read_input_tokens"
        raise UnknownTraceError(
            f"has a column {name} that may be {meaning} and is not known: name it {wanted}, or leave it out"
            f" (known are {', '.join(known[:6])} …)"
        )


def _refuse_thoughts(columns: Columns, probe: Sequence[Mapping[str, Any]]) -> None:
    """Tokens of reasoning that are more than the output are not in it."""
    for name in columns.unread:
        if not THOUGHTS.search(normal(name)):
            continue
        pairs = [(number(row.get(name)), number(row.get(columns.given["output"]))) for row in probe]
        told = [(thought, output) for thought, output in pairs if thought and output is not None]
        more = sum(thought > output for thought, output in told)
        if more > _NOT_IN_OUTPUT * len(told):
            raise UnknownTraceError(
                f"has more tokens in {name} than in {columns.given['output']}, in {more:,} of {len(told):,} rows: the"
                " output leaves them out. Give the sum of both as output_tokens"
            )


_NOT_IN_OUTPUT: Final = 0.05


def _holds_cached(columns: Columns, probe: Sequence[Mapping[str, Any]]) -> bool:
    names = columns.known
    if names["input"] in HOLDS_CACHED:
        return HOLDS_CACHED[names["input"]]
    named_so = {names.get("reused"), names.get("written")} & EITHER_MEANING
    documented = None if named_so and names["input"] in ("input_tokens", "input") else True

    def value(row: Mapping[str, Any], held: str) -> float | None:
        return number(row.get(columns.given[held])) if held in columns.given else None

    usages = [Usage(*(value(row, held) for held in ("input", "output", "reused", "written", "total"))) for row in probe]
    return input_holds_cached(usages, documented)


def _start_unit(
    columns: Columns, probe: Sequence[Mapping[str, Any]], raw: Sequence[Request], asked: Asked
) -> tuple[float | None, tuple[str, ...]]:
    """Seconds per unit of the start column; None for times of a calendar."""
    if "start" not in columns.given:
        return 1.0, ()
    name = columns.given["start"]
    values = [row.get(name) for row in probe if row.get(name) not in (None, "")]
    if not values:
        return 1.0, ()
    if all(moment(value) is not None for value in values):
        return None, ()
    if any(number(value) is None for value in values):
        shown = next(value for value in values if number(value) is None)
        raise UnknownTraceError(
            f"has a column {name} that is neither a number nor a time in ISO 8601 (say {str(shown)[:40]!r})"
        )
    stated = columns.unit_of("start")
    if asked.time_unit is not None:
        return TIME_UNITS[asked.time_unit], ()
    if stated is not None:
        refuse_impossible_times(raw, stated, name)
        return stated, ()
    documented = "s" if columns.known["start"] == "t" else None
    unit = settle_time_unit(raw, documented, name=name)
    if unit == documented:
        return TIME_UNITS[unit], ()
    return TIME_UNITS[unit], (f"Times of {name} are read as {unit}: by what a stream can generate, or their size.",)


def _requests(
    rows: Iterable[Mapping[str, Any]],
    counts: Counts,
    *,
    columns: Columns,
    holds_cached: bool,
    start_unit: float | None,
) -> Iterator[Request]:
    """A request a row; ``start_unit`` None: times of a calendar, or numbers as they stand."""
    units = {held: columns.unit_of(held) or 1.0 for held in ("service", "pause")}
    for row in rows:
        cells = {held: row.get(name) for held, name in columns.given.items()}
        if _failed(cells):
            counts["failed_rows"] += 1
            continue
        session = cells["session"]
        if session is None or not str(session).strip():
            counts["rows_without_session"] += 1
            continue
        read, written = number(cells.get("reused")), number(cells.get("written"))
        given, percent = number(cells.get("input")), number(cells.get("reused_percent"))
        tokens = float("nan") if given is None else given
        if not holds_cached:
            tokens += (read or 0.0) + (written or 0.0)
        if read is None and percent is not None:
            read = tokens * min(max(percent, 0.0), 100.0) / 100.0
        output = number(cells.get("output"))
        stream = str(cells.get("stream") or "").strip()
        yield Request(
            session=str(session),
            stream="" if stream in _MAIN else stream,
            turn=whole(cells.get("turn")),
            start_s=_time(cells.get("start"), start_unit),
            service_s=_scaled(cells.get("service"), units["service"]),
            input_tokens=tokens,
            output_tokens=float("nan") if output is None else output,
            reused_tokens=read,
            pause_s=_scaled(cells.get("pause"), units["pause"]),
            pause_kind=_kind(cells),
            request_id=_request_id(cells.get("request_id"), str(session)),
        )


def _request_id(value: object, session: str) -> str | None:
    """The id of a request; None for a number, which counts the requests of a session or a file."""
    return None if value in (None, "") or number(value) is not None else f"{session}/{value}"


def _time(value: object, unit: float | None) -> float | None:
    if unit is None:
        at = moment(value)
        return number(value) if at is None else at
    return _scaled(value, unit)


def _scaled(value: object, factor: float) -> float | None:
    read = number(value)
    return None if read is None else read * factor


def _failed(cells: Mapping[str, Any]) -> bool:
    error, status = cells.get("error"), cells.get("status")
    if error is not None and str(error).strip().lower() not in _NO_ERROR and number(error) != 0:
        return True
    code = number(status)
    return code >= 400 if code is not None else str(status).strip().lower() in _FAILED


def _kind(cells: Mapping[str, Any]) -> PauseKind | None:
    given = cells.get("pause_kind")
    if given == "tool":
        return "tool"
    if given == "person":
        return "person"
    return pause_kind(cells.get("stop"), cells.get("input_types"))


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:12])
    return shown if len(names) <= 12 else f"{shown} and {len(names) - 12} more"


__all__ = ["REQUIRED", "is_table", "missing_columns", "settle_csv", "settle_json", "settle_rows"]
