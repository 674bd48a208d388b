"""What the numbers of a trace mean, settled by their own arithmetic: time unit, block size, cached input.

Nothing is assumed where two meanings remain possible: the reading is refused in a sentence. A dialect is settled on
the first ``PROBED_REQUESTS`` requests of a file.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from transforms.traces.formats.values import UnknownTraceError
from transforms.traces.requests import Request

PROBED_REQUESTS: Final = 5_000
TIME_UNITS: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
#: No stream generates faster than this from one arrival to the next, by the median of a trace's turns.
MOST_TOKENS_PER_S: Final = 300.0
#: The same where a column's name states the unit.
MOST_TOKENS_PER_S_STATED: Final = 2_000.0
#: Of the quickest tenth of a trace's turns none is slower than this: 100 tokens in a quarter of an hour.
LEAST_TOKENS_PER_S: Final = 0.1
#: Times since 1970 lie between 2001 and 2096, and in no two units at once.
_EPOCH_S: Final = (1e9, 4e9)
#: Share of the rows that a dialect must explain.
_MOST_ROWS: Final = 0.95
_BLOCKS: Final = sorted({2**power for power in range(21)} | set(range(16, 16_385, 16)))


def probed(requests: Iterable[Request]) -> list[Request]:
    """The requests that a dialect is settled on."""
    return list(islice(requests, PROBED_REQUESTS))


def settle_time_unit(
    raw: Sequence[Request], documented: str | None, asked: str | None = None, *, name: str = "timestamp"
) -> str:
    """The unit of start times that were read as they stand, a key of ``TIME_UNITS``.

    A time since 1970 tells its unit by its size. Any other by what a stream can generate between two arrivals of its
    session. Where that leaves several units the documented one is taken, or without one the trace is refused.
    Raises ``UnknownTraceError``.
    """
    if asked is not None:
        return asked
    starts = [request.start_s for request in raw if request.start_s is not None]
    rates = np.array(list(_tokens_per_unit(raw)))
    possible = [unit for unit, seconds in TIME_UNITS.items() if _plausible(rates / seconds)]
    since_1970 = [
        unit
        for unit, seconds in TIME_UNITS.items()
        if starts and all(_EPOCH_S[0] <= start * seconds <= _EPOCH_S[1] for start in starts)
    ]
    if since_1970 and (not len(rates) or np.median(rates) <= MOST_TOKENS_PER_S * TIME_UNITS[since_1970[0]]):
        return since_1970[0]
    if not len(rates) and (documented or len(raw) < PROBED_REQUESTS):
        return documented or "s"  # no two arrivals of a session in the whole file: no pause rests on the unit
    if documented in possible:
        return str(documented)
    if len(possible) == 1:
        return possible[0]
    told = (
        f"{name} can be {' or '.join(possible)}"
        if possible
        else f"its first {len(raw):,} requests are all of different sessions"
        if not len(rates)
        else f"between two arrivals of a session, by {name}, no stream can have generated what the outputs say, in any"
        " unit"
    )
    raise UnknownTraceError(
        f"does not tell its unit of time: {told}. Say it with --time-unit, or name the column {name}_s or {name}_ms"
    )


def refuse_impossible_times(raw: Sequence[Request], seconds_per_unit: float, name: str) -> None:
    """Raises ``UnknownTraceError`` where, by a unit that the column's name states, no stream can be so fast."""
    rates = list(_tokens_per_unit(raw))
    if rates and float(np.median(rates)) > MOST_TOKENS_PER_S_STATED * seconds_per_unit:
        raise UnknownTraceError(
            f"has times in a column {name} by which its streams generate {np.median(rates) / seconds_per_unit:,.0f}"
            " tokens a second between two arrivals of a session: the unit is another. Say it with --time-unit"
        )


def _tokens_per_unit(raw: Sequence[Request]) -> Iterator[float]:
    """Output over the time to the next arrival of the same stream, in tokens per unit of the trace."""
    last: dict[tuple[str, str], Request] = {}
    for request in raw:
        key = (request.session, request.stream)
        before, last[key] = last.get(key), request
        if before is None or before.start_s is None or request.start_s is None:
            continue
        gap = request.start_s - before.start_s
        if gap > 0 and before.output_tokens > 0:
            yield before.output_tokens / gap


def _plausible(tokens_per_s: "np.typing.NDArray[np.float64]") -> bool:
    return bool(
        len(tokens_per_s)
        and np.median(tokens_per_s) <= MOST_TOKENS_PER_S
        and np.quantile(tokens_per_s, 0.9) >= LEAST_TOKENS_PER_S
    )


def settle_block_tokens(inputs: Sequence[tuple[float, int]], documented: float | None) -> float:
    """Tokens of a block, from pairs of input tokens and number of ids: the last block full, partly full or left out.

    Raises ``UnknownTraceError`` where no size explains the rows, or several do and none of them is documented.
    """
    pairs = [(tokens, ids) for tokens, ids in inputs if ids > 0 and tokens > 0]
    if not pairs:
        return documented or 1.0
    tokens, ids = (np.array(column, dtype=float)[:, None] for column in zip(*pairs, strict=True))
    sizes = np.array(_BLOCKS, dtype=float)
    last_in_part = ((ids - 1) * sizes < tokens) & (tokens <= ids * sizes)
    last_left_out = (ids * sizes <= tokens) & (tokens < (ids + 1) * sizes)
    explained = np.maximum(last_in_part.mean(axis=0), last_left_out.mean(axis=0))
    fitting = [size for size, share in zip(_BLOCKS, explained, strict=True) if share >= _MOST_ROWS]
    if documented in fitting:
        return float(documented or 0)
    of_two = [size for size in fitting if size & (size - 1) == 0]
    found = of_two or fitting
    if len(found) == 1:
        return float(found[0])
    if not found:
        raise UnknownTraceError(
            "has hash ids whose number follows its input lengths for no size of block: the ids are of another input,"
            " or the lengths are not those of the whole input"
        )
    shown = ", ".join(str(size) for size in found[:4]) + (" …" if len(found) > 4 else "")
    raise UnknownTraceError(f"has too few hash ids to tell the tokens of a block ({shown} all explain them)")


