"""The waits of a scenario's turns and tasks as nodes that all rows share, and from them the tails of turns that prefill
and decode on the same GPUs, and of turns that wait for a prefill pool."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from schemas.models import AttentionGroup
from schemas.scenarios import Scenario
from transforms.equations.disaggregation import TTFT_QUEUE_FACTOR
from transforms.numbers import Number
from transforms.spread.forms import Nodes
from transforms.spread.work import scenario_nodes
from transforms.tails.first_token import FirstTokenQueue, PrefillClasses, ttft_percentiles
from transforms.tails.output_token import output_token_nodes
from transforms.tails.waits import (
    Load,
    WorkMoments,
    behind_prefill_pool,
    decode_deviation,
    scaled_to_load,
    waits,
    with_waits,
)

SHARES: Final = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
#: Tokens of prefill in one step: vLLM's default on GPUs of 70 GB and more.
_CHUNK_TOKENS: Final = 8192.0

#: A wait deviates by at most these shares of a turn's latency, exponential and normal part: rows whose own figures are
#: not those of steps may price prefills at more than the turn takes.
_MOST: Final = (0.7, 0.4)
#: No turn takes less than this share of the mean turn.
LEAST_SHARE: Final = 0.05


@dataclass(frozen=True)
class TailNodes:
    """Nodes of turns, of turns over their output tokens, and of tasks, each with the columns of ``with_waits``; of a
    turn's time per output token (``output_token_nodes``); the moments and the classes of what a turn prefills; means of
    a turn's columns without the waits."""

    turns: Nodes
    per_token: Nodes
    tasks: Nodes
    output_token: Nodes
    moments: WorkMoments
    classes: PrefillClasses
    means: tuple[float, ...]


@lru_cache(maxsize=96)
def tail_nodes(
    scenario: Scenario,
    groups: tuple[AttentionGroup, ...],
    hit_rate: float | None = None,
    *,
    prefill_sees_output: bool = True,
) -> TailNodes:
    """Of a scenario on a model at a hit rate: see ``scenario_nodes``."""
    own = scenario_nodes(scenario, groups, hit_rate, prefill_sees_output=prefill_sees_output)
    turns = with_waits(own.turns)
    outputs = turns.values[:, 3, None] + 1.0
    return TailNodes(
        turns,
        Nodes(turns.values / outputs, turns.weights, turns.continuous),
        with_waits(own.tasks),
        _output_token(scenario, groups),
        WorkMoments.of(own.turns),
        PrefillClasses.of(own.turns),
        tuple(float(mean) for mean in own.turns.means),
    )


@lru_cache(maxsize=32)
def _output_token(scenario: Scenario, groups: tuple[AttentionGroup, ...]) -> Nodes:
    """The same at all hit rates, which outputs do not depend on."""
    return output_token_nodes(scenario_nodes(scenario, groups, 1.0).turns)


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
    others, load = _load(slopes, sessions_at_station, turn, nodes)
    # what is left of a mean output token's time when the prefills are taken out
    step_ms = tpot_ms * load.share_that_decodes
    # beside its prefill: half of the step that runs when a prompt arrives, and one in each of its own
    steps = 0.5 + np.maximum(nodes.classes.new_tokens / _CHUNK_TOKENS, 1.0)
    own = [number * step_ms + each for number, each in zip(steps.tolist(), _prefills(slopes, nodes), strict=True)]
    queue = FirstTokenQueue.of(load, step_ms)
    of_first_token = ttft_percentiles(own, nodes.classes.shares, queue, tuple(SHARES.values()))
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
    _, load = _load(alone, at_prefill, turn, nodes)
    queue = FirstTokenQueue.of(load, 0.0)
    own = _prefills(slopes, nodes)
    mean = sum(share * each for share, each in zip(nodes.classes.shares.tolist(), own, strict=True))
    base = np.maximum(ttft_ms - mean - queue.busy * queue.mean_ms, 0.0)
    own = [base + each for each in own]
    of_first_token = ttft_percentiles(own, nodes.classes.shares, queue, tuple(SHARES.values()))
    others = np.maximum(at_decode - 1.0, 0.0)
    varies = behind_prefill_pool((queue.busy, queue.mean_ms), load, others, decode_ms)
    of_decode = (0.0, decode_deviation(others, load.rho, decode_ms))
    return Tails(_within(varies, turn[0]), _within(of_decode, turn[0]), of_first_token, 0.0)


def _within(wait: tuple[Number, Number], latency_ms: Number) -> tuple[Number, Number]:
    exponential, normal = (np.minimum(part, most * latency_ms) for part, most in zip(wait, _MOST, strict=True))
    return exponential, normal


def _load(
    slopes: tuple[Number, Number], sessions: Number, turn: tuple[Number, Number], nodes: TailNodes
) -> tuple[Number, Load]:
    latency_ms, rho = turn
    others = np.maximum(sessions - 1.0, 0.0)
    return others, scaled_to_load(nodes.moments.of_prefill(*slopes), others * rho / latency_ms, rho)


def _prefills(slopes: tuple[Number, Number], nodes: TailNodes) -> list[Number]:
    """ms of a prefill of each class."""
    return [slopes[0] * new + slopes[1] * flops for new, flops in zip(*nodes.classes.work, strict=True)]
