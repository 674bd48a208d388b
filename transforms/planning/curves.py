"""The curves of a question: published agent points of one model and scenario, and what its limits leave of them."""

from dataclasses import dataclass
from functools import cached_property

import polars as pl

from schemas.options import ClosedLoop
from transforms.configurations import SCHEDULE_ID
from transforms.planning.limits import TOLERANCE, Bound, Limits, Loop, add_time_per_token, figures_at
from transforms.planning.segments import add_curves, segments, solve, within


@dataclass(frozen=True)
class Curves:
    """Agent points with ``SCHEDULE_ID`` (``segments.add_curves``), and what is asked of them."""

    points: pl.DataFrame
    limits: Limits
    scenario: Loop
    closed_loop: ClosedLoop = "arrival"

    @classmethod
    def of_points(
        cls, points: pl.DataFrame, limits: Limits, scenario: Loop, closed_loop: ClosedLoop = "arrival"
    ) -> "Curves":
        """The curves of published agent points of one model and scenario."""
        return cls(add_curves(add_time_per_token(points, limits.at)), limits, scenario, closed_loop)

    @cached_property
    def bounds(self) -> tuple[Bound, ...]:
        """The limits as bounds on columns."""
        return self.limits.bounds(self.scenario)

    @cached_property
    def figures(self) -> tuple[str, ...]:
        """What is read between rows beside the means of a turn."""
        return figures_at(self.limits.at, self.points.columns)

    @cached_property
    def pieces(self) -> pl.DataFrame:
        """The curves between neighbouring rows."""
        return segments(self.points, self.figures)

    @cached_property
    def allowed(self) -> pl.DataFrame:
        """The parts of the pieces on which the limits hold and memory holds the sessions."""
        return within(self.pieces, self.bounds, self.scenario.think_time_s, self.closed_loop)

    @cached_property
    def most(self) -> pl.DataFrame:
        """Whole numbers of sessions at the upper ends of what is allowed (``_most``), a row each, with figures."""
        c = pl.col
        ends = self.allowed.with_columns(_most=(c("_to") * (1 + TOLERANCE)).floor())
        ends = ends.filter((c("_most") >= 1) & (c("_most") >= c("_from") * (1 - TOLERANCE)))
        ends = ends.select(SCHEDULE_ID, c("_most").clip(upper_bound=2.0**53).cast(pl.Int64)).unique()
        return self.serve(ends, "_most")

    @cached_property
    def stops(self) -> pl.DataFrame:
        """What stops each curve from serving more (``_stop``)."""
        at_end = self.allowed.sort("_to", pl.col("_stop") == "table", descending=[True, False])
        return at_end.unique(SCHEDULE_ID, keep="first", maintain_order=True).select(SCHEDULE_ID, "_stop")

    def at(self, wanted: pl.DataFrame, sessions: str) -> pl.DataFrame:
        """The rows of ``wanted`` (a curve and a column of ``sessions``) that the curve serves, with its figures."""
        return solve(self.pieces, wanted, sessions, self.scenario.think_time_s, self.closed_loop, self.figures)

    def serve(self, wanted: pl.DataFrame, sessions: str) -> pl.DataFrame:
        """As ``at``, of the rows on which the limits hold."""
        served = self.at(wanted, sessions)
        return served.filter(bound.allows() for bound in self.bounds) if self.bounds else served

    def serve_or_fewer(self, wanted: pl.DataFrame, sessions: str) -> pl.DataFrame:
        """As ``serve``; a load that the curve does not tell within the limits has the figures of the next that it does.

        Fewer sessions are served no slower than more: the figures are the most that they can be. ``_read_at``: the
        sessions whose figures they are. A table begins at five sessions: three are read off there.
        """
        c = pl.col
        keys = list(wanted.columns)
        served = self.serve(wanted, sessions).with_columns(
            _read_at=pl.coalesce("_read_at", c(sessions).cast(pl.Float64))
        )
        left = wanted.join(served, on=keys, how="anti")
        first = pl.max_horizontal((c("_from") * (1 - TOLERANCE)).ceil(), c(sessions))
        parts = self.allowed.select(SCHEDULE_ID, "_from", "_to")
        loads = left.join(parts, on=SCHEDULE_ID).with_columns(_load=first.cast(pl.Int64))
        loads = loads.filter(c("_load") <= c("_to") * (1 + TOLERANCE)).select(*keys, "_load")
        ends = left.join(self.most.select(SCHEDULE_ID, _load="_most"), on=SCHEDULE_ID)
        loads = pl.concat([loads, ends.filter(c("_load") >= c(sessions)).select(loads.columns)]).unique()
        above = self.serve(loads, "_load").sort(*keys, "_load").unique(keys, keep="first", maintain_order=True)
        above = above.with_columns(_read_at=c("_load").cast(pl.Float64))
        return pl.concat([served, above.select(served.columns)])

    def share(self, shares: pl.DataFrame, sessions: int) -> pl.DataFrame:
        """Curves and ``replicas`` that serve ``sessions`` evenly within the limits, with figures of the fuller ones.

        ``_high`` and ``_low``: the sessions of the fuller and the emptier replicas.
        """
        c = pl.col
        shares = shares.with_columns(
            _high=(sessions + c("replicas") - 1) // c("replicas"), _low=sessions // c("replicas")
        )
        high, low = (self.serve_or_fewer(shares, share) for share in ("_high", "_low"))
        lows = low.select(SCHEDULE_ID, "replicas", _low_latency_ms="turn_latency_ms")
        return high.join(lows, on=[SCHEDULE_ID, "replicas"], how="inner")
