"""Plans as rows: figures of all replicas together, the best of each group, money and power."""

from collections.abc import Sequence
from typing import Final

import polars as pl

from transforms.configurations import SCHEDULE_ID
from transforms.equations import closed_loop as loop
from transforms.equations import cost
from transforms.equations.curve import sessions_that_fit
from transforms.planning.curves import Curves
from transforms.planning.limits import task_time_column, ttft_column, turn_latency_column

#: What describes the configuration of a plan.
CONFIGURATION_COLUMNS: Final = (
    "source", "backend", "backend_version", "serving_mode", "weight_dtype", "kv_dtype", "tp", "pp", "dp", "moe_tp",
    "moe_ep", "prefill_workers", "prefill_tp", "prefill_pp", "prefill_dp", "prefill_moe_ep", "decode_workers",
    "decode_tp", "decode_pp", "decode_dp", "decode_moe_ep", "gpus_per_replica",
    "database_mode", "slower_than_roofline",
)  # fmt: skip
COLUMNS: Final = (
    "hardware", "model", "scenario", "sessions", "feasible", "gpus", "replicas", *CONFIGURATION_COLUMNS,
    "sessions_per_replica", "figures_at_sessions", "turn_latency_s", "ttft_s", "turn_latency_ms", "ttft_ms", "tpot_ms",
    "task_time_s", "e2e_tokens_per_s_per_user", "tasks_per_hour", "tasks_per_hour_per_gpu",
    "usd_per_month", "usd_per_task", "usd_per_million_output_tokens", "kwh_per_task", "tasks_per_hour_per_mw",
    "kv_utilization_fraction", "binding_limit", "headroom_sessions",
    "transfer_method", "expected_error_fraction", "extrapolated", "low", "high", "infeasible_reason",
    "least_turn_latency_s", "least_tp_that_fits", "least_gpus",
)  # fmt: skip
#: What a GPU of the replica draws at most, beside the agent points' own columns.
WATTS: Final = "_watts_per_gpu"
_MEMORY: Final = ("max_parked_sessions", "max_in_flight_requests")


def with_figures(answers: pl.DataFrame, curves: Curves, *, one_replica_is_least: bool) -> pl.DataFrame:
    """Plans of curves (replicas and the sessions of the fuller and emptier ones) with the figures of all of them.

    ``one_replica_is_least``: GPUs are sought, and nothing stops a plan of one replica but that it is one.
    """
    c, scenario, at = pl.col, curves.scenario, curves.limits.at
    if WATTS not in answers.columns:
        answers = answers.with_columns(pl.lit(None, pl.Float64).alias(WATTS))
    answers = answers.join(curves.stops, on=SCHEDULE_ID, how="left")
    answers = answers.join(curves.most.group_by(SCHEDULE_ID).agg(c("_most").max()), on=SCHEDULE_ID, how="left")
    latency_s, low_latency_s = c("turn_latency_ms") / 1e3, c("_low_latency_ms") / 1e3
    rho = loop.activity_fraction(latency_s, scenario.think_time_s)
    fuller = c("sessions_planned") - c("_low") * c("replicas")
    fuller = pl.when(c("_high") == c("_low")).then("replicas").otherwise(fuller)
    turns_per_s = fuller * loop.turns_per_s(c("_high"), latency_s, scenario.think_time_s) + (
        c("replicas") - fuller
    ) * loop.turns_per_s(c("_low"), low_latency_s, scenario.think_time_s)
    fit = sessions_that_fit(c("max_parked_sessions"), c("max_in_flight_requests"), rho)
    gpus = c("replicas") * c("gpus_per_replica")
    tasks_per_hour = cost.SECONDS_PER_HOUR * turns_per_s / scenario.turns
    mean_task_time_s = loop.task_time_s(scenario.turns, latency_s, scenario.think_time_s)
    usd_per_hour = gpus * c("usd_per_gpu_hour")
    limits = {bound.name for bound in curves.bounds}

    def at_statistic(column: str, mean: pl.Expr) -> pl.Expr:
        there = at != "mean" and column in answers.columns
        return c(column) if there else mean if at == "mean" else pl.lit(None, pl.Float64)

    return answers.with_columns(
        sessions="sessions_planned",
        gpus=gpus,
        sessions_per_replica=c("_high"),
        figures_at_sessions=c("_read_at").fill_null(c("_high").cast(pl.Float64)),
        turn_latency_s=at_statistic(turn_latency_column(at), c("turn_latency_ms")) / 1e3,
        ttft_s=at_statistic(ttft_column(at), c("ttft_ms")) / 1e3,
        task_time_s=at_statistic(task_time_column(at), mean_task_time_s),
        e2e_tokens_per_s_per_user=scenario.output_tokens_per_turn / latency_s,
        tasks_per_hour=tasks_per_hour,
        tasks_per_hour_per_gpu=tasks_per_hour / gpus,
        usd_per_month=cost.HOURS_PER_MONTH * usd_per_hour,
        usd_per_task=usd_per_hour / tasks_per_hour,
        usd_per_million_output_tokens=1e6
        * usd_per_hour
        / (tasks_per_hour * scenario.turns * scenario.output_tokens_per_turn),
        kwh_per_task=cost.kwh_per_task(c(WATTS), tasks_per_hour / gpus),
        tasks_per_hour_per_mw=cost.tasks_per_hour_per_mw(c(WATTS), tasks_per_hour / gpus),
        kv_utilization_fraction=c("_high") / fit,
        headroom_sessions=c("replicas") * pl.max_horizontal("_most", "_high") - c("sessions_planned"),
        binding_limit=pl.when(pl.lit(one_replica_is_least) & (c("replicas") == 1))
        .then(pl.lit("one_replica"))
        .when(c("_stop") == "memory")
        .then("_memory")
        .when(c("_stop").is_in(list(limits)))
        .then("_stop")
        .when(c("_stop") == "cache")
        .then(pl.lit("cache_hit_rate"))
        .otherwise(pl.lit("table_range")),
    )


def best_of_each(plans: pl.DataFrame, by: Sequence[str], *, most_sessions: bool) -> pl.DataFrame:
    """The best plan of each group: fewest GPUs or most sessions, then the shortest turns."""
    first = ("sessions", True) if most_sessions else ("gpus", False)
    order = [*by, first[0], "turn_latency_ms", "gpus", "point_id"]
    ranked = plans.sort(order, descending=[name == "sessions" and first[1] for name in order])
    return ranked.unique(by, keep="first", maintain_order=True)


def in_order(rows: pl.DataFrame, *, most_sessions: bool) -> pl.DataFrame:
    """Answers, the best first: by price where there is one, else fewest GPUs or most sessions; what cannot comes last.

    Missing columns of ``COLUMNS`` are added as NULL.
    """
    rows = rows.with_columns(pl.lit(None).alias(name) for name in COLUMNS if name not in rows.columns)
    priced = rows["usd_per_month"].is_not_null().any()
    price = ["usd_per_task" if most_sessions else "usd_per_month"] if priced else []
    order = [*price, "sessions" if most_sessions else "gpus", "turn_latency_ms", "hardware"]
    descending = [name == "sessions" for name in order]
    feasible = pl.col("feasible").fill_null(False)
    ordered = rows.sort(~feasible, *order, descending=[False, *descending], nulls_last=True)
    more = [name for name in rows.columns if name in (*_MEMORY, "kind") or name.endswith("_figure")]
    return ordered.select(*COLUMNS, *more)
