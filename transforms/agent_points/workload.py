"""What an engine sees of a scenario: the context it decodes at and the prefills it computes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from schemas.models import AttentionGroup
from schemas.scenarios import Scenario
from transforms.cache import constant_hit_rate
from transforms.equations.context import Array, turn_profile
from transforms.equations.kv_memory import attention_flops


@dataclass(frozen=True)
class Prefill:
    """One prefill, or the mean of several: tokens computed and FLOPs of their attention."""

    new_tokens: float
    attention_flops: float


@dataclass(frozen=True)
class Workload:
    """A scenario on one model: ``mean`` over turns, hits and misses; ``first`` and ``last`` turn."""

    decode_context_tokens: float
    output_tokens: float
    mean: Prefill
    first: Prefill
    last: Prefill


def agent_workload(
    scenario: Scenario, groups: Sequence[AttentionGroup], *, prefill_sees_output: bool = True
) -> Workload:
    """The scenario's turns as prefills and a decode context (MODEL sections 2 and 5.3).

    A hit and a miss are two different prefills: both are evaluated, their results are mixed h : 1-h.
    """
    turns = turn_profile(scenario, prefill_sees_output=prefill_sees_output)
    hit = constant_hit_rate(scenario)
    new = hit * turns.new_on_hit + (1.0 - hit) * turns.new_on_miss
    flops = hit * _flops(groups, turns.context, turns.new_on_hit) + (1.0 - hit) * _flops(
        groups, turns.context, turns.new_on_miss
    )
    return Workload(
        decode_context_tokens=scenario.mean_context_tokens + scenario.output_tokens_per_turn / 2,
        output_tokens=scenario.output_tokens_per_turn,
        mean=Prefill(float(np.mean(new)), float(np.mean(flops))),
        first=Prefill(float(new[0]), float(flops[0])),
        last=Prefill(float(new[-1]), float(flops[-1])),
    )


def table_workload(isl_tokens: float, osl_tokens: float, groups: Sequence[AttentionGroup]) -> Workload:
    """Single requests of a standard table, nothing cached."""
    prefill = Prefill(isl_tokens, float(attention_flops(groups, 0.0, isl_tokens)))
    return Workload(isl_tokens + osl_tokens / 2, osl_tokens, prefill, prefill, prefill)


def _flops(groups: Sequence[AttentionGroup], context: Array, new: Array) -> Array:
    flops: Array = attention_flops(groups, context - new, new)
    return flops
