"""A distribution as nodes and weights of a quadrature, so that nothing is sampled."""

import math
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist
from typing import Final

import numpy as np

from schemas.arrays import Array
from schemas.distributions import QUANTILE_SHARES, Distribution, LogNormalPart

#: Log-normals: trapezoids in the standard normal variable, this step and this far out (beyond sigma, for the mean).
_STEP: Final = 0.02
_REACH: Final = 8.0
#: Places between two quantiles.
_BETWEEN: Final[Array] = (np.arange(40) + 0.5) / 40


@lru_cache(maxsize=256)
def nodes_of(distribution: Distribution) -> tuple[Array, Array]:
    """Values, ascending, and weights that add up to 1; read-only arrays of one entry a node.

    Quantiles: between two of them as a log-normal through both (evenly where one is 0), the mean kept; what they
    miss of it is made up for above the last one, within the largest value. A median alone, with its mean, is one
    log-normal.
    """
    known = distribution.known_quantiles
    if distribution.values is not None:
        values = np.array(distribution.values)
        weights = np.ones_like(values) if distribution.weights is None else np.array(distribution.weights)
    elif distribution.log_normals is not None:
        values, weights = _log_normals(distribution.log_normals, distribution.zero_fraction)
    elif len(known) == 1:
        values, weights = _of_median(known["p50"], distribution.mean_value)
    else:
        values, weights = _of_quantiles(distribution)
    cut = np.clip(values, distribution.least or 0.0, math.inf if distribution.most is None else distribution.most)
    if distribution.zero_fraction:
        cut = np.where(values == 0, 0.0, cut)
    order = np.argsort(cut, kind="stable")
    cut, weights = cut[order], weights[order] / weights.sum()
    for array in (cut, weights):
        array.setflags(write=False)
    return cut, weights


def scaled_nodes(distribution: Distribution | None, mean: float) -> tuple[Array, Array]:
    """The nodes scaled to this mean; the mean alone where nothing is said of a distribution."""
    if distribution is None:
        return np.array([mean]), np.ones(1)
    values, weights = nodes_of(distribution)
    own = float(values @ weights)
    return (values * (mean / own) if own > 0 else values + mean), weights


def whole_nodes(values: Array, weights: Array) -> tuple[Array, Array]:
    """Nodes that are whole numbers of at least 1: each value is shared by its two neighbours, so that the mean stays
    where no value is below 1."""
    values = np.maximum(values, 1.0)
    below = np.floor(values)
    share = values - below
    whole, place = np.unique(np.concatenate((below, below + 1)), return_inverse=True)
    both = np.concatenate((weights * (1 - share), weights * share))
    weight = np.bincount(place, weights=both).astype(np.float64)
    taken = weight > 0
    return whole[taken], weight[taken]


def _log_normals(parts: tuple[LogNormalPart, ...], zero_fraction: float) -> tuple[Array, Array]:
    values, weights = [np.zeros(1)], [np.array([zero_fraction])]
    total = sum(part.weight for part in parts)
    for part in parts:
        normal = np.arange(-_REACH, _REACH + part.sigma + _STEP, _STEP)
        density = np.exp(-(normal**2) / 2)
        values.append(part.median * np.exp(part.sigma * normal))
        weights.append((1 - zero_fraction) * part.weight / total * density / density.sum())
    value, weight = np.concatenate(values), np.concatenate(weights)
    return value[weight > 0], weight[weight > 0]


def _of_median(median: float, mean: float) -> tuple[Array, Array]:
    if mean <= median or median == 0:
        return np.array([mean]), np.ones(1)
    return _log_normals((LogNormalPart(median=median, sigma=math.sqrt(2 * math.log(mean / median))),), 0.0)


def _of_quantiles(distribution: Distribution) -> tuple[Array, Array]:
    shares = tuple(QUANTILE_SHARES[name] for name in distribution.known_quantiles)
    at = tuple(distribution.known_quantiles.values())
    least = distribution.least or 0.0
    edges = (0.0, *shares)
    values = []
    for place, (low, high) in enumerate(pairwise(edges)):
        first = max(place - 1, 0)  # the lowest part follows the next two quantiles
        found = _along(low + (high - low) * _BETWEEN, shares[first : first + 2], at[first : first + 2])
        values.append(np.maximum(found, least))
    weights = [np.full(len(_BETWEEN), width / len(_BETWEEN)) for width in np.diff(edges)]
    body = float(sum(value @ weight for value, weight in zip(values, weights, strict=True)))
    top = 1 - shares[-1]
    mean = (distribution.mean_value - body) / top
    if distribution.most is None:
        beyond = np.maximum(_along(shares[-1] + top * _BETWEEN, shares[-2:], at[-2:]) - at[-1], 0.0)
        stretch = max(mean - at[-1], 0.0) / beyond.mean() if beyond.any() else 0.0
        values.append(at[-1] + stretch * beyond if beyond.any() else np.full(len(_BETWEEN), max(mean, at[-1])))
    else:
        values.append(_tail(at[-1], distribution.most, float(np.clip(mean, at[-1], distribution.most))))
    weights.append(np.full(len(_BETWEEN), top / len(_BETWEEN)))
    return np.concatenate(values), np.concatenate(weights)


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
