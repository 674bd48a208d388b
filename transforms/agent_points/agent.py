"""A scenario on one model, as its engine and its memory see it: plain numbers, worked out once for all rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from schemas.mixes import task_shares, turn_shares
from schemas.models import AttentionGroup, ModelSpec
from schemas.scenarios import Scenario
from transforms.agent_points.carriers.workload import AgentTurns, Prefill, Workload, agent_turns, agent_workload
from transforms.cache import constant_hit_rate, copies_of_context
from transforms.equations.context import TurnProfile, turn_profile
from transforms.equations.kv_memory import attention_flops
from transforms.tails.nodes import TailNodes, tail_nodes

#: The heavy prefill, where hits and misses are alike, is so many times the light one.
_HEAVIER = 2.0


@dataclass(frozen=True)
class Member:
    """A scenario of a mix: its shares of the tasks and of the turns that begin, and the private columns of rows."""

    scenario: Scenario
    task_share: float
    turn_share: float
    latency: str  #: mean latency of its turns, ms
    session_share: str  #: of the sessions that are there at a moment


def members_of(scenario: Scenario) -> tuple[Member, ...]:
    """The scenarios of a mix; the scenario itself where it is none."""
    if scenario.mix is None:
        return (Member(scenario, 1.0, 1.0, "turn_latency_ms", ""),)
    shares = zip(scenario.mix, task_shares(scenario.mix), turn_shares(scenario.mix), strict=True)
    return tuple(
        Member(part.scenario, of_tasks, of_turns, f"_latency_of_{number}_ms", f"_session_share_of_{number}")
        for number, (part, of_tasks, of_turns) in enumerate(shares)
    )


@dataclass(frozen=True)
class Agent:
    """A scenario on one model in one serving mode. Times in seconds, contexts and prefills in tokens.

    ``hit_rate``: where memory evicts nothing. ``slope_ends``: the mean hit and the mean miss, between which it is taken
    what a turn's own prefill adds. ``reloaded_tokens``: what a hit finds, of the mean, first and last turn.
    ``copies``: what all replicas together hold of a session, over its context, at its mean and last turn.
    ``tails``: how its turns vary at a hit rate, by themselves and by what they wait for. ``members``: the scenarios of
    a mix, with the turns of each as the engine sees them; a scenario that is none is its own.
    """

    scenario: Scenario
    spec: ModelSpec
    aggregated: bool
    turns: float
    think_time_s: float
    output_tokens: float
    mean_context_tokens: float
    peak_context_tokens: float
    context_sd_tokens: float
    hit_rate: float
    prefills: AgentTurns
    slope_ends: tuple[Prefill, Prefill]
    reloaded_tokens: tuple[float, float, float]
    copies: tuple[float, float]
    tails: Callable[[float], TailNodes]
    members: tuple[Member, ...]
    workloads: tuple[Workload, ...]

    @classmethod
    def of(cls, scenario: Scenario, spec: ModelSpec, *, aggregated: bool) -> "Agent":
        """The prefill pool of a disaggregated replica has not seen the output (``aggregated=False``)."""
        turns, members = turn_profile(scenario), members_of(scenario)
        cached = np.maximum(turns.new_on_miss - turns.new_on_hit, 0.0)
        mean, first, last = (float(shares @ cached) for shares in (turns.weights, turns.of_first, turns.of_last))
        prefilled = turns if aggregated else turn_profile(scenario, prefill_sees_output=False)
        return cls(
            scenario=scenario,
            spec=spec,
            aggregated=aggregated,
            turns=scenario.turns,
            think_time_s=scenario.think_time_s,
            output_tokens=scenario.output_tokens_per_turn,
            mean_context_tokens=scenario.mean_context_tokens,
            peak_context_tokens=scenario.peak_context_tokens,
            context_sd_tokens=turns.context_sd,
            hit_rate=constant_hit_rate(scenario),
            prefills=agent_turns(scenario, spec.attention, prefill_sees_output=aggregated),
            slope_ends=_slope_ends(prefilled, spec.attention),
            reloaded_tokens=(mean, first, last),
            copies=copies_of_context(scenario),
            tails=partial(tail_nodes, scenario, spec.attention, prefill_sees_output=aggregated),
            members=members,
            workloads=tuple(
                agent_workload(member.scenario, spec.attention, prefill_sees_output=aggregated) for member in members
            ),
        )

    @property
    def is_mix(self) -> bool:
        """Whether several scenarios share the replicas."""
        return self.scenario.mix is not None

    @property
    def workload(self) -> Workload:
        """The turns where memory evicts nothing."""
        return self.prefills.at(self.hit_rate)


def _slope_ends(turns: TurnProfile, groups: Sequence[AttentionGroup]) -> tuple[Prefill, Prefill]:
    light, heavy = (
        Prefill(turns.mean(new), turns.mean(attention_flops(groups, turns.context - new, new)))
        for new in (turns.new_on_hit, turns.new_on_miss)
    )
    if heavy.new_tokens < 1.01 * light.new_tokens:
        heavy = Prefill(_HEAVIER * light.new_tokens, _HEAVIER**2 * light.attention_flops)
    return light, heavy
