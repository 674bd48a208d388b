"""Between reading and carrying: engines fitted to the measured deployments among the serving points."""

from collections.abc import Sequence

import polars as pl

from pipelines.progress import progress
from pipelines.reading.engines import load_priors
from schemas.catalogue import HardwareCatalogue, ModelCatalogue
from schemas.engines import CalibratedEngine, EnginesFile
from schemas.scenarios import Scenario
from transforms.calibration.deployments import FEWEST_ROWS, calibrate, deployments
from transforms.calibration.known_engines import Engines
from transforms.calibration.report import in_schema, turns_of

CALIBRATING = "Fitting engines to measured rows"
#: A release's engines, beside its tables; only where it has any.
ENGINES_FILE = "engines.json"


def calibrate_points(
    points: pl.DataFrame, hardware: HardwareCatalogue, models: ModelCatalogue, scenarios: Sequence[Scenario]
) -> EnginesFile:
    """The engine of each deployment with two measured rows or more; those whose rows are refused have none."""
    found = [each for each in deployments(points, models, hardware) if each.rows.height >= FEWEST_ROWS]
    if not found:
        return EnginesFile(engines=())
    progress().start(CALIBRATING, len(found))
    priors, turns = load_priors(), turns_of(scenarios)
    engines: list[CalibratedEngine] = []
    for deployment in found:
        calibration = calibrate(deployment, priors)
        if calibration.engine is not None:
            prior = priors.prior(deployment.facts.traits)
            engines.append(in_schema(calibration, calibration.engine, prior, turns))
        progress().advance(CALIBRATING)
    return EnginesFile(engines=tuple(engines))


def engine_library(file: EnginesFile, hardware: HardwareCatalogue, models: ModelCatalogue) -> Engines:
    """The engines of a build or a release, and what is expected of all others."""
    return Engines.of_file(file, load_priors(), hardware, models)
