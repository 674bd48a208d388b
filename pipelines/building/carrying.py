"""The second stage: serving points to agent points, frontiers and operating points, a partition at a time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from pipelines.building.build_inputs import engine_library
from pipelines.building.incremental import Key, PartitionRecord
from pipelines.building.star import put_aside
from pipelines.lake.durable import disk_failures_explained
from pipelines.lake.parts import Part, write_parts
from pipelines.progress import progress
from schemas.catalogue import HardwareCatalogue, ModelCatalogue
from schemas.engines import EnginesFile
from schemas.errors import UserError
from schemas.frames import conform, in_columns_of
from schemas.options import MappingOptions
from schemas.scenarios import Scenario
from schemas.tables import TABLES
from transforms.agent_points.carry import Setting, carry_prepared
from transforms.agent_points.memory.idle_kv import scenario_under
from transforms.agent_points.mixing import mix_components
from transforms.agent_points.prepare import PreparedPoints, has_measured_rows, prepare_points
from transforms.agent_points.routing import by_replicas
from transforms.frontier import mark_frontiers
from transforms.operating_points.points import operating_points

CARRYING = "Carrying points to agents"
#: Agent points that are validated and written together.
BATCH_ROWS = 100_000
#: Serving points of one model that are prepared together, more of one GPU excepted.
PREPARED_ROWS = 40_000


@dataclass(frozen=True)
class Partition:
    """Serving points of one model, on any hardware."""

    model: str
    points: pl.DataFrame


@dataclass(frozen=True)
class Carried:
    """A partition at one scenario: rows of the tables of these names, not yet validated."""

    agent_points: pl.DataFrame
    operating_points: pl.DataFrame
    mix_components: pl.DataFrame


@dataclass(frozen=True)
class Job:
    """Partitions of one model to compute, each with the hash of its inputs."""

    model: str
    hashes: Mapping[Key, str]


@dataclass(frozen=True)
class Workplace:
    """What whoever computes jobs needs. No frame: the serving points are read from the release being written."""

    release: Path
    hardware: HardwareCatalogue
    models: ModelCatalogue
    scenarios: tuple[Scenario, ...]
    options: MappingOptions
    engines: EnginesFile


def split_partitions(points: pl.DataFrame) -> list[Partition]:
    """The points by model, largest first."""
    # one after the other: dividing all at once takes the memory of several copies
    rows = points.select("model", _row=pl.int_range(pl.len())).group_by("model", maintain_order=True).agg("_row")
    partitions = [Partition(model, points[of_model]) for model, of_model in zip(*rows, strict=True)]
    return sorted(partitions, key=lambda partition: -partition.points.height)


def carry_partition(
    partition: Partition,
    scenarios: Sequence[Scenario],
    hardware: HardwareCatalogue,
    models: ModelCatalogue,
    options: MappingOptions,
    engines: EnginesFile,
) -> Iterator[Carried]:
    """The partition at each scenario."""
    spec = models.get(partition.model)
    library = engine_library(engines, hardware, models) if has_measured_rows(partition.points) else None
    prepared = prepare_points(partition.points, spec, hardware, library)
    for scenario in scenarios:
        yield _carry_to(Setting(scenario_under(scenario, options), spec, hardware, options), prepared)


def _carry_to(setting: Setting, prepared: PreparedPoints) -> Carried:
    """Points at one scenario; those of random routing by the number of replicas that it chooses among."""
    each = [
        _carry_part(replace(setting, scenario=scenario), of_number)
        for scenario, of_number in by_replicas(setting.scenario, prepared)
    ]
    if len(each) == 1:
        return each[0]
    points, operating = (
        mark_frontiers(pl.concat(getattr(part, name) for part in each)) for name in ("agent_points", "operating_points")
    )
    return Carried(points, operating, each[0].mix_components)


def _carry_part(setting: Setting, prepared: PreparedPoints) -> Carried:
    carried = mark_frontiers(carry_prepared(prepared, setting))
    return Carried(
        in_columns_of(carried, "agent_points"),
        operating_points(carried, setting, prepared.lookups),
        mix_components(carried, setting.scenario),
    )


def compute(jobs: Sequence[Job], place: Workplace) -> list[PartitionRecord]:
    """Carries the jobs' partitions to their scenarios and writes them, in batches of rows.

    May run anywhere that sees the release's folder, and may be run again.
    """
    records: list[PartitionRecord] = []
    batch: list[Carried] = []
    for job in jobs:
        for carried in _carry_job(job, place):
            batch.append(carried)
            if sum(carried.agent_points.height for carried in batch) >= BATCH_ROWS:
                records += _write_batch(batch, place.release)
                batch.clear()
        progress().advance(CARRYING)
    records += _write_batch(batch, place.release)
    hashes = {key: sha256 for job in jobs for key, sha256 in job.hashes.items()}
    return [replace(record, inputs_sha256=hashes[record.key]) for record in records]


def _carry_job(job: Job, place: Workplace) -> Iterator[Carried]:
    """The job's partitions at each scenario, some hardware at once: configurations never span it."""
    frames: list[pl.DataFrame] = []
    hardware = list(dict.fromkeys(key.hardware for key in job.hashes))
    for gpu in hardware:
        frames.append(_read_serving_points(job.model, [gpu], place.release))
        if gpu == hardware[-1] or sum(frame.height for frame in frames) >= PREPARED_ROWS:
            yield from _carry_points(pl.concat(frames), job, place)
            frames.clear()


