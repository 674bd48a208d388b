"""What an engine sees of a scenario: the context it decodes at and the prefills it computes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from schemas.arrays import Array
from schemas.distribution_nodes import scaled_nodes
from schemas.mixes import task_shares, turn_shares
from schemas.models import AttentionGroup
from schemas.scenarios import MixPart, Scenario
from transforms.cache import constant_hit_rate, is_routed, recency, routed_profile
from transforms.equations.context import TurnProfile, turn_profile
from transforms.equations.kv_memory import attention_flops
from transforms.numbers import Number
from transforms.spread.draws import compressed


@dataclass(frozen=True)
class Prefill:
    """One prefill, or the mean of several: tokens computed and FLOPs of their attention.

    One number for all rows, or an array of one entry a row.
    """

    new_tokens: Number
    attention_flops: Number


@dataclass(frozen=True)
class Squares:
    """Means over turns, hits and misses of what is quadratic in a prefill's work: its new tokens and FLOPs."""

    tokens: Number
    tokens_flops: Number
    flops: Number

    @classmethod
    def of(cls, new: Array, flops: Array) -> "Squares":
        """Of turns that come alike often."""
        return cls(float(np.mean(new**2)), float(np.mean(new * flops)), float(np.mean(flops**2)))

    @classmethod
    def mixed(cls, shares: Sequence[Number], parts: Sequence["Squares"]) -> "Squares":
        """Of several kinds of turns, each of which makes up a share."""

        def mean(name: str) -> Number:
            return sum(share * getattr(part, name) for share, part in zip(shares, parts, strict=True))

        return cls(mean("tokens"), mean("tokens_flops"), mean("flops"))


@dataclass(frozen=True)
class Workload:
    """A scenario on one model: ``mean`` over turns, hits and misses; ``first`` and ``last`` turn.

    ``squares`` tells how prefills vary that come one by one; None where nobody pauses, as in a load test: what begins
    together stays together.
    """

    decode_context_tokens: float
    output_tokens: float
    mean: Prefill
    first: Prefill
    last: Prefill
    squares: Squares | None = None

    def prefill_variance(self, token: Number, flop: Number) -> Number:
        """Variance of a prefill that takes so long for each new token and each FLOP; 0 without ``squares``."""
        if self.squares is None:
            return 0.0
        new, flops = self.mean.new_tokens, self.mean.attention_flops
        of_tokens, of_flops = self.squares.tokens - new**2, self.squares.flops - flops**2
        of_both = self.squares.tokens_flops - new * flops
        return np.maximum(token**2 * of_tokens + 2.0 * token * flop * of_both + flop**2 * of_flops, 0.0)

    def of_each_turn(self, figure: Callable[[Prefill], Number]) -> tuple[Number, Number, Number]:
        """A figure of the mean, first and last turn; turns that are one are worked out once."""
        mean = figure(self.mean)
        first, last = (mean if turn is self.mean else figure(turn) for turn in (self.first, self.last))
        return mean, first, last


@dataclass(frozen=True)
class AgentTurns:
    """The turns of a scenario on one model where all of them hit and where all of them miss (model.md 2 and 5.3).

    ``stated``: a hit rate, and the turns there, where they are no mix of the two: those of a mix of scenarios.
    """

    on_hit: Workload
    on_miss: Workload
    stated: tuple[float, Workload] | None = None

    def at(self, hit_rate: Number) -> Workload:
        """The turns at a hit rate, one for all rows or one for each.

        A hit and a miss are two different prefills: both are evaluated, their results are mixed h : 1-h.
        """

        if self.stated is not None and isinstance(hit_rate, float) and hit_rate == self.stated[0]:
            return self.stated[1]
        if isinstance(hit_rate, float) and hit_rate in (0.0, 1.0):
            return self.on_hit if hit_rate else self.on_miss

        def mixed(name: str) -> Prefill:
            hit, miss = getattr(self.on_hit, name), getattr(self.on_miss, name)
            return Prefill(
                hit_rate * hit.new_tokens + (1.0 - hit_rate) * miss.new_tokens,
                hit_rate * hit.attention_flops + (1.0 - hit_rate) * miss.attention_flops,
            )

        context, output = self.on_hit.decode_context_tokens, self.on_hit.output_tokens
        ends = [end.squares for end in (self.on_hit, self.on_miss) if end.squares is not None]
        squares = Squares.mixed((hit_rate, 1.0 - hit_rate), ends) if len(ends) == 2 else None
        return Workload(context, output, mixed("mean"), mixed("first"), mixed("last"), squares)

    def means(self) -> "AgentTurns":
        """The same with the mean turn standing for the first and the last too, where only means are asked for."""
        hit, miss = (replace(end, first=end.mean, last=end.mean) for end in (self.on_hit, self.on_miss))
        return AgentTurns(hit, miss)


