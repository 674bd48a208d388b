"""WEKA and AgentX sessions: one JSON object a session, its requests with hashes of 64-token blocks.

Several sessions in a file stand in a list or one a line. Times in seconds; a request of type ``subagent`` holds
requests of its own. Field list: the README of callanjfox/kv-cache-tester.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from transforms.traces.formats.blocks import SeenBlocks, block_ids, tokens_of
from transforms.traces.formats.values import length, mappings, number, parse
from transforms.traces.requests import Counts, PauseKind, Request

_BLOCK_TOKENS: Final = 64.0


def is_session(row: Mapping[str, Any]) -> bool:
    """Whether a JSON object is such a session."""
    requests = mappings(row.get("requests"))
    return bool(requests) and any({"in", "out"} <= request.keys() or "requests" in request for request in requests)


def read_weka(lines: Iterable[bytes], counts: Counts) -> Iterator[Request]:
    """The requests of each session, subagents as streams of their own."""
    for place, session in enumerate(_sessions(lines, counts)):
        yield from _requests(session, f"{place}:{session.get('id', '')}", counts)


def _sessions(lines: Iterable[bytes], counts: Counts) -> Iterator[dict[str, Any]]:
    """Sessions one a line, else those of the whole text."""
    remaining = iter(lines)
    for line in remaining:
        if not line.strip():
            continue
        value = parse(line)
        if value is None:  # a text of several lines
            value = parse(line + b"".join(remaining))
        for found in mappings(value) if isinstance(value, list) else [value]:
            if isinstance(found, dict) and is_session(found):
                yield found
            else:
                counts["unreadable_rows"] += 1


def _requests(session: Mapping[str, Any], name: str, counts: Counts) -> Iterator[Request]:
    block_tokens = number(session.get("block_size")) or _BLOCK_TOKENS
    shared = [number(session.get(part)) for part in ("system_tokens", "tool_tokens")]
    system = sum(part for part in shared if part is not None) if any(shared) else None
    seen = SeenBlocks()

    def walk(rows: object, stream: str, depth: int) -> Iterator[Request]:
        last_stop: object = None
        turn = 0
        if not isinstance(rows, list):
            counts["unreadable_rows"] += 1
            return
        for position, row in enumerate(rows):
            if not isinstance(row, dict):
                counts["unreadable_rows"] += 1
            elif "requests" in row:
                if depth < 10:
                    yield from walk(row["requests"], f"{stream}/{row.get('agent_id', position)}", depth + 1)
                else:
                    counts["unreadable_rows"] += 1
            else:
                ids = block_ids(row.get("hash_ids"))
                tokens = length(row, "in")
                reused = None if ids is None else tokens_of(seen.leading(ids), len(ids), tokens, block_tokens)
                yield Request(
                    session=name,
                    stream=stream,
                    turn=turn,
                    start_s=number(row.get("t")),
                    service_s=number(row.get("api_time")),
                    input_tokens=tokens,
                    output_tokens=length(row, "out"),
                    reused_tokens=reused,
                    pause_s=number(row.get("think_time")) if turn else None,
                    pause_kind=pause_kind(last_stop, row.get("input_types")),
                    system_tokens=system,
                )
                last_stop = row.get("stop")
                turn += 1

    yield from walk(session.get("requests"), "", 0)


def pause_kind(last_stop: object, input_types: object) -> PauseKind | None:
    """What a session waited for: the last reply called a tool or ended the turn; else whether a tool's result came."""
    if last_stop == "tool_use":
        return "tool"
    if last_stop == "end_turn":
        return "person"
    held = input_types if isinstance(input_types, list | str) else ()
    return "tool" if "tool_result" in held else None
