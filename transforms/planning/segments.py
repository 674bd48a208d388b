"""Curves of published agent points, cut into pieces between neighbouring rows, and their figures at any load there."""

from typing import Final

import polars as pl

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
from transforms.agent_points.sessions import stations
from transforms.configurations import SCHEDULE_ID, schedule_number
from transforms.equations import closed_loop as loop
from transforms.equations.curve import along
from transforms.planning.limits import TOLERANCE

#: Figures that are straight lines in the requests in flight between two rows.
_LINES: Final = (*TURN_FIGURES, "sessions", IN_FLIGHT)


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


def segments(points: pl.DataFrame) -> pl.DataFrame:
    """The pieces of the curves on which a number of sessions has an answer, in the order of the load.

    A piece is its lower row and, as ``_next_*``, its upper one; sessions lie between ``_from`` and ``_to``. A row at
    a batch of one serves fewer sessions as well as its own: it has a piece of its own below it. Rows that cannot be
    run for another reason than memory bound no piece. Where the cache's hit rate falls between two rows, no piece
    joins them.
    """
    c = pl.col
    rows = points.filter(~c("interpolated")).with_columns(_stations=stations(), **{IN_FLIGHT: in_flight_per_station()})
    rows = with_next(rows, SCHEDULE_ID, (*_LINES, "_sound", "cache_hit_rate")).with_row_index("_rank")
    rows = rows.with_columns(c("_rank").cast(pl.Int64))
    alone = rows.filter(c("_first") & (c("batch_per_rank") <= 1) & c("_sound")).with_columns(
        *(c(name).alias(next_name(name)) for name in _LINES),
        _from=pl.lit(0.0), _to=c("sessions"), _rank=c("_rank") - 1, _cliff=pl.lit(False),
    )  # fmt: skip
    next_is_sound = c("_next_sound").fill_null(False)
    falls = (c("cache_hit_rate") - c("_next_cache_hit_rate")).abs() > CLIFF_OF_HIT_RATE
    pairs = rows.with_columns(_cliff=(falls & next_is_sound).fill_null(False))
    # a row by itself, or before a cliff of its cache, is a piece without length
    joined = next_is_sound & ~c("_cliff")
    pairs = pairs.with_columns(
        pl.when(joined).then(next_name(name)).otherwise(name).alias(next_name(name)) for name in _LINES
    )
    pairs = pairs.filter(c("_sound") & (c("_next_sessions") >= c("sessions")))
    pairs = pairs.with_columns(_from=c("sessions"), _to=c("_next_sessions"))
    return pl.concat([alone.select(pairs.columns), pairs]).sort(SCHEDULE_ID, "_rank")


def within_latency(pieces: pl.DataFrame, limit_s: float, think_time_s: float, preset: loop.ClosedLoop) -> pl.DataFrame:
    """The parts of the pieces on which a turn takes at most ``limit_s`` and memory holds the sessions.

    Narrows ``_from`` and ``_to``; ``_stop`` says what ends a part above: latency, memory, the cache or the table.
    """
    c = pl.col
    low_ms, high_ms, limit_ms = c("turn_latency_ms"), c("_next_turn_latency_ms"), limit_s * 1e3
    share = (limit_ms - low_ms) / (high_ms - low_ms)
    b_at_limit = along(c(IN_FLIGHT), c(next_name(IN_FLIGHT)), share)
    rho = loop.activity_fraction(limit_s, think_time_s)
    crossing = loop.sessions_that_fill(b_at_limit, rho, c("_stations"), preset)
    allowed = limit_ms * (1 + TOLERANCE)
    cut_above, cut_below = (low_ms <= allowed) & (high_ms > allowed), (low_ms > allowed) & (high_ms <= allowed)
    parts = pieces.filter(pl.min_horizontal(low_ms, high_ms) <= allowed) if limit_s > 0 else pieces.clear()
    parts = parts.with_columns(
        _from=pl.when(cut_below).then(pl.max_horizontal("_from", crossing)).otherwise("_from"),
        _to=pl.when(cut_above).then(pl.min_horizontal("_to", crossing)).otherwise("_to"),
        _stop=pl.when(cut_above)
        .then(pl.lit("latency"))
        .when("_cliff")
        .then(pl.lit("cache"))
        .otherwise(pl.lit("table")),
    )
    return parts.with_columns(
        _stop=pl.when(c("_cap") <= c("_to")).then(pl.lit("memory")).otherwise("_stop"),
        _to=pl.min_horizontal("_to", "_cap"),
    ).filter(c("_from") <= c("_to") * (1 + TOLERANCE))


def solve(
    pieces: pl.DataFrame, wanted: pl.DataFrame, sessions: str, think_time_s: float, preset: loop.ClosedLoop
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
    return at_sessions(found, TURN_FIGURES, think_time_s, preset).drop("_asked", *(next_name(name) for name in _LINES))
