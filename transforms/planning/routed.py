"""Configurations whose turns go to any of their replicas, each at the number of replicas that its plan has.

More replicas find less of a session's prefix, and what they find less of takes more replicas: a plan is the fewest
replicas that serve all sessions at the hit rates of so many.
"""

from collections.abc import Callable

import polars as pl

from transforms.configurations import SCHEDULE_ID

#: Of a point: the fewest replicas that a plan may have of its configuration.
LEAST_REPLICAS = "_least_replicas"

#: Agent points with ``SCHEDULE_ID`` among so many replicas; of the serving points of these ids, or of all.
PointsAmong = Callable[[int, pl.Series | None], pl.DataFrame]
#: ``replicas`` of each curve that a plan has, by ``SCHEDULE_ID``.
Plans = Callable[[pl.DataFrame], pl.DataFrame]


def among_own_replicas(points_among: PointsAmong, plans_of: Plans, by: list[str]) -> pl.DataFrame:
    """The points of each configuration among as many replicas as its plan needs (``LEAST_REPLICAS``).

    The answer among n replicas bounds that among more from below: numbers between the two need not be tried. What needs
    more GPUs than another of its group (columns ``by``) is left out; what no number of replicas serves has its points
    among the fewest tried.
    """
    c, among, open_ids = pl.col, 1, None
    found: list[pl.DataFrame] = []
    best: dict[tuple[object, ...], int] = {}
    while True:
        points = points_among(among, open_ids).with_columns(pl.lit(among, pl.Int64).alias(LEAST_REPLICAS))
        plans = plans_of(points).select(SCHEDULE_ID, _needed="replicas")
        points = points.join(plans, on=SCHEDULE_ID, how="left", maintain_order="left")
        settled = points.filter(c("_needed").is_null() | (c("_needed") <= among)).drop("_needed")
        found.append(settled)
        gpus = points.filter(c("_needed") <= among).group_by(by).agg(_gpus=(among * c("gpus_per_replica")).min())
        for *group, number in gpus.iter_rows():
            best[tuple(group)] = min(number, best.get(tuple(group), number))
        rest = points.filter(c("_needed") > among)
        known = pl.Series([best.get(group) for group in rest.select(by).iter_rows()], dtype=pl.Int64)
        rest = rest.filter((known > rest["_needed"] * rest["gpus_per_replica"]).fill_null(True))
        if rest.is_empty():
            return pl.concat(found)
        among, open_ids = int(rest["_needed"].min()), rest["point_id"]  # type: ignore[arg-type]
