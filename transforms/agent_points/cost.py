"""What agent points cost, where the GPUs of the replica have a price."""

import polars as pl

from schemas.catalogue import HardwareCatalogue
from schemas.prices import prices_of
from transforms.equations import cost


def add_cost(points: pl.DataFrame, hardware: HardwareCatalogue) -> pl.DataFrame:
    """Adds ``usd_per_gpu_hour``, ``usd_per_task`` and ``usd_per_million_output_tokens`` to points with their rates.

    Counted are the GPUs of the replica for as long as they are rented, busy or not; idle GPUs of a cluster are not.
    The pools of a disaggregated replica have each their own price. NULL where a GPU has none.
    """
    prices = prices_of(hardware)
    c = pl.col
    prefill, decode = (
        c(f"{pool}_hardware").replace_strict(prices, default=None, return_dtype=pl.Float64)
        if prices
        else pl.lit(None, pl.Float64)
        for pool in ("prefill", "decode")
    )
    prefill_gpus = c("prefill_workers") * c("prefill_tp") * c("prefill_pp") * c("prefill_dp") * c("prefill_cp")
    pools = cost.mean_usd_per_gpu_hour(prefill_gpus, prefill, c("gpus_per_replica") - prefill_gpus, decode)
    price = pl.when(c("serving_mode") == "agg").then(decode).otherwise(pools)
    priced = points.with_columns(usd_per_gpu_hour=price)
    return priced.with_columns(
        usd_per_task=cost.usd_per_task(c("usd_per_gpu_hour"), c("tasks_per_s_per_gpu")),
        usd_per_million_output_tokens=cost.usd_per_million_tokens(
            c("usd_per_gpu_hour"), c("output_tokens_per_s_per_gpu")
        ),
    )
