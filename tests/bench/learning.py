"""Priors of engines learnt from fits of deployments, and the file that ships with the program.

Effects of what deployments have in common are shrunk towards none (ridge).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pipelines.reading.engines import as_yaml
from schemas.arrays import Array, Flags
from schemas.engines import EnginePriors, ModePrior
from transforms.calibration.parameters import NAMES, SPREAD, TYPICAL, place
from transforms.calibration.prior import LearntPriors, Prior

#: Strength of the shrinkage, in deployments: a trait that so many have keeps half of its effect.
SHRINKAGE: Final = 1.5
#: Weight of deployments of the other serving mode.
OTHER_MODE: Final = 0.3
#: Parameters vary together in part: what is kept of their covariances.
KEPT_COVARIANCE: Final = 0.5
#: Spreads are those left over after the effects, so much wider, and at least the floor.
WIDENED: Final = 1.1
LEAST_SPREAD: Final = 0.12
#: A single deployment is no further from the rest than this, in logarithms, where the spread is measured.
FURTHEST: Final = 2.0
#: What so few deployments have in common is theirs alone, and no trait.
FEWEST_OF_A_TRAIT: Final = 3
OUTER_QUANTILES: Final = (0.03, 0.97)


@dataclass(frozen=True)
class Example:
    """A deployment whose parameters are known: ``key`` is the same in all its dates, which share one weight.

    ``attention_variance`` is what its rows leave open of the logarithm of ``attention_fraction``.
    """

    key: str
    traits: tuple[str, ...]
    logs: Array
    attention_variance: float


def typical_prior() -> Prior:
    """Where nothing was learnt: round figures, each with its own spread."""
    return Prior(TYPICAL.copy(), np.diag(SPREAD**2))


def learn_priors(examples: Sequence[Example]) -> LearntPriors:
    """Priors from fits of deployments; the more dates one has, the less each counts."""
    keys = [each.key for each in examples]
    times = {key: keys.count(key) for key in set(keys)}
    logs = np.array([each.logs for each in examples])
    names = _shared_traits(examples)
    has = np.array([[float(name in each.traits) for name in names] for each in examples])
    drafted: Flags = np.array(["drafts yes" in each.traits for each in examples])
    untold = np.array([each.attention_variance for each in examples])
    means, effects, covariances = {}, {}, {}
    for mode in ("mode agg", "mode disagg"):
        same = np.array([mode in each.traits for each in examples])
        weight = np.array([1.0 / times[key] for key in keys]) * np.where(same, 1.0, OTHER_MODE)
        means[mode], of_traits, covariances[mode] = _learn(logs, has, weight, drafted)
        effects[mode] = dict(zip(names, of_traits, strict=True))
        # prompts of 8K and less hardly tell attention: fits stay where they began, and are no further apart for that
        covariances[mode][place("attention_fraction"), place("attention_fraction")] += np.average(
            untold, weights=weight
        )
    return LearntPriors(means, effects, covariances, len(times))


def _shared_traits(examples: Sequence[Example]) -> list[str]:
    """The traits of enough deployments to be more than one deployment's own."""
    having: dict[str, set[str]] = {}
    for each in examples:
        for trait in each.traits:
            having.setdefault(trait, set()).add(each.key)
    return sorted(trait for trait, keys in having.items() if len(keys) >= FEWEST_OF_A_TRAIT)


def _learn(logs: Array, has: Array, weight: Array, drafted: Flags) -> tuple[Array, Array, Array]:
    accepted = place("accepted_tokens")
    low, high = np.quantile(logs, OUTER_QUANTILES, axis=0)
    inner = np.clip(logs, low, high)
    mean = np.asarray(np.average(inner, axis=0, weights=weight), np.float64)
    mean[accepted] = (
        np.average(logs[drafted, accepted], weights=weight[drafted]) if drafted.any() else TYPICAL[accepted]
    )
    apart, inner_apart = logs - mean, inner - mean
    apart[~drafted, accepted] = inner_apart[~drafted, accepted] = 0.0
    gram = (has * weight[:, None]).T @ has + SHRINKAGE * np.eye(has.shape[1])
    effects = np.asarray(np.linalg.solve(gram, (has * weight[:, None]).T @ inner_apart), np.float64)
    left = np.clip(apart - has @ effects, -FURTHEST, FURTHEST)
    covariance: Array = (left * weight[:, None]).T @ left / weight.sum() * WIDENED
    spread = np.average(left[drafted, accepted] ** 2, weights=weight[drafted]) * WIDENED if drafted.any() else 0.0
    covariance[accepted, :] = covariance[:, accepted] = 0.0
    covariance[accepted, accepted] = max(spread, 0.15**2)
    own = np.diag(np.diag(covariance))
    together = KEPT_COVARIANCE * covariance + (1 - KEPT_COVARIANCE) * own
    return mean, effects, np.asarray(together + LEAST_SPREAD**2 * np.eye(len(NAMES)))


def priors_as_text(priors: LearntPriors, source: str) -> str:
    """The file ``data/engine_priors.yaml``."""
    modes = {
        mode.removeprefix("mode "): ModePrior(
            typical=_values(priors.logs[mode]),
            factors={
                trait: {name: value for name, value in _values(effect).items() if abs(value - 1.0) >= 0.01}
                for trait, effect in priors.effects[mode].items()
            },
            covariance=tuple(tuple(float(f"{each:.3g}") for each in row) for row in priors.covariance[mode].tolist()),
        )
        for mode in priors.logs
    }
    said = EnginePriors(source=source, deployments=priors.deployments, **modes)
    return as_yaml(said.model_dump(mode="json"))


def _values(logs: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> dict[str, float]:
    return {name: float(f"{np.exp(log):.4g}") for name, log in zip(NAMES, logs.tolist(), strict=True)}
