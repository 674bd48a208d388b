"""Each configuration at the sessions that its scenario fixes (Step 7, model.md 5.7)."""

import numpy as np
import polars as pl

from schemas.arrays import Array
from schemas.frames import empty_frame, in_columns_of
from schemas.models import ModelSpec
from transforms.agent_points.agent import Agent
from transforms.agent_points.carriers.roofline import RooflineReplica, turn_times
from transforms.agent_points.carriers.workload import AgentTurns
from transforms.agent_points.carry import Setting, complete_points
from transforms.agent_points.curve.between import (
    at_sessions,
    brackets_of,
    sessions_held,
)
from transforms.agent_points.judgement.feasibility import WALL_REASONS, WALL_TOLERANCE
from transforms.agent_points.memory.idle_kv import add_reload, reload_ms
from transforms.agent_points.rows.columns import BETWEEN_ROWS, RATE, RATES, with_own_rate
from transforms.agent_points.rows.gpu import Gpu
from transforms.agent_points.rows.lookups import Deployed, Lookups
from transforms.agent_points.rows.rows import Rows
from transforms.agent_points.service import at_end
from transforms.cache import constant_hit_rate, evicts
from transforms.configurations import CONFIGURATION_ID, SCHEDULE_ID
from transforms.equations import closed_loop as loop
from transforms.frontier import mark_frontiers
from transforms.operating_points.hit_rates import rows_at, settle_at_sessions

#: Solutions within rounding of a curve's end are on it.
END_TOLERANCE = 1e-9
#: Hit rates that are no further apart are one.
SAME_HIT_RATE = 1e-4


def operating_points(agent_points: pl.DataFrame, setting: Setting, lookups: Lookups) -> pl.DataFrame:
    """One row for each configuration of the agent points of one scenario and model, as they were carried.

    The replicas that fit the scenario's GPUs share its sessions evenly; figures are those of the
    fuller replicas. A replica admits what its memory holds. Empty where the scenario fixes no sessions.
    """
    scenario = setting.scenario
    if scenario.sessions is None or scenario.gpus is None or agent_points.is_empty():
        return empty_frame("operating_points")
    curves = lookups.add_to(_curves(agent_points, scenario.sessions, scenario.gpus))
    rows = agent_points
    if evicts(scenario, setting.options):  # all rows of tables are moved to other hit rates
        rows = lookups.add_to(rows.filter(~pl.col("interpolated")))
    fuller, cold = _solve(curves, rows, "_share_high", setting)
    even = (curves["_share_high"] == curves["_share_low"]).all()
    emptier = fuller if even else _solve(curves, rows, "_share_low", setting)[0]
    c = pl.col
    fuller = _with_cold_start(fuller, cold)
    points = _with_waiting(fuller, curves, rows, setting).with_columns(
        _emptier_turns_per_s=emptier["turns_per_s"],
        _emptier_sessions=emptier["sessions"],
        # a share for which the curve has no answer leaves the whole without one
        infeasible_reason=pl.coalesce(
            "infeasible_reason", pl.when(c("_share_low") > 0).then(emptier["infeasible_reason"])
        ),
    )
    solved = c("infeasible_reason").is_null()
    low_replicas = c("replicas") - c("_high_replicas")

    def over_replicas(high: pl.Expr, low: pl.Expr) -> pl.Expr:
        both = c("_high_replicas") * high + pl.when(c("_share_low") > 0).then(low_replicas * low).otherwise(0.0)
        return pl.when(solved).then(both).otherwise(0.0)

    points = points.with_columns(
        feasible=solved,
        gpus=pl.lit(scenario.gpus),
        sessions_wanted=pl.lit(float(scenario.sessions)),
        sessions_admitted=over_replicas(c("sessions"), c("_emptier_sessions")),
        cluster_turns_per_s=over_replicas(c("turns_per_s"), c("_emptier_turns_per_s")),
        interpolated=pl.lit(True),
        concurrency_reported=pl.lit(None, pl.Float64),
        batch_per_rank=pl.lit(None, pl.Float64),
        point_id=c("point_id") + "-op",
    )
    return in_columns_of(mark_frontiers(points), "operating_points")


