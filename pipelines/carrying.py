"""The second stage: serving points to agent points, frontiers and operating points, a partition at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from schemas.catalogue import HardwareCatalogue, ModelCatalogue
from schemas.frames import conform, in_columns_of
from schemas.options import MappingOptions, RooflinePreset
from schemas.scenarios import Scenario
from transforms.agent_points.carry import Setting, carry_points
from transforms.agent_points.idle_kv import scenario_under
from transforms.frontier import mark_frontiers
from transforms.operating_points import operating_points
from transforms.synthesize import synthesize_points


@dataclass(frozen=True)
class Partition:
    """All serving points of one model, on any hardware."""

    model: str
    points: pl.DataFrame


@dataclass(frozen=True)
class Carried:
    """A partition at one scenario: rows of the tables of these names, not yet validated."""

    agent_points: pl.DataFrame
    operating_points: pl.DataFrame


def synthesize_missing(
    points: pl.DataFrame, hardware: HardwareCatalogue, models: ModelCatalogue, preset: RooflinePreset
) -> pl.DataFrame:
    """Roofline points of each GPU and model of the catalogues that no table covers."""
    covered = set(points.select("decode_hardware", "model").unique().iter_rows())
    covered |= set(points.select("prefill_hardware", "model").unique().iter_rows())
    missing = [(gpu, spec) for spec in models for gpu in hardware if (gpu.slug, spec.slug) not in covered]
    return conform(synthesize_points(missing, hardware, preset), "serving_points")


def split_partitions(points: pl.DataFrame) -> list[Partition]:
    """The points by model, largest first."""
    parts = points.partition_by("model", as_dict=True, maintain_order=True)
    partitions = [Partition(str(key[0]), part) for key, part in parts.items()]
    return sorted(partitions, key=lambda partition: -partition.points.height)


def carry_partition(
    partition: Partition,
    scenarios: Sequence[Scenario],
    hardware: HardwareCatalogue,
    models: ModelCatalogue,
    options: MappingOptions,
) -> Iterator[Carried]:
    """The partition at each scenario."""
    spec = models.get(partition.model)
    for scenario in scenarios:
        setting = Setting(scenario_under(scenario, options), spec, hardware, options)
        carried = mark_frontiers(carry_points(partition.points, setting))
        yield Carried(in_columns_of(carried, "agent_points"), operating_points(carried, setting))
