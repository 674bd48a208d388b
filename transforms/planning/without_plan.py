"""Why there is no plan, and how far it is to one."""

from collections.abc import Sequence

import polars as pl

from transforms.configurations import SCHEDULE_ID
from transforms.planning.curves import Curves
from transforms.planning.limits import TOLERANCE

#: The reason where some configuration serves the sessions, but over a limit.
OVER_LIMIT = "turn_latency"


def why_not(curves: Curves, by: Sequence[str], sessions: int | None = None) -> pl.DataFrame:
    """One row for each group (columns ``by``) of curves, none of which serves the sessions within the limits.

    ``sessions``: how many are to be served; None where any number would do. ``infeasible_reason``: ``turn_latency``
    where some configuration serves them, but over a limit: the one that is nearest has turns of
    ``least_turn_latency_s`` and, for each limit, the value that would do as ``least_NAME``;
    ``fewer_sessions_than_table`` where the sessions cannot be spread so that each replica is on its curve, with the
    next number that can as ``least_sessions``; else the reason of most of the points, with ``least_tp_that_fits`` where
    weights do not fit.
    """
    c = pl.col
    of_points = curves.points.group_by(*by).agg(
        c("model").first(),
        c("scenario").first(),
        _reason=c("infeasible_reason").drop_nulls().mode().sort().first(),
        least_tp_that_fits=c("least_tp_that_fits").min(),
        least_gpus=c("gpus_per_replica").min(),
    )
    pieces = curves.pieces.with_columns(_to=pl.min_horizontal("_to", "_cap"))
    fewest = pl.max_horizontal((c("_from") * (1 - TOLERANCE)).ceil(), 1.0)
    most = (c("_to") * (1 + TOLERANCE)).floor()
    held = pieces.with_columns(_fewest=fewest, _most=most).filter(c("_fewest") <= c("_most"))
    rows = of_points.join(_nearest(curves, _shares(held, sessions), by), on=list(by), how="left")
    if sessions is None:
        rows = rows.with_columns(least_sessions=pl.lit(None, pl.Int64))
    else:
        replicas = (sessions / c("_most")).ceil()
        more = held.with_columns(_would_do=pl.max_horizontal(replicas * c("_fewest"), pl.lit(float(sessions))))
        least = more.group_by(*by).agg(least_sessions=c("_would_do").min().cast(pl.Int64))
        rows = rows.join(least, on=list(by), how="left")
    too_slow, too_few = c("least_turn_latency_s").is_not_null(), c("least_sessions").is_not_null()
    return rows.with_columns(
        feasible=pl.lit(False),
        infeasible_reason=pl.when(too_slow)
        .then(pl.lit(OVER_LIMIT))
        .when(too_few)
        .then(pl.lit("fewer_sessions_than_table"))
        .otherwise(c("_reason").fill_null("table_range")),
        least_sessions=pl.when(~too_slow).then("least_sessions"),
    ).drop("_reason")


def _shares(held: pl.DataFrame, sessions: int | None) -> pl.DataFrame:
    """Loads to judge by: the shares next to the ends of each piece, or its fewest sessions where any number does."""
    c = pl.col
    if sessions is None:
        fewest = held.select(SCHEDULE_ID, _high=c("_fewest").cast(pl.Int64)).unique()
        return fewest.with_columns(_low="_high", replicas=pl.lit(1, pl.Int64))
    shares = held.filter(c("_fewest") <= sessions).select(
        SCHEDULE_ID,
        replicas=pl.concat_list(
            (sessions // c("_fewest")).cast(pl.Int64), (sessions / c("_most")).ceil().clip(1).cast(pl.Int64)
        ),
    )
    shares = shares.explode("replicas").unique()
    return shares.with_columns(_high=(sessions + c("replicas") - 1) // c("replicas"), _low=sessions // c("replicas"))


def _nearest(curves: Curves, shares: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Of each group the load that misses the limits by least: its turns, and its figure of each limit."""
    c = pl.col
    columns = list(dict.fromkeys(bound.column for bound in curves.bounds)) or ["turn_latency_ms"]
    figures = list(dict.fromkeys(("turn_latency_ms", *columns)))
    high, low = (curves.at(shares, share).select(*by, SCHEDULE_ID, "replicas", *figures) for share in ("_high", "_low"))
    both = high.join(low, on=[*by, SCHEDULE_ID, "replicas"], suffix="_low")
    both = both.with_columns(pl.max_horizontal(name, f"{name}_low").alias(name) for name in figures)
    both = both.drop_nulls(columns)
    # a bound of zero or less is missed by any turn: what counts then is how long it takes
    misses = [c(bound.column) / (bound.most if bound.most > 0 else 1e-9) for bound in curves.bounds]
    both = both.with_columns(_miss=pl.max_horizontal(misses) if misses else c("turn_latency_ms"))
    nearest = both.sort(*by, "_miss", "turn_latency_ms").unique(list(by), keep="first", maintain_order=True)
    limits = {f"least_{bound.name}_figure": c(bound.column) for bound in curves.bounds}
    return nearest.select(*by, least_turn_latency_s=c("turn_latency_ms") / 1e3, **limits)
