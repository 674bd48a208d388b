"""Curves of published agent points, cut into pieces between neighbouring rows, and their figures at any load there."""

from collections.abc import Sequence

import polars as pl

from schemas.options import ClosedLoop
from transforms.agent_points.curve.between import (
    IN_FLIGHT,
    at_sessions,
    in_flight_per_station,
    next_name,
    sessions_held,
    with_next,
)
from transforms.agent_points.judgement.feasibility import WALL_REASONS
from transforms.agent_points.rows.columns import CLIFF_OF_HIT_RATE, TURN_FIGURES
from transforms.agent_points.rows.lookups import stations
from transforms.configurations import SCHEDULE_ID, schedule_number
from transforms.equations import closed_loop as loop
from transforms.equations.curve import along
from transforms.planning.limits import TOLERANCE, Bound


def add_curves(points: pl.DataFrame) -> pl.DataFrame:
    """Agent points with ``SCHEDULE_ID``, a number for rows that differ only in their load, and with what bounds it.

    ``_cap``: sessions at the KV wall, infinite where the table ends before it. ``_memory``: the memory that is met.
    """
    c = pl.col
    points = points.with_columns(
        schedule_number().alias(SCHEDULE_ID),
        _sound=c("infeasible_reason").is_null() | c("infeasible_reason").is_in(WALL_REASONS),
    )
    memory = c("binding_limit").filter(c("binding_limit").str.ends_with("memory"))
    return points.with_columns(
        _cap=sessions_held().over(SCHEDULE_ID), _memory=memory.first().over(SCHEDULE_ID).fill_null("kv_memory")
    )


def segments(points: pl.DataFrame, figures: Sequence[str] = ()) -> pl.DataFrame:
    """The pieces of the curves on which a number of sessions has an answer, in the order of the load.

    ``figures``: what is read on straight lines between rows beside the means of a turn.

    A piece is its lower row and, as ``_next_*``, its upper one; sessions lie between ``_from`` and ``_to``. The first
    row of a curve serves fewer sessions as well as its own, no slower than these: it has a piece of its own below it,
    and ``_read_at`` are its sessions where a batch above one makes that a bound.
    Rows that cannot be run for another reason than memory bound no piece. Where the cache's hit rate falls between two
    rows, no piece joins them.
    """
    c = pl.col
    lines = (*TURN_FIGURES, *figures, "sessions", IN_FLIGHT)
    rows = points.filter(~c("interpolated")).with_columns(_stations=stations(), **{IN_FLIGHT: in_flight_per_station()})
    rows = with_next(rows, SCHEDULE_ID, (*lines, "_sound", "cache_hit_rate")).with_row_index("_rank")
    rows = rows.with_columns(c("_rank").cast(pl.Int64))
    alone = rows.filter(c("_first") & c("_sound")).with_columns(
        *(c(name).alias(next_name(name)) for name in lines),
        _from=pl.lit(0.0), _to=c("sessions"), _rank=c("_rank") - 1, _cliff=pl.lit(False),
        _read_at=pl.when(c("batch_per_rank") > 1).then("sessions"),
    )  # fmt: skip
    next_is_sound = c("_next_sound").fill_null(False)
    falls = (c("cache_hit_rate") - c("_next_cache_hit_rate")).abs() > CLIFF_OF_HIT_RATE
    pairs = rows.with_columns(_cliff=(falls & next_is_sound).fill_null(False))
    # a row by itself, or before a cliff of its cache, is a piece without length
    joined = next_is_sound & ~c("_cliff")
    pairs = pairs.with_columns(
        pl.when(joined).then(next_name(name)).otherwise(name).alias(next_name(name)) for name in lines
    )
    pairs = pairs.filter(c("_sound") & (c("_next_sessions") >= c("sessions")))
    pairs = pairs.with_columns(_from=c("sessions"), _to=c("_next_sessions"), _read_at=pl.lit(None, pl.Float64))
    return pl.concat([alone.select(pairs.columns), pairs]).sort(SCHEDULE_ID, "_rank")


def within(pieces: pl.DataFrame, bounds: Sequence[Bound], think_time_s: float, preset: ClosedLoop) -> pl.DataFrame:
    """The parts of the pieces on which all bounds hold and memory holds the sessions.

    Narrows ``_from`` and ``_to``; ``_stop`` says what ends a part above: a bound by its name, memory, cache or table.
    """
    c = pl.col
    parts = pieces.with_columns(_stop=pl.when("_cliff").then(pl.lit("cache")).otherwise(pl.lit("table")))
    for bound in bounds:
        parts = _within_bound(parts, bound, think_time_s, preset)
    return parts.with_columns(
        _stop=pl.when(c("_cap") <= c("_to")).then(pl.lit("memory")).otherwise("_stop"),
        _to=pl.min_horizontal("_to", "_cap"),
    ).filter(c("_from") <= c("_to") * (1 + TOLERANCE))


def _within_bound(parts: pl.DataFrame, bound: Bound, think_time_s: float, preset: ClosedLoop) -> pl.DataFrame:
    c = pl.col
    if bound.most <= 0:
        return parts.clear()
    low, high = c(bound.column), c(next_name(bound.column))
    share = (bound.most - low) / (high - low)
    b_at_bound = along(c(IN_FLIGHT), c(next_name(IN_FLIGHT)), share)
    latency_s = along(c("turn_latency_ms"), c(next_name("turn_latency_ms")), share) / 1e3
    rho = loop.activity_fraction(latency_s, think_time_s)
    crossing = loop.sessions_that_fill(b_at_bound, rho, c("_stations"), preset)
    allowed = bound.most * (1 + TOLERANCE)
    cut_above = (low <= allowed) & (high > allowed) & (crossing < c("_to"))
    cut_below = (low > allowed) & (high <= allowed)
    return parts.filter(pl.min_horizontal(low, high) <= allowed).with_columns(
        _from=pl.when(cut_below).then(pl.max_horizontal("_from", crossing)).otherwise("_from"),
        _to=pl.when(cut_above).then(crossing).otherwise("_to"),
        _stop=pl.when(cut_above).then(pl.lit(bound.name)).otherwise("_stop"),
    )


def solve(
    pieces: pl.DataFrame,
    wanted: pl.DataFrame,
    sessions: str,
    think_time_s: float,
    preset: ClosedLoop,
    figures: Sequence[str] = (),
) -> pl.DataFrame:
    """The rows of ``wanted`` (a curve and a column of ``sessions``) with the figures of the curve at that load.

    The piece of the lowest load that holds so many sessions counts, as for operating points. Rows without one, and
    rows above the KV wall, are left out.
    """
    c = pl.col
    slack = 1 + TOLERANCE
    at = wanted.with_columns(c(sessions).cast(pl.Float64).alias("_wanted")).with_row_index("_asked")
    found = (
        at.join(pieces, on=SCHEDULE_ID, suffix="_of_row")
        .filter(
            (c("_from") <= c("_wanted") * slack)
            & (c("_wanted") <= c("_to") * slack)
            & (c("_wanted") <= c("_cap") * slack)
        )
        .sort("_asked", "_rank")
        .unique("_asked", keep="first", maintain_order=True)
    )
    read = (*TURN_FIGURES, *figures)
    following = (next_name(name) for name in (*read, "sessions", IN_FLIGHT))
    return at_sessions(found, read, think_time_s, preset).drop("_asked", *following)
