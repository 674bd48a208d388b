"""Nodes of a scenario's turns and tasks: what they prefill, decode and wait for (model.md 2 and 5.3).

A turn: new tokens, FLOPs of their attention, tokens after the first. A task: the sums of these over its turns, the
turns themselves, and its pauses in seconds. Turns hit or miss independently; a task's first prompt, its turns, its
new tokens, outputs and pauses are independent of each other. Contexts grow to the mean task's last, whatever the
number of turns: a task that is longer is one that compacts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

import numpy as np

from schemas.arrays import Array
from schemas.distribution_nodes import whole_nodes
from schemas.mixes import task_shares, turn_shares
from schemas.models import AttentionGroup
from schemas.scenarios import MixPart, Scenario
from transforms.cache.choice import constant_hit_rate
from transforms.cache.routing import is_routed, recency, routed_profile
from transforms.equations.context import turn_profile
from transforms.equations.kv_memory import attention_flops
from transforms.spread.draws import POINTS, binomial_quantiles, compressed, lattice, normal_scores, quantity, task_draws
from transforms.spread.forms import Nodes

#: Columns of the nodes of turns. Those of tasks: their turns, new tokens, FLOPs, later tokens and pauses in seconds.
TURN = ("one", "new_tokens", "attention_flops", "later_tokens")
#: Nodes of turns where a quantity varies by a distribution.
_TURN_POINTS: Final = 2048
#: Misses of a task that are told apart; scores for where several of them lie.
_MISSES_TOLD: Final = 64
_SCORES: Final = normal_scores((np.arange(25) + 0.5) / 25)
#: Places in a task at which the extra work of a miss is evaluated.
_PLACES: Final = 17


@dataclass(frozen=True)
class ScenarioNodes:
    """Nodes of a scenario's turns (columns ``TURN``) and tasks on one model."""

    turns: Nodes
    tasks: Nodes

    @cached_property
    def per_token(self) -> Nodes:
        """The turns over their output tokens."""
        outputs = self.turns.values[:, TURN.index("later_tokens"), None] + 1.0
        return Nodes(self.turns.values / outputs, self.turns.weights, self.turns.continuous)


@lru_cache(maxsize=64)
def scenario_nodes(
    scenario: Scenario,
    groups: tuple[AttentionGroup, ...],
    hit_rate: float | None = None,
    *,
    prefill_sees_output: bool = True,
) -> ScenarioNodes:
    """The nodes; of plain numbers the turns there are, with distributions the points of a lattice.

    ``hit_rate``: what the scenario's cache comes to, where that is an outcome.
    """
    if scenario.mix is not None:
        return _mixed(scenario.mix, groups, prefill_sees_output)
    hit = constant_hit_rate(scenario) if hit_rate is None else hit_rate
    if is_routed(scenario):  # of what lies on the replicas that turns are sent to
        hit = min(hit / recency(scenario).found, 1.0)
    work = _work(scenario, groups, prefill_sees_output)
    if scenario.distributions is None:
        return ScenarioNodes(work.plain_turns(hit), work.plain_tasks(hit))
    return ScenarioNodes(work.lattice_turns(hit), work.lattice_tasks(hit))


@lru_cache(maxsize=16)
def _work(scenario: Scenario, groups: tuple[AttentionGroup, ...], prefill_sees_output: bool) -> "_Work":
    """What is the same at all hit rates, kept for the next of them."""
    return _Work(scenario, groups, prefill_sees_output)


def _mixed(parts: Sequence[MixPart], groups: tuple[AttentionGroup, ...], prefill_sees_output: bool) -> ScenarioNodes:
    """Turns and tasks of all scenarios of a mix, each with its share of them."""
    of_parts = [scenario_nodes(part.scenario, groups, prefill_sees_output=prefill_sees_output) for part in parts]

    def together(kinds: Sequence[Nodes], shares: Sequence[float]) -> Nodes:
        return Nodes(
            np.concatenate([nodes.values for nodes in kinds]),
            np.concatenate([share * nodes.weights for share, nodes in zip(shares, kinds, strict=True)]),
            any(nodes.continuous for nodes in kinds),
        )

    return ScenarioNodes(
        together([nodes.turns for nodes in of_parts], turn_shares(parts)),
        together([nodes.tasks for nodes in of_parts], task_shares(parts)),
    )