def _curves(agent_points: pl.DataFrame, sessions: int, gpus: int) -> pl.DataFrame:
    """One row a configuration: its replicas, their shares of the sessions, and what they admit (``_cap``)."""
    curves = agent_points.group_by(SCHEDULE_ID, maintain_order=True).agg(
        pl.col(CONFIGURATION_ID).first(),
        _cap=sessions_held(),
        _gpus_per_replica=pl.col("gpus_per_replica").first(),
    )
    replicas = pl.lit(gpus) // pl.col("_gpus_per_replica")
    shares = pl.max_horizontal(replicas, 1)
    shared = curves.with_columns(
        replicas=replicas,
        _high_replicas=pl.when(sessions % shares == 0).then(shares).otherwise(sessions % shares),
        _share_high=((sessions + shares - 1) // shares).cast(pl.Float64),
        _share_low=(sessions // shares).cast(pl.Float64),
    )
    return shared.drop("_gpus_per_replica")


def _solve(
    curves: pl.DataFrame, rows: pl.DataFrame, share: str, setting: Setting
) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """The curves with figures at ``min(share, cap)`` sessions, in the order of the curves.

    Where memory evicts, all sessions are let in, and the hit rates are those that they bring about: from a warm
    cache, and from an empty one. What stops them then is what must fit in flight.
    """
    wanted = curves.with_columns(_wanted=share)
    if not evicts(setting.scenario, setting.options):
        return _solve_fitting(wanted.with_columns(_wanted=pl.min_horizontal(share, "_cap")), rows, setting), None
    settled = settle_at_sessions(wanted, rows, setting, lambda at, served: _solve_at(at, served, setting))
    warm, cold = (
        _solve_fitting(_stopped_in_flight(wanted, served, setting), served, setting)
        for served in (settled.warm, settled.cold)
    )
    return warm, cold


def _stopped_in_flight(curves: pl.DataFrame, rows: pl.DataFrame, setting: Setting) -> pl.DataFrame:
    """The curves with the sessions at which those in flight fill the memory (``_cap``), and no more wanted.

    Between two rows the requests in flight are linear in the sessions.
    """
    c = pl.col
    rho = loop.activity_fraction(c("turn_latency_ms") / 1e3, setting.scenario.think_time_s)
    loads = rows.select(
        SCHEDULE_ID, "batch_per_rank", "sessions", _slots="_in_flight_slots", _in_flight=c("sessions") * rho
    ).sort(SCHEDULE_ID, "batch_per_rank", "sessions")
    before = {name: c(name).shift(1).over(SCHEDULE_ID) for name in ("sessions", "_in_flight")}
    share = (c("_slots") - before["_in_flight"]) / (c("_in_flight") - before["_in_flight"])
    at_wall = before["sessions"] + share * (c("sessions") - before["sessions"])
    alone = pl.when(c("batch_per_rank") <= 1).then(c("_slots") * c("sessions") / c("_in_flight")).otherwise(0.0)
    at_wall = at_wall.fill_null(alone)
    caps = (
        loads.with_columns(_at_wall=at_wall)
        .filter(c("_in_flight") > c("_slots") * (1 + WALL_TOLERANCE))
        .group_by(SCHEDULE_ID)
        .agg(_cap=c("_at_wall").first())
    )
    capped = curves.drop("_cap").join(caps, on=SCHEDULE_ID, how="left", maintain_order="left")
    capped = capped.with_columns(c("_cap").fill_null(float("inf")))
    return capped.with_columns(_wanted=pl.min_horizontal("_wanted", "_cap"))


def _solve_fitting(admitted: pl.DataFrame, rows: pl.DataFrame, setting: Setting) -> pl.DataFrame:
    """The curves at ``_wanted`` sessions, at fewer where those in flight would not fit.

    The cap was read between two rows of a curve, of which R may be shorter than at the sessions themselves.
    """
    points = _judge(_solve_at(admitted, rows, setting), setting)
    over = (points["infeasible_reason"] == "kv_capacity") & (points["max_sessions"] > 0) & (points["_cap"] > 0)
    if not over.any():
        return points
    held = points.select(pl.when(over.fill_null(False)).then("max_sessions").otherwise("_wanted")).to_series()
    return _judge(_solve_at(admitted.with_columns(_wanted=held), rows, setting), setting)


def _solve_at(curves: pl.DataFrame, rows: pl.DataFrame, setting: Setting) -> pl.DataFrame:
    """The curves at ``_wanted`` sessions, at the hit rates of their rows."""
    brackets = brackets_of(curves, rows)
    # of a disaggregated replica the slower pool changes with the load: it is solved on its curve
    is_roofline = (pl.col("source") == "roofline") & (pl.col("serving_mode") == "agg")
    parts = [
        _solve_on_table(brackets.filter(~is_roofline), setting),
        _solve_on_roofline(brackets.filter(is_roofline), setting),
    ]
    return pl.concat([part for part in parts if not part.is_empty()], how="diagonal").sort("_order")


def _with_cold_start(points: pl.DataFrame, cold: pl.DataFrame | None) -> pl.DataFrame:
    """The points with the figures that their sessions have from an empty cache on, where these are others."""
    figures = ("sessions", "cache_hit_rate", "turn_latency_ms", "turns_per_s")
    if cold is None:
        return points.with_columns(pl.lit(None, pl.Float64).alias(f"cold_start_{name}") for name in figures)
    worse = (cold["cache_hit_rate"] < points["cache_hit_rate"] - SAME_HIT_RATE) & cold["infeasible_reason"].is_null()
    return points.with_columns(cold.select(pl.when(worse).then(name).alias(f"cold_start_{name}") for name in figures))


def _with_waiting(points: pl.DataFrame, curves: pl.DataFrame, rows: pl.DataFrame, setting: Setting) -> pl.DataFrame:
    """The points with what they were if sessions whose KV the memory does not hold waited, where that differs.

    The KV of all that are let in is held, so nothing is evicted and they hit as under ``wait`` (model.md 5.7).
    """
    figures = ("sessions", "turn_latency_ms", "turns_per_s")
    nothing = [pl.lit(None, pl.Float64).alias(f"waiting_{name}") for name in figures]
    if not evicts(setting.scenario, setting.options):
        return points.with_columns(nothing)
    held = points[f"_fit_{setting.options.kv_context}"]
    fewer = (held >= 1) & (held < points["_share_high"])
    if not fewer.any():
        return points.with_columns(nothing)
    share = points.select(pl.when(fewer).then(held).otherwise("_wanted")).to_series()
    hit_rate = np.full(rows.height, constant_hit_rate(setting.scenario))
    kept = rows_at(rows, hit_rate, np.zeros(rows.height), setting)
    waiting = _solve_fitting(_stopped_in_flight(curves.with_columns(_wanted=share), kept, setting), kept, setting)
    waits = fewer & waiting["infeasible_reason"].is_null()
    return points.with_columns(waiting.select(pl.when(waits).then(name).alias(f"waiting_{name}") for name in figures))


def _solve_on_table(brackets: pl.DataFrame, setting: Setting) -> pl.DataFrame:
    """Between two rows R is linear in the requests in flight; past the ends of a curve nothing is known."""
    if brackets.is_empty():
        return brackets
    inside = brackets.filter(~pl.col("_below") & ~pl.col("_beyond"))
    ends = brackets.filter(pl.col("_below") | pl.col("_beyond"))
    inside = at_sessions(inside, BETWEEN_ROWS, setting.scenario.think_time_s, setting.options.closed_loop)
    # a batch of one serves a single session as well as it ever will
    alone = pl.col("_below") & (pl.col("_first_batch") <= 1) & (pl.col("_wanted") > 0)
    ends = ends.with_columns(
        sessions=pl.when(alone).then("_wanted").otherwise("sessions"),
        _end_reason=pl.when(pl.col("_beyond") & (pl.col("_wanted") > pl.col("sessions") * (1 + END_TOLERANCE)))
        .then(pl.lit("more_sessions_than_table"))
        .when(pl.col("_below") & ~alone)
        .then(pl.lit("fewer_sessions_than_table")),
    )
    return pl.concat([inside, ends], how="diagonal")


def _solve_on_roofline(brackets: pl.DataFrame, setting: Setting) -> pl.DataFrame:
    """The roofline knows every load: R is evaluated, not interpolated, at the batch that the sessions fill."""
    if brackets.is_empty():
        return brackets
    spec, agent = setting.spec, Agent.of(setting.scenario, setting.spec, aggregated=True)
    rows, turns = Rows(brackets), agent.prefills
    workload = turns.at(rows["cache_hit_rate"])
    replica = RooflineReplica.of_rows(rows, spec, Gpu(rows, "decode"), workload.decode_context_tokens)
    preset = str(brackets["backend_version"].first())
    reload_s = rows["cache_reload_fraction"] * reload_ms(rows, agent)[0] / 1e3

    ranks, wanted = Deployed(rows).stations, rows["_wanted"]

    def sessions_at(batch: Array) -> Array:
        """Requests in flight are throughput times latency: the batch itself in the article's preset alone."""
        times = turn_times(preset, replica, batch, workload, spec)
        latency_s = times.latency_s(workload.output_tokens) + reload_s
        in_flight = loop.in_flight_per_station(times.requests_per_s, latency_s, ranks)
        rho = loop.activity_fraction(latency_s, setting.scenario.think_time_s)
        return np.asarray(loop.sessions_that_fill(in_flight, rho, ranks, setting.options.closed_loop))

    batch = loop.solve_load(sessions_at, wanted)
    served = ~np.isnan(batch)
    batch = np.where(served, batch, rows["batch_per_rank"])
    times = turn_times(preset, replica, batch, workload, spec)
    rows = rows.with_figures(
        {
            **times.figures(workload.output_tokens),
            RATE: times.requests_per_s,
            **_ends_on_roofline(preset, replica, batch, turns, spec),
        },
        sessions=np.where(served & (wanted > 0), wanted, rows["sessions"]),
    )
    solved = add_reload(rows, agent).to_frame()
    beyond = pl.when(~pl.Series(served)).then(pl.lit("more_sessions_than_table"))
    return solved.with_columns(_end_reason=beyond.otherwise(None))


def _ends_on_roofline(
    preset: str, replica: RooflineReplica, batch: Array, turns: AgentTurns, spec: ModelSpec
) -> dict[str, Array]:
    """The figures of so large batches if all turns hit, and if all miss."""
    figures = {}
    for name, workload in (("hits", turns.on_hit), ("misses", turns.on_miss)):
        times = turn_times(preset, replica, batch, workload, spec)
        figures[at_end("turn_latency_ms", name)] = 1e3 * times.latency_s(workload.output_tokens)
        figures[at_end("serving_requests_per_s", name)] = np.asarray(times.requests_per_s)
    return figures


def _judge(solved: pl.DataFrame, setting: Setting) -> pl.DataFrame:
    """What follows from sessions and figures, and the reasons that an operating point has of its own."""
    latency_s = pl.col("turn_latency_ms") / 1e3
    rho = loop.activity_fraction(latency_s, setting.scenario.think_time_s)
    in_flight = loop.in_flight_of_sessions(pl.col("sessions"), rho, pl.col("_stations"), setting.options.closed_loop)
    if "_end_reason" not in solved.columns:
        solved = solved.with_columns(_end_reason=pl.lit(None, pl.String))
    on_line = {name: pl.col(name) for name in RATES}
    solved = solved.with_columns(**with_own_rate(on_line, in_flight / latency_s))
    modes = solved.partition_by("serving_mode", as_dict=True, maintain_order=True)
    with np.errstate(all="ignore"):
        judged = pl.concat(
            complete_points(
                Rows(part), Agent.of(setting.scenario, setting.spec, aggregated=mode == "agg"), setting.options
            ).to_frame()
            for (mode,), part in modes.items()
        )
    return judged.sort("_order").with_columns(
        infeasible_reason=pl.coalesce(
            pl.when(pl.col("replicas") == 0).then(pl.lit("replica_larger_than_cluster")),
            pl.when(~pl.col("infeasible_reason").is_in(WALL_REASONS)).then("infeasible_reason"),
            pl.when(pl.col("_cap") == 0).then(pl.lit("kv_capacity")),
            "_end_reason",
            "infeasible_reason",
        )
    )
