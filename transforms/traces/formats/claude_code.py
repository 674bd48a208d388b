"""Claude Code's session logs: JSONL, one line a message or a block of one, with the usage that the API told.

An answer of several blocks has a line for each, all with the id of its message and its usage: it counts once, with
the largest output told. Lines with ``isSidechain`` are subagents'. The context is input, cache written and cache read
together. A pause goes from the last line of an answer to the last tool result, or to the person's message.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from transforms.traces.formats.values import json_rows, mappings, moment, number
from transforms.traces.requests import Asked, Counts, PauseKind, Reading, Request

_LINES: Final = ("user", "assistant")
_PARTS: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def is_line(row: Mapping[str, Any]) -> bool:
    """Whether a JSON object is a line of such a log; a log may begin with lines that are no messages."""
    if "sessionId" not in row and row.get("type") == "summary":
        return "leafUuid" in row
    return "sessionId" in row and ("uuid" in row or "leafUuid" in row or "isSidechain" in row or "operation" in row)


def settle_log(lines: Iterable[bytes], asked: Asked) -> Reading:
    """How a log is read; nothing is left to settle."""
    del lines, asked
    return Reading(read_log, "observed", ("Hits are those of the provider's own cache.",))


@dataclass
class _Stream:
    """A session's main stream or one of its subagents."""

    answer: "_Answer | None" = None
    last_end_s: float | None = None
    given_s: float | None = None  #: when the input of the next answer was complete
    kind: PauseKind | None = None


@dataclass
class _Answer:
    """An answer whose blocks are still coming."""

    message: str
    usage: Mapping[str, Any]
    given_s: float | None
    pause_s: float | None
    kind: PauseKind | None
    ends: list[float] = field(default_factory=list)
    output_tokens: float = 0.0


def read_log(lines: Iterable[bytes], counts: Counts) -> Iterator[Request]:
    """A request each message of the model."""
    streams: dict[tuple[str, str], _Stream] = {}
    chains: dict[str, str] = {}  # line of a subagent -> the first line of its chain
    for row in json_rows(lines, counts):
        if row.get("type") not in _LINES or not isinstance(row.get("message"), dict):
            continue
        session, name = str(row.get("sessionId")), _stream_name(row, chains)
        stream = streams.setdefault((session, name), _Stream())
        at = moment(row.get("timestamp"))
        if row["type"] == "user":
            if not row.get("isMeta"):  # may come before the last block of the answer whose tool it is of
                stream.given_s, stream.kind = at, _input_kind(row["message"])
            continue
        usage = row["message"].get("usage")
        if not isinstance(usage, dict) or row.get("isApiErrorMessage") or row["message"].get("model") == "<synthetic>":
            counts["failed_rows"] += 1
            continue
        message = str(row["message"].get("id") or row.get("requestId") or row.get("uuid"))
        if stream.answer is None or stream.answer.message != message:
            yield from _finished(stream, session, name)
            stream.answer = _begun(stream, message, usage)
        answer = stream.answer
        answer.output_tokens = max(answer.output_tokens, number(usage.get("output_tokens")) or 0.0)
        if at is not None:
            answer.ends.append(at)
    for (session, name), stream in streams.items():
        yield from _finished(stream, session, name)


def _stream_name(row: Mapping[str, Any], chains: dict[str, str]) -> str:
    if not row.get("isSidechain"):
        return ""
    uuid, parent = str(row.get("uuid")), str(row.get("parentUuid"))
    chains[uuid] = chains.get(parent, uuid)
    return str(row.get("agentId") or chains[uuid])


def _input_kind(message: Mapping[str, Any]) -> PauseKind:
    kinds = {part.get("type") for part in mappings(message.get("content"))}
    return "tool" if "tool_result" in kinds else "person"


def _begun(stream: _Stream, message: str, usage: Mapping[str, Any]) -> _Answer:
    given, stream.given_s = stream.given_s, None
    pause = None
    if given is not None and stream.last_end_s is not None:
        pause = max(given - stream.last_end_s, 0.0)
    return _Answer(message, usage, given, pause, stream.kind)


def _finished(stream: _Stream, session: str, name: str) -> Iterator[Request]:
    """The request of a stream's open answer, which no further line belongs to."""
    answer, stream.answer = stream.answer, None
    if answer is None:
        return
    end = max(answer.ends, default=None)
    begin = answer.given_s if answer.given_s is not None else min(answer.ends, default=None)
    stream.last_end_s = end
    yield Request(
        session=session,
        stream=name,
        start_s=begin,
        service_s=max(end - begin, 0.0)
        if end is not None and answer.given_s is not None and begin is not None
        else None,
        input_tokens=sum(number(answer.usage.get(part)) or 0.0 for part in _PARTS),
        output_tokens=answer.output_tokens,
        reused_tokens=number(answer.usage.get("cache_read_input_tokens")),
        pause_s=answer.pause_s,
        pause_kind=answer.kind,
        request_id=answer.message,
    )
