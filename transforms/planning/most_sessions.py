"""The most sessions that a number of GPUs serves within limits."""

import polars as pl

from transforms.configurations import SCHEDULE_ID
from transforms.planning.curves import Curves


def most_on_gpus(curves: Curves, gpus: int) -> pl.DataFrame:
    """As many replicas of each curve as the GPUs hold, each with the most sessions; curves without any are left out.

    GPUs that make no whole replica stay idle. More sessions would put one more on some replica, and break a limit.
    """
    c = pl.col
    best = curves.most.sort(SCHEDULE_ID, "_most", descending=[False, True])
    best = best.unique(SCHEDULE_ID, keep="first", maintain_order=True)
    best = best.with_columns(replicas=pl.lit(gpus, pl.Int64) // c("gpus_per_replica")).filter(c("replicas") >= 1)
    return best.with_columns(
        _high="_most", _low="_most", _low_latency_ms="turn_latency_ms", sessions_planned=c("replicas") * c("_most")
    ).drop("_most")
