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

from schemas.options import ClosedLoop
from transforms.agent_points.judgement.feasibility import WALL_REASONS
from transforms.agent_points.rows.columns import BETWEEN_ROWS
from transforms.agent_points.rows.lookups import stations
from transforms.configurations import SCHEDULE_ID
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


def brackets_of(curves: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Each curve with the two neighbouring rows (``_next_*``) between which its ``_wanted`` sessions lie.

    ``_below`` and ``_beyond`` say that they lie before its first row or after its last; ``_order`` is its place.
    """
    c = pl.col
    wanted = curves.select(SCHEDULE_ID, "_wanted").with_row_index("_order")
    loads = rows.select(
        SCHEDULE_ID, "batch_per_rank", "sessions", "interpolated", _row=pl.int_range(pl.len()),
        **{IN_FLIGHT: in_flight_per_station()},
    )  # fmt: skip
    loads = with_next(
        loads.filter(~c("interpolated")).drop("interpolated"), SCHEDULE_ID, ("sessions", IN_FLIGHT, "_row")
    )
    pairs = loads.join(wanted, on=SCHEDULE_ID, maintain_order="left")
    within = ((c("sessions") <= c("_wanted")) & (c("_wanted") <= c("_next_sessions"))).fill_null(False)
    below, above = c("_first") & (c("_wanted") < c("sessions")), c("_last") & (c("_wanted") >= c("sessions"))
    first_batch = loads.filter("_first").select(SCHEDULE_ID, _first_batch="batch_per_rank")
    # the lowest load at which the curve holds so many sessions; else the end that is nearer
    chosen = (
        pairs.filter(within | below | above)
        .sort(within.not_(), "batch_per_rank")
        .unique("_order", keep="first", maintain_order=True)
        .with_columns(_below=c("_wanted") < c("sessions"), _beyond=~within & above)
        .join(first_batch, on=SCHEDULE_ID, maintain_order="left")
        .join(curves.drop("_wanted"), on=SCHEDULE_ID, maintain_order="left")
    )
    # the figures of the two rows; past the end of a curve there is no second
    here = rows.select(pl.exclude(chosen.columns))[chosen["_row"]]
    following = rows.select(c(name).alias(next_name(name)) for name in BETWEEN_ROWS)[chosen["_next_row"].fill_null(0)]
    return pl.concat([chosen, here, following], how="horizontal")


def at_sessions(
    pieces: pl.DataFrame, figures: Iterable[str], think_time_s: float, closed_loop: ClosedLoop
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
