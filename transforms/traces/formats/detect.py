"""Which format a file has, by its content."""

import csv
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from transforms.traces.formats import claude_code, columns, lmcache, mooncake, spans, table, tracelab, weka
from transforms.traces.formats.values import UnknownTraceError, delimiter_of, list_of_objects, mappings, parse
from transforms.traces.requests import Asked, Reader, Reading, Reuse

Settle = Callable[[Iterable[bytes], Asked], Reading]


@dataclass(frozen=True)
class TraceFormat:
    """One format of trace files. ``settle`` looks at a file and says how it is read."""

    name: str
    title: str
    settle: Settle
    one_by_one: bool = False  #: a session's requests always come together


def _always(read: Reader, reuse: Reuse = "bounded", *notes: str) -> Settle:
    """A format whose files are all read alike."""
    return lambda lines, asked: Reading(read, reuse, notes)


FORMATS: Final = {
    known.name: known
    for known in (
        TraceFormat("weka", "WEKA and AgentX session JSON", _always(weka.read_weka), one_by_one=True),
        TraceFormat("tracelab", "TraceLab rounds", _always(tracelab.read_rounds, "observed")),
        TraceFormat(
            "tracelab-replay",
            "TraceLab replay CSV",
            _always(tracelab.read_replay, "bounded", "The trace holds pauses for tools only, none for people."),
        ),
        TraceFormat("claude-code", "Claude Code session logs", claude_code.settle_log),
        TraceFormat("spans", "OpenTelemetry gen_ai spans", spans.settle_spans),
        TraceFormat("aiperf", "aiperf agentic JSONL", mooncake.settle_sessions),
        TraceFormat("bailian", "Bailian JSONL, chat_id and parent_chat_id", mooncake.settle_blocks),
        TraceFormat("mooncake", "Mooncake JSONL", mooncake.settle_blocks),
        TraceFormat("lmcache", "LMCache agent text", lmcache.settle_texts),
        TraceFormat("conversations", "conversations as messages", lmcache.settle_conversations),
        TraceFormat("table", "CSV table of requests", table.settle_csv),
        TraceFormat("json-table", "JSON objects, one a request", table.settle_json),
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
        text = line.decode("utf-8")
        header = [name.strip() for name in next(csv.reader([text], delimiter=delimiter_of(text)), [])]
    except (UnicodeDecodeError, csv.Error):
        raise UnknownTraceError("is neither text in UTF-8 nor gzip") from None
    return _of_header(header)


def _of_object(row: object, in_list: bool) -> TraceFormat:
    if not isinstance(row, dict):
        raise UnknownTraceError("is JSON without an object that could be a request or a session")
    if weka.is_session(row):
        return FORMATS["weka"]
    if spans.is_spans(row):
        return FORMATS["spans"]
    if lmcache.is_conversation(row):
        return FORMATS["conversations"]
    inner = [item for item in list_of_objects(row) or [] if isinstance(item, dict)]
    for candidate in (row, *inner[:1]):
        found = _of_row(candidate)
        if found is not None:
            return found
    if row.get("filetype") == "generate_conversations":
        raise UnknownTraceError(
            "is the configuration of vLLM's multi-turn benchmark, which holds distributions and no requests: write a"
            " scenario from it (turns = num_turns / 2, initial_prompt_tokens = the prefixes and num_tokens of"
            " prompt_input, output_tokens_per_turn = num_tokens of prompt_output)"
        )
    if mooncake.is_request(row):
        raise UnknownTraceError("has requests with neither session_id nor hash_ids: no session can be told apart")
    held = columns.columns_of(table.flat(row))
    if {"input", "output"} <= held.known.keys():
        raise UnknownTraceError(
            f"has requests without a session ({_shown(row)}): name it in a field session_id or conversation_id"
        )
    if in_list:
        raise UnknownTraceError(f"is a JSON list of objects that are no sessions ({_shown(row)})")
    raise UnknownTraceError(f"is JSON with fields of no known trace format ({_shown(row)})")


def _of_row(row: dict[str, object]) -> TraceFormat | None:
    """The format of one object of a trace."""
    if tracelab.is_round(row):
        return FORMATS["tracelab"]
    if claude_code.is_line(row):
        return FORMATS["claude-code"]
    if mooncake.is_request(row):
        if mooncake.has_parents(row) and "hash_ids" in row:
            return FORMATS["bailian"]
        if mooncake.session_name(row) is not None:
            return FORMATS["aiperf"]
        if "hash_ids" in row:
            return FORMATS["mooncake"]
    if lmcache.is_request(row):
        return FORMATS["lmcache"]
    if table.is_table(list(table.flat(row))):
        return FORMATS["json-table"]
    return None


def _of_header(header: list[str]) -> TraceFormat:
    if set(header) >= tracelab.REPLAY_COLUMNS:
        return FORMATS["tracelab-replay"]
    if table.is_table(header):
        return FORMATS["table"]
    known = columns.columns_of(header).known
    lengths = {"ContextTokens", "GeneratedTokens"}
    if lengths <= set(header) or {"input", "output"} <= known.keys():
        whose = "Azure's trace" if lengths <= set(header) else "name them in a column session_id"
        raise UnknownTraceError(f"holds single requests without a session ({whose}): there are no turns to fit")
    if known:
        raise UnknownTraceError(f"is a table without a column {table.missing_columns(header)}")
    raise UnknownTraceError(f"is no JSON, and its first line is no header of a table of requests ({_cut(header)})")


def _shown(row: dict[str, object]) -> str:
    return _cut([str(name) for name in row]) or "no fields"


def _cut(names: list[str]) -> str:
    text = ", ".join(names)
    return text if len(text) <= 120 else text[:117] + "..."
