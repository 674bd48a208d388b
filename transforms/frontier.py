"""The Pareto frontier of each group of agent points (MODEL section 6)."""

from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

#: Points compete within a group.
GROUP: Final = ("hardware", "model", "weight_dtype", "scenario")
Array = npt.NDArray[np.float64]


def mark_frontiers(points: pl.DataFrame) -> pl.DataFrame:
    """Adds ``on_frontier`` (turn latency down, turns per GPU up) and ``on_frontier_3d`` (KV bytes down).

    Only finite, feasible rows take part. Where the points have a cluster view, turns per GPU of the
    cluster are the throughput axis. The order of the rows does not matter.
    """
    throughput = pl.coalesce("turns_per_s_per_cluster_gpu", "turns_per_s_per_gpu")
    axes = points.select(
        *GROUP, latency="turn_latency_ms", throughput=throughput, memory="kv_bytes_per_gpu",
        row=pl.int_range(pl.len()),
        takes_part=pl.col("feasible") & pl.all_horizontal(
            pl.col(name).is_finite() for name in ("turn_latency_ms", "kv_bytes_per_gpu")
        ) & throughput.is_finite(),
    ).filter("takes_part")  # fmt: skip
    flat, deep = np.zeros(points.height, np.bool_), np.zeros(points.height, np.bool_)
    for _, group in axes.group_by(GROUP):
        rows = group["row"].to_numpy()
        latency, gain, memory = (group[name].to_numpy() for name in ("latency", "throughput", "memory"))
        flat[rows] = frontier_2d(latency, gain)
        deep[rows] = frontier_3d(latency, gain, memory)
    return points.with_columns(on_frontier=pl.Series(flat), on_frontier_3d=pl.Series(deep))


def frontier_2d(cost: Array, gain: Array) -> npt.NDArray[np.bool_]:
    """Which points no other beats: none with less-or-equal cost and more-or-equal gain, one of them strictly.

    Points with equal coordinates stand or fall together. Arrays of one length, no NaN.
    """
    order = np.lexsort((-gain, cost))
    sorted_cost, sorted_gain = cost[order], gain[order]
    first_of_cost = np.flatnonzero(np.r_[True, sorted_cost[1:] != sorted_cost[:-1]][: len(order)])
    best_of_cost = sorted_gain[first_of_cost]
    best_before = np.r_[-np.inf, np.maximum.accumulate(best_of_cost)[:-1]][: len(first_of_cost)]
    which_cost = np.repeat(np.arange(len(first_of_cost)), np.diff(np.r_[first_of_cost, len(order)]))
    keeps = (sorted_gain == best_of_cost[which_cost]) & (sorted_gain > best_before[which_cost])
    result = np.zeros(len(cost), np.bool_)
    result[order] = keeps
    return result


def frontier_3d(cost: Array, gain: Array, second_cost: Array) -> npt.NDArray[np.bool_]:
    """The same with a second cost. Equal coordinates stand or fall together."""
    result = np.zeros(len(cost), np.bool_)
    candidates = np.lexsort((second_cost, -gain, cost))
    # A point that is best at something is never beaten by one that is not: walk in order of cost and
    # keep the points that nobody seen so far beats.
    kept_gain, kept_second = np.empty(len(cost)), np.empty(len(cost))
    kept = 0
    last: tuple[float, float, float] | None = None
    for index in candidates:
        here = (cost[index], gain[index], second_cost[index])
        if here == last:
            result[index] = True
            continue
        beaten = (kept_gain[:kept] >= here[1]) & (kept_second[:kept] <= here[2])
        if not beaten.any():
            result[index] = True
            kept_gain[kept], kept_second[kept] = here[1], here[2]
            kept += 1
            last = here
    return result
