"""Requests with hashes of their KV blocks: Mooncake (FAST'25), Alibaba's Bailian traces, aiperf's agentic dialect.

Mooncake: ms, blocks of 512 tokens, no sessions named. Bailian (qwen-bailian-usagetraces-anon): s, blocks of 16,
``chat_id`` and ``parent_chat_id``. aiperf: rows of a session in order, the input of a later row only what is new, its
``delay`` the pause before it (docs/benchmark-modes/trace-replay.md of ai-dynamo/aiperf). Which of it a file is, its
own arithmetic says; sessions by parents, else by name, else inferred.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from transforms.traces.dialect import (
    PROBED_REQUESTS,
    TIME_UNITS,
    settle_block_tokens,
    settle_time_unit,
)
from transforms.traces.formats.blocks import SeenBlocks, block_ids, tokens_of
from transforms.traces.formats.inference import BlockRow, sessions_of
from transforms.traces.formats.values import UnknownTraceError, json_rows, length, number, scaled
from transforms.traces.requests import Asked, Counts, Reading, Request

BLOCK_TOKENS: Final = 512.0
SESSION_NAMES: Final = ("session_id", "conversation_id", "chat_session_id")
_GROWING_SHARE: Final = 0.95
_SHRINKING_SHARE: Final = 0.4
_STEPS_TO_JUDGE: Final = 3
_STEPS_TO_SEE_ANSWERS: Final = 8
#: Fisher's z of a correlation over its deviation: beyond 4 in one of 30,000 where nothing follows.
_FOLLOWS: Final = 4.0
_NEARLY_ONE: Final = 1.0 - 1e-9


def is_request(row: Mapping[str, Any]) -> bool:
    """Whether a JSON object is a row of one of the dialects."""
    return {"input_length", "output_length"} <= row.keys()


def has_parents(row: Mapping[str, Any]) -> bool:
    """Whether a row names the request that it goes on from."""
    return {"chat_id", "parent_chat_id"} <= row.keys()


def session_name(row: Mapping[str, Any]) -> str | None:
    """The field that names a row's session."""
    return next((name for name in SESSION_NAMES if row.get(name) is not None), None)


class _Dialect(NamedTuple):
    seconds_per_unit: float
    block_tokens: float
    whole_inputs: bool  #: of rows without block ids in a named session


def settle_blocks(lines: Iterable[bytes], asked: Asked) -> Reading:
    """How requests are read whose sessions are told by parents, or inferred. Raises ``UnknownTraceError``."""
    rows = list(islice(json_rows(lines, Counts()), PROBED_REQUESTS))
    parents = any(has_parents(row) for row in rows)
    block = _block_tokens(rows, 16.0 if parents else BLOCK_TOKENS)
    as_they_stand = _Dialect(1.0, block, whole_inputs=True)
    raw = list(_from_blocks(rows, Counts(), as_they_stand))
    if not parents and len(raw) > 1 and not any(request.turn for request in raw):
        raise UnknownTraceError(
            "names no sessions, and no request goes on from another by its blocks: there are no turns to fit"
        )
    unit = settle_time_unit(raw, "s" if parents else "ms", asked.time_unit)
    dialect = _Dialect(TIME_UNITS[unit], block, whole_inputs=True)
    notes = [f"Read as blocks of {block:,.0f} tokens and times in {unit}: what lengths, ids and outputs allow."]
    if not parents and block != BLOCK_TOKENS:
        notes.append(
            f"Blocks are not of the {BLOCK_TOKENS:,.0f} tokens that the format documents: were lengths counted in"
            " characters, they and the blocks are several times too large."
        )
    if not parents:
        notes.append(
            "The trace names no sessions: they are inferred from shared blocks. A block that several requests"
            " follow differently is taken for a template and joins none."
        )
    return Reading(
        lambda again, counts: _from_blocks(json_rows(again, counts), counts, dialect), "bounded", tuple(notes)
    )


def settle_sessions(lines: Iterable[bytes], asked: Asked) -> Reading:
    """How requests of named sessions are read: whole inputs or what is new. Raises ``UnknownTraceError``."""
    rows = list(islice(json_rows(lines, Counts()), PROBED_REQUESTS))
    dialect = _Dialect(1.0, _block_tokens(rows, BLOCK_TOKENS), _holds_whole_inputs(rows))
    increments = not dialect.whole_inputs and _refuse_answers_in_increments(rows)
    raw = list(_from_sessions(rows, Counts(), dialect))
    unit = settle_time_unit(raw, "ms", asked.time_unit)
    settled = dialect._replace(seconds_per_unit=TIME_UNITS[unit])
    blocks = f"blocks of {dialect.block_tokens:,.0f} tokens and " if _has_blocks(rows) else ""
    notes = [f"Read as {blocks}times in {unit}."]
    if increments:
        notes.append("input_length of later turns is taken for what is new, the answer before it left out.")
    return Reading(
        lambda again, counts: _from_sessions(json_rows(again, counts), counts, settled), "bounded", tuple(notes)
    )


def _has_blocks(rows: Iterable[Mapping[str, Any]]) -> bool:
    return any(block_ids(row.get("hash_ids")) for row in rows)


