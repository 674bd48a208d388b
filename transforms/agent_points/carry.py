"""All serving points of one model carried over to one scenario, in the order of the steps."""

from dataclasses import dataclass, field

import numpy as np
import polars as pl

from schemas.catalogue import HardwareCatalogue
from schemas.models import ModelSpec
from schemas.options import MappingOptions
from schemas.scenarios import Scenario
from transforms.agent_points.capacity import add_capacity
from transforms.agent_points.columns import TURN_FIGURES
from transforms.agent_points.cost import add_cost
from transforms.agent_points.evidence import add_evidence
from transforms.agent_points.feasibility import judge_points, name_curve_limits
from transforms.agent_points.idle_kv import add_reload
from transforms.agent_points.kv_wall import wall_points
from transforms.agent_points.labels import code
from transforms.agent_points.mixing import add_mix
from transforms.agent_points.percentiles import add_percentiles, add_prefill_slopes, scenario_spread
from transforms.agent_points.prepare import Part, PreparedPoints, prepare_points
from transforms.agent_points.rows import Flags, Rows
from transforms.agent_points.select import direct_figures
from transforms.agent_points.sessions import add_session_figures, close_loop
from transforms.agent_points.workload import agent_workload
from transforms.cache import constant_hit_rate
from transforms.numbers import Number


@dataclass(frozen=True)
class Setting:
    """What all points of one call share."""

    scenario: Scenario
    spec: ModelSpec
    hardware: HardwareCatalogue
    options: MappingOptions = field(default_factory=MappingOptions)


def carry_points(points: pl.DataFrame, setting: Setting) -> pl.DataFrame:
    """Serving points of one model, on any hardware, as agent points of one scenario.

    Takes rows of the table ``serving_points``; gives the columns of ``agent_points`` but for the
    frontier flags, and private ones. Interpolated points at the KV wall are among them.
    """
    return carry_prepared(prepare_points(points, setting.spec, setting.hardware), setting) if points.height else points


def carry_prepared(prepared: PreparedPoints, setting: Setting) -> pl.DataFrame:
    """As ``carry_points``, of points that may be carried to several scenarios."""
    with np.errstate(all="ignore"):  # what a row does not say, and what follows from it, is NaN here, then NULL
        carried = [frame for part in prepared.parts for frame in _carry_part(part, setting)]
    return _with_scenario(pl.concat(carried), setting)


def _carry_part(part: Part, setting: Setting) -> list[pl.DataFrame]:
    """The part's rows, and the points at the wall of their curves."""
    scenario, spec, options = setting.scenario, setting.spec, setting.options
    choice = part.choose(scenario)
    chosen = part.take(choice.rows)
    rows = add_prefill_slopes(_at_agent_workload(chosen, setting), chosen, scenario, spec)
    if choice.direct.any():
        rows = _with_direct(rows, choice.direct[choice.rows], part.rows.take(choice.miss), scenario)
    rows = add_reload(rows, scenario, spec, options)
    rows = close_loop(rows, scenario, options.closed_loop).with_figures(interpolated=False)
    roofline = part.roofline and f"{part.roofline} {'dense' if spec.moe is None else 'experts'}"
    rows = add_evidence(rows, scenario, part.mode, roofline)
    judged = judge_rows(rows, setting, aggregated=part.aggregated)
    at_wall = wall_points(judged, chosen.curves, scenario, options.closed_loop)
    points = [name_curve_limits(judged, chosen.curves).to_frame()]
    if len(at_wall):
        at_wall = judge_rows(at_wall.with_figures(interpolated=True), setting, aggregated=part.aggregated)
        points.append(
            at_wall.to_frame().with_columns(
                point_id=pl.col("point_id") + "-wall",
                concurrency_reported=pl.lit(None, pl.Float64),
                batch_per_rank=pl.lit(None, pl.Float64),
            )
        )
    return points


def _at_agent_workload(part: Part, setting: Setting) -> Rows:
    """The rows' turn figures at the agent's workload, each by the method that its row allows."""
    workload = agent_workload(setting.scenario, setting.spec.attention, prefill_sees_output=part.aggregated)
    codes = [code("transfer_method", carrier.method) for carrier, _ in part.carriers]
    method: Number = codes[0]
    if len(part.carriers) == 1:
        figures = part.carriers[0][0].carry(workload)
    else:
        figures = {name: np.empty(len(part.rows)) for name in (*TURN_FIGURES, "serving_requests_per_s")}
        method = np.empty(len(part.rows), np.int8)
        for number, (carrier, places) in zip(codes, part.carriers, strict=True):
            method[places] = number
            for name, values in carrier.carry(workload).items():
                figures[name][places] = values
    return part.rows.with_figures(figures, transfer_method=method, prefill_tokens_per_turn=workload.mean.new_tokens)


def _with_direct(rows: Rows, direct: Flags, misses: Rows, scenario: Scenario) -> Rows:
    """Rows of which some are at the agent's own workload: those with the table's own figures."""
    figures = {
        **direct_figures(rows.take(direct), misses, scenario),
        "transfer_method": code("transfer_method", "direct"),
    }
    changed = {name: np.broadcast_to(rows[name], len(rows)).copy() for name in figures}
    for name, values in figures.items():
        changed[name][direct] = values
    return rows.with_figures(changed)


def judge_rows(rows: Rows, setting: Setting, *, aggregated: bool) -> Rows:
    """Rows with ``sessions`` and turn figures, with what follows from them, memory, feasibility and cost."""
    scenario, spec, options = setting.scenario, setting.spec, setting.options
    rows = add_session_figures(rows, scenario)
    rows = add_percentiles(rows, constant_hit_rate(scenario), scenario_spread(scenario, spec, aggregated=aggregated))
    rows = add_mix(rows, scenario, spec, aggregated=aggregated)
    rows = add_capacity(rows, scenario, spec, options, aggregated=aggregated)
    return add_cost(judge_points(rows, scenario, spec, options))


def _with_scenario(points: pl.DataFrame, setting: Setting) -> pl.DataFrame:
    scenario = setting.scenario
    return points.with_columns(
        scenario=pl.lit(scenario.slug),
        scenario_name=pl.lit(scenario.name),
        cache_hit_rate=pl.lit(constant_hit_rate(scenario)),
        mean_context_tokens=pl.lit(scenario.mean_context_tokens),
        peak_context_tokens=pl.lit(scenario.peak_context_tokens),
        kv_layout=pl.lit(setting.options.kv_layout),
    )
