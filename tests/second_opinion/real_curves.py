"""Curves of shipped tables and of the roofline, carried to scenarios by the product."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import polars as pl

from pipelines.reading.catalogues import SHIPPED, load_hardware, load_models, load_scenarios
from pipelines.reading.inputs import find_files
from pipelines.reading.read_inputs import read_inputs
from schemas.options import ClosedLoop, MappingOptions, RooflinePreset
from schemas.scenarios import Scenario
from tests.second_opinion.curve import Curve
from transforms.agent_points.carry import Setting, carry_points, carry_prepared
from transforms.agent_points.prepare import prepare_points
from transforms.configurations import SCHEDULE_ID
from transforms.operating_points.points import operating_points
from transforms.synthesis.points import synthesize_points

CANDIDATES = SHIPPED / "tables" / "aiconfigurator" / "candidates"
#: 70B on H100, aggregated and disaggregated; mixtures of experts with attention data parallelism on H200.
TABLES = (
    "h100_sxm__llama-3.1-70b__isl4000_osl1000__agg.csv.gz",
    "h100_sxm__llama-3.1-70b__isl4000_osl1000__disagg.csv.gz",
    "h200_sxm__qwen3-235b-a22b__isl4000_osl1000__agg.csv.gz",
    "h200_sxm__deepseek-v3__isl4000_osl1000__agg.csv.gz",
)
#: Points that tell a curve from a line.
FEWEST_POINTS = 4


@dataclass(frozen=True)
class Replica:
    """One configuration at one scenario: its curve as agent points tell it, and the sessions it admits."""

    curve: Curve
    schedule: int
    max_sessions: float
    gpus: int


def scenario(slug: str, **changes: object) -> Scenario:
    """A shipped scenario, some fields changed."""
    (found,) = load_scenarios([slug])
    return Scenario.model_validate(found.model_dump() | changes)


@cache
def table_points(name: str) -> pl.DataFrame:
    """The serving points of one shipped table."""
    points = read_inputs(find_files([CANDIDATES / name]), load_hardware(), load_models()).serving_points
    assert points.height > 0, name
    return points


@cache
def roofline_points(hardware: str, model: str, preset: RooflinePreset) -> pl.DataFrame:
    """The synthesised serving points of one model on one GPU."""
    return synthesize_points([(load_hardware().get(hardware), load_models().get(model))], load_hardware(), preset)


def setting_of(points: pl.DataFrame, at: Scenario, closed_loop: ClosedLoop = "arrival") -> Setting:
    """What the product needs to carry points of one model and GPU to the scenario."""
    gpus = load_hardware()
    model = str(points["model"].first())
    return Setting(at, load_models().get(model), gpus, MappingOptions(closed_loop=closed_loop))


def replicas(points: pl.DataFrame, at: Scenario) -> Iterator[Replica]:
    """The configurations whose curve starts at a batch of one, in a fixed order.

    Where the requests in flight no longer rise from row to row the curve ends: the table's own latency is
    capped there (AIConfigurator's queue factor).
    """
    c = pl.col
    stations = pl.coalesce("dp", c("decode_workers") * c("decode_dp"))
    carried = carry_points(points, setting_of(points, at)).filter(~c("interpolated"))
    carried = carried.with_columns(
        _stations=stations, _b=c("serving_requests_per_s") * c("turn_latency_ms") / 1e3 / stations
    )
    parts = carried.sort("batch_per_rank").partition_by(SCHEDULE_ID, as_dict=True)
    for (schedule,), rows in sorted(parts.items()):
        b, latency_s = rows["_b"].to_numpy(), rows["turn_latency_ms"].to_numpy() / 1e3
        falls = np.flatnonzero(np.diff(b) <= 0)
        end = int(falls[0]) + 1 if falls.size else len(b)
        if end < FEWEST_POINTS or rows["batch_per_rank"].item(0) > 1:
            continue
        first = rows.row(0, named=True)
        curve = Curve(_name(first), b[:end], latency_s[:end], int(first["_stations"]))
        yield Replica(curve, int(schedule), float(rows["max_sessions"].max()), int(first["gpus_per_replica"]))  # type: ignore[arg-type]


def first_replica(points: pl.DataFrame, at: Scenario, gpus: int, stations: int | None = None) -> Replica:
    """The first configuration of so many GPUs (and stations)."""
    return next(
        replica
        for replica in replicas(points, at)
        if replica.gpus == gpus and stations in (None, replica.curve.stations)
    )


def operating_point(points: pl.DataFrame, replica: Replica, at: Scenario, closed_loop: ClosedLoop) -> dict[str, Any]:
    """The product's operating point of one configuration, on GPUs for one replica."""
    on_one = at.model_copy(update={"gpus": replica.gpus})
    setting = setting_of(points, on_one, closed_loop)
    prepared = prepare_points(points, setting.spec, setting.hardware)
    carried = carry_prepared(prepared, setting).filter(pl.col(SCHEDULE_ID) == replica.schedule)
    return operating_points(carried, setting, prepared.lookups).row(0, named=True)


def _name(row: dict[str, object]) -> str:
    hardware, model, mode = row["hardware"], row["model"], row["serving_mode"]
    layout = f"tp{row['tp']} dp{row['dp']}" if mode == "agg" else f"{row['prefill_workers']}p{row['decode_workers']}d"
    kind = f" roofline {row['backend_version']}" if row["source"] == "roofline" else ""
    return f"{model} {hardware}{kind} {mode} {layout}"
