"""All serving points of one model carried over to one scenario, in the order of the steps."""

from dataclasses import dataclass, field

import numpy as np
import polars as pl

from schemas.catalogue import HardwareCatalogue
from schemas.models import ModelSpec
from schemas.options import MappingOptions
from schemas.scenarios import Scenario
from transforms.agent_points.curve.kv_wall import name_curve_limits, wall_points
from transforms.agent_points.judgement.cost import add_cost
from transforms.agent_points.judgement.evidence import add_bands, add_deviations, add_evidence
from transforms.agent_points.judgement.feasibility import judge_points
from transforms.agent_points.memory.capacity import add_capacity
from transforms.agent_points.memory.idle_kv import add_reload
from transforms.agent_points.memory.pool_memory import POOL_FIGURES
from transforms.agent_points.mixing import add_mix
from transforms.agent_points.percentiles import Spread, add_percentiles, add_prefill_slopes
from transforms.agent_points.prepare import PreparedPoints, RowGroup, prepare_points
from transforms.agent_points.rows.rows import Rows
from transforms.agent_points.service import Service, add_turns, add_turns_that_evict
from transforms.agent_points.sessions import add_session_figures, close_loop
from transforms.cache import constant_hit_rate, evicts
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
    scenario, spec, options = setting.scenario, setting.spec, setting.options
    service = Service.of_group(group, scenario, spec, options)
    chosen = service.group
    rows = (add_turns_that_evict if evicts(scenario, options) else add_turns)(service, scenario, spec, options)
    rows = add_reload(add_prefill_slopes(rows, chosen, scenario, spec), scenario, spec)
    rows = close_loop(rows, scenario, options.closed_loop).with_figures(interpolated=False)
    roofline = group.roofline and f"{group.roofline} {'dense' if spec.moe is None else 'experts'}"
    is_latent = any(group.kind == "mla" for group in spec.attention)
    rows = add_evidence(add_deviations(rows, service), scenario, group.mode, roofline, is_latent)
    judged = complete_points(rows, setting, aggregated=group.aggregated)
    at_wall = wall_points(judged, chosen.curves, scenario, options.closed_loop)
    points = [_to_frame(name_curve_limits(judged, chosen.curves), setting)]
    if len(at_wall):
        at_wall = complete_points(at_wall.with_figures(interpolated=True), setting, aggregated=group.aggregated)
        points.append(
            _to_frame(at_wall, setting).with_columns(
                point_id=pl.col("point_id") + "-wall",
                concurrency_reported=pl.lit(None, pl.Float64),
                batch_per_rank=pl.lit(None, pl.Float64),
            )
        )
    return points


def _to_frame(points: Rows, setting: Setting) -> pl.DataFrame:
    """The points with what the scenario is, without the private figures that are found anew for every load
    (``complete_points``)."""
    scenario = setting.scenario
    of_scenario = {
        "scenario": scenario.slug,
        "scenario_name": scenario.name,
        "cache_model": "lru" if evicts(scenario, setting.options) else scenario.cache.model,
        "mean_context_tokens": scenario.mean_context_tokens,
        "peak_context_tokens": scenario.peak_context_tokens,
        "kv_layout": setting.options.kv_layout,
    }
    return points.without_figures((*POOL_FIGURES, "_parked_limit")).with_figures(of_scenario).to_frame()


def complete_points(rows: Rows, setting: Setting, *, aggregated: bool) -> Rows:
    """Rows with ``sessions`` and turn figures, with what follows from them, memory, feasibility and cost."""
    scenario, spec, options = setting.scenario, setting.spec, setting.options
    rows = add_session_figures(rows, scenario)
    hit_rate = rows["cache_hit_rate"] if evicts(scenario, options) else constant_hit_rate(scenario)
    rows = add_percentiles(rows, hit_rate, Spread(scenario, spec, aggregated))
    rows = add_mix(rows, scenario, spec, aggregated=aggregated)
    rows = add_capacity(rows, scenario, spec, options, aggregated=aggregated)
    return add_cost(judge_points(add_bands(rows, scenario), scenario, spec, options))
