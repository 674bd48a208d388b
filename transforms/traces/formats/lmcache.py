"""LMCache agent traces: JSONL with the text of each input and output, times in microseconds.

No tokenizer: tokens are ESTIMATED as characters / 4, the usual rule of thumb for English text; another ratio can be
given. Rows are sorted by time within a session, since files do not keep their order. A session id may hold several
conversations (an agent and a simulated user): a request goes on with the conversation that it shares most with,
if that is at least half of the conversation's last input.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from transforms.traces.formats.values import json_rows, number
from transforms.traces.requests import Counts, Request

CHARACTERS_PER_TOKEN: Final = 4.0
_SHARED_AT_LEAST: Final = 0.5
_CONVERSATIONS_KEPT: Final = 64


def is_request(row: Mapping[str, Any]) -> bool:
    """Whether a JSON object is such a row."""
    return (
        {"timestamp", "session_id"} <= row.keys()
        and isinstance(row.get("input"), str)
        and isinstance(row.get("output"), str)
    )


def read_texts(
    lines: Iterable[bytes], counts: Counts, characters_per_token: float = CHARACTERS_PER_TOKEN
) -> Iterator[Request]:
    """A request a row; each conversation of a session id becomes a session of its own."""
    name: object = None
    rows: list[tuple[float, str, int]] = []
    part = 0
    for row in json_rows(lines, counts):
        at = number(row.get("timestamp"))
        if at is None or not is_request(row):
            counts["unreadable_rows"] += 1
            continue
        if rows and row["session_id"] != name:
            part += 1
            yield from _session(f"{part}:{name}", rows, characters_per_token, counts)
            rows = []
        name = row["session_id"]
        rows.append((at * 1e-6, row["input"], len(row["output"])))
    yield from _session(f"{part + 1}:{name}", rows, characters_per_token, counts)


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
