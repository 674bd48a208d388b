"""All serving points of one model carried over to one scenario, in the order of the steps."""

from dataclasses import dataclass, field

import numpy as np
import polars as pl

from schemas.catalogue import HardwareCatalogue
from schemas.models import ModelSpec
from schemas.options import MappingOptions
from schemas.scenarios import Scenario
from transforms.agent_points.agent import Agent
from transforms.agent_points.curve.kv_wall import name_curve_limits, wall_points
from transforms.agent_points.judgement.cost import add_cost
from transforms.agent_points.judgement.evidence import add_bands, add_evidence
from transforms.agent_points.judgement.feasibility import judge_points
from transforms.agent_points.memory.capacity import add_capacity
from transforms.agent_points.memory.pool_memory import POOL_FIGURES
from transforms.agent_points.mixing import add_mix
from transforms.agent_points.percentiles import add_percentiles
from transforms.agent_points.prepare import PreparedPoints, RowGroup, prepare_points
from transforms.agent_points.rows.rows import Rows
from transforms.agent_points.service import Service, served_turns
from transforms.agent_points.sessions import add_session_figures, close_loop
from transforms.cache import evicts
from transforms.calibration.known_engines import Engines


@dataclass(frozen=True)
class Setting:
    """What all points of one call share."""

    scenario: Scenario
    spec: ModelSpec
    hardware: HardwareCatalogue
    options: MappingOptions = field(default_factory=MappingOptions)
    engines: Engines | None = None


def carry_points(points: pl.DataFrame, setting: Setting) -> pl.DataFrame:
    """Serving points of one model, on any hardware, as agent points of one scenario.

    Takes rows of the table ``serving_points``; gives the columns of ``agent_points`` but for the
    frontier flags, and private ones. Interpolated points at the KV wall are among them.
    """
    if points.is_empty():
        return points
    return carry_prepared(prepare_points(points, setting.spec, setting.hardware, setting.engines), setting)


def carry_prepared(prepared: PreparedPoints, setting: Setting) -> pl.DataFrame:
    """As ``carry_points``, of points that may be carried to several scenarios."""
    with np.errstate(all="ignore"):  # what a row does not say, and what follows from it, is NaN here, then NULL
        carried = [frame for group in prepared.groups for frame in _carry_group(group, setting)]
    return pl.concat(carried)


def _carry_group(group: RowGroup, setting: Setting) -> list[pl.DataFrame]:
    """The group's rows, and the points at the wall of their curves."""
    options = setting.options
    agent = Agent.of(setting.scenario, setting.spec, aggregated=group.aggregated)
    service = Service.of_group(group, agent, options)
    curves = service.group.curves
    rows = served_turns(service, options)
    rows = add_evidence(rows, service)
    rows = close_loop(rows, agent.think_time_s, options.closed_loop).with_figures(interpolated=False)
    rows = complete_points(rows, agent, options)
    at_wall = wall_points(rows, curves, agent.think_time_s, options.closed_loop)
    points = [name_curve_limits(rows, curves)]
    if len(at_wall):
        points.append(complete_points(at_wall.with_figures(interpolated=True), agent, options))
    return [_to_frame(some, agent.scenario, options) for some in points]


def _to_frame(points: Rows, scenario: Scenario, options: MappingOptions) -> pl.DataFrame:
    """The points with what the scenario is, without the private figures that are found anew for every load
    (``complete_points``). A point at the wall is no row: it has no batch, and a name of its own."""
    of_scenario = {
        "scenario": scenario.slug,
        "scenario_name": scenario.name,
        "cache_model": "lru" if evicts(scenario, options) else scenario.cache.model,
        "mean_context_tokens": scenario.mean_context_tokens,
        "peak_context_tokens": scenario.peak_context_tokens,
        "kv_layout": options.kv_layout,
    }
    frame = points.without_figures((*POOL_FIGURES, "_parked_limit")).with_figures(of_scenario).to_frame()
    if not points["interpolated"]:
        return frame
    return frame.with_columns(
        point_id=pl.col("point_id") + "-wall",
        concurrency_reported=pl.lit(None, pl.Float64),
        batch_per_rank=pl.lit(None, pl.Float64),
    )


def complete_points(rows: Rows, agent: Agent, options: MappingOptions) -> Rows:
    """Rows with ``sessions`` and turn figures, with what follows from them, memory, feasibility and cost."""
    rows = add_session_figures(rows, agent)
    hit_rate = rows["cache_hit_rate"] if evicts(agent.scenario, options) else agent.hit_rate
    rows = add_percentiles(rows, hit_rate, agent)
    rows = add_capacity(add_mix(rows, agent), agent, options)
    return add_cost(judge_points(add_bands(rows, agent), agent, options))