def _carry_points(points: pl.DataFrame, job: Job, place: Workplace) -> Iterator[Carried]:
    """Serving points of the job at each scenario that their partitions are missing."""
    hardware = points["hardware"].unique(maintain_order=True).to_list()
    wanted: dict[tuple[str, ...], list[Scenario]] = {}
    for scenario in place.scenarios:
        gpus = tuple(gpu for gpu in hardware if Key(gpu, job.model, scenario.slug) in job.hashes)
        wanted.setdefault(gpus, []).append(scenario)
    for gpus, scenarios in wanted.items():
        if gpus:
            part = points if len(gpus) == len(hardware) else points.filter(pl.col("hardware").is_in(gpus))
            yield from carry_partition(
                Partition(job.model, part), scenarios, place.hardware, place.models, place.options, place.engines
            )


def _read_serving_points(model: str, hardware: Iterable[str], release: Path) -> pl.DataFrame:
    """Serving points as ``divide`` has put them into the release. Raises ``UserError`` where they are not seen."""
    frames = []
    for gpu in hardware:
        path = release / "serving_points" / f"hardware={gpu}" / f"model={model}" / "part-0.parquet"
        try:
            frame = pl.read_parquet(path, glob=False, hive_partitioning=False)
        except OSError as error:
            raise UserError(
                f"{path} cannot be read ({error.strerror or error}): all workers must see the lake's folder "
                "under the same path."
            ) from error
        frames.append(frame.with_columns(hardware=pl.lit(gpu), model=pl.lit(model)))
    return in_columns_of(pl.concat(frames), "serving_points")


def _write_batch(batch: Sequence[Carried], release: Path) -> list[PartitionRecord]:
    """Validates and writes; a partition is in one batch with all its rows."""
    if not batch:
        return []
    # in one piece all that follows is faster
    agents = conform(pl.concat([carried.agent_points for carried in batch], rechunk=True), "agent_points")
    frontier = agents.filter(pl.col("on_frontier") | pl.col("on_frontier_3d"))
    operating = conform(pl.concat([carried.operating_points for carried in batch]), "operating_points")
    mixes = conform(pl.concat([carried.mix_components for carried in batch]), "mix_components")
    frames = {"agent_points": agents, "agent_frontier": frontier}
    frames |= {"operating_points": operating, "mix_components": mixes}
    parts: dict[str, list[Part]] = {}
    with disk_failures_explained(release.parent.parent):
        for table, frame in frames.items():
            put_aside(release, table, frame)
            for part in write_parts(release, table, frame, TABLES[table].partitions):
                parts.setdefault(part.folder, []).append(part)
    summary = agents.group_by("hardware", "model", "scenario", maintain_order=True).agg(
        agent_points=pl.len().cast(pl.Int64),
        feasible=pl.col("feasible").sum().cast(pl.Int64),
        frontier=pl.col("on_frontier").sum().cast(pl.Int64),
        best_tasks_per_hour_per_gpu=pl.col("tasks_per_hour_per_gpu").filter("feasible").max(),
        best_weight_dtype=pl.col("weight_dtype")
        .sort_by("tasks_per_hour_per_gpu")
        .filter(pl.col("feasible").sort_by("tasks_per_hour_per_gpu"))
        .last(),
    )
    records = []
    for row in summary.to_dicts():
        folder = "/".join(f"{name}={row[name]}" for name in TABLES["agent_points"].partitions)
        records.append(PartitionRecord(**row, inputs_sha256="", parts=tuple(parts[folder])))
    return records
