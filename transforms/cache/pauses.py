"""Pauses as a distribution: nodes and weights of a quadrature, so that nothing is sampled."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import NormalDist
from typing import Final

import numpy as np
import numpy.typing as npt

from schemas.trace_statistics import PauseMixture, Spread

Array = npt.NDArray[np.float64]

#: Log-normals: trapezoids in the standard normal variable, this step and this far out (beyond sigma, for the mean).
_STEP: Final = 0.02
_REACH: Final = 8.0
#: The shares whose quantiles a ``Spread`` has, and 40 places between two of them.
_SHARES: Final = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
_BETWEEN: Final[Array] = (np.arange(40) + 0.5) / 40


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
    def log_normals(mixture: PauseMixture) -> "PauseDistribution":
        """A mixture of log-normals, and the share of pauses that are 0."""
        values, weights = [np.zeros(1)], [np.array([mixture.zero_fraction])]
        for part in mixture.log_normals:
            normal = np.arange(-_REACH, _REACH + part.sigma + _STEP, _STEP)
            density = np.exp(-(normal**2) / 2)
            values.append(part.median_s * np.exp(part.sigma * normal))
            weights.append((1 - mixture.zero_fraction) * part.weight * density / density.sum())
        value, weight = np.concatenate(values), np.concatenate(weights)
        order = np.argsort(value)
        return PauseDistribution(value[order], weight[order] / weight.sum(), continuous=True)

    @staticmethod
    def quantiles(spread: Spread) -> "PauseDistribution":
        """From quantiles: between two of them as a log-normal through both (evenly where one is 0), the mean kept.

        What the quantiles miss of the mean is made up for in the top percent, within the largest pause.
        """
        at = (spread.p10, spread.p25, spread.p50, spread.p75, spread.p90, spread.p95, spread.p99)
        edges = (0.0, *_SHARES)
        values = []
        for place, (low, high) in enumerate(pairwise(edges)):
            first = max(place - 1, 0)  # the lowest tenth follows the next two quantiles
            found = _along(low + (high - low) * _BETWEEN, _SHARES[first : first + 2], at[first : first + 2])
            values.append(np.maximum(found, spread.least))
        weights = [np.full(len(_BETWEEN), width / len(_BETWEEN)) for width in np.diff(edges)]
        body = float(sum(value @ weight for value, weight in zip(values, weights, strict=True)))
        top = 1 - _SHARES[-1]
        tail = float(np.clip((spread.mean - body) / top, spread.p99, spread.most))
        values.append(_tail(spread.p99, spread.most, tail))
        weights.append(np.full(len(_BETWEEN), top / len(_BETWEEN)))
        return PauseDistribution(np.concatenate(values), np.concatenate(weights), continuous=True)

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


def _along(shares: Array, known: tuple[float, ...], values: tuple[float, ...]) -> Array:
    """Values at these shares of the log-normal through two quantiles; of a straight line where the first is 0."""
    (low, high), (at_low, at_high) = known, values
    if at_low <= 0:
        return np.asarray(at_low + (at_high - at_low) * (shares - low) / (high - low))
    score = NormalDist().inv_cdf
    steps = (np.array([score(float(share)) for share in shares]) - score(low)) / (score(high) - score(low))
    return np.asarray(at_low * (at_high / at_low) ** steps)


def _tail(low: float, high: float, mean: float) -> Array:
    """Values from low to high with this mean: powers of even steps, found by bisection."""
    if high <= low:
        return np.full(len(_BETWEEN), low)
    least, most = 1e-3, 1e3
    for _ in range(60):
        power = np.sqrt(least * most)
        if (low + (high - low) * _BETWEEN**power).mean() > mean:
            least = power
        else:
            most = power
    return np.asarray(low + (high - low) * _BETWEEN ** np.sqrt(least * most))
