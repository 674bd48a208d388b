"""Pauses as a distribution: nodes and weights of a quadrature, so that nothing is sampled."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from schemas.arrays import Array
from schemas.distribution_nodes import nodes_of, scaled_nodes
from schemas.distributions import Distribution
from schemas.trace_statistics import PauseMixture, Spread

#: Shares of the pauses at which the classes of ``PauseDistribution.classes`` end: finer where few prefixes are lost.
_CLASS_ENDS = (
    0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.68, 0.75, 0.81, 0.86, 0.9, 0.93, 0.955, 0.97, 0.98, 0.987, 0.992, 0.996,
)  # fmt: skip


@dataclass(frozen=True)
class PauseClasses:
    """Pauses in few classes, ascending: mean, ``E[min(Z, mean)]`` over all pauses, and share; one entry a class."""

    values_s: Array
    within_s: Array
    shares: Array


@dataclass(frozen=True)
class PauseDistribution:
    """Pauses in seconds, ascending, with weights that add up to 1.

    ``continuous``: the values are nodes of a density, and shares are read between them; else they are the only
    pauses there are.
    """

    values: Array
    weights: Array
    continuous: bool = False

    @staticmethod
    def constant(pause_s: float) -> "PauseDistribution":
        """The same pause each time."""
        return PauseDistribution(np.array([pause_s]), np.ones(1))

    @staticmethod
    def empirical(pauses_s: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> "PauseDistribution":
        """Pauses as they were; weighted, say, by the tokens that are kept through each."""
        pauses = np.asarray(pauses_s, dtype=np.float64)
        weight = np.ones_like(pauses) if weights is None else np.asarray(weights, dtype=np.float64)
        if not pauses.size or pauses.min() < 0 or weight.min() < 0 or not weight.sum() > 0:
            raise ValueError("pauses must be 0 or more, with weights of 0 or more that are not all 0")
        values, place = np.unique(pauses, return_inverse=True)
        sums = np.bincount(place, weights=weight)
        return PauseDistribution(values, sums / sums.sum())

    @staticmethod
    def of(distribution: Distribution, mean_s: float | None = None) -> "PauseDistribution":
        """A distribution of a scenario file, scaled to the mean if one is given."""
        nodes = nodes_of(distribution) if mean_s is None else scaled_nodes(distribution, mean_s)
        if distribution.values is not None:
            return PauseDistribution.empirical(*nodes)
        return PauseDistribution(*nodes, continuous=True)

    @staticmethod
    def log_normals(mixture: PauseMixture) -> "PauseDistribution":
        """A mixture of log-normals, and the share of pauses that are 0."""
        return PauseDistribution.of(mixture.as_distribution())

    @staticmethod
    def quantiles(spread: Spread) -> "PauseDistribution":
        """From the quantiles of a fit, the mean kept."""
        return PauseDistribution.of(spread.as_distribution())

    @cached_property
    def mean_s(self) -> float:
        """Mean pause."""
        return float(self.values @ self.weights)

    def capped(self, longest_s: float) -> "PauseDistribution":
        """The pauses, those above the cap cut to it."""
        return PauseDistribution(np.minimum(self.values, longest_s), self.weights, self.continuous)

    def coarse(self, most: int = 128) -> "PauseDistribution":
        """At most so many pauses of about the same weight (or the atoms that weigh more), the mean kept."""
        if len(self.values) <= most:
            return PauseDistribution(self.values, self.weights)
        group = np.minimum((np.cumsum(self.weights) - self.weights / 2) * most, most - 1).astype(np.int64)
        weight = np.bincount(group, weights=self.weights, minlength=most)
        value = np.bincount(group, weights=self.weights * self.values, minlength=most)
        taken = weight > 0
        return PauseDistribution(value[taken] / weight[taken], weight[taken].astype(np.float64))

    def classes(self) -> PauseClasses:
        """At most 19 classes of neighbours, the mean kept; equal pauses stay together."""
        middles = np.minimum(np.cumsum(self.weights) - self.weights / 2, 1.0)
        group = np.searchsorted(_CLASS_ENDS, middles)
        shares = np.bincount(group, weights=self.weights)
        there = shares > 0
        values = np.bincount(group, weights=self.weights * self.values)[there] / shares[there]
        return PauseClasses(values, self.mean_within(values), shares[there] / shares.sum())

    def share_within(self, limit_s: npt.ArrayLike) -> Array:
        """Share of the pauses that are no longer than the limit; array of the limit's shape."""
        limit = np.asarray(limit_s, dtype=np.float64)
        total = np.cumsum(self.weights)
        exact = np.concatenate(([0.0], total))[np.searchsorted(self.values, limit, side="right")]
        exact = np.where(limit >= self.values[-1], 1.0, np.minimum(exact, 1.0))
        if not self.continuous:
            return np.asarray(exact)
        # Half of a node's weight lies below it; atoms (equal values: zeros, a cap) count in full.
        middle = np.interp(limit, self.values, total - self.weights / 2, left=0.0, right=1.0)
        atom = np.isin(limit, self._atoms)
        return np.minimum(np.where(atom, exact, middle), 1.0)

    def mean_within(self, limit_s: npt.ArrayLike) -> Array:
        """Mean of the pauses with those above the limit cut to it, ``E[min(Z, T)]``; array of the limit's shape."""
        limit = np.asarray(limit_s, dtype=np.float64)
        below = np.searchsorted(self.values, limit, side="right")
        share = np.concatenate(([0.0], np.cumsum(self.weights)))[below]
        mean = np.concatenate(([0.0], np.cumsum(self.values * self.weights)))[below]
        rest = np.where(below < len(self.values), np.maximum(1 - share, 0.0), 0.0)  # sums end a hair off 1
        return np.asarray(mean + rest * np.where(np.isfinite(limit), limit, 0.0))

    def average(self, function: Callable[[Array], Array]) -> float:
        """Mean of a function of the pause."""
        return float(function(self.values) @ self.weights)

    @cached_property
    def _atoms(self) -> Array:
        values, counts = np.unique(self.values, return_counts=True)
        zero = values[(values == 0) & (self.weights[0] > 0)]
        return np.concatenate((zero, values[counts > 2]))
