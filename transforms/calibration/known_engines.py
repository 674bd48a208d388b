"""What is known of engines when points are carried: those calibrated, and what is expected of any other."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from schemas.catalogue import HardwareCatalogue, ModelCatalogue
from schemas.engines import CalibratedEngine, EnginesFile
from schemas.models import ModelSpec
from transforms.agentic.runs import is_same_deployment
from transforms.calibration.deployments import deployment_columns
from transforms.calibration.engine import Engine, prior_engine
from transforms.calibration.facts import deployment_facts
from transforms.calibration.prior import LearntPriors
from transforms.calibration.report import engine_of
from transforms.calibration.sharing import architectures


@dataclass(frozen=True)
class Engines:
    """Calibrated engines by the deployment they belong to, and the priors of all others.

    >>> engines.of(row, spec)          # the engine that was fitted to the row's deployment, or None
    >>> engines.expected_of(row, spec) # what other deployments let expect of it

    ``alike``: the model that stands for each one's architecture; models of one share engines. ``piloted``: those fitted
    to agent runs too, which may not state versions and settings.
    """

    priors: LearntPriors
    hardware: HardwareCatalogue
    alike: Mapping[str, str]
    calibrated: Mapping[str, CalibratedEngine]
    piloted: tuple[CalibratedEngine, ...] = ()

    @classmethod
    def of_file(
        cls, file: EnginesFile, priors: LearntPriors, hardware: HardwareCatalogue, models: ModelCatalogue
    ) -> "Engines":
        """The engines of a file; of two for one deployment the first counts."""
        alike = architectures(models)
        found = {deployment_key(engine.deployment, alike): engine for engine in reversed(file.engines)}
        return cls(priors, hardware, alike, found, tuple(engine for engine in file.engines if engine.pilots))

    def of(self, row: pl.DataFrame, spec: ModelSpec) -> Engine | None:
        """The engine fitted to the deployment of one row of ``serving_points``; None where there is none."""
        said = self._said_of(row.row(0, named=True))
        return None if said is None else engine_of(said, deployment_facts(row, spec, self.hardware))

    def expected_of(self, row: pl.DataFrame, spec: ModelSpec) -> Engine:
        """The engine that other deployments let expect, without a row of this one."""
        facts = deployment_facts(row, spec, self.hardware)
        return prior_engine(facts, self.priors.prior(facts.traits))

    def serve_any(self, points: pl.DataFrame) -> bool:
        """Whether an engine is of the deployment of any of these serving points."""
        kinds = points.select(deployment_columns()).unique()
        return any(self._said_of(row) is not None for row in kinds.iter_rows(named=True))

    def _said_of(self, row: Mapping[str, Any]) -> CalibratedEngine | None:
        piloted = (each for each in self.piloted if is_same_deployment(row, each.deployment, self.alike))
        own = self.calibrated.get(deployment_key({name: row[name] for name in deployment_columns()}, self.alike))
        return next(piloted, own)


def deployment_key(deployment: Mapping[str, Any], alike: Mapping[str, str]) -> str:
    """One text for each deployment of an architecture.

    What is not told does not count, nor whether a number was read as whole.

    >>> deployment_key({"model": "deepseek-r1", "tp": 8, "setting": None}, {"deepseek-r1": "deepseek-v3"})
    '{"model": "deepseek-v3", "tp": 8.0}'
    """
    told = {
        name: value if isinstance(value, str | bool) else float(value)
        for name, value in deployment.items()
        if value is not None
    }
    return json.dumps({**told, "model": alike.get(deployment["model"], deployment["model"])}, sort_keys=True)
