"""Each configuration at the sessions that its scenario fixes (Step 7, MODEL section 5.7)."""

from collections.abc import Callable

import numpy as np
import polars as pl

from schemas.tables import TABLES
from transforms.agent_points.carry import Setting, judge_rows
from transforms.agent_points.columns import BETWEEN_ROWS
from transforms.agent_points.feasibility import WALL_REASONS
from transforms.agent_points.gpu import Gpu
from transforms.agent_points.idle_kv import add_reload, reload_ms
from transforms.agent_points.roofline_points import turn_times
from transforms.agent_points.roofline_replica import RooflineReplica
from transforms.agent_points.rows import Rows
from transforms.agent_points.workload import agent_workload
from transforms.configurations import SCHEDULE_ID
from transforms.equations import closed_loop as loop
from transforms.frontier import mark_frontiers

#: Solutions within rounding of a curve's end are on it.
END_TOLERANCE = 1e-9


def operating_points(agent_points: pl.DataFrame, setting: Setting) -> pl.DataFrame:
    """One row for each configuration of the agent points of one scenario and model.

    The replicas that fit the scenario's GPUs share its sessions evenly; figures are those of the
    fuller replicas. A replica admits what its memory holds. Empty where the scenario fixes no sessions.
    """
    scenario = setting.scenario
    if scenario.sessions is None or scenario.gpus is None or agent_points.is_empty():
        return _empty()
    curves = _curves(agent_points, scenario.sessions, scenario.gpus)
    fuller = _solve(curves, agent_points, "_share_high", setting)
    even = (curves["_share_high"] == curves["_share_low"]).all()
    emptier = fuller if even else _solve(curves, agent_points, "_share_low", setting)
    c = pl.col
    points = fuller.with_columns(
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
    return mark_frontiers(points).select(c(field.name).cast(field.dtype) for field in TABLES["operating_points"].fields)


def _curves(agent_points: pl.DataFrame, sessions: int, gpus: int) -> pl.DataFrame:
    """One row a configuration: its replicas, their shares of the sessions, and what they admit.

    ``_cap`` is the sessions at the KV wall, infinite where the table ends before it.
    """
    c = pl.col
    stopped = c("infeasible_reason").is_in(WALL_REASONS).fill_null(False)
    constant = c("max_in_flight_requests").is_null()
    at_wall = pl.when(constant).then("max_sessions").when("feasible").then("sessions").otherwise(0.0)
    curves = agent_points.group_by(SCHEDULE_ID, maintain_order=True).agg(
        _cap=pl.when((stopped | constant).any()).then(at_wall.max()).otherwise(float("inf")),
        gpus_per_replica=c("gpus_per_replica").first(),
    )
    replicas = pl.lit(gpus) // c("gpus_per_replica")
    shares = pl.max_horizontal(replicas, 1)
    return curves.with_columns(
        replicas=replicas,
        _high_replicas=pl.when(sessions % shares == 0).then(shares).otherwise(sessions % shares),
        _share_high=((sessions + shares - 1) // shares).cast(pl.Float64),
        _share_low=(sessions // shares).cast(pl.Float64),
    )


def _solve(curves: pl.DataFrame, agent_points: pl.DataFrame, share: str, setting: Setting) -> pl.DataFrame:
    """The curves with figures at ``min(share, cap)`` sessions, in the order of the curves."""
    admitted = curves.with_columns(_wanted=pl.min_horizontal(share, "_cap"))
    rows = agent_points.filter(~pl.col("interpolated"))
    brackets = _brackets(admitted, rows)
    # of a disaggregated replica the slower pool changes with the load: it is solved on its curve
    is_roofline = (pl.col("source") == "roofline") & (pl.col("serving_mode") == "agg")
    parts = [
        _solve_on_table(brackets.filter(~is_roofline), setting),
        _solve_on_roofline(brackets.filter(is_roofline), setting),
    ]
    solved = pl.concat([part for part in parts if not part.is_empty()], how="diagonal").sort("_order")
    return _judge(solved, setting)


def _brackets(curves: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Each curve with the two neighbouring rows between which its wanted sessions lie (``_next_*``)."""
    c = pl.col
    curves = curves.drop("gpus_per_replica").with_row_index("_order")
    b = loop.in_flight_per_station(c("serving_requests_per_s"), c("turn_latency_ms") / 1e3, c("_stations"))
    loads = rows.select(SCHEDULE_ID, "batch_per_rank", "sessions", _b=b, _row=pl.int_range(pl.len()))
    loads = loads.sort(SCHEDULE_ID, "batch_per_rank", "sessions").with_columns(
        _first=(c(SCHEDULE_ID) != c(SCHEDULE_ID).shift(1)).fill_null(True),
        _last=(c(SCHEDULE_ID) != c(SCHEDULE_ID).shift(-1)).fill_null(True),
    )
    pairs = loads.with_columns(
        pl.when(~c("_last")).then(c(name).shift(-1)).alias(f"_next_{name.removeprefix('_')}")
        for name in ("sessions", "_b", "_row")
    ).join(curves, on=SCHEDULE_ID, maintain_order="left")
    within = ((c("sessions") <= c("_wanted")) & (c("_wanted") <= c("_next_sessions"))).fill_null(False)
    below, above = c("_first") & (c("_wanted") < c("sessions")), c("_last") & (c("_wanted") >= c("sessions"))
    first_batch = loads.filter("_first").select(SCHEDULE_ID, _first_batch="batch_per_rank")
    # the lowest load at which the curve holds so many sessions; else the end that is nearer
    chosen = (
        pairs.filter(within | below | above)
        .sort(within.not_(), "batch_per_rank")
        .unique("_order", keep="first", maintain_order=True)
        .with_columns(_below=c("_wanted") < c("sessions"), _beyond=~within & above)
        .join(first_batch, on=SCHEDULE_ID, maintain_order="left")
    )
    # the figures of the two rows; past the end of a curve there is no second
    here = rows.select(pl.exclude(SCHEDULE_ID, "sessions", "batch_per_rank"))[chosen["_row"]]
    following = rows.select(c(BETWEEN_ROWS).name.prefix("_next_"))[chosen["_next_row"].fill_null(0)]
    return pl.concat([chosen, here, following], how="horizontal")


def _solve_on_table(brackets: pl.DataFrame, setting: Setting) -> pl.DataFrame:
    """Between two rows R is linear in the requests in flight; past the ends of a curve nothing is known."""
    if brackets.is_empty():
        return brackets
    think_s, closed_loop = setting.scenario.think_time_s, setting.options.closed_loop
    inside = brackets.filter(~pl.col("_below") & ~pl.col("_beyond"))
    ends = brackets.filter(pl.col("_below") | pl.col("_beyond"))
    if not inside.is_empty():
        b0, b1, r0, r1 = (
            inside[name].to_numpy() for name in ("_b", "_next_b", "turn_latency_ms", "_next_turn_latency_ms")
        )
        span = np.where(b1 == b0, 1.0, b1 - b0)

        def latency_s(b: loop.Array) -> loop.Array:
            return np.asarray((r0 + (r1 - r0) * (b - b0) / span) / 1e3)

        solved = _in_flight(inside, latency_s, np.minimum(b0, b1), np.maximum(b0, b1), think_s, closed_loop)
        inside = inside.with_columns(_share=pl.Series((solved - b0) / span))
        inside = inside.with_columns(
            sessions="_wanted",
            **{
                name: pl.col(name) + pl.col("_share") * (pl.col(f"_next_{name}") - pl.col(name))
                for name in BETWEEN_ROWS
            },
        )
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
    spec = setting.spec
    workload = agent_workload(setting.scenario, spec.attention)
    rows = Rows(brackets)
    replica = RooflineReplica.of_rows(rows, spec, Gpu.of_rows(rows, "decode"), workload.decode_context_tokens)
    preset = str(brackets["backend_version"].first())
    reload_s = reload_ms(rows, setting.scenario, spec, setting.options)[0] / 1e3

    stations, wanted = rows["_stations"], rows["_wanted"]

    def sessions_at(batch: loop.Array) -> loop.Array:
        """Requests in flight are throughput times latency: the batch itself in the article's preset alone."""
        times = turn_times(preset, replica, batch, workload, spec)
        latency_s = times.latency_s(workload.output_tokens) + reload_s
        in_flight = loop.in_flight_per_station(times.requests_per_s, latency_s, stations)
        rho = loop.activity_fraction(latency_s, setting.scenario.think_time_s)
        return np.asarray(loop.sessions_that_fill(in_flight, rho, stations, setting.options.closed_loop))

    batch = loop.solve_load(sessions_at, wanted)
    served = ~np.isnan(batch)
    times = turn_times(preset, replica, np.where(served, batch, rows["batch_per_rank"]), workload, spec)
    rows = rows.with_figures(
        times.figures(workload.output_tokens),
        sessions=np.where(served & (wanted > 0), wanted, rows["sessions"]),
    )
    solved = add_reload(rows, setting.scenario, spec, setting.options).to_frame()
    beyond = pl.when(~pl.Series(served)).then(pl.lit("more_sessions_than_table"))
    return solved.with_columns(_end_reason=beyond.otherwise(None))


def _in_flight(
    rows: pl.DataFrame,
    latency_s: Callable[[loop.Array], loop.Array],
    lowest: loop.Array,
    highest: loop.Array,
    think_time_s: float,
    closed_loop: loop.ClosedLoop,
) -> loop.Array:
    per_station = rows.select(pl.col("_wanted") / pl.col("_stations")).to_series().to_numpy()
    return loop.solve_in_flight(latency_s, per_station, think_time_s, lowest, highest, closed_loop)


def _judge(solved: pl.DataFrame, setting: Setting) -> pl.DataFrame:
    """What follows from sessions and figures, and the reasons that an operating point has of its own."""
    latency_s = pl.col("turn_latency_ms") / 1e3
    rho = loop.activity_fraction(latency_s, setting.scenario.think_time_s)
    in_flight = loop.in_flight_of_sessions(pl.col("sessions"), rho, pl.col("_stations"), setting.options.closed_loop)
    if "_end_reason" not in solved.columns:
        solved = solved.with_columns(_end_reason=pl.lit(None, pl.String))
    solved = solved.with_columns(serving_requests_per_s=in_flight / latency_s)
    modes = solved.partition_by("serving_mode", as_dict=True, maintain_order=True)
    with np.errstate(all="ignore"):
        judged = pl.concat(
            judge_rows(Rows(part), setting, aggregated=mode == "agg").to_frame() for (mode,), part in modes.items()
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


def _empty() -> pl.DataFrame:
    return pl.DataFrame(schema={field.name: field.dtype for field in TABLES["operating_points"].fields})
