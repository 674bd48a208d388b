"""Points and quantile functions of the quadrature, and what tasks of a scenario draw at these points, the same on every
model. Nothing here is drawn at random."""

from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Final

import numpy as np

from schemas.arrays import Array
from schemas.distribution_nodes import nodes_of, scaled_nodes, whole_nodes
from schemas.distributions import Distribution, Distributions
from schemas.scenarios import Scenario

#: Nodes that stand for a distribution while it is added to itself.
_NODES: Final = 192
#: Sums are worked out for 1, 2, 4 ... this many; longer ones keep the form of the last.
_DOUBLINGS: Final = 11
_TAIL: Final = 1e-6


@lru_cache(maxsize=16)
def lattice(points: int, dimensions: int) -> Array:
    """Evenly spread points of the unit cube, ``(points, dimensions)``, one in each slice of each dimension.

    Multiples of powers of the root of ``x^(d+1) = x + 1``, which is the golden ratio for one dimension, moved to
    the middles of their slices.
    """
    root = 2.0
    for _ in range(60):
        root = (1.0 + root) ** (1.0 / (dimensions + 1))
    steps = root ** -np.arange(1.0, dimensions + 1)
    spread = (0.5 + np.arange(1.0, points + 1)[:, None] * steps) % 1.0
    points_of_cube = np.asarray((np.argsort(np.argsort(spread, axis=0), axis=0) + 0.5) / points)
    points_of_cube.setflags(write=False)
    return points_of_cube


def normal_scores(shares: Array) -> Array:
    """Standard normal quantiles."""
    score = NormalDist().inv_cdf
    return np.array([score(float(share)) for share in np.clip(shares, 1e-12, 1 - 1e-12)])


def quantiles(values: Array, weights: Array, shares: Array, *, steps: bool) -> Array:
    """Quantiles of weighted ascending values. ``steps``: one of the values each.

    Else the mean between two quantiles half a slice apart to both sides, as many slices as there are shares: the
    means of all slices have the mean of all values, however heavy the tail.
    """
    total = np.cumsum(weights)
    if steps or len(values) == 1:
        return values[np.minimum(np.searchsorted(total, shares * (1 - 1e-12)), len(values) - 1)]
    half = 0.5 / len(shares)
    at = np.concatenate(([0.0], total - weights / 2, [1.0]))
    height = np.concatenate((values[:1], values, values[-1:]))
    below = np.concatenate(([0.0], np.cumsum(np.diff(at) * (height[:-1] + height[1:]) / 2)))

    def area(share: Array) -> Array:
        place = np.clip(np.searchsorted(at, share, side="right") - 1, 0, len(at) - 2)
        return np.asarray(below[place] + (share - at[place]) * (height[place] + np.interp(share, at, height)) / 2)

    return (area(np.minimum(shares + half, 1.0)) - area(np.maximum(shares - half, 0.0))) / (2 * half)


