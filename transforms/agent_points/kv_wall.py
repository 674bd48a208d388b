"""The point at which a curve meets the KV wall (MODEL section 5.6)."""

import polars as pl

from schemas.scenarios import Scenario
from transforms.agent_points.columns import TURN_FIGURES
from transforms.agent_points.feasibility import WALL_REASONS
from transforms.agent_points.sessions import stations
from transforms.configurations import CURVE_ID
from transforms.equations import closed_loop as loop
from transforms.equations.curve import sessions_at_wall


def wall_points(points: pl.DataFrame, scenario: Scenario, closed_loop: loop.ClosedLoop) -> pl.DataFrame:
    """One new row for each curve that crosses its wall: sessions = what memory holds there.

    Between the last row that fits and the next, TTFT and TPOT are linear in the sessions. Only rows
    whose one fault is the wall take part; a wall below a curve's first row gives no point. The rows
    have the turn figures, ``sessions`` and ``serving_requests_per_s``; what follows from these is
    left to the steps that make it.
    """
    c = pl.col
    only_wall = points.filter(c("infeasible_reason").is_null() | c("infeasible_reason").is_in(WALL_REASONS))
    order = only_wall.sort("batch_per_rank", "sessions")
    following = ("sessions", *TURN_FIGURES, "feasible")
    pairs = order.with_columns(c(name).shift(-1).over(CURVE_ID).alias(f"_next_{name}") for name in following)
    crossing = pairs.filter(c("feasible") & ~c("_next_feasible") & (c("_next_sessions") > c("sessions")))
    first = crossing.filter(pl.int_range(pl.len()).over(CURVE_ID) == 0)
    if first.is_empty():
        return first.drop(f"_next_{name}" for name in following)
    first = first.with_columns(_sessions_at_wall=_sessions_at_wall(scenario.think_time_s))
    share = (c("_sessions_at_wall") - c("sessions")) / (c("_next_sessions") - c("sessions"))
    # at the wall itself the row is the point already
    first = first.filter(c("_sessions_at_wall") > c("sessions"))
    first = first.with_columns(
        sessions=c("_sessions_at_wall"),
        point_id=c("point_id") + "-wall",
        interpolated=pl.lit(True),
        concurrency_reported=pl.lit(None, pl.Float64),
        batch_per_rank=pl.lit(None, pl.Float64),
        **{name: c(name) + share * (c(f"_next_{name}") - c(name)) for name in TURN_FIGURES},
    )
    latency_s = c("turn_latency_ms") / 1e3
    rho = loop.activity_fraction(latency_s, scenario.think_time_s)
    in_flight = loop.in_flight_of_sessions(c("sessions"), rho, stations(), closed_loop)
    first = first.with_columns(serving_requests_per_s=in_flight / latency_s)
    return first.drop("_sessions_at_wall", *(f"_next_{name}" for name in following))


def _sessions_at_wall(think_time_s: float) -> pl.Expr:
    """Sessions at which a limit is met: the parked KV, or the decode slots for those in flight."""
    c = pl.col
    wall: pl.Expr = sessions_at_wall(
        c("sessions"), c("turn_latency_ms") / 1e3, c("_next_sessions"), c("_next_turn_latency_ms") / 1e3,
        think_time_s, c("_parked_limit"), c("_in_flight_slots"),
    )  # fmt: skip
    return wall