def agent_turns(
    scenario: Scenario, groups: Sequence[AttentionGroup], *, prefill_sees_output: bool = True
) -> AgentTurns:
    """The scenario's turns as prefills and a decode context.

    Where first prompts or new tokens are distributions, FLOPs are means over them too: they are not linear in tokens.
    """
    if scenario.mix is not None:
        parts = [agent_turns(each.scenario, groups, prefill_sees_output=prefill_sees_output) for each in scenario.mix]
        at_own_rate = [
            each.at(constant_hit_rate(part.scenario)) for each, part in zip(parts, scenario.mix, strict=True)
        ]
        on_hit, on_miss, stated = (
            _mixed(scenario.mix, workloads)
            for workloads in ([each.on_hit for each in parts], [each.on_miss for each in parts], at_own_rate)
        )
        return AgentTurns(on_hit, on_miss, (constant_hit_rate(scenario), stated))
    turns = turn_profile(scenario, prefill_sees_output=prefill_sees_output)
    flops_on_hit, flops_on_miss = flops_of_turns(scenario, groups, turns)

    def workload(new: Array, flops: Array) -> Workload:
        return Workload(
            decode_context_tokens=scenario.mean_context_tokens + scenario.output_tokens_per_turn / 2,
            output_tokens=scenario.output_tokens_per_turn,
            mean=Prefill(float(np.mean(new)), float(np.mean(flops))),
            first=Prefill(float(new[0]), float(flops[0])),
            last=Prefill(float(new[-1]), float(flops[-1])),
            squares=Squares.of(new, flops) if scenario.think_time_s > 0 else None,
        )

    if is_routed(scenario):
        share_found = recency(scenario).found
        new, flops = _found_on_replica(scenario, groups, turns, (flops_on_hit, flops_on_miss))
        # hits are mixed in by what they find of what they could: at that rate the turns are those that are routed
        new, flops = (
            miss + (at_own_rate - miss) / share_found
            for at_own_rate, miss in ((new, turns.new_on_miss), (flops, flops_on_miss))
        )
        return AgentTurns(workload(new, flops), workload(turns.new_on_miss, flops_on_miss))
    return AgentTurns(workload(turns.new_on_hit, flops_on_hit), workload(turns.new_on_miss, flops_on_miss))


def _found_on_replica(
    scenario: Scenario, groups: Sequence[AttentionGroup], turns: TurnProfile, flops: tuple[Array, Array]
) -> tuple[Array, Array]:
    """New tokens and FLOPs of each turn that is sent to any replica, in the mean over what it finds there.

    ``flops``: as a hit and as a miss. Where these are means over a distribution, those between them are by as much
    other than the mean turn's.
    """
    count = len(turns.context)
    sliced = routed_profile(scenario, turns)
    flops_on_replica = _flops(groups, sliced.context, sliced.new_on_hit).reshape(count, -1)
    new = sliced.new_on_hit.reshape(count, -1)
    hit, miss = (_flops(groups, turns.context, each) for each in (turns.new_on_hit, turns.new_on_miss))
    of_hit, of_miss = (
        _ratio(with_spread, plain)[:, None] for with_spread, plain in zip(flops, (hit, miss), strict=True)
    )
    least, most = turns.new_on_hit[:, None], turns.new_on_miss[:, None]
    part = np.where(most > least, (new - least) / np.where(most > least, most - least, 1.0), 0.0)
    return new.mean(axis=1), (flops_on_replica * (of_hit + part * (of_miss - of_hit))).mean(axis=1)