def compressed(values: Array, weights: Array, most: int = _NODES) -> tuple[Array, Array]:
    """At most about so many nodes of the same mean, finer towards both ends."""
    if len(values) <= most:
        return values, weights
    order = np.argsort(values, kind="stable")
    values, weights = values[order], weights[order]
    middle = np.cumsum(weights) - weights / 2
    even = np.linspace(0.0, 1.0, most // 2 + 1)
    ends = np.log(1 / _TAIL - 1)
    edges = np.union1d(even, 1 / (1 + np.exp(np.linspace(-ends, ends, most // 2))))
    group = np.searchsorted(edges, middle)
    weight = np.bincount(group, weights=weights)
    mean = np.bincount(group, weights=weights * values)
    taken = weight > 0
    return mean[taken] / weight[taken], weight[taken].astype(np.float64)


@lru_cache(maxsize=64)
def _powers(distribution: Distribution) -> tuple[tuple[Array, Array], ...]:
    """The standardised sums of 1, 2, 4 ... independent values, each as nodes and weights."""
    values, weights = nodes_of(distribution)
    values = values - float(values @ weights)
    spread = float(np.sqrt(values**2 @ weights))
    values, weights = compressed(values / spread if spread > 0 else values, weights)
    powers = [(values, weights)]
    for _ in range(_DOUBLINGS):
        pairs = (values[:, None] + values).ravel() / np.sqrt(2.0)
        values, weights = compressed(pairs, np.outer(weights, weights).ravel())
        lost = float(np.sqrt(values**2 @ weights))
        values = values / lost if lost > 0 else values
        powers.append((values, weights))
    return tuple(powers)


def sum_quantiles(distribution: Distribution | None, mean: float, counts: Array, shares: Array) -> Array:
    """Quantiles of sums of ``counts`` independent values with this mean, entry by entry."""
    if distribution is None or mean == 0:
        return mean * counts
    values, weights = nodes_of(distribution)
    mean_of_nodes = float(values @ weights)
    deviation = float(np.sqrt((values - mean_of_nodes) ** 2 @ weights)) * (mean / mean_of_nodes)
    powers = _powers(distribution)
    steps = distribution.values is not None
    at = np.log2(np.maximum(counts, 1.0))
    low = np.minimum(at.astype(np.int64), _DOUBLINGS)
    part = np.minimum(at, _DOUBLINGS) - low
    score = np.zeros_like(shares)
    for power in np.unique(low):
        (values, weights), (twice, twice_weights) = powers[power], powers[min(power + 1, _DOUBLINGS)]
        first = quantiles(values, weights, shares, steps=steps)
        second = quantiles(twice, twice_weights, shares, steps=steps)
        score = np.where(low == power, first + part * (second - first), score)
    return np.maximum(mean * counts + deviation * np.sqrt(counts) * score, 0.0)


def binomial_quantiles(counts: Array, chance: float, shares: Array) -> Array:
    """Quantiles of the successes among ``counts`` trials, entry by entry; normal where they are many."""
    if chance > 0.5:
        return counts - binomial_quantiles(counts, 1.0 - chance, 1.0 - shares)
    if chance == 0.0:
        return np.zeros_like(counts)
    mean, variance = counts * chance, counts * chance * (1 - chance)
    many = variance > 100
    successes = np.where(many, np.rint(mean + np.sqrt(variance) * normal_scores(shares)), 0.0)
    few = np.flatnonzero(~many)
    left = counts[few]
    chance_of_count = (1 - chance) ** left
    below = chance_of_count.copy()
    for count in range(int(np.max(left, initial=0.0))):
        beyond = below < shares[few]
        if not beyond.any():
            break
        successes[few] += beyond
        chance_of_count = chance_of_count * (left - count) / (count + 1) * chance / (1 - chance)
        below = below + chance_of_count
    return np.clip(successes, 0.0, counts)


#: Percentiles of tasks are within 2 % (p99: 3 %) of a simulation's with so many points.
POINTS: Final = 4096


@dataclass(frozen=True)
class TaskDraws:
    """Arrays of one entry a point. ``of_misses`` and ``where`` are shares, for how many turns miss and which."""

    turns: Array
    first_prompt: Array
    of_misses: Array
    where: Array
    where_scores: Array
    new_tokens: Array  #: of all turns but the first, on hits
    output_tokens: Array
    pause_s: Array


@lru_cache(maxsize=32)
def task_draws(scenario: Scenario) -> TaskDraws:
    """Numbers of turns, first prompts, and sums over so many turns of what varies from turn to turn."""
    forms = scenario.distributions or Distributions()
    of_turns, prompt, of_misses, where, fresh, output, pause = lattice(POINTS, 7).T
    turns = quantiles(*whole_nodes(*scaled_nodes(forms.turns, scenario.turns)), of_turns, steps=True)
    return TaskDraws(
        turns=turns,
        first_prompt=quantity(scenario, "initial_prompt_tokens", prompt),
        of_misses=of_misses,
        where=where,
        where_scores=normal_scores(where),
        new_tokens=sum_quantiles(forms.new_tokens_per_turn, scenario.new_tokens_per_turn, turns - 1, fresh),
        output_tokens=sum_quantiles(forms.output_tokens_per_turn, scenario.output_tokens_per_turn, turns, output),
        pause_s=sum_quantiles(forms.think_time_s, scenario.think_time_s, turns, pause),
    )


def quantity(scenario: Scenario, name: str, shares: Array) -> Array:
    """Quantiles of a field, its number where it does not vary; first prompts are longer than what all share."""
    form = getattr(scenario.distributions, name, None)
    mean = getattr(scenario, name)
    if form is None:
        return np.full(len(shares), mean)
    values = quantiles(*scaled_nodes(form, mean), shares, steps=form.values is not None)
    return np.maximum(values, scenario.shared_prefix_tokens + 1) if name == "initial_prompt_tokens" else values
