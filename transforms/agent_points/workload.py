"""What an engine sees of a scenario: the context it decodes at and the prefills it computes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from schemas.mixes import MixPart, task_shares, turn_shares
from schemas.models import AttentionGroup
from schemas.scenarios import Scenario
from transforms.cache import constant_hit_rate
from transforms.equations.context import turn_profile
from transforms.equations.kv_memory import attention_flops
from transforms.spread.turn_flops import flops_of_turns


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

    A hit and a miss are two different prefills: both are evaluated, their results are mixed h : 1-h. Where first
    prompts or new tokens are distributions, FLOPs are means over them too: they are not linear in tokens.
    """
    if scenario.mix is not None:
        return _mixed(
            scenario.mix,
            [agent_workload(part.scenario, groups, prefill_sees_output=prefill_sees_output) for part in scenario.mix],
        )
    turns = turn_profile(scenario, prefill_sees_output=prefill_sees_output)
    hit = constant_hit_rate(scenario)
    new = hit * turns.new_on_hit + (1.0 - hit) * turns.new_on_miss
    flops_on_hit, flops_on_miss = flops_of_turns(scenario, groups, turns)
    flops = hit * flops_on_hit + (1.0 - hit) * flops_on_miss
    return Workload(
        decode_context_tokens=scenario.mean_context_tokens + scenario.output_tokens_per_turn / 2,
        output_tokens=scenario.output_tokens_per_turn,
        mean=Prefill(float(np.mean(new)), float(np.mean(flops))),
        first=Prefill(float(new[0]), float(flops[0])),
        last=Prefill(float(new[-1]), float(flops[-1])),
    )


def _mixed(parts: Sequence[MixPart], workloads: Sequence[Workload]) -> Workload:
    """What an engine sees of a mix: prefills come by turns, what decodes by output tokens."""
    of_turns, of_tasks = turn_shares(parts), task_shares(parts)
    decoding = [share * workload.output_tokens for share, workload in zip(of_turns, workloads, strict=True)]
    output = sum(decoding)

    def mean(shares: Sequence[float], name: str) -> Prefill:
        prefills = [getattr(workload, name) for workload in workloads]
        return Prefill(
            sum(share * prefill.new_tokens for share, prefill in zip(shares, prefills, strict=True)),
            sum(share * prefill.attention_flops for share, prefill in zip(shares, prefills, strict=True)),
        )

    context = sum(share * each.decode_context_tokens for share, each in zip(decoding, workloads, strict=True)) / output
    return Workload(context, output, mean(of_turns, "mean"), mean(of_tasks, "first"), mean(of_tasks, "last"))


def table_workload(isl_tokens: float, osl_tokens: float, groups: Sequence[AttentionGroup]) -> Workload:
    """Single requests of a standard table, nothing cached."""
    prefill = Prefill(isl_tokens, float(attention_flops(groups, 0.0, isl_tokens)))
    return Workload(isl_tokens + osl_tokens / 2, osl_tokens, prefill, prefill, prefill)
