"""A configuration at any number of sessions: the two rows of its curve that enclose it, and what lies between them.

Rows of one curve differ in their load only. Between two neighbours R is linear in the requests in flight, and so is
every figure of a turn (model.md 5.7); past the ends of a curve nothing is known. Operating points and plans read their
figures here, on frames of agent points; ``equations.curve`` has the solution itself, the explorer's page a copy of it.

Three sessions with 2 requests in flight and turns of 2 s, 8.5 sessions with 6 in flight and turns of 4 s, pauses of
2 s: five sessions lie 0.32 of the way from the first to the second, with 3.27 in flight and turns of 2.64 s.
"""

from collections.abc import Iterable
from typing import Final

import polars as pl

from transforms.agent_points.judgement.feasibility import WALL_REASONS
from transforms.agent_points.rows.lookups import stations
from transforms.equations import closed_loop as loop
from transforms.equations.curve import along, in_flight_between, share_between
from transforms.numbers import Number

#: Requests in flight at each station of a row.
IN_FLIGHT: Final = "_b"


def in_flight_per_station() -> pl.Expr:
    """``b`` of agent points: requests in flight at each station, by Little's law."""
    c = pl.col
    b: pl.Expr = loop.in_flight_per_station(c("serving_requests_per_s"), c("turn_latency_ms") / 1e3, stations())
    return b


def sessions_held() -> pl.Expr:
    """The sessions that memory holds of one curve, over its agent points; infinite where its rows end before the wall.

    Where what is in flight has a memory of its own, the point at the wall says how many; else every row does. A curve
    of 8, 16 and 24 sessions, 20 of which fit, is held at 20: at its wall point, or by the ``max_sessions`` of its rows.
    """
    c = pl.col
    beyond_wall = c("infeasible_reason").is_in(WALL_REASONS).fill_null(False)
    same_at_any_load = c("max_in_flight_requests").is_null()
    at_wall = pl.when(same_at_any_load).then("max_sessions").when("feasible").then("sessions").otherwise(0.0).max()
    # where even a batch of one is beyond the wall, fewer sessions are served as it would be, and so many of them fit
    alone = pl.when(beyond_wall & (c("batch_per_rank") <= 1)).then("max_sessions").otherwise(0.0).max()
    meets_wall = (beyond_wall | same_at_any_load).any()
    return pl.when(meets_wall).then(pl.when(at_wall > 0).then(at_wall).otherwise(alone)).otherwise(float("inf"))


def with_next(rows: pl.DataFrame, curve: str, figures: Iterable[str]) -> pl.DataFrame:
    """Rows in the order of their curves (column ``curve``) and loads, each with figures of the next one of its curve.

    The figures stand under ``next_name``, NULL at the last row of a curve; ``_first`` and ``_last`` say which rows
    are at an end.
    """
    number = pl.col(curve)
    ordered = rows.sort(curve, "batch_per_rank", "sessions").with_columns(
        _first=(number != number.shift(1)).fill_null(True), _last=(number != number.shift(-1)).fill_null(True)
    )
    return ordered.with_columns(
        pl.when(~pl.col("_last")).then(pl.col(name).shift(-1)).alias(next_name(name)) for name in figures
    )


def next_name(figure: str) -> str:
    """The column of a figure of the next row."""
    return f"_next_{figure.removeprefix('_')}"


def at_sessions(
    pieces: pl.DataFrame, figures: Iterable[str], think_time_s: float, closed_loop: loop.ClosedLoop
) -> pl.DataFrame:
    """Pairs of neighbouring rows, each with its ``figures`` at the ``_wanted`` sessions that it encloses.

    Needs ``_stations``, ``IN_FLIGHT``, the figures, and these of the next row. ``_share``: how far the point lies from
    the first row to the second, in requests in flight.
    """
    c = pl.col
    low_s, high_s = c("turn_latency_ms") / 1e3, c(next_name("turn_latency_ms")) / 1e3
    low_b, high_b = c(IN_FLIGHT), c(next_name(IN_FLIGHT))
    b: Number = in_flight_between(
        c("_wanted") / c("_stations"), low_b, low_s, high_b, high_s, think_time_s, closed_loop
    )
    placed = pieces.with_columns(_share=share_between(b, low_b, high_b).clip(0.0, 1.0))
    lines = {name: along(c(name), c(next_name(name)), c("_share")) for name in figures}
    return placed.with_columns(**lines, sessions="_wanted")
