"""What agent points cost, where the GPUs of the replica have a price."""

from collections.abc import Mapping

import polars as pl

from schemas.catalogue import HardwareCatalogue
from schemas.prices import prices_of
from transforms.agent_points.rows.rows import Rows
from transforms.equations import cost


def usd_per_gpu_hour(hardware: HardwareCatalogue) -> pl.Expr:
    """The price of a row's GPUs, NULL where one has none.

    Counted are the GPUs of the replica for as long as they are rented, busy or not; idle GPUs of a cluster are not.
    The pools of a disaggregated replica have each their own price.
    """
    return mean_per_gpu(prices_of(hardware))


def mean_per_gpu(figures: Mapping[str, float]) -> pl.Expr:
    """A figure of hardware (slug -> figure) as the mean over the GPUs of a row's replica, NULL where one has none."""
    c = pl.col
    prefill, decode = (
        c(f"{pool}_hardware").replace_strict(figures, default=None, return_dtype=pl.Float64)
        if figures
        else pl.lit(None, pl.Float64)
        for pool in ("prefill", "decode")
    )
    prefill_gpus = c("prefill_workers") * c("prefill_tp") * c("prefill_pp") * c("prefill_dp") * c("prefill_cp")
    pools = cost.mean_usd_per_gpu_hour(prefill_gpus, prefill, c("gpus_per_replica") - prefill_gpus, decode)
    return pl.when(c("serving_mode") == "agg").then(decode).otherwise(pools)


def add_cost(rows: Rows) -> Rows:
    """Adds ``usd_per_task`` and ``usd_per_million_output_tokens`` to rows with ``usd_per_gpu_hour`` and their rates."""
    price = rows["usd_per_gpu_hour"]
    return rows.with_figures(
        usd_per_gpu_hour=price,
        usd_per_task=cost.usd_per_task(price, rows["tasks_per_s_per_gpu"]),
        usd_per_million_output_tokens=cost.usd_per_million_tokens(price, rows["output_tokens_per_s_per_gpu"]),
    )