def _ratio(values: Array, base: Array) -> Array:
    return np.where(base > 0, values / np.where(base > 0, base, 1.0), 1.0)


def agent_workload(
    scenario: Scenario, groups: Sequence[AttentionGroup], *, prefill_sees_output: bool = True
) -> Workload:
    """The turns of a scenario whose hit rate no load changes."""
    return agent_turns(scenario, groups, prefill_sees_output=prefill_sees_output).at(constant_hit_rate(scenario))


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
    of_squares = [each.squares for each in workloads if each.squares is not None]
    squares = Squares.mixed(of_turns, of_squares) if len(of_squares) == len(workloads) else None
    return Workload(context, output, mean(of_turns, "mean"), mean(of_tasks, "first"), mean(of_tasks, "last"), squares)


def table_workload(isl_tokens: float, osl_tokens: float, groups: Sequence[AttentionGroup]) -> Workload:
    """Single requests of a standard table, nothing cached."""
    prefill = Prefill(isl_tokens, float(attention_flops(groups, 0.0, isl_tokens)))
    return Workload(isl_tokens + osl_tokens / 2, osl_tokens, prefill, prefill, prefill)


#: Nodes of a distribution; places in a long task at which its turns are evaluated.
_NODES: Final = 32
_PLACES: Final = 256


def flops_of_turns(scenario: Scenario, groups: Sequence[AttentionGroup], profile: TurnProfile) -> tuple[Array, Array]:
    """FLOPs of each turn as a hit and as a miss: attention is not linear in tokens."""
    forms = scenario.distributions
    if forms is None or (forms.initial_prompt_tokens is None and forms.new_tokens_per_turn is None):
        hit, miss = (_flops(groups, profile.context, new) for new in (profile.new_on_hit, profile.new_on_miss))
        return hit, miss
    count = len(profile.context)
    evenly = np.linspace(0, count - 1, min(count, _PLACES)).astype(np.int64)
    places = np.union1d(evenly, [0, min(1, count - 1)])
    prompts, of_prompts = compressed(*scaled_nodes(forms.initial_prompt_tokens, scenario.initial_prompt_tokens), _NODES)
    fresh, of_fresh = compressed(*scaled_nodes(forms.new_tokens_per_turn, scenario.new_tokens_per_turn), _NODES)
    shared = scenario.shared_prefix_tokens
    # turns by first prompts by new tokens
    longer = (np.maximum(prompts, shared + 1) - scenario.initial_prompt_tokens)[:, None]
    context = profile.context[places][:, None, None] + longer
    more = np.broadcast_to(fresh - scenario.new_tokens_per_turn, (len(places), 1, len(fresh)))
    first_is_all_new = scenario.first_turn_new_tokens == scenario.initial_prompt_tokens - shared
    is_first = (places == 0)[:, None, None]
    on_hit = profile.new_on_hit[places][:, None, None] + np.where(is_first, longer if first_is_all_new else 0.0, more)
    on_hit = np.clip(on_hit, 0.0, context - shared)
    hit = np.einsum("jkd,k,d->j", _flops(groups, context + 0 * on_hit, on_hit), of_prompts, of_fresh)
    miss = _flops(groups, context, context - shared)[:, :, 0] @ of_prompts
    every = np.arange(count)
    first_hit = hit[0]
    hit = np.interp(every, places[1:], hit[1:]) if count > 1 else hit
    hit[0] = first_hit
    return hit, np.asarray(np.interp(every, places, miss))


def _flops(groups: Sequence[AttentionGroup], context: Array, new: Array) -> Array:
    return np.asarray(attention_flops(groups, context - new, new) + np.zeros_like(context))
