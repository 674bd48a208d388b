"""What is expected of an engine before a row of it was seen: learnt from fits of other deployments.

The logarithm of each parameter is a mean and a sum of effects of what deployments have in common (engine, vendor, GPU,
width of the weights, mode, drafts, attention parallelism); effects are shrunk towards none (ridge).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.arrays import Array


@dataclass(frozen=True)
class Prior:
    """Logarithms of the parameters as expected, and their covariance."""

    logs: Array
    covariance: Array


@dataclass(frozen=True)
class LearntPriors:
    """Means, effects by trait, and covariance: of each serving mode."""

    logs: dict[str, Array]
    effects: dict[str, dict[str, Array]]
    covariance: dict[str, Array]
    deployments: int

    def prior(self, traits: Sequence[str]) -> Prior:
        """What is expected of a deployment with these traits; those never seen have no effect."""
        mode = "mode disagg" if "mode disagg" in traits else "mode agg"
        logs = self.logs[mode].copy()
        for trait in traits:
            logs = logs + self.effects[mode].get(trait, 0.0)
        return Prior(logs, self.covariance[mode])
