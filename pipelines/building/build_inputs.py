"""What a build is made from: catalogues and files found, rows read and judged, engines fitted, gaps filled."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import polars as pl

from pipelines.building.incremental import (
    Previous,
    fingerprint,
    seen_files,
)
from pipelines.live.asking import ask_aiconfigurator
from pipelines.progress import progress
from pipelines.reading.catalogues import (
    SHIPPED_TABLES,
    load_hardware,
    load_models,
    load_prices,
    load_scenarios,
    own_models_file,
)
from pipelines.reading.engines import load_engines, load_priors
from pipelines.reading.evaluations import load_evaluation
from pipelines.reading.faults import faults_in_words
from pipelines.reading.folders import PassedOver
from pipelines.reading.inputs import FoundFile, search, with_distinct_names
from pipelines.reading.read_inputs import READING, Inputs, read_inputs
from schemas.catalogue import HardwareCatalogue, ModelCatalogue
from schemas.engines import NO_ENGINES, CalibratedEngine, EnginesFile
from schemas.errors import UserError
from schemas.frames import conform
from schemas.options import BuildOptions, RooflinePreset
from schemas.prices import Price, with_prices
from schemas.scenarios import Scenario
from transforms.calibration.deployments import FEWEST_ROWS, calibrate, deployments
from transforms.calibration.known_engines import Engines
from transforms.calibration.report import in_schema, turns_of
from transforms.serving_points.sharing import share_rows
from transforms.synthesis.points import synthesize_points


@dataclass(frozen=True)
class BuildSources:
    """What a build is made from: the catalogues, and the files, which are not parsed yet."""

    options: BuildOptions
    hardware: HardwareCatalogue
    models: ModelCatalogue
    scenarios: tuple[Scenario, ...]
    files: tuple[FoundFile, ...]
    prices: tuple[Price, ...] = ()
    passed_over: tuple[PassedOver, ...] = ()
    engines: EnginesFile = NO_ENGINES

    @cached_property
    def seen(self) -> dict[str, tuple[Any, ...]]:
        """Hashes of the files. Reads them."""
        return seen_files(self.files)

    @property
    def inputs_sha256(self) -> str:
        """A hash of all of it."""
        return fingerprint(
            self.seen, self.hardware, self.models, self.scenarios, self.options, self.prices, self.engines
        )


class Prepared:
    """All that a build needs from files, read and judged."""

    def __init__(
        self,
        options: BuildOptions,
        hardware: HardwareCatalogue,
        models: ModelCatalogue,
        scenarios: Sequence[Scenario],
        inputs: Inputs,
        prices: Sequence[Price] = (),
        engines: EnginesFile = NO_ENGINES,
    ) -> None:
        self.options = options
        self.hardware = hardware
        self.models = models
        self.scenarios = tuple(scenarios)
        self.inputs = inputs
        self.prices = tuple(prices)
        self.engines = engines
        self.inputs_sha256: str | None = None

    def let_go_of_points(self) -> None:
        """Keeps one serving point of each GPU and model, for the summary: a large collection of them takes gigabytes.

        Whoever computes reads them from the release.
        """
        points = self.inputs.serving_points
        one_of_each = points.filter(pl.struct("hardware", "model").is_first_distinct()).rechunk()
        self.inputs = replace(self.inputs, serving_points=one_of_each)


def find(options: BuildOptions) -> BuildSources:
    """The catalogues and the files that the options name. Raises ``UserError`` for what is not there or wrong."""
    if options.evaluation is not None:
        load_evaluation(options.evaluation)  # a wrong file is said before the work begins
    hardware, models = load_hardware(options.hardware), load_models(options.models or own_models_file())
    prices = load_prices(options.prices, hardware)
    scenarios = load_scenarios(options.scenarios)
    for scenario in scenarios:
        if scenario.mix is not None and options.over_capacity == "thrash":
            raise UserError(
                f"{scenario.slug} is a mix, whose sessions can only wait: build it without --over-capacity."
            )
    here = search((SHIPPED_TABLES,) if options.uses_shipped_tables else options.tables)
    files = list(here.files)
    if options.source is not None:
        files += ask_aiconfigurator(options, scenarios, hardware, models)
    return BuildSources(
        options,
        with_prices(hardware, prices),
        models,
        tuple(scenarios),
        tuple(with_distinct_names(files)),
        prices,
        () if options.uses_shipped_tables else tuple(here.passed_over),
        NO_ENGINES if options.engines is None else load_engines(options.engines),
    )


def prepare_if_changed(options: BuildOptions, previous: Previous | None, threads: int | None = None) -> Prepared | None:
    """All that a build needs; None where ``previous`` was made from the very same and nothing of it is missing.

    Raises ``UserError`` where nothing can be built from them.
    """
    sources = find(options)
    same = previous is not None and previous.inputs_sha256 == sources.inputs_sha256 and previous.is_whole
    if same and previous is not None and not (options.strict and previous.faults):
        return None
    prepared = read(sources, threads)
    as_seen = all(account.sha256 == sources.seen[account.path][0] for account in prepared.inputs.accounts)
    # a file that has changed since it was seen: the next build must look again
    prepared.inputs_sha256 = sources.inputs_sha256 if as_seen else ""
    return prepared


def read(sources: BuildSources, threads: int | None = None) -> Prepared:
    """Reads and judges the files, so many at a time; without ``threads`` as many as the machine can."""
    options = sources.options
    progress().start(READING, len(sources.files))
    inputs = read_inputs(
        sources.files,
        sources.hardware,
        sources.models,
        on_file=lambda shown: progress().advance(READING),
        threads=threads,
    )
    inputs = replace(inputs, passed_over=sources.passed_over)
    if options.strict and inputs.faults:
        raise UserError(f"Nothing was published, because of --strict:\n{faults_in_words(inputs)}")
    if inputs.serving_points.is_empty():
        raise UserError(f"No row of the tables can be used; nothing was published.\n{faults_in_words(inputs)}")
    engines = sources.engines.engines
    given = engine_library(sources.engines, sources.hardware, sources.models)
    if options.engines is not None and not given.serve_any(inputs.serving_points):
        raise UserError(
            f"No engine of {options.engines} is of a deployment of these tables, so it would change nothing: hardware, "
            "model, precisions, engine with its version, shape and setting must be the same. Nothing was published."
        )
    if options.calibrate:
        fitted = calibrate_points(inputs.serving_points, sources.hardware, sources.models, sources.scenarios)
        engines += fitted.engines
    return Prepared(
        options,
        sources.hardware,
        sources.models,
        sources.scenarios,
        inputs,
        sources.prices,
        EnginesFile(engines=engines),
    )


def synthesize(prepared: Prepared) -> pl.DataFrame:
    """The serving points of the tables, and where the options ask for them those that models of one architecture share
    and roofline points."""
    options, points = prepared.options, prepared.inputs.serving_points
    if options.uses_shipped_tables if options.share is None else options.share:
        points = share_rows(points, prepared.models)
    if not (options.uses_shipped_tables if options.synthesize is None else options.synthesize):
        return points
    return pl.concat([points, synthesize_missing(points, prepared.hardware, prepared.models, options.roofline)])


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


def synthesize_missing(
    points: pl.DataFrame, hardware: HardwareCatalogue, models: ModelCatalogue, preset: RooflinePreset
) -> pl.DataFrame:
    """Roofline points of each GPU and model of the catalogues that no table covers."""
    covered = set(points.select("decode_hardware", "model").unique().iter_rows())
    covered |= set(points.select("prefill_hardware", "model").unique().iter_rows())
    missing = [(gpu, spec) for spec in models for gpu in hardware if (gpu.slug, spec.slug) not in covered]
    return conform(synthesize_points(missing, hardware, preset), "serving_points")
