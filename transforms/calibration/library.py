"""What is known of engines when points are carried: those calibrated, and what is expected of any other."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from schemas.catalogue import HardwareCatalogue
from schemas.engines import CalibratedEngine, EnginesFile
from schemas.models import ModelSpec
from transforms.calibration.deployments import deployment_columns
from transforms.calibration.engine import Engine, prior_engine
from transforms.calibration.facts import deployment_facts
from transforms.calibration.prior import LearntPriors
from transforms.calibration.report import engine_of


@dataclass(frozen=True)
class Engines:
    """Calibrated engines by the deployment they belong to, and the priors of all others.

    >>> engines.of(row, spec)          # the engine that was fitted to the row's deployment, or None
    >>> engines.expected_of(row, spec) # what other deployments let expect of it
    """

    priors: LearntPriors
    hardware: HardwareCatalogue
    calibrated: Mapping[str, CalibratedEngine]

    @classmethod
    def of_files(cls, files: Sequence[EnginesFile], priors: LearntPriors, hardware: HardwareCatalogue) -> "Engines":
        """Engines of several files; of two for one deployment the later counts."""
        found = {deployment_key(engine.deployment): engine for file in files for engine in file.engines}
        return cls(priors, hardware, found)

    def of(self, row: pl.DataFrame, spec: ModelSpec) -> Engine | None:
        """The engine fitted to the deployment of one row of ``serving_points``; None where there is none."""
        said = self.calibrated.get(key_of_row(row))
        return None if said is None else engine_of(said, deployment_facts(row, spec, self.hardware))

    def expected_of(self, row: pl.DataFrame, spec: ModelSpec) -> Engine:
        """The engine that other deployments let expect, without a row of this one."""
        facts = deployment_facts(row, spec, self.hardware)
        return prior_engine(facts, self.priors.prior(facts.traits))


def key_of_row(row: pl.DataFrame) -> str:
    """The key of the deployment that a row of ``serving_points`` is of."""
    return deployment_key(row.select(deployment_columns()).row(0, named=True))


def deployment_key(deployment: Mapping[str, Any]) -> str:
    """One text for each deployment. What is not told does not count, nor whether a number was read as whole.

    >>> deployment_key({"tp": 8, "pp": 1.0, "setting": None})
    '{"pp": 1.0, "tp": 8.0}'
    """
    told = {
        name: value if isinstance(value, str | bool) else float(value)
        for name, value in deployment.items()
        if value is not None
    }
    return json.dumps(told, sort_keys=True)
