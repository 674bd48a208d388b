"""The Pareto frontier of each group of agent points (model.md 6)."""

from bisect import bisect_left
from typing import Final

import numpy as np
import polars as pl

from schemas.arrays import Array, Flags
from transforms.agent_points.rows.columns import BEYOND_MEASURED
from transforms.numbers import begins_run

#: Points compete within a group.
GROUP: Final = ("hardware", "model", "weight_dtype", "scenario")


def measured_load() -> pl.Expr:
    """Whether a point's load lies within those that were measured, so that it counts in frontiers and answers."""
    return pl.col("unmeasured_load").ne_missing(BEYOND_MEASURED)


def mark_frontiers(points: pl.DataFrame) -> pl.DataFrame:
    """Adds ``on_frontier`` (turn latency down, turns per GPU up) and ``on_frontier_3d`` (KV bytes down).

    Only finite, feasible rows take part, and none of a load beyond those measured. Where the points have a cluster
    view, turns per GPU of the cluster are the throughput axis. The order of the rows does not matter.
    """
    throughput = pl.coalesce("turns_per_s_per_cluster_gpu", "turns_per_s_per_gpu")
    axes = points.select(
        *GROUP, latency="turn_latency_ms", throughput=throughput, memory="kv_bytes_per_gpu",
        row=pl.int_range(pl.len()),
        takes_part=pl.col("feasible") & pl.all_horizontal(
            pl.col(name).is_finite() for name in ("turn_latency_ms", "kv_bytes_per_gpu")
        ) & throughput.is_finite() & measured_load(),
    ).filter("takes_part")  # fmt: skip
    flat, deep = np.zeros(points.height, np.bool_), np.zeros(points.height, np.bool_)
    for _, group in axes.group_by(GROUP):
        rows = group["row"].to_numpy()
        latency, gain, memory = (group[name].to_numpy() for name in ("latency", "throughput", "memory"))
        flat[rows] = frontier_2d(latency, gain)
        deep[rows] = frontier_3d(latency, gain, memory)
    return points.with_columns(on_frontier=pl.Series(flat), on_frontier_3d=pl.Series(deep))


def frontier_2d(cost: Array, gain: Array) -> Flags:
    """Which points no other beats: none with less-or-equal cost and more-or-equal gain, one of them strictly.

    Points with equal coordinates stand or fall together. Arrays of one length, no NaN.
    """
    order = np.lexsort((-gain, cost))
    sorted_cost, sorted_gain = cost[order], gain[order]
    first_of_cost = np.flatnonzero(begins_run(sorted_cost))
    best_of_cost = sorted_gain[first_of_cost]
    best_before = np.r_[-np.inf, np.maximum.accumulate(best_of_cost)[:-1]][: len(first_of_cost)]
    which_cost = np.repeat(np.arange(len(first_of_cost)), np.diff(np.r_[first_of_cost, len(order)]))
    keeps = (sorted_gain == best_of_cost[which_cost]) & (sorted_gain > best_before[which_cost])
    result = np.zeros(len(cost), np.bool_)
    result[order] = keeps
    return result


def frontier_3d(cost: Array, gain: Array, second_cost: Array) -> Flags:
    """The same with a second cost. Equal coordinates stand or fall together."""
    result = np.zeros(len(cost), np.bool_)
    order = np.lexsort((second_cost, -gain, cost))
    axes = np.stack((gain, second_cost, cost))[:, order]
    first_of_equals = begins_run(*axes)
    gains, seconds, _ = axes[:, first_of_equals]
    keeps = np.zeros(len(gains), np.bool_)
    # Who comes first in the order of cost, then gain, is beaten by none that comes later. Of the points seen so far
    # only a staircase counts, gain and second cost rising together: a point is beaten if the first step with its gain
    # or more costs no more. What the steps so far beat goes out a block at a time, the rest is looked at one by one.
    step_gains, step_seconds = [np.inf], [np.inf]
    start, size = 0, 64
    while start < len(gains):
        block = slice(start, start + size)
        step = np.searchsorted(step_gains, gains[block])
        for place in start + np.flatnonzero(np.asarray(step_seconds)[step] > seconds[block]):
            here, second = float(gains[place]), float(seconds[place])
            at = bisect_left(step_gains, here)
            if step_seconds[at] <= second:
                continue
            keeps[place] = True
            # steps with less gain that cost as much or more count no longer
            lowest = bisect_left(step_seconds, second, 0, at)
            at += step_gains[at] == here
            step_gains[lowest:at], step_seconds[lowest:at] = [here], [second]
        start, size = start + size, min(2 * size, 4096)
    result[order] = keeps[np.cumsum(first_of_equals) - 1]
    return result
