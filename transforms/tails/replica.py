"""Tails of turns that prefill and decode on the same GPUs, and of turns that wait for a prefill pool.

TTFT is a turn's own prefill behind those that are there before it. A prompt waits for the step that runs when it
arrives, and shares the next with what else has arrived. The wait is 0 with one chance and exponential otherwise, with
the mean of a single server's queue (Pollaczek and Khinchine) whose work is steps: that makes the percentile of a turn's
own prefill plus its wait a closed form.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import numpy as np

from schemas.arrays import Array, Flags
from transforms.equations.disaggregation import TTFT_QUEUE_FACTOR
from transforms.numbers import Number
from transforms.tails.nodes import TailNodes
from transforms.tails.waits import BUSIEST, StationLoad, behind_prefill_pool, decode_deviation, scaled_to_load, waits

SHARES: Final = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
#: Tokens of prefill in one step: vLLM's default on GPUs of 70 GB and more.
_CHUNK_TOKENS: Final = 8192.0

#: A chance or a time that nothing is divided by below.
_LEAST: Final = 1e-9
#: Prefills of so many times the mean's new tokens are long.
_LONG: Final = 3.0
#: Of a chance that two kinds of waits share, what each has at least.
_LEAST_LEFT: Final = 0.2
#: A wait deviates by at most these shares of a turn's latency, exponential and normal part: rows whose own figures are
#: not those of steps may price prefills at more than the turn takes.
_MOST: Final = (0.7, 0.4)
#: No turn takes less than this share of the mean turn.
LEAST_SHARE: Final = 0.05


@dataclass(frozen=True)
class Tails:
    """How the turns of rows vary, in ms: deviations of the exponential and of the normal part of a turn's wait, and of
    what of it falls between its output tokens; TTFT at each of ``SHARES``; the least time of an output token."""

    wait: tuple[Number, Number]
    decode_wait: tuple[Number, Number]
    ttft: list[Number]
    step: Number


def aggregated_tails(
    slopes: tuple[Number, Number],
    tpot_ms: Number,
    sessions_at_station: Number,
    turn: tuple[Number, Number],
    decode_ms: Number,
    nodes: TailNodes,
) -> Tails:
    """Of an aggregated replica. ``slopes``: ms of a new token and of a FLOP; ``turn``: latency in ms and ``rho``;
    ``decode_ms``: what a session's context adds to the decode steps of another's turn."""
    alone_ms = _prefills(slopes, nodes)
    others, load = _load(slopes, sessions_at_station, turn, nodes)
    # what is left of a mean output token's time when the prefills are taken out
    step_ms = tpot_ms * load.share_that_decodes
    # beside its prefill: half of the step that runs when a prompt arrives, and one in each of its own
    steps = 0.5 + np.maximum(nodes.classes.new_tokens / _CHUNK_TOKENS, 1.0)
    classes_ms = [number * step_ms + each for number, each in zip(steps.tolist(), alone_ms, strict=True)]
    behind_all, *behind_long = _queues(load, alone_ms, step_ms, nodes)
    chance_of_long = behind_long[0].busy if behind_long else 0.0
    shares = tuple(SHARES.values())
    of_first_token = ttft_percentiles(classes_ms, nodes.classes.shares, behind_all, shares, chance_of_long)
    for queue in behind_long:
        behind = ttft_percentiles(classes_ms, nodes.classes.shares, queue, shares)
        of_first_token = [np.maximum(*each) for each in zip(of_first_token, behind, strict=True)]
    wait = _within(waits(others, load, decode_ms), turn[0])
    return Tails(wait, wait, of_first_token, step_ms)


def disaggregated_tails(
    slopes: tuple[Number, Number],
    ttft_ms: Number,
    sessions_at: tuple[Number, Number],
    turn: tuple[Number, Number],
    decode_ms: Number,
    nodes: TailNodes,
) -> Tails:
    """The same of a disaggregated one, about its mean TTFT. ``slopes`` hold the queue that AIConfigurator gives every
    prompt; ``sessions_at``: a prefill rank, a decode rank."""
    alone = (slopes[0] / TTFT_QUEUE_FACTOR, slopes[1] / TTFT_QUEUE_FACTOR)
    at_prefill, at_decode = sessions_at
    classes_ms = _prefills(slopes, nodes)
    _, load = _load(alone, at_prefill, turn, nodes)
    queue = FirstTokenQueue.of(load, 0.0)
    mean = sum(share * each for share, each in zip(nodes.classes.shares.tolist(), classes_ms, strict=True))
    base = np.maximum(ttft_ms - mean - queue.busy * queue.mean_ms, 0.0)
    classes_ms = [base + each for each in classes_ms]
    of_first_token = ttft_percentiles(classes_ms, nodes.classes.shares, queue, tuple(SHARES.values()))
    others = np.maximum(at_decode - 1.0, 0.0)
    varies = behind_prefill_pool((queue.busy, queue.mean_ms), load, others, decode_ms)
    of_decode = (0.0, decode_deviation(others, load.rho, decode_ms))
    return Tails(_within(varies, turn[0]), _within(of_decode, turn[0]), of_first_token, 0.0)


def _within(wait: tuple[Number, Number], latency_ms: Number) -> tuple[Number, Number]:
    exponential, normal = (np.minimum(part, most * latency_ms) for part, most in zip(wait, _MOST, strict=True))
    return exponential, normal


def _load(
    slopes: tuple[Number, Number], sessions: Number, turn: tuple[Number, Number], nodes: TailNodes
) -> tuple[Number, StationLoad]:
    latency_ms, rho = turn
    others = np.maximum(sessions - 1.0, 0.0)
    return others, scaled_to_load(nodes.moments.of_prefill(*slopes), others * rho / latency_ms, rho)


def _prefills(slopes: tuple[Number, Number], nodes: TailNodes) -> list[Number]:
    """ms of a prefill of each class."""
    return [slopes[0] * new + slopes[1] * flops for new, flops in zip(*nodes.classes.work, strict=True)]


def _queues(
    load: StationLoad, alone_ms: Sequence[Number], step_ms: Number, nodes: TailNodes
) -> list["FirstTokenQueue"]:
    """The wait behind all prefills; where some are long that behind the others, and that behind the long ones: few wait
    for these, and for long."""
    classes = nodes.classes
    mean_tokens = float(classes.shares @ classes.new_tokens)
    kinds = [np.flatnonzero(is_long) for is_long in _by_length(classes.new_tokens, mean_tokens)]
    whole = FirstTokenQueue.of(load, step_ms)
    if not all(map(len, kinds)):
        return [whole]
    scale = load.prefill_ms[0] / np.maximum(
        sum(share * each for share, each in zip(classes.shares.tolist(), alone_ms, strict=True)), _LEAST
    )
    queues = []
    for kind in kinds:
        weights = classes.shares[kind].tolist()
        times = [scale * alone_ms[place] for place in kind.tolist()]
        m1, m2 = (sum(w * t**n for w, t in zip(weights, times, strict=True)) / sum(weights) for n in (1, 2))
        queues.append(FirstTokenQueue.behind(load.arrivals_per_ms * sum(weights), (m1, m2), step_ms, load, whole.busy))
    return queues


def _by_length(tokens: Array, mean: float) -> tuple[Flags, Flags]:
    is_long = tokens > _LONG * mean
    return ~is_long, is_long


@dataclass(frozen=True)
class FirstTokenQueue:
    """What a prompt meets: ``busy``, the chance that it waits, and ``mean_ms`` of the wait if so."""

    busy: Number
    mean_ms: Number

    @classmethod
    def of(cls, load: StationLoad, step_ms: Number) -> "FirstTokenQueue":
        """Each of the others' prompts takes a step: its prefill, and ``step_ms`` for those that decode beside it."""
        m1, m2, _ = load.prefill_ms
        busy = np.minimum(load.arrivals_per_ms * (m1 + step_ms), BUSIEST)
        return cls.behind(load.arrivals_per_ms, (m1, m2), step_ms, load, busy)

    @classmethod
    def behind(
        cls,
        arrivals_per_ms: Number,
        moments_ms: tuple[Number, Number],
        step_ms: Number,
        load: StationLoad,
        all_busy: Number,
    ) -> "FirstTokenQueue":
        """Behind some of the prefills: how many arrive, mean and mean square of what one takes; ``all_busy``: the
        chance to wait for any."""
        m1, m2 = moments_ms
        busy = np.minimum(arrivals_per_ms * (m1 + step_ms), BUSIEST)
        square = m2 + step_ms * (2.0 * m1 + step_ms)
        # those that come while a prompt waits are prefilled in the same step: it waits for them too
        mean = 0.5 * arrivals_per_ms * square * load.stretch * (1.0 + all_busy)
        least = np.maximum(busy, _LEAST)
        return cls(least, np.maximum(mean / least, _LEAST))


