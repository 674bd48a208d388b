"""The stages of a build, each a plain function: find, read, synthesize, divide, publish. No Prefect here.

What stands between, carrying the points, is ``carrying.py``.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import metadata
from typing import Any

import polars as pl

from pipelines.building.calibrating import ENGINES_FILE, calibrate_points, engine_library
from pipelines.building.carrying import (
    CARRYING,
    Job,
    Partition,
    Workplace,
    split_partitions,
    synthesize_missing,
)
from pipelines.building.catalogue_tables import hardware_table, models_table, prices_table, scenarios_table
from pipelines.building.incremental import (
    PARTITIONS_FILE,
    Key,
    PartitionHasher,
    PartitionRecord,
    Previous,
    fingerprint,
    seen_files,
)
from pipelines.building.star import COLUMNS_OF, STORED, put_aside_again, write_dimensions, write_facts
from pipelines.lake.durable import disk_failures_explained
from pipelines.lake.parts import DamagedPartError, link_part, write_parts
from pipelines.lake.release import ReleaseWriter
from pipelines.live.asking import ask_aiconfigurator
from pipelines.progress import progress
from pipelines.reading.catalogues import SHIPPED_TABLES, load_hardware, load_models, load_prices, load_scenarios
from pipelines.reading.engines import load_engines
from pipelines.reading.evaluations import load_evaluation
from pipelines.reading.faults import faults_in_words
from pipelines.reading.folders import PassedOver
from pipelines.reading.inputs import FoundFile, search, with_distinct_names
from pipelines.reading.read_inputs import READING, Inputs, read_inputs
from schemas.catalogue import HardwareCatalogue, ModelCatalogue
from schemas.dictionary import column_comments, dictionary_table, render_dictionary
from schemas.engines import NO_ENGINES, EnginesFile
from schemas.errors import UserError
from schemas.frames import empty_frame
from schemas.options import BuildOptions
from schemas.prices import Price, with_prices
from schemas.scenarios import Scenario
from schemas.tables import SCHEMA_VERSION, TABLES
from transforms.configurations import in_curve_order
from transforms.serving_points.sharing import share_rows

PARTITIONED = ("serving_points", "agent_points", "agent_frontier", "operating_points", "mix_components")
#: Files that are linked or copied at a time: a file system answers several as fast as one.
LINKING_THREADS = 8


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


@dataclass(frozen=True)
class Division:
    """The release to come: partitions that stand in it already, and the jobs that give the others."""

    records: list[PartitionRecord]
    jobs: list[Job]
    damaged: int


def find(options: BuildOptions) -> BuildSources:
    """The catalogues and the files that the options name. Raises ``UserError`` for what is not there or wrong."""
    if options.evaluation is not None:
        load_evaluation(options.evaluation)  # a wrong file is said before the work begins
    hardware, models = load_hardware(options.hardware), load_models(options.models)
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


def plan_partitions(points: pl.DataFrame) -> list[Partition]:
    """The points by model, largest first."""
    return split_partitions(points)


def divide(
    prepared: Prepared, partitions: Sequence[Partition], previous: Previous | None, release: ReleaseWriter
) -> Division:
    """Puts into the release what is as in ``previous``, and the other serving points; the rest are jobs."""
    every_point = pl.concat([partition.points for partition in partitions])
    write_dimensions(every_point, prepared.hardware, prepared.models, prepared.scenarios, release)
    hasher = PartitionHasher(
        prepared.hardware, prepared.models, prepared.scenarios, prepared.options.mapping, prepared.engines
    )
    hashes = {partition.model: hasher.hashes(partition.points) for partition in partitions}
    every = {key: sha256 for of_model in hashes.values() for key, sha256 in of_model.items()}
    kept: list[PartitionRecord] = []
    damaged = 0
    if previous is not None:
        kept, damaged = _carry_over(every, previous, release)
        put_aside_again(kept, previous, release.staging)
    there = {record.key for record in kept}
    jobs = []
    for partition in partitions:
        missing = {key: sha256 for key, sha256 in hashes[partition.model].items() if key not in there}
        kept += _write_serving_points(partition, missing, release)
        wanted = {key: sha256 for key, sha256 in missing.items() if key.scenario is not None}
        if wanted:
            jobs.append(Job(partition.model, wanted))
    progress().start(CARRYING, len(jobs))
    return Division(kept, jobs, damaged)


def _write_serving_points(
    partition: Partition, missing: Mapping[Key, str], release: ReleaseWriter
) -> list[PartitionRecord]:
    """Writes the serving points of each GPU that the release does not have yet."""
    gpus = [key.hardware for key in missing if key.scenario is None]
    if not gpus:
        return []
    points = in_curve_order(partition.points.filter(pl.col("hardware").is_in(gpus)))
    with disk_failures_explained(release.lake.root):
        parts = write_parts(release.staging, "serving_points", points, TABLES["serving_points"].partitions)
    keys = {f"hardware={gpu}/model={partition.model}": Key(gpu, partition.model) for gpu in gpus}
    return [
        PartitionRecord(*keys[part.folder], inputs_sha256=missing[keys[part.folder]], parts=(part,)) for part in parts
    ]


def _carry_over(
    hashes: Mapping[Key, str], previous: Previous, release: ReleaseWriter
) -> tuple[list[PartitionRecord], int]:
    """Links the unchanged partitions; gives their records, and how many of them turned out to be damaged."""
    same = [record for key, record in previous.records.items() if hashes.get(key) == record.inputs_sha256]

    def carry_over(record: PartitionRecord) -> PartitionRecord | None:
        try:
            for part in record.parts:
                link_part(part, previous.release.path, release.staging)
        except DamagedPartError:
            for part in record.parts:
                (release.staging / part.path).unlink(missing_ok=True)
            return None
        return record

    with disk_failures_explained(release.lake.root), ThreadPoolExecutor(LINKING_THREADS) as threads:
        carried = [record for record in threads.map(carry_over, same) if record is not None]
    return carried, len(same) - len(carried)


def workplace(prepared: Prepared, release: ReleaseWriter) -> Workplace:
    """What the jobs of this build need."""
    return Workplace(
        release.staging,
        prepared.hardware,
        prepared.models,
        prepared.scenarios,
        prepared.options.mapping,
        prepared.engines,
    )


def adopt(records: Iterable[PartitionRecord], release: ReleaseWriter) -> None:
    """Makes the files of the records part of the release."""
    parts = [part for record in records for part in record.parts]
    for table in PARTITIONED:
        schema, by = empty_frame(table).schema, TABLES[table].partitions
        release.adopt(table, schema, by, (part for part in parts if part.table == table))


def publish(prepared: Prepared, release: ReleaseWriter, records: Sequence[PartitionRecord] = ()) -> str:
    """Writes the tables that have no partitions and publishes; gives the release's id."""
    inputs, options = prepared.inputs, prepared.options
    release.write_table("quarantine", inputs.quarantine, folder=True)
    release.write_table("sources", inputs.sources, folder=True)
    if not inputs.measured_agentic.is_empty():
        release.write_table("measured_agentic", inputs.measured_agentic)
    if options.evaluation is not None:
        release.write_table("evaluation", load_evaluation(options.evaluation))
    release.write_table("hardware", hardware_table(prepared.hardware))
    release.write_table("models", models_table(prepared.models))
    release.write_table("scenarios", scenarios_table(prepared.scenarios))
    release.write_table("prices", prices_table(prepared.prices))
    release.write_table("data_dictionary", dictionary_table())
    facts = write_facts(release)
    release.write_text("DATA_DICTIONARY.md", render_dictionary())
    if prepared.engines.engines:
        release.write_text(ENGINES_FILE, prepared.engines.model_dump_json())
    extra: dict[str, object] = {
        "faults": inputs.faults,
        "prices": [price.model_dump(mode="json") for price in prepared.prices],
    }
    if records and prepared.inputs_sha256 is not None:  # the next build may start from this release
        records = sorted(records, key=lambda record: str(record.key))
        extra["inputs_sha256"] = prepared.inputs_sha256
        extra["partitions"] = {str(record.key): record.inputs_sha256 for record in records}
        content = {"partitions": [record.to_json() for record in records], "facts": facts}
        release.write_text(PARTITIONS_FILE, json.dumps(content))
    published = release.publish(
        config=options.model_dump(mode="json"),
        code_version=metadata.version("agent-pareto"),
        schema_version=SCHEMA_VERSION,
        inputs=[
            {"path": account.path, "sha256": account.sha256, "format": account.format} for account in inputs.accounts
        ],
        table_comments={name: table.description for name, table in TABLES.items()},
        column_comments={name: column_comments(name) for name in TABLES},
        stored=STORED,
        columns_of=COLUMNS_OF,
        extra=extra,
    )
    return published.id
