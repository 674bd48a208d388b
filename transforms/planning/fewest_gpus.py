"""The fewest GPUs of each hardware that serve a number of sessions within limits, from published agent points.

Sessions are spread evenly over the replicas of one configuration: floor or ceil of C/replicas each. The configuration's
curve gives the figures at both shares; limits hold at both, and nothing is taken beyond a curve's ends or its KV wall.
Curves are straight between rows, as they are for operating points; the roofline's operating points are evaluated, and
differ in R by 1 % on average on dense models, and by up to a third on mixtures of experts at less than one session a
rank, where a plan takes the slower R of one.
"""

import polars as pl

from transforms.configurations import SCHEDULE_ID
from transforms.equations import closed_loop as loop
from transforms.equations.what_if import sessions_that_fit
from transforms.planning.limits import TOLERANCE, Limits, Loop
from transforms.planning.segments import add_curves, segments, solve, within_latency
from transforms.planning.without_plan import why_not

#: What describes the configuration of a plan.
CONFIGURATION_COLUMNS = (
    "source", "backend", "backend_version", "serving_mode", "weight_dtype", "kv_dtype", "tp", "pp", "dp", "moe_tp",
    "moe_ep", "prefill_workers", "prefill_tp", "prefill_pp", "prefill_dp", "prefill_moe_ep", "decode_workers",
    "decode_tp", "decode_pp", "decode_dp", "decode_moe_ep", "gpus_per_replica",
)  # fmt: skip
COLUMNS = (
    "hardware", "model", "scenario", "sessions", "feasible", "gpus", "replicas", *CONFIGURATION_COLUMNS,
    "sessions_per_replica", "turn_latency_ms", "ttft_ms", "tpot_ms", "task_time_s", "e2e_tokens_per_s_per_user",
    "tasks_per_hour", "tasks_per_hour_per_gpu", "kv_utilization_fraction", "binding_limit", "headroom_sessions",
    "transfer_method", "expected_error_fraction", "extrapolated", "infeasible_reason", "least_turn_latency_s",
    "least_sessions", "least_tp_that_fits",
)  # fmt: skip


def fewest_gpus(
    points: pl.DataFrame, sessions: int, limits: Limits, scenario: Loop, closed_loop: loop.ClosedLoop = "arrival"
) -> pl.DataFrame:
    """One row for each hardware of the points (agent points of one model and scenario), fewest GPUs first.

    Of configurations that need equally many GPUs the one with the shortest turns counts. Hardware without a plan has
    ``feasible`` false and says why not. Figures are of the fuller replicas but for ``tasks_per_hour`` (all of them) and
    ``tasks_per_hour_per_gpu``. ``binding_limit`` is what stops each replica from taking more sessions, so that fewer
    replicas do not do; ``headroom_sessions`` are those that the same GPUs can take beyond ``sessions``.

    A replica of 4 GPUs serves 17 sessions within the limits and an eighteenth not. For 100 sessions that is
    ``ceil(100/17)`` = 6 replicas, 24 GPUs: four serve 17 sessions and two 16, and two more sessions have room.
    """
    points = add_curves(points)
    plans = _plans(points, sessions, limits, scenario, closed_loop)
    best = plans.sort("hardware", "gpus", "turn_latency_ms", "point_id").unique(
        "hardware", keep="first", maintain_order=True
    )
    without = why_not(points.join(best, on="hardware", how="anti"), sessions, scenario, closed_loop)
    rows = pl.concat([best.with_columns(feasible=pl.lit(True)), without], how="diagonal_relaxed")
    rows = rows.with_columns(sessions=pl.lit(sessions, pl.Int64))
    missing = [pl.lit(None).alias(name) for name in COLUMNS if name not in rows.columns]
    return rows.with_columns(missing).sort("gpus", "turn_latency_ms", "hardware", nulls_last=True).select(COLUMNS)


