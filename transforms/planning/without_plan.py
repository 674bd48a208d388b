"""Why hardware has no plan, and how far it is from one."""

import polars as pl

from transforms.configurations import SCHEDULE_ID
from transforms.equations import closed_loop as loop
from transforms.planning.limits import TOLERANCE, Loop
from transforms.planning.segments import segments, solve


def why_not(points: pl.DataFrame, sessions: int, scenario: Loop, closed_loop: loop.ClosedLoop) -> pl.DataFrame:
    """One row for each hardware of the points (with curves), none of which serves the sessions within the limits.

    ``infeasible_reason``: ``turn_latency`` where some configuration serves them, but slower than the limits, with the
    shortest turn as ``least_turn_latency_s``; ``fewer_sessions_than_table`` where the sessions cannot be spread so that
    each replica is on its curve, with the next number that can as ``least_sessions``; else the reason of most of the
    points, with ``least_tp_that_fits`` where weights do not fit.
    """
    c = pl.col
    of_points = points.group_by("hardware", "model", "scenario").agg(
        _reason=c("infeasible_reason").drop_nulls().mode().sort().first(),
        least_tp_that_fits=c("least_tp_that_fits").min(),
    )
    pieces = segments(points).with_columns(_to=pl.min_horizontal("_to", "_cap"))
    fewest = pl.max_horizontal((c("_from") * (1 - TOLERANCE)).ceil(), 1.0)
    most = (c("_to") * (1 + TOLERANCE)).floor()
    held = pieces.with_columns(_fewest=fewest, _most=most).filter(c("_fewest") <= c("_most"))
    replicas = (sessions / c("_most")).ceil()
    more = held.with_columns(_would_do=pl.max_horizontal(replicas * c("_fewest"), pl.lit(float(sessions))))
    least = more.group_by("hardware").agg(least_sessions=c("_would_do").min().cast(pl.Int64))
    # the shares next to the ends of each piece
    shares = held.filter(c("_fewest") <= sessions).select(
        SCHEDULE_ID,
        replicas=pl.concat_list(
            (sessions // c("_fewest")).cast(pl.Int64), (sessions / c("_most")).ceil().clip(1).cast(pl.Int64)
        ),
    )
    shares = shares.explode("replicas").unique()
    shares = shares.with_columns(_high=(sessions + c("replicas") - 1) // c("replicas"), _low=sessions // c("replicas"))
    high, low = (
        solve(segments(points), shares, share, scenario.think_time_s, closed_loop).select(
            "hardware", SCHEDULE_ID, "replicas", "turn_latency_ms"
        )
        for share in ("_high", "_low")
    )
    both = high.join(low, on=["hardware", SCHEDULE_ID, "replicas"], suffix="_low")
    fastest = both.group_by("hardware").agg(
        least_turn_latency_s=pl.max_horizontal("turn_latency_ms", "turn_latency_ms_low").min() / 1e3
    )
    rows = of_points.join(fastest, on="hardware", how="left").join(least, on="hardware", how="left")
    too_slow, too_few = c("least_turn_latency_s").is_not_null(), c("least_sessions").is_not_null()
    return rows.with_columns(
        feasible=pl.lit(False),
        infeasible_reason=pl.when(too_slow)
        .then(pl.lit("turn_latency"))
        .when(too_few)
        .then(pl.lit("fewer_sessions_than_table"))
        .otherwise(c("_reason").fill_null("table_range")),
        least_sessions=pl.when(~too_slow).then("least_sessions"),
    ).drop("_reason")
