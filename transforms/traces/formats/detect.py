"""Which format a file has, by its content."""

import csv
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from transforms.traces.formats import lmcache, mooncake, table, tracelab, weka
from transforms.traces.formats.values import UnknownTraceError, mappings, parse
from transforms.traces.requests import Counts, Request


@dataclass(frozen=True)
class TraceFormat:
    """One format of trace files."""

    name: str
    title: str
    reuse: Literal["observed", "bounded"]  #: what its reused tokens are
    read: Callable[[Iterable[bytes], Counts], Iterator[Request]]
    one_by_one: bool = False  #: a session's requests always come together
    notes: tuple[str, ...] = ()


FORMATS: Final = {
    known.name: known
    for known in (
        TraceFormat("weka", "WEKA and AgentX session JSON", "bounded", weka.read_weka, one_by_one=True),
        TraceFormat("tracelab", "TraceLab rounds", "observed", tracelab.read_rounds),
        TraceFormat(
            "tracelab-replay",
            "TraceLab replay CSV",
            "bounded",
            tracelab.read_replay,
            notes=("The trace holds pauses for tools only, none for people.",),
        ),
        TraceFormat("aiperf", "aiperf agentic JSONL", "bounded", mooncake.read_sessions),
        TraceFormat(
            "mooncake",
            "Mooncake JSONL",
            "bounded",
            mooncake.read_requests,
            notes=(
                "The trace names no sessions: they are inferred from shared blocks, and requests that share only a"
                " template may be joined.",
            ),
        ),
        TraceFormat(
            "lmcache",
            "LMCache agent text",
            "bounded",
            lmcache.read_texts,
            notes=("Tokens are estimates, made from the number of characters of the texts: no tokenizer was run.",),
        ),
        TraceFormat("table", "flat table of requests", "bounded", table.read_table),
    )
}


def detect_format(first: bytes, whole_text: Callable[[], bytes]) -> TraceFormat:
    """The format of a file that begins with this line; ``whole_text`` is asked for only where the line is not enough.

    Raises ``UnknownTraceError``.
    """
    line = first.removeprefix(b"\xef\xbb\xbf").strip()
    if not line:
        raise UnknownTraceError("is empty")
    if line[:1] in (b"{", b"["):
        value = parse(line)
        if value is None:
            value = parse(whole_text())
        if value is None:
            raise UnknownTraceError("begins like JSON and is none")
        found = value if isinstance(value, dict) else next(iter(mappings(value)), None)
        return _of_object(found, isinstance(value, list))
    try:
        header = [name.strip() for name in next(csv.reader([line.decode("utf-8")]), [])]
    except (UnicodeDecodeError, csv.Error):
        raise UnknownTraceError("is neither text in UTF-8 nor gzip") from None
    return _of_header(header)


def _of_object(row: object, in_list: bool) -> TraceFormat:
    if not isinstance(row, dict):
        raise UnknownTraceError("is JSON without an object that could be a request or a session")
    if weka.is_session(row):
        return FORMATS["weka"]
    if in_list:
        raise UnknownTraceError(f"is a JSON list of objects that are no sessions ({_shown(row)})")
    if tracelab.is_round(row):
        return FORMATS["tracelab"]
    if mooncake.is_request(row):
        if "session_id" in row:
            return FORMATS["aiperf"]
        if "hash_ids" in row:
            return FORMATS["mooncake"]
        raise UnknownTraceError("has requests with neither session_id nor hash_ids: no session can be told apart")
    if lmcache.is_request(row):
        return FORMATS["lmcache"]
    raise UnknownTraceError(f"is JSON with fields of no known trace format ({_shown(row)})")


def _of_header(header: list[str]) -> TraceFormat:
    if set(header) >= tracelab.REPLAY_COLUMNS:
        return FORMATS["tracelab-replay"]
    if table.is_table(header):
        observed = table.columns_of(header).get("reused") in table.OBSERVED
        return replace(FORMATS["table"], reuse="observed") if observed else FORMATS["table"]
    lengths = {"ContextTokens", "GeneratedTokens"}
    if lengths <= set(header):
        raise UnknownTraceError("holds single requests without a session (Azure's trace): there are no turns to fit")
    if table.columns_of(header):
        raise UnknownTraceError(f"is a table without a column {table.missing_columns(header)}")
    raise UnknownTraceError(f"is no JSON, and its first line is no header of a table of requests ({_cut(header)})")


def _shown(row: dict[str, object]) -> str:
    return _cut([str(name) for name in row]) or "no fields"


def _cut(names: list[str]) -> str:
    text = ", ".join(names)
    return text if len(text) <= 120 else text[:117] + "..."