class _Work:
    """The prefills of one scenario."""

    def __init__(self, scenario: Scenario, groups: Sequence[AttentionGroup], sees_output: bool) -> None:
        self._scenario, self._groups = scenario, groups
        self._profile = turn_profile(scenario, prefill_sees_output=sees_output)
        if is_routed(scenario):
            self._profile = routed_profile(scenario, self._profile)
        self._retained = 0.0 if sees_output else scenario.output_retention_fraction * scenario.output_tokens_per_turn
        self._growth = scenario.context_growth_tokens * (scenario.turns - 1)
        first_prompt = scenario.initial_prompt_tokens - scenario.shared_prefix_tokens
        self._first_is_all_new = abs(scenario.first_turn_new_tokens - first_prompt) <= 1e-9 * first_prompt

    def plain_turns(self, hit: float) -> Nodes:
        """Each turn as a hit and as a miss."""
        profile, later = self._profile, self._scenario.output_tokens_per_turn - 1
        parts = []
        for chance, new in ((hit, profile.new_on_hit), (1 - hit, profile.new_on_miss)):
            if chance > 0:
                columns = np.stack(
                    [np.ones_like(new), new, self._flops(profile.context, new), np.full_like(new, later)], axis=1
                )
                parts.append((columns, np.full(len(new), chance / len(new))))
        return Nodes(np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts]))

    def plain_tasks(self, hit: float) -> Nodes:
        """Tasks by the number of their misses and where these lie; pauses and outputs are all alike."""
        scenario, profile = self._scenario, self._profile
        counts, chances = whole_nodes(np.array([scenario.turns]), np.ones(1))
        means = self._means(self.plain_turns(hit))
        values, weights = [], []
        for count, chance in zip(counts, chances, strict=True):
            hits, extra = self._hit_and_extra(profile.context, profile.new_on_hit, profile.new_on_miss)
            all_hits = count * hits.mean(axis=0)
            for sums, weight in _misses(count, 1 - hit, extra):
                values.append(self._task_rows(count, all_hits + sums))
                weights.append(chance * weight)
        return Nodes(self._with_means(np.concatenate(values), np.concatenate(weights), means), np.concatenate(weights))

    def lattice_turns(self, hit: float) -> Nodes:
        """Turns at the points of lattices: hits of first and of later turns, and misses."""
        first_share = 1 / self._scenario.turns
        chances = (hit * first_share, hit * (1 - first_share), 1 - hit)
        there = [(kind, chance) for kind, chance in zip(self._kinds, chances, strict=True) if chance > 0]
        weights = [np.full(len(kind), chance / len(kind)) for kind, chance in there]
        return Nodes(np.concatenate([kind for kind, _ in there]), np.concatenate(weights), continuous=True)

    @cached_property
    def _kinds(self) -> tuple[Array, Array, Array]:
        """Hits of first and of later turns, and misses: place in the task, first prompt, new tokens, output."""
        return (
            self._turns_of_kind(_TURN_POINTS // 4, only_first=True, is_hit=True),
            self._turns_of_kind(_TURN_POINTS // 2, only_first=False, is_hit=True),
            self._turns_of_kind(_TURN_POINTS // 4, only_first=False, is_hit=False),
        )

    def _turns_of_kind(self, points: int, *, only_first: bool, is_hit: bool) -> Array:
        routed = is_hit and not only_first and is_routed(self._scenario)
        place, *shares, output = lattice(points, 4).T if not routed else lattice(points, 5).T[[0, 1, 2, 4]]
        names = ("initial_prompt_tokens", "new_tokens_per_turn")
        prompt, fresh = (quantity(self._scenario, name, share) for name, share in zip(names, shares, strict=True))
        first_share = 1 / self._scenario.turns
        if is_hit:
            is_first, along = np.full(points, only_first), np.zeros(points) if only_first else place
        else:
            is_first = place < first_share
            along = np.where(is_first, 0.0, (place - first_share) / max(1 - first_share, 1e-12))
        context, on_hit = self._turn(along, is_first, prompt, fresh)
        new = on_hit if is_hit else context - self._scenario.shared_prefix_tokens
        if routed:
            new = self._found_anywhere(lattice(points, 5)[:, 3], along, context, on_hit)
        later = np.maximum(quantity(self._scenario, "output_tokens_per_turn", output), 1.0) - 1
        return np.stack([np.ones(points), new, self._flops(context, new), later], axis=1)

    def _found_anywhere(self, share: Array, along: Array, context: Array, on_hit: Array) -> Array:
        """New tokens of turns sent to any replica: of the turn that a share of the chances falls on there."""
        scenario = self._scenario
        assert scenario.replicas is not None
        ago = 1.0 + np.floor(np.log1p(-share) / np.log1p(-1.0 / scenario.replicas))
        before = 1.0 + np.floor(along * max(scenario.turns - 1.0, 0.0))
        all_new = context - scenario.shared_prefix_tokens
        since = np.minimum(on_hit + (ago - 1.0) * scenario.context_growth_tokens, all_new)
        return np.where(ago > before, all_new, since)

    def lattice_tasks(self, hit: float) -> Nodes:
        """Tasks at the points of a lattice: what they draw, and what their hits and misses prefill."""
        draws = task_draws(self._scenario)
        misses = binomial_quantiles(draws.turns, 1 - hit, draws.of_misses)
        mean, deviation, one = self._extras
        spread = np.sqrt(misses * np.maximum(draws.turns - misses, 0.0) / np.maximum(draws.turns - 1, 1.0))
        several = misses[:, None] * mean + (spread * draws.where_scores)[:, None] * deviation
        sums = np.maximum(self._all_hits + np.where((misses == 1)[:, None], one, several), 0.0)
        columns = np.column_stack([draws.turns, sums, draws.output_tokens - draws.turns, draws.pause_s])
        weights = np.full(POINTS, 1 / POINTS)
        means = self._means(self.lattice_turns(hit))
        return Nodes(self._with_means(columns, weights, means), weights, continuous=True)

    @cached_property
    def _all_hits(self) -> Array:
        """New tokens and FLOPs of tasks whose turns all hit."""
        draws = task_draws(self._scenario)
        context, new = self._turn(np.zeros(POINTS), np.ones(POINTS, dtype=bool), draws.first_prompt, np.zeros(POINTS))
        later = draws.new_tokens + (draws.turns - 1) * self._retained
        first = np.stack([new, self._flops(context, new)], axis=1)
        return np.asarray(first + np.outer(later, [1.0, self._flops_of_hit_token()]))

    def _turn(self, along: Array, is_first: Array, prompt: Array, fresh: Array) -> tuple[Array, Array]:
        """Context and new tokens on a hit of turns at places 0..1 of tasks with these first prompts."""
        scenario, shared = self._scenario, self._scenario.shared_prefix_tokens
        context = prompt + along * self._growth
        n1 = prompt - shared if self._first_is_all_new else scenario.first_turn_new_tokens
        new = np.where(is_first, n1, fresh + self._retained)
        return context, np.minimum(new, context - shared)

    @cached_property
    def _extras(self) -> tuple[Array, Array, Array]:
        """What a miss adds to new tokens and FLOPs: mean and deviation over a task's turns, and at one of them.

        ``(K, 2)`` each; new tokens at their mean, as they matter little beside a whole context.
        """
        draws, fresh = task_draws(self._scenario), np.full(POINTS, self._scenario.new_tokens_per_turn)

        def at(along: Array) -> Array:
            context, new = self._turn(along, along == 0, draws.first_prompt, fresh)
            return self._hit_and_extra(context, new, context - self._scenario.shared_prefix_tokens)[1]

        first, *rest = (at(np.full(POINTS, along)) for along in np.linspace(0.0, 1.0, _PLACES))
        later, share = np.stack(rest), (1 / draws.turns)[:, None]
        mean = share * first + (1 - share) * later.mean(axis=0)
        square = share * first**2 + (1 - share) * (later**2).mean(axis=0)
        place = np.ceil(draws.where * draws.turns - 1).clip(0) / np.maximum(draws.turns - 1, 1)
        return mean, np.sqrt(np.maximum(square - mean**2, 0.0)), at(place)

    def _hit_and_extra(self, context: Array, on_hit: Array, on_miss: Array) -> tuple[Array, Array]:
        """New tokens and FLOPs of hits, and what misses have beyond them; ``(n, 2)`` each."""
        hit = np.stack([on_hit, self._flops(context, on_hit)], axis=1)
        return hit, np.stack([on_miss, self._flops(context, on_miss)], axis=1) - hit

    def _task_rows(self, count: float, sums: Array) -> Array:
        """Tasks of one number of turns; only their prefills differ."""
        scenario, ones = self._scenario, np.ones(len(sums))
        later = count * (scenario.output_tokens_per_turn - 1)
        return np.stack([count * ones, *sums.T, later * ones, count * scenario.think_time_s * ones], axis=1)

    def _flops_of_hit_token(self) -> float:
        """FLOPs of one new token of a later turn, at the mean context and new tokens."""
        scenario = self._scenario
        new = scenario.new_tokens_per_turn + self._retained
        context = np.array([max(scenario.mean_context_tokens, new)])
        return float(self._flops(context, np.array([new]))[0]) / new if new > 0 else 0.0

    def _means(self, turns: Nodes) -> Array:
        """Means of a task's columns: N times a turn's."""
        one = np.append(turns.means, self._scenario.think_time_s)
        return np.asarray(self._scenario.turns * one)

    @staticmethod
    def _with_means(values: Array, weights: Array, means: Array) -> Array:
        """The columns scaled to their means."""
        means_before = weights @ values / weights.sum()
        return np.asarray(
            values * np.where(means_before != 0, means / np.where(means_before != 0, means_before, 1.0), 1.0)
        )

    def _flops(self, context: Array, new: Array) -> Array:
        return np.asarray(attention_flops(self._groups, context - new, new) + np.zeros_like(new))


def _misses(count: float, chance: float, extra: Array) -> list[tuple[Array, Array]]:
    """Sums of what misses add in a task of ``count`` turns, and their weights, by the number of misses.

    A single miss may be at any turn; of several the sum is taken as normal, with the variance of drawing so many
    turns out of ``count``.
    """
    mean, deviation = extra.mean(axis=0), extra.std(axis=0)
    counts, chances = _binomial(count, chance)
    sums_and_weights = []
    for misses, weight in zip(counts, chances, strict=True):
        if misses == 1:
            sums_and_weights.append((extra, np.full(len(extra), weight / len(extra))))
            continue
        spread = np.sqrt(misses * (count - misses) / max(count - 1, 1.0))
        if spread == 0:
            sums_and_weights.append((misses * mean[None, :], np.array([weight])))
        else:
            sums = misses * mean + spread * np.outer(_SCORES, deviation)
            sums_and_weights.append((sums, np.full(len(_SCORES), weight / len(_SCORES))))
    return sums_and_weights


def _binomial(count: float, chance: float) -> tuple[Array, Array]:
    """Numbers of misses of some weight, and their chances; neighbours put together where there are very many."""
    if chance in (0.0, 1.0):
        return np.array([count * chance]), np.ones(1)
    deviation = np.sqrt(count * chance * (1 - chance))
    lowest = max(np.floor(count * chance - 8 * deviation), 0.0)
    numbers = np.arange(lowest, min(count, np.ceil(count * chance + 8 * deviation) + 8) + 1)
    steps = np.log((count - numbers[:-1]) / (numbers[:-1] + 1) * chance / (1 - chance))
    logs = np.concatenate(([0.0], np.cumsum(steps)))
    weights = np.exp(logs - logs.max())
    weights = weights / weights.sum()
    likely = weights > 1e-9
    return compressed(numbers[likely], weights[likely] / weights[likely].sum(), _MISSES_TOLD)
