"""Reruns: of two runs of one configuration at one load the later counts, in whatever order they are read.

A sweep is no rerun: rows that differ in a server flag, a label or the name of their run (``setting``) all stay.
"""

from typing import Final

import polars as pl

_POOL: Final = ("workers", "tp", "pp", "dp", "cp", "moe_tp", "moe_ep", "batch")
#: What two runs have in common when one is the rerun of the other. Figures, versions and who measured what
#: (statistic) are not among it.
KEY: Final = (
    "source", "prefill_hardware", "decode_hardware", "model", "weight_dtype", "linear_dtype", "precision_name",
    "backend_name", "serving_mode", "tp", "pp", "dp", "cp", "moe_tp", "moe_ep",
    *(f"{pool}_{name}" for pool in ("prefill", "decode") for name in _POOL if (pool, name) != ("decode", "batch")),
    "gpus_per_replica", "setting", "draft_tokens", "isl_tokens", "osl_tokens", "prefix_tokens", "concurrency_reported",
    "context_requests_per_step",
)  # fmt: skip
#: Formats that are a choice of the run where the run states them, and not where a table of facts does.
_STATED: Final = "kv_dtype"


def rerun_columns(points: pl.DataFrame) -> pl.DataFrame:
    """What superseding needs of points: ``point_id``, ``source_file``, ``rerun_of`` and their order."""
    stated = pl.when(pl.col("kv_dtype_source") == "reported").then(_STATED)
    return points.select(
        "point_id",
        "source_file",
        "measured_at",
        rerun_of=pl.struct(*KEY, stated.alias("_kv_dtype")).hash(seed=0),
        # the same run is published with means and with medians: the means count
        is_mean=pl.col("latency_statistic") == "mean",
    )


def superseded(reruns: pl.DataFrame) -> pl.DataFrame:
    """The rows of ``rerun_columns`` that a later run replaces, with the file that does: ``replaced_by``.

    Undated points cannot be put in an order: they supersede nothing and stay.
    Of one moment the means go before the medians; what then still differs is kept, as nothing says which is right.
    """
    reruns = reruns.filter(pl.col("measured_at").is_not_null())
    latest = pl.col("measured_at") == pl.col("measured_at").max().over("rerun_of")
    means = (latest & pl.col("is_mean")).any().over("rerun_of")
    goes = ~latest | (means & ~pl.col("is_mean"))
    stays = pl.when(~goes).then("source_file")
    return reruns.with_columns(replaced_by=stays.drop_nulls().first().over("rerun_of")).filter(goes)
