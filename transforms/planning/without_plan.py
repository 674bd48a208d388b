"""Why there is no plan, and how far it is to one."""

from collections.abc import Sequence

import polars as pl

from transforms.configurations import SCHEDULE_ID
from transforms.planning.curves import Curves
from transforms.planning.limits import TOLERANCE

#: The reason where some configuration serves the sessions, but over a limit.
OVER_LIMIT = "turn_latency"


def why_not(curves: Curves, by: Sequence[str]) -> pl.DataFrame:
    """One row for each group (columns ``by``) of curves, none of which serves any session within the limits.

    ``infeasible_reason``: ``turn_latency`` where some configuration serves sessions, but over a limit: the one that is
    nearest has turns of ``least_turn_latency_s`` and, for each limit, the value that would do as ``least_NAME_figure``;
    else the reason of most of the points, with ``least_tp_that_fits`` where weights do not fit.
    """
    c = pl.col
    of_points = curves.points.group_by(*by).agg(
        c("model").first(),
        c("scenario").first(),
        _reason=c("infeasible_reason").drop_nulls().mode().sort().first(),
        least_tp_that_fits=c("least_tp_that_fits").min(),
        least_gpus=c("gpus_per_replica").min(),
    )
    rows = of_points.join(_nearest(curves, by), on=list(by), how="left")
    reason = pl.when(c("least_turn_latency_s").is_not_null()).then(pl.lit(OVER_LIMIT)).otherwise("_reason")
    return rows.with_columns(feasible=pl.lit(False), infeasible_reason=reason.fill_null("table_range")).drop("_reason")


def _fewest(curves: Curves) -> pl.DataFrame:
    """The fewest whole sessions (``_each``) of each piece of the curves that memory holds."""
    c = pl.col
    fewest = pl.max_horizontal((c("_from") * (1 - TOLERANCE)).ceil(), 1.0)
    most = (pl.min_horizontal("_to", "_cap") * (1 + TOLERANCE)).floor()
    return curves.pieces.filter(fewest <= most).select(SCHEDULE_ID, _each=fewest.cast(pl.Int64)).unique()


def _nearest(curves: Curves, by: Sequence[str]) -> pl.DataFrame:
    """Of each group the load that misses the limits by least: its turns, and its figure of each limit."""
    c = pl.col
    columns = list(dict.fromkeys(bound.column for bound in curves.bounds)) or ["turn_latency_ms"]
    loads = curves.at(_fewest(curves), "_each").drop_nulls(columns)
    # a bound of zero or less is missed by any turn: what counts then is how long it takes
    misses = [c(bound.column) / (bound.most if bound.most > 0 else 1e-9) for bound in curves.bounds]
    loads = loads.with_columns(_miss=pl.max_horizontal(misses) if misses else c("turn_latency_ms"))
    nearest = loads.sort(*by, "_miss", "turn_latency_ms").unique(list(by), keep="first", maintain_order=True)
    limits = {f"least_{bound.name}_figure": c(bound.column) for bound in curves.bounds}
    return nearest.select(*by, least_turn_latency_s=c("turn_latency_ms") / 1e3, **limits)
