"""What makes two serving points the same configuration, and one curve."""

from typing import Final

import polars as pl

#: One deployment, whatever its load and workload.
CONFIGURATION: Final = (
    "source", "tool_version", "hardware", "prefill_hardware", "decode_hardware", "model", "weight_dtype",
    "expert_dtype", "linear_dtype", "kv_dtype", "attention_dtype", "backend", "backend_version", "serving_mode",
    "tp", "pp", "dp", "cp", "moe_tp", "moe_ep",
    "prefill_workers", "prefill_tp", "prefill_pp", "prefill_dp", "prefill_cp", "prefill_moe_tp", "prefill_moe_ep",
    "prefill_batch",
    "decode_workers", "decode_tp", "decode_pp", "decode_dp", "decode_cp", "decode_moe_tp", "decode_moe_ep",
    "gpus_per_replica", "latency_statistic", "draft_tokens", "accepted_tokens",
)  # fmt: skip
#: Columns of small numbers that stand for the tuples above within one frame: windows over one number
#: are many times faster than over forty columns.
CONFIGURATION_ID: Final = "_configuration"
SCHEDULE_ID: Final = "_schedule"
CURVE_ID: Final = "_curve"


def number_configurations(points: pl.DataFrame) -> pl.DataFrame:
    """The points with a number for each configuration, for each configuration and its mixed steps, and
    for each curve: rows that differ only in concurrency (MODEL section 5.6). NULLs are alike.

    Measured lengths vary from run to run of one workload: there the lengths that name it count.
    """
    schedule = (*CONFIGURATION, "context_requests_per_step")
    lengths = (pl.coalesce(f"{name}_nominal_tokens", f"{name}_tokens").alias(name) for name in ("isl", "osl"))
    keys: dict[str, tuple[str | pl.Expr, ...]] = {
        CONFIGURATION_ID: CONFIGURATION,
        SCHEDULE_ID: schedule,
        CURVE_ID: (*schedule, *lengths, "prefix_tokens"),
    }
    for name, columns in keys.items():
        points = points.with_columns(pl.struct(*columns).rank("dense").alias(name))
    return points