def _refuse_answers_in_increments(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether any later row holds only what is new. Raises ``UnknownTraceError`` where it may hold the answer too.

    What is new after an answer is a message or a tool's result: it is now and then shorter than the answer, and does
    not follow its length.
    """
    last: dict[str, tuple[object, float]] = {}
    steps: list[tuple[float, float]] = []  # answer, what is new after it
    for row in rows:
        name, ids = session_name(row), block_ids(row.get("hash_ids")) or []
        if name is None:
            continue
        session, tokens, output = str(row[name]), length(row, "input_length"), length(row, "output_length")
        first, answer = last.get(session, (ids[0] if ids else None, None))
        if answer is not None and not (ids and ids[0] == first):
            steps.append((answer, tokens))
        last[session] = (first, output)
    answers, new = np.array(steps, dtype=float).reshape(-1, 2).T
    if len(steps) >= _STEPS_TO_SEE_ANSWERS and (new >= answers).all() and answers.std() > 0 and new.std() > 0:
        correlation = min(float(np.corrcoef(answers, new)[0, 1]), _NEARLY_ONE)
        if np.arctanh(correlation) * (len(steps) - 3) ** 0.5 > _FOLLOWS:
            raise UnknownTraceError(
                f"has inputs of later turns that are never below the answer before and follow its length, in"
                f" {len(steps):,} steps: they may hold it. Give in input_length the whole context of every turn, or"
                " what is new without the answer"
            )
    return bool(steps)


def _block_tokens(rows: Sequence[Mapping[str, Any]], documented: float) -> float:
    ids = [(length(row, "input_length"), len(block_ids(row.get("hash_ids")) or [])) for row in rows]
    return settle_block_tokens(ids, documented)


def _holds_whole_inputs(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether later rows without block ids hold the whole context, or only what is new."""
    last: dict[str, tuple[float, float]] = {}
    steps = growing = shrinking = 0
    for row in rows:
        if block_ids(row.get("hash_ids")):
            continue
        name = str(row.get(session_name(row) or ""))
        tokens, output = length(row, "input_length"), length(row, "output_length")
        before, last[name] = last.get(name), (tokens, output)
        if before is None:
            continue
        if row.get("delay") is not None:
            return False
        steps += 1
        growing += tokens >= before[0] + before[1]
        shrinking += tokens < before[0]
    if steps == 0 or shrinking > _SHRINKING_SHARE * steps:
        return False
    if steps >= _STEPS_TO_JUDGE and growing >= _GROWING_SHARE * steps:
        return True
    raise UnknownTraceError(
        "does not tell whether input_length of a later turn is the whole context or only what is new: give hash_ids,"
        " or the pauses as `delay` where it is only what is new"
    )


def _from_sessions(rows: Iterable[Mapping[str, Any]], counts: Counts, dialect: _Dialect) -> Iterator[Request]:
    """aiperf's dialect: the context is what came before, its outputs and the new part.

    A later row whose blocks begin as the session's first row does holds the whole input instead.
    """
    seen = SeenBlocks()
    known: dict[str, tuple[float, int, object]] = {}  # context with the output, turn, first block
    for row in rows:
        name = session_name(row)
        if name is None:
            counts["rows_without_session"] += 1
            continue
        session = str(row[name])
        ids = block_ids(row.get("hash_ids")) or []
        given, output = length(row, "input_length"), length(row, "output_length")
        leading = tokens_of(seen.leading(ids), len(ids), given, dialect.block_tokens) if ids else None
        before, turn, first = known.get(session, (0.0, -1, ids[0] if ids else None))
        whole_input = turn < 0 or (ids[0] == first if ids else dialect.whole_inputs)
        tokens = given if whole_input else before + given
        yield Request(
            session=session,
            turn=turn + 1,
            start_s=scaled(row.get("timestamp"), dialect.seconds_per_unit),
            input_tokens=tokens,
            output_tokens=output,
            reused_tokens=leading if whole_input else before,
            pause_s=scaled(row.get("delay"), 1e-3),
        )
        if tokens > 0 and output >= 0:
            known[session] = (tokens + output, turn + 1, first)


def _from_blocks(rows: Iterable[Mapping[str, Any]], counts: Counts, dialect: _Dialect) -> Iterator[Request]:
    """Requests in the order of their times, each of the session that its parents or its blocks say."""
    read: list[BlockRow] = []
    for row in rows:
        ids = block_ids(row.get("hash_ids"))
        if ids is None:
            counts["unreadable_rows"] += 1
            continue
        parents = has_parents(row)
        read.append(
            BlockRow(
                start=number(row.get("timestamp")),
                input_tokens=length(row, "input_length"),
                output_tokens=length(row, "output_length"),
                ids=ids,
                name=str(row["chat_id"]) if parents else None,
                parent=_parent(row["parent_chat_id"]) if parents else None,
            )
        )
    starts = [row.start for row in read if row.start is not None]
    if len(starts) == len(read) and any(after < before for before, after in pairwise(starts)):
        read.sort(key=lambda row: row.start or 0.0)
    seen = SeenBlocks()
    for request, (session, turn) in zip(read, sessions_of(read, dialect.block_tokens, counts), strict=True):
        yield Request(
            session=str(session),
            turn=turn,
            start_s=None if request.start is None else request.start * dialect.seconds_per_unit,
            input_tokens=request.input_tokens,
            output_tokens=request.output_tokens,
            reused_tokens=tokens_of(
                seen.leading(request.ids), len(request.ids), request.input_tokens, dialect.block_tokens
            ),
        )


def _parent(value: object) -> str | None:
    """The id of the request before; None for a root, which Bailian writes as -1."""
    return None if value in (None, -1, "-1", "") else str(value)
