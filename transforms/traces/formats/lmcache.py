"""Traces of text: LMCache's agent traces, and conversations as lists of messages.

LMCache: JSONL with the input and output of each request, as text or as lists of messages, times in microseconds.
Conversations (the input of vLLM's multi-turn benchmark): ``messages`` with roles; each answer is a request whose
input is all that came before it.

No tokenizer: tokens are ESTIMATED as characters / 4, the usual rule of thumb for English text; another ratio can be
given. Rows are sorted by time within a session, since files do not keep their order. A session id may hold several
conversations (an agent and a simulated user): a request goes on with the conversation that it shares most with,
if that is at least half of the conversation's last input.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from transforms.traces.dialect import PROBED_REQUESTS, TIME_UNITS, settle_time_unit
from transforms.traces.formats.values import json_rows, mappings, moment, number
from transforms.traces.requests import Asked, Counts, Reading, Request

CHARACTERS_PER_TOKEN: Final = 4.0
_SHARED_AT_LEAST: Final = 0.5
_CONVERSATIONS_KEPT: Final = 64
_INPUTS: Final = ("input", "messages", "prompt")
_OUTPUTS: Final = ("output", "response", "completion")


def is_request(row: Mapping[str, Any]) -> bool:
    """Whether a JSON object is a request with its texts, of a session."""
    return {"timestamp", "session_id"} <= row.keys() and _input(row) is not None and _output(row) is not None


def is_conversation(row: Mapping[str, Any]) -> bool:
    """Whether a JSON object is a conversation: messages with roles, answers among them."""
    return any(message.get("role") == "assistant" for message in mappings(row.get("messages"))) and not _output(row)


def settle_texts(lines: Iterable[bytes], asked: Asked) -> Reading:
    """How requests of text are read. Raises ``UnknownTraceError``."""
    rows = islice(json_rows(lines, Counts()), PROBED_REQUESTS)
    texts = [row for row in rows if is_request(row)]
    ratio = asked.characters_per_token
    dated = bool(texts) and all(moment(row["timestamp"]) is not None for row in texts)
    per_unit = 1.0
    if not dated:
        raw = sorted(
            (
                Request(str(row["session_id"]), 1.0, len(_output(row) or "") / ratio, start_s=number(row["timestamp"]))
                for row in texts
                if number(row["timestamp"]) is not None
            ),
            key=lambda request: request.start_s or 0.0,
        )
        per_unit = TIME_UNITS[settle_time_unit(raw, "us", asked.time_unit)]
    return Reading(
        lambda again, counts: read_texts(again, counts, ratio, seconds_per_unit=per_unit), "bounded", _estimates(ratio)
    )


def settle_conversations(lines: Iterable[bytes], asked: Asked) -> Reading:
    """How conversations are read."""
    ratio = asked.characters_per_token
    return Reading(lambda again, counts: read_conversations(again, counts, ratio), "bounded", _estimates(ratio))


def _estimates(ratio: float) -> tuple[str, ...]:
    return (f"Tokens are estimates: characters / {ratio:g}; no tokenizer was run.",)


def read_texts(
    lines: Iterable[bytes],
    counts: Counts,
    characters_per_token: float = CHARACTERS_PER_TOKEN,
    *,
    seconds_per_unit: float = 1e-6,
) -> Iterator[Request]:
    """A request a row; each conversation of a session id becomes a session of its own."""
    name: object = None
    rows: list[tuple[float, str, int]] = []
    part = 0
    for row in json_rows(lines, counts):
        at = _time(row.get("timestamp"), seconds_per_unit)
        if at is None or not is_request(row):
            counts["unreadable_rows"] += 1
            continue
        if rows and row["session_id"] != name:
            part += 1
            yield from _session(f"{part}:{name}", rows, characters_per_token, counts)
            rows = []
        name = row["session_id"]
        rows.append((at, _input(row) or "", len(_output(row) or "")))
    yield from _session(f"{part + 1}:{name}", rows, characters_per_token, counts)


def read_conversations(lines: Iterable[bytes], counts: Counts, characters_per_token: float) -> Iterator[Request]:
    """A request each answer; the trace tells no times."""
    for place, row in enumerate(json_rows(lines, counts)):
        if not is_conversation(row):
            counts["unreadable_rows"] += 1
            continue
        before = last = turn = 0
        for message in mappings(row["messages"]):
            characters = len(_text(message) or "")
            if message.get("role") == "assistant":
                yield Request(
                    session=f"{place}:{row.get('id', '')}",
                    turn=turn,
                    input_tokens=before / characters_per_token,
                    output_tokens=characters / characters_per_token,
                    reused_tokens=last / characters_per_token,
                )
                last, turn = before, turn + 1
            before += characters


def _time(value: object, seconds_per_unit: float) -> float | None:
    at = moment(value)
    if at is not None:
        return at
    raw = number(value)
    return None if raw is None else raw * seconds_per_unit


def _input(row: Mapping[str, Any]) -> str | None:
    return next((_text(row[name]) for name in _INPUTS if row.get(name) is not None), None)


def _output(row: Mapping[str, Any]) -> str | None:
    return next((_text(row[name]) for name in _OUTPUTS if row.get(name) is not None), None)


def _text(value: object) -> str | None:
    """The text of an input or output: as it is, or of messages and their parts, tool calls as JSON; else None."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        parts = [_text(item) for item in value]
        return "".join(part for part in parts if part is not None) if all(p is not None for p in parts) else None
    if isinstance(value, dict) and {"role", "content", "text", "tool_calls", "type"} & value.keys():
        role, calls = value.get("role"), value.get("tool_calls")
        content = value.get("content", value.get("text"))
        said = "" if content is None else _text(content)
        if said is None:
            said = json.dumps(content)
        return (f"{role}\n" if isinstance(role, str) else "") + said + (json.dumps(calls) if calls else "")
    return None


def _session(name: str, rows: list[tuple[float, str, int]], per_token: float, counts: Counts) -> Iterator[Request]:
    last: dict[int, str] = {}  # last input of each conversation
    begun = 0
    for at, text, output in sorted(rows, key=lambda row: row[0]):
        shared = {number: _shared(text, before) for number, before in last.items()}
        conversation = max(shared, key=lambda number: (shared[number], number), default=0)
        reused = shared.get(conversation, 0)
        if not last or reused < max(_SHARED_AT_LEAST * len(last[conversation]), 1):
            begun += 1
            conversation = begun
            counts["sessions_inferred"] += begun > 1
        last.pop(conversation, None)
        last[conversation] = text
        if len(last) > _CONVERSATIONS_KEPT:
            del last[next(iter(last))]
        yield Request(
            session=f"{name}#{conversation}",
            start_s=at,
            input_tokens=len(text) / per_token,
            output_tokens=output / per_token,
            reused_tokens=reused / per_token,
        )


def _shared(one: str, other: str) -> int:
    """Length of the common beginning of two texts."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        if one[least:middle] == other[least:middle]:
            least = middle
        else:
            most = middle - 1
    return least