def ttft_percentiles(
    own_ms: Sequence[Number], shares: Array, queue: FirstTokenQueue, of: Sequence[float], beyond_all: Number = 0.0
) -> list[Number]:
    """The smallest t that at most ``1 - share`` of the turns exceed, for each share.

    ``own_ms``: what a turn of each class takes without a wait; made to ascend. Between the classes k and k + 1
    ``P(T > t) = P(class > k) + busy * exp(-t/mean) * sum_{j<=k} share_j * exp(own_j/mean)``: t by class, of which the
    least is the percentile. ``beyond_all``: the chance of another wait that ends later than those.
    """
    own_ms = list(accumulate(own_ms, np.maximum))
    above = 1.0 - np.cumsum(shares)
    last = own_ms[-1]
    grown: list[Number] = []
    total: Number = 0.0
    for class_ms, share in zip(own_ms, shares.tolist(), strict=True):
        # relative to the longest, so that no power overflows
        total = total + share * np.exp(np.maximum((class_ms - last) / queue.mean_ms, -500.0))
        grown.append(total)
    ttft: list[Number] = []
    for share in of:
        best: Number = np.inf
        for class_ms, beyond, sum_ in zip(own_ms, above.tolist(), grown, strict=True):
            left = 1.0 - share - beyond
            if left > 1e-12:
                rest = np.maximum(left - beyond_all * (1.0 - beyond), _LEAST_LEFT * left)
                at = last + queue.mean_ms * np.log(queue.busy * sum_ / rest)
                best = np.minimum(best, np.maximum(class_ms, at))
        ttft.append(best)
    return ttft
