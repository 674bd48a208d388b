"""Whether a point can be run, the first reason against it, and the limit that stops its curve."""

import math

import polars as pl

from schemas.models import ModelSpec
from schemas.options import MappingOptions
from schemas.scenarios import Scenario
from transforms.agent_points.gpu import POOLS, Gpu
from transforms.configurations import CURVE_ID
from transforms.numbers import maximum
from transforms.peaks import PEAK_TOLERANCE, least_flops_per_s

#: A figure on the wall itself must not fall over it by rounding.
WALL_TOLERANCE = 1e-9
#: Reasons that a lower load mends.
WALL_REASONS = ("kv_capacity", "kv_capacity_below_table", "host_memory_capacity")


def judge_points(
    points: pl.DataFrame,
    scenario: Scenario,
    spec: ModelSpec,
    options: MappingOptions,
) -> pl.DataFrame:
    """Adds ``infeasible_reason``, ``feasible``, ``kv_utilization_fraction``, the cluster view."""
    c = pl.col
    if options.cluster_gpus is None:
        replicas = pl.lit(None, pl.Int64)
    else:
        replicas = pl.lit(options.cluster_gpus) // c("gpus_per_replica")
    prefill_gpu, decode_gpu = (Gpu.of_pool(pool) for pool in POOLS)
    card = maximum(prefill_gpu.hbm_bytes, decode_gpu.hbm_bytes)
    fastest = maximum(prefill_gpu.fastest_flops_per_s, decode_gpu.fastest_flops_per_s)
    longest = math.inf if spec.max_context_tokens is None else spec.max_context_tokens
    tokens = c("prefill_tokens_per_turn") + scenario.output_tokens_per_turn - 1
    flops_per_s = least_flops_per_s(spec, tokens, c("turns_per_s_per_gpu"))
    over_wall = c("sessions") > c("max_sessions") * (1 + WALL_TOLERANCE)
    reasons = {
        "weights_do_not_fit": ~c("_weights_fit"),
        "context_too_long": pl.lit(scenario.peak_context_tokens > longest),
        "replica_larger_than_cluster": (replicas == 0).fill_null(False),
        "table_memory_exceeds_gpu": (c("memory_bytes_per_gpu") > card).fill_null(False),
        "above_peak_flops": flops_per_s > fastest * (1 + PEAK_TOLERANCE),
        "host_memory_capacity": over_wall & (c("binding_limit") == "host_memory"),
        "kv_capacity": over_wall,
    }
    points = points.with_columns(
        cluster_replicas=replicas,
        infeasible_reason=pl.coalesce(pl.when(hit).then(pl.lit(reason)) for reason, hit in reasons.items()),
        kv_utilization_fraction=pl.when(c("max_sessions") > 0).then(c("sessions") / c("max_sessions")),
    )
    deployed = pl.when(c("cluster_replicas") > 0).then(c("cluster_replicas") * c("gpus_per_replica"))
    scale = deployed / pl.lit(options.cluster_gpus, pl.Int64)
    return points.with_columns(
        feasible=c("infeasible_reason").is_null(),
        turns_per_s_per_cluster_gpu=c("turns_per_s_per_gpu") * scale,
        tasks_per_hour_per_cluster_gpu=c("tasks_per_hour_per_gpu") * scale,
    )


def name_curve_limits(points: pl.DataFrame) -> pl.DataFrame:
    """What only a whole curve tells: ``binding_limit``, and whether the wall is below its first row.

    The binding limit is what is met first when sessions are added: memory where the curve reaches the
    wall, the table's last row where it does not; a reason that no load mends comes first.
    """
    static = {
        "weights_do_not_fit": "weights",
        "context_too_long": "context_length",
        "replica_larger_than_cluster": "cluster_size",
    }
    reaches_wall = (pl.col("sessions") > pl.col("max_sessions") * (1 - WALL_TOLERANCE)).any().over(CURVE_ID)
    below_table = (pl.col("infeasible_reason") == "kv_capacity") & ~pl.col("feasible").any().over(CURVE_ID)
    return points.with_columns(
        infeasible_reason=pl.when(below_table.fill_null(False))
        .then(pl.lit("kv_capacity_below_table"))
        .otherwise("infeasible_reason"),
        binding_limit=pl.coalesce(
            pl.col("infeasible_reason").replace_strict(static, default=None, return_dtype=pl.String),
            pl.when(reaches_wall).then("binding_limit").otherwise(pl.lit("table_range")),
        ),
    )
