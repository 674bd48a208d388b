"""Which rows lie on one curve, the point at which it meets the KV wall, and what stops it (model.md 5.6)."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schemas.arrays import Array, Flags, Indices
from schemas.options import ClosedLoop
from transforms.agent_points.judgement.feasibility import STATIC_LIMITS, WALL_REASONS, WALL_TOLERANCE
from transforms.agent_points.rows.columns import BETWEEN_ROWS, CLIFF_OF_HIT_RATE, with_own_rate
from transforms.agent_points.rows.lookups import Deployed
from transforms.agent_points.rows.rows import LABELS, Rows, code
from transforms.configurations import CURVE_ID
from transforms.equations import closed_loop as loop
from transforms.equations.curve import along, sessions_at_wall, share_between
from transforms.numbers import Number


@dataclass(frozen=True)
class RowCurves:
    """``number`` rises from row to row; within a curve ``batch`` does, NULL first.

    ``has_ties``: rows of one curve may have the same batch.
    """

    number: npt.NDArray[np.int64]
    batch: Array
    has_ties: bool

    @classmethod
    def of_rows(cls, rows: Rows) -> "RowCurves":
        """The curves of rows that are sorted by curve and batch."""
        number = rows[CURVE_ID].astype(np.int64)
        batch = np.nan_to_num(rows["batch_per_rank"], nan=-1.0)
        ties = (number[1:] == number[:-1]) & (batch[1:] == batch[:-1])
        return cls(number, batch, bool(ties.any()))

    def in_order(self, sessions: Array, which: Indices) -> Indices:
        """Places of some rows, curve by curve, in the order of their load: batch, then sessions."""
        if not self.has_ties:
            return which
        return which[np.lexsort((sessions[which], self.batch[which], self.number[which]))]

    def any(self, flags: Flags) -> Flags:
        """Whether a flag is set in any row of each row's curve."""
        if not len(flags):
            return flags
        starts = np.flatnonzero(np.diff(self.number, prepend=-1))
        lengths = np.diff(np.r_[starts, len(flags)])
        return np.repeat(np.logical_or.reduceat(flags, starts), lengths)


def is_at_wall(rows: Rows) -> Flags:
    """Whether the reason against a point is one that a lower load mends."""
    mended = np.array([reason in WALL_REASONS for reason in LABELS["infeasible_reason"]])
    return np.asarray(mended[rows["infeasible_reason"]])


def crossings(rows: Rows, curves: RowCurves) -> tuple[Indices, Indices]:
    """For each curve that crosses its wall, its last row that fits, and the next.

    Only rows whose one fault is the wall take part; a wall below a curve's first row gives none.
    """
    feasible, sessions = rows["feasible"], rows["sessions"]
    order = curves.in_order(sessions, np.flatnonzero(feasible | is_at_wall(rows)))
    here, following = order[:-1], order[1:]
    same_curve = curves.number[here] == curves.number[following]
    crosses = same_curve & feasible[here] & ~feasible[following] & (sessions[following] > sessions[here])
    here, following = here[crosses], following[crosses]
    first = np.diff(curves.number[here], prepend=-1) != 0
    return here[first], following[first]


def wall_points(rows: Rows, curves: RowCurves, think_time_s: float, closed_loop: ClosedLoop) -> Rows:
    """One new row for each curve that crosses its wall: sessions = what memory holds there.

    Between the last row that fits and the next, TTFT and TPOT are linear in the sessions. The rows
    have the turn figures, ``sessions`` and ``serving_requests_per_s``; what follows from these is
    left to the steps that make it. A curve that crosses its wall where its cache's hit rate falls has none.
    """
    low, high = (rows.take(places) for places in crossings(rows, curves))
    latency_s, next_latency_s = low["turn_latency_ms"] / 1e3, high["turn_latency_ms"] / 1e3
    # no limit for what is in flight: an infinite one
    slots = np.nan_to_num(low["_in_flight_slots"], nan=np.inf)
    # the sessions of a mix change with the load, and with them what one of them takes
    parked = np.minimum(low["_parked_limit"], high["_parked_limit"])
    sessions = sessions_at_wall(
        low["sessions"], latency_s, high["sessions"], next_latency_s, think_time_s, parked, slots
    )
    # at the wall itself the row is the point already; across a cache's cliff no figure is known
    falls = np.abs(high["cache_hit_rate"] - low["cache_hit_rate"]) > CLIFF_OF_HIT_RATE
    beyond = (sessions > low["sessions"]) & ~falls
    low, high, sessions = low.take(beyond), high.take(beyond), sessions[beyond]
    share = share_between(sessions, low["sessions"], high["sessions"])
    turn = {name: _between(low[name], high[name], share) for name in BETWEEN_ROWS}
    latency_s = turn["turn_latency_ms"] / 1e3
    rho = loop.activity_fraction(latency_s, think_time_s)
    in_flight = loop.in_flight_of_sessions(sessions, rho, Deployed(low).stations, closed_loop)
    return low.with_figures({**turn, **with_own_rate(turn, in_flight / latency_s)}, sessions=sessions)


def _between(low: Number, high: Number, share: Number) -> Number:
    return along(low, high, share) if isinstance(low, np.ndarray) else low


def name_curve_limits(rows: Rows, curves: RowCurves) -> Rows:
    """What only a whole curve tells: ``binding_limit``, and whether the wall is below its first row.

    The binding limit is what is met first when sessions are added: memory where the curve reaches the
    wall, the table's last row where it does not; a reason that no load mends comes first.
    """
    reason, feasible = rows["infeasible_reason"], rows["feasible"]
    reaches_wall = curves.any(rows["sessions"] > rows["max_sessions"] * (1 - WALL_TOLERANCE))
    below_table = (reason == code("infeasible_reason", "kv_capacity")) & ~curves.any(feasible)
    limit = np.where(reaches_wall, rows["binding_limit"], code("binding_limit", "table_range")).astype(np.int8)
    for text, static in STATIC_LIMITS.items():
        is_static = reason == code("infeasible_reason", text)
        np.copyto(limit, np.int8(code("binding_limit", static)), where=is_static)
    return rows.with_figures(
        infeasible_reason=np.where(below_table, np.int8(code("infeasible_reason", "kv_capacity_below_table")), reason),
        binding_limit=limit,
    )
