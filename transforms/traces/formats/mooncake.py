"""Mooncake's JSONL of requests with prefix-hashed 512-token blocks, and aiperf's agentic dialect of it.

aiperf: rows of a session in order; the input of a later row is only what is new, its ``delay`` the pause before it
(docs/benchmark-modes/trace-replay.md of ai-dynamo/aiperf). Mooncake (FAST'25) names no sessions: a request goes on
with the one whose full blocks its own input begins with; requests that share a template only can be mistaken.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from transforms.traces.formats.blocks import SeenBlocks, block_ids, tokens_of
from transforms.traces.formats.values import json_rows, length, scaled
from transforms.traces.requests import Counts, Request

BLOCK_TOKENS: Final = 512.0


def is_request(row: Mapping[str, Any]) -> bool:
    """Whether a JSON object is a row of either dialect."""
    return {"input_length", "output_length"} <= row.keys()


def read_sessions(lines: Iterable[bytes], counts: Counts) -> Iterator[Request]:
    """aiperf's dialect: the context is what came before, its outputs and the new part.

    A later row whose blocks begin as the session's first row does holds the whole input instead.
    """
    seen = SeenBlocks()
    known: dict[str, tuple[float, int, object]] = {}  # context with the output, turn, first block
    for row in json_rows(lines, counts):
        name = str(row.get("session_id"))
        ids = block_ids(row.get("hash_ids")) or []
        given, output = length(row, "input_length"), length(row, "output_length")
        leading = tokens_of(seen.leading(ids), len(ids), given, BLOCK_TOKENS)
        before, turn, first = known.get(name, (0.0, -1, ids[0] if ids else None))
        whole_input = turn < 0 or bool(ids and ids[0] == first)
        tokens = given if whole_input else before + given
        yield Request(
            session=name,
            turn=turn + 1,
            start_s=scaled(row.get("timestamp"), 1e-3),
            input_tokens=tokens,
            output_tokens=output,
            reused_tokens=leading if whole_input else before,
            pause_s=scaled(row.get("delay"), 1e-3),
        )
        if tokens > 0 and output >= 0:
            known[name] = (tokens + output, turn + 1, first)


def read_requests(lines: Iterable[bytes], counts: Counts) -> Iterator[Request]:
    """Mooncake's own: sessions told apart by their blocks."""
    seen = SeenBlocks()
    open_ends: dict[object, tuple[int, int]] = {}  # last full block -> session, turn
    sessions = 0
    for row in json_rows(lines, counts):
        ids = block_ids(row.get("hash_ids"))
        if ids is None:
            counts["unreadable_rows"] += 1
            continue
        tokens = length(row, "input_length")
        leading = seen.leading(ids)
        session, turn = -1, 0
        for place in range(leading - 1, -1, -1):
            end = open_ends.get(ids[place])
            if end is not None:
                del open_ends[ids[place]]
                session, turn = end[0], end[1] + 1
                break
        if session < 0:
            sessions += 1
            session = sessions
            counts["sessions_inferred"] += 1
        full = int(tokens // BLOCK_TOKENS) if tokens > 0 else 0
        if 0 < full <= len(ids):
            open_ends[ids[full - 1]] = (session, turn)
        yield Request(
            session=str(session),
            turn=turn,
            start_s=scaled(row.get("timestamp"), 1e-3),
            input_tokens=tokens,
            output_tokens=length(row, "output_length"),
            reused_tokens=tokens_of(leading, len(ids), tokens, BLOCK_TOKENS),
        )
