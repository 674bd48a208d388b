"""Log-normals fitted to pauses by expectation and maximisation (Dempster, Laird and Rubin, JRSS B 39(1), 1977)."""

import numpy as np

from schemas.arrays import Array
from schemas.trace_statistics import LogNormal, PauseMixture
from transforms.traces.histogram import Histogram, significant

_ITERATIONS = 500
_STOP_AT = 1e-9  # gain of the mean log-likelihood in an iteration
#: No component narrower than this: 20 equal values would make one of width 0.
_LEAST_SIGMA = 0.05
#: Below this many pauses above 0 two components would fit noise.
_LEAST_COUNT = 20


def fit_pauses(pauses: Histogram, components: int = 2) -> PauseMixture | None:
    """The mixture of so many log-normals of the greatest likelihood; one where the pauses are few.

    Pauses of 0 are counted apart. None where no pause is above 0.
    """
    values, counts = pauses.values()
    if not len(values):
        return None
    several = counts.sum() >= _LEAST_COUNT and len(values) >= 2 * components
    weights, means, sigmas = _fit(np.log(values), counts, components if several else 1)
    order = np.argsort(means)
    return PauseMixture(
        zero_fraction=significant(pauses.zeros / pauses.count),
        log_normals=tuple(
            LogNormal(
                weight=significant(float(weights[i])),
                median_s=significant(float(np.exp(means[i]))),
                sigma=significant(float(sigmas[i])),
            )
            for i in order
        ),
    )


def _fit(logs: Array, counts: Array, components: int) -> tuple[Array, Array, Array]:
    """Weights, means and deviations of the normals of the logarithms; the best of several beginnings."""
    total = np.cumsum(counts) / counts.sum()
    best: tuple[float, tuple[Array, Array, Array]] | None = None
    # Where the components begin: at quantiles of the pauses; the second in the middle and in the tail.
    for tail in (0.75, 0.9, 0.98) if components > 1 else (0.5,):
        at = np.searchsorted(total, np.linspace(0.5, tail, components)).clip(0, len(logs) - 1)
        spread = max(float(np.sqrt(np.cov(logs, aweights=counts))) if len(logs) > 1 else 0.0, _LEAST_SIGMA)
        found = _improve(logs, counts, logs[at].copy(), np.full(components, spread))
        if best is None or found[0] > best[0]:
            best = found
    assert best is not None
    return best[1]


def _improve(logs: Array, counts: Array, means: Array, sigmas: Array) -> tuple[float, tuple[Array, Array, Array]]:
    weights = np.full(len(means), 1 / len(means))
    share = counts / counts.sum()
    before = -np.inf
    for _ in range(_ITERATIONS):
        scaled = (logs[:, None] - means) / sigmas
        densities = np.log(weights) - np.log(sigmas) - scaled**2 / 2 - np.log(2 * np.pi) / 2
        top = densities.max(axis=1)
        all_of_them = top + np.log(np.exp(densities - top[:, None]).sum(axis=1))
        likelihood = float(share @ all_of_them)
        belongs = np.exp(densities - all_of_them[:, None]) * share[:, None]
        weights = np.maximum(belongs.sum(axis=0), 1e-12)
        means = logs @ belongs / weights
        variance = (((logs[:, None] - means) ** 2) * belongs).sum(axis=0) / weights
        sigmas = np.maximum(np.sqrt(variance), _LEAST_SIGMA)
        weights = weights / weights.sum()
        if likelihood - before < _STOP_AT:
            break
        before = likelihood
    return likelihood, (weights, means, sigmas)