def _plans(
    points: pl.DataFrame, sessions: int, limits: Limits, scenario: Loop, closed_loop: loop.ClosedLoop
) -> pl.DataFrame:
    """The fewest replicas of each curve that has any."""
    c = pl.col
    pieces = segments(points)
    limit, limit_s = limits.tightest(scenario)
    allowed = within_latency(pieces, limit_s, scenario.think_time_s, closed_loop)

    is_allowed = c("turn_latency_ms") <= limit_s * 1e3 * (1 + TOLERANCE)

    def evaluate(shares: pl.DataFrame) -> pl.DataFrame:
        """Curves and ``replicas`` whose two shares the curve serves within the limit, with figures of both."""
        shares = shares.with_columns(
            _high=(sessions + c("replicas") - 1) // c("replicas"), _low=sessions // c("replicas")
        )
        high, low = (
            solve(pieces, shares, share, scenario.think_time_s, closed_loop).filter(is_allowed)
            for share in ("_high", "_low")
        )
        return high.join(
            low.select(SCHEDULE_ID, "replicas", _low_latency_ms="turn_latency_ms"),
            on=[SCHEDULE_ID, "replicas"],
            how="inner",
        )

    most = allowed.with_columns(_most=(c("_to") * (1 + TOLERANCE)).floor())
    most = most.filter((c("_most") >= 1) & (c("_most") >= c("_from") * (1 - TOLERANCE)))
    most = most.select(SCHEDULE_ID, c("_most").clip(upper_bound=2.0**53).cast(pl.Int64)).unique()
    most = (
        solve(pieces, most, "_most", scenario.think_time_s, closed_loop).filter(is_allowed).select(SCHEDULE_ID, "_most")
    )
    least = most.with_columns(replicas=(sessions + c("_most") - 1) // c("_most"))
    # where the emptier replicas of these are off the curve or slower, one or two more may do
    tried = pl.concat([least.select(SCHEDULE_ID, replicas=c("replicas") + more) for more in range(3)])
    tried = tried.filter(c("replicas") <= sessions).unique()
    found = evaluate(tried).sort(SCHEDULE_ID, "replicas").unique(SCHEDULE_ID, keep="first", maintain_order=True)
    # where turns do not get slower with every session, fewer replicas may do as well
    fewer = found
    while not (
        fewer := evaluate(fewer.filter(c("replicas") > 1).select(SCHEDULE_ID, replicas=c("replicas") - 1))
    ).is_empty():
        found = pl.concat([fewer, found.join(fewer, on=SCHEDULE_ID, how="anti")])
    stops = allowed.sort("_to", c("_stop") == "table", descending=[True, False]).unique(
        SCHEDULE_ID, keep="first", maintain_order=True
    )
    found = found.join(stops.select(SCHEDULE_ID, "_stop"), on=SCHEDULE_ID, how="left")
    found = found.join(most.group_by(SCHEDULE_ID).agg(c("_most").max()), on=SCHEDULE_ID, how="left")
    return _with_figures(found, sessions, limit, scenario)


def _with_figures(found: pl.DataFrame, sessions: int, limit: str | None, scenario: Loop) -> pl.DataFrame:
    c = pl.col
    latency_s, low_latency_s = c("turn_latency_ms") / 1e3, c("_low_latency_ms") / 1e3
    rho = loop.activity_fraction(latency_s, scenario.think_time_s)
    fuller = sessions - c("_low") * c("replicas")
    fuller = pl.when(c("_high") == c("_low")).then("replicas").otherwise(fuller)
    turns_per_s = fuller * loop.turns_per_s(c("_high"), latency_s, scenario.think_time_s) + (
        c("replicas") - fuller
    ) * loop.turns_per_s(c("_low"), low_latency_s, scenario.think_time_s)
    fit = sessions_that_fit(c("max_parked_sessions"), c("max_in_flight_requests"), rho)
    gpus = c("replicas") * c("gpus_per_replica")
    return found.with_columns(
        gpus=gpus,
        sessions_per_replica=c("_high"),
        task_time_s=loop.task_time_s(scenario.turns, latency_s, scenario.think_time_s),
        e2e_tokens_per_s_per_user=scenario.output_tokens_per_turn / latency_s,
        tasks_per_hour=3600.0 * turns_per_s / scenario.turns,
        tasks_per_hour_per_gpu=3600.0 * turns_per_s / scenario.turns / gpus,
        kv_utilization_fraction=c("_high") / fit,
        headroom_sessions=c("replicas") * pl.max_horizontal("_most", "_high") - sessions,
        binding_limit=pl.when(c("replicas") == 1)
        .then(pl.lit("one_replica"))
        .when(c("_stop") == "memory")
        .then("_memory")
        .when(c("_stop") == "latency")
        .then(pl.lit(limit, pl.String))
        .when(c("_stop") == "cache")
        .then(pl.lit("cache_hit_rate"))
        .otherwise(pl.lit("table_range")),
    )
