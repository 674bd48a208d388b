"""All serving points of one model carried over to one scenario, in the order of the steps."""

from collections.abc import Callable
from dataclasses import dataclass, field

import polars as pl

from schemas.catalogue import HardwareCatalogue
from schemas.models import ModelSpec
from schemas.options import MappingOptions
from schemas.scenarios import Scenario
from transforms.agent_points.aggregated import carry_aggregated
from transforms.agent_points.capacity import add_capacity
from transforms.agent_points.columns import ROW_FIGURES, TURN_FIGURES
from transforms.agent_points.cost import add_cost
from transforms.agent_points.disaggregated import carry_disaggregated
from transforms.agent_points.evidence import add_evidence
from transforms.agent_points.feasibility import judge_points, name_curve_limits
from transforms.agent_points.gpu import Gpu, add_gpu_columns
from transforms.agent_points.idle_kv import add_reload
from transforms.agent_points.kv_wall import wall_points
from transforms.agent_points.ratio import carry_by_ratio
from transforms.agent_points.roofline_points import carry_roofline
from transforms.agent_points.roofline_pools import carry_roofline_pools
from transforms.agent_points.select import apply_direct, select_rows
from transforms.agent_points.sessions import add_session_figures, close_loop
from transforms.agent_points.workload import Workload, agent_workload
from transforms.cache import constant_hit_rate
from transforms.configurations import number_configurations


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
    scenario = setting.scenario
    if points.is_empty():
        return points
    numbered = number_configurations(add_gpu_columns(points.rename(ROW_FIGURES), setting.hardware))
    rows = select_rows(numbered, scenario)
    carried = apply_direct(_at_agent_workload(rows, numbered, setting), scenario)
    carried = add_reload(carried, scenario, setting.spec, setting.options)
    carried = close_loop(carried, scenario, setting.options.closed_loop).with_columns(interpolated=pl.lit(False))
    carried = add_evidence(carried, scenario)
    judged = judged_points(carried, setting)
    at_wall = wall_points(judged, scenario, setting.options.closed_loop)
    if not at_wall.is_empty():
        judged = pl.concat([judged, judged_points(at_wall, setting).select(judged.columns)])
    return _with_scenario(name_curve_limits(judged), setting)


def _at_agent_workload(rows: pl.DataFrame, told: pl.DataFrame, setting: Setting) -> pl.DataFrame:
    """The rows' turn figures at the agent's workload, each by the method that its row allows.

    ``told``: the rows of all workloads, of which ``rows`` are those that are carried.
    """
    spec, prefill_gpu, decode_gpu = setting.spec, Gpu.of_pool("prefill"), Gpu.of_pool("decode")
    agg = agent_workload(setting.scenario, spec.attention)
    disagg = agent_workload(setting.scenario, spec.attention, prefill_sees_output=False)
    is_agg, is_roofline = pl.col("serving_mode") == "agg", pl.col("source") == "roofline"
    has_steps = pl.col("mixed_step_ms").is_not_null() & pl.col("decode_step_ms").is_not_null()
    has_pools = ~is_agg & (pl.col("source") == "aiconfigurator")

    ways: list[tuple[pl.Expr, Workload, Callable[[pl.DataFrame], pl.DataFrame]]] = [
        (is_roofline & is_agg, agg, lambda part: carry_roofline(part, agg, spec, decode_gpu)),
        (is_roofline, disagg, lambda part: carry_roofline_pools(part, disagg, spec, prefill_gpu, decode_gpu)),
        (has_steps, agg, lambda part: carry_aggregated(part, agg, spec, decode_gpu, told.filter(has_steps))),
        (
            has_pools,
            disagg,
            lambda part: carry_disaggregated(part, disagg, spec, prefill_gpu, decode_gpu, told.filter(has_pools)),
        ),
        (is_agg, agg, lambda part: carry_by_ratio(part, agg, spec, prefill_gpu, decode_gpu)),
        (~is_agg, disagg, lambda part: carry_by_ratio(part, disagg, spec, prefill_gpu, decode_gpu)),
    ]
    figures = [*TURN_FIGURES, "serving_requests_per_s", "transfer_method"]
    parts = []
    rest = rows
    for takes, workload, carry in ways:
        part, rest = rest.filter(takes), rest.filter(~takes)
        if not part.is_empty():
            prefill_tokens = pl.lit(workload.mean.new_tokens).alias("prefill_tokens_per_turn")
            parts.append(carry(part).select(*rows.columns, *figures, prefill_tokens))
    return pl.concat(parts)


def judged_points(points: pl.DataFrame, setting: Setting) -> pl.DataFrame:
    """Points with ``sessions`` and turn figures, with what follows from them, memory and feasibility."""
    scenario, spec, options = setting.scenario, setting.spec, setting.options
    parts = [
        judge_points(
            add_capacity(add_session_figures(part, scenario), scenario, spec, options), scenario, spec, options
        )
        for part in points.partition_by("serving_mode", maintain_order=True)
    ]
    return add_cost(pl.concat(parts, how="diagonal"), setting.hardware)


def _with_scenario(points: pl.DataFrame, setting: Setting) -> pl.DataFrame:
    scenario = setting.scenario
    return points.with_columns(
        scenario=pl.lit(scenario.slug),
        scenario_name=pl.lit(scenario.name),
        cache_hit_rate=pl.lit(constant_hit_rate(scenario)),
        mean_context_tokens=pl.lit(scenario.mean_context_tokens),
        peak_context_tokens=pl.lit(scenario.peak_context_tokens),
    )