class Usage(NamedTuple):
    """The token columns of a request as they stand; None where there is no such column or value."""

    input: float | None
    output: float | None
    read: float | None = None  #: input read from the cache
    written: float | None = None  #: input written to the cache
    total: float | None = None


def input_holds_cached(usages: Sequence[Usage], documented: bool | None) -> bool:
    """Whether the input column holds what was read from the cache and written to it, or leaves it out.

    Told by a column of totals, else by inputs that are smaller than what was cached of them; else the documented
    meaning of the columns' names. Raises ``UnknownTraceError`` where none of that tells.
    """
    cached = [
        (usage, (usage.read or 0.0) + (usage.written or 0.0))
        for usage in usages
        if usage.input is not None and ((usage.read or 0.0) > 0 or (usage.written or 0.0) > 0)
    ]
    if not cached:
        return True
    totals = [(usage, parts) for usage, parts in cached if usage.total is not None and usage.output is not None]
    if totals:
        holds = sum(_close(usage.total, usage.input + usage.output) for usage, _ in totals)  # type: ignore[operator]
        leaves = sum(
            _close(usage.total, usage.input + usage.output + parts)  # type: ignore[operator]
            for usage, parts in totals
        )
        if max(holds, leaves) >= _MOST_ROWS * len(totals) and holds != leaves:
            return holds > leaves
        raise UnknownTraceError(
            "has a column of total tokens that is neither input and output nor these and what was cached: what its"
            " input holds cannot be told"
        )
    smaller = sum(parts > (usage.input or 0.0) for usage, parts in cached)
    if smaller > (1 - _MOST_ROWS) * len(cached):
        return False
    if documented is None:
        raise UnknownTraceError(
            "has columns of cached input beside an input that may hold it or leave it out: name the column"
            " total_input_tokens where it holds what was cached, uncached_input_tokens where it does not"
        )
    return documented


def _close(one: float | None, other: float) -> bool:
    return one is not None and abs(one - other) <= max(1.0, 1e-3 * other)


def in_order(requests: Iterable[Request]) -> list[Request]:
    """The same requests, each stream's in the order of its turns, else of its start times; sessions as they begin."""
    return sorted(requests, key=_place)


def out_of_order(requests: Iterable[Request]) -> bool:
    """Whether a stream's rows are not in the order of its turns, else of its start times."""
    last: dict[tuple[str, str], Request] = {}
    for request in requests:
        key = (request.session, request.stream)
        before, last[key] = last.get(key), request
        if before is not None and _place(request) < _place(before):
            return True
    return False


def _place(request: Request) -> tuple[float, float]:
    if request.turn is not None:
        return (float(request.turn), request.start_s or 0.0)
    return (request.start_s or 0.0, 0.0)


def refuse_other_counts(requests: Sequence[Request]) -> None:
    """Raises ``UnknownTraceError`` where the counts of tokens are not those of single requests and whole contexts.

    Inputs that shrink as often as they grow are parts of contexts, or several agents'; outputs that rise in every
    step beyond what the context grows by, or inputs that rise by at least the first one in every step, are running
    totals; fractions are another unit.
    """
    last: dict[tuple[str, str], Request] = {}
    first: dict[tuple[str, str], float] = {}
    steps = shrinking = rising = beyond_growth = by_a_prompt = 0
    for request in requests:
        key = (request.session, request.stream)
        before, last[key] = last.get(key), request
        if before is None:
            first[key] = request.input_tokens
            continue
        steps += 1
        growth = request.input_tokens - before.input_tokens
        shrinking += growth < 0
        rising += request.output_tokens > before.output_tokens
        beyond_growth += before.output_tokens > growth
        by_a_prompt += growth >= first[key]
    if steps >= _STEPS_TO_JUDGE and shrinking > _SHRINKING_SHARE * steps:
        raise UnknownTraceError(
            f"has inputs that shrink in {shrinking:,} of {steps:,} steps of its sessions: they are not the whole"
            " context, or several agents share a session. Give the whole input, and a column `agent` where there are"
            " several"
        )
    totals = {
        "outputs rise": rising == steps and beyond_growth >= steps / 2,
        "inputs rise by the first one or more": by_a_prompt == steps,
    }
    for what, always in totals.items():
        if always and steps >= _STEPS_TO_SEE_TOTALS:
            raise UnknownTraceError(
                f"has running totals: its {what} in each of {steps:,} steps of its sessions. Give the tokens of each"
                " request"
            )
    fractions = sum(not request.input_tokens.is_integer() for request in requests if request.input_tokens > 0)
    if fractions > len(requests) / 2:
        raise UnknownTraceError("has token counts that are no whole numbers: give tokens, not thousands of them")


_STEPS_TO_JUDGE: Final = 3
_SHRINKING_SHARE: Final = 0.4
_STEPS_TO_SEE_TOTALS: Final = 8
