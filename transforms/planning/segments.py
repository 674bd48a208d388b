"""Curves of published agent points, cut into pieces between neighbouring rows, and their figures at any load there."""

from typing import Final

import polars as pl

from transforms.agent_points.judgement.feasibility import WALL_REASONS
from transforms.agent_points.rows.columns import CLIFF_OF_HIT_RATE, TURN_FIGURES
from transforms.agent_points.sessions import stations
from transforms.configurations import curve_number
from transforms.equations import closed_loop as loop
from transforms.equations.curve import in_flight_between, latency_between
from transforms.numbers import Number
from transforms.planning.limits import TOLERANCE

CURVE: Final = "_curve"
#: Figures that are straight lines in the requests in flight between two rows.
_LINES: Final = (*TURN_FIGURES, "sessions", "_b")


def add_curves(points: pl.DataFrame) -> pl.DataFrame:
    """Agent points with ``_curve``, a number for rows that differ only in their load, and with what bounds it.

    ``_cap``: sessions at the KV wall, infinite where the table ends before it. ``_memory``: the memory that is met.
    """
    c = pl.col
    points = points.with_columns(
        curve_number().alias(CURVE),
        _sound=c("infeasible_reason").is_null() | c("infeasible_reason").is_in(WALL_REASONS),
    )
    constant = c("max_in_flight_requests").is_null()
    at_wall = pl.when(constant).then("max_sessions").when("feasible").then("sessions").otherwise(0.0)
    stopped = c("infeasible_reason").is_in(WALL_REASONS).fill_null(False)
    # where even a batch of one is beyond the wall, fewer sessions are served as it would be, and so many of them fit
    alone = pl.when(stopped & (c("batch_per_rank") <= 1)).then("max_sessions").otherwise(0.0)
    held = pl.when(at_wall.max() > 0).then(at_wall.max()).otherwise(alone.max())
    met = (constant | stopped).any()
    memory = c("binding_limit").filter(c("binding_limit").str.ends_with("memory"))
    return points.with_columns(
        _cap=pl.when(met.over(CURVE)).then(held.over(CURVE)).otherwise(float("inf")),
        _memory=memory.first().over(CURVE).fill_null("kv_memory"),
    )


def segments(points: pl.DataFrame) -> pl.DataFrame:
    """The pieces of the curves on which a number of sessions has an answer, in the order of the load.

    A piece is its lower row and, as ``_next_*``, its upper one; sessions lie between ``_from`` and ``_to``. A row at
    a batch of one serves fewer sessions as well as its own: it has a piece of its own below it. Rows that cannot be
    run for another reason than memory bound no piece. Where the cache's hit rate falls between two rows, no piece
    joins them.
    """
    c = pl.col
    b = loop.in_flight_per_station(c("serving_requests_per_s"), c("turn_latency_ms") / 1e3, stations())
    rows = (
        points.filter(~c("interpolated"))
        .with_columns(_b=b, _stations=stations())
        .sort(CURVE, "batch_per_rank", "sessions")
        .with_columns(_rank=pl.int_range(pl.len()).over(CURVE))
    )
    alone = rows.filter((c("_rank") == 0) & (c("batch_per_rank") <= 1) & c("_sound"))
    alone = alone.with_columns(
        *(c(name).alias(f"_next_{name}") for name in _LINES),
        _from=pl.lit(0.0),
        _to=c("sessions"),
        _rank=pl.lit(-1),
        _cliff=pl.lit(False),
    )
    pairs = rows.with_columns(
        *(c(name).shift(-1).over(CURVE).alias(f"_next_{name}") for name in _LINES),
        _next_sound=c("_sound").shift(-1).over(CURVE),
    )
    falls = (c("cache_hit_rate") - c("cache_hit_rate").shift(-1).over(CURVE)).abs() > CLIFF_OF_HIT_RATE
    pairs = pairs.with_columns(_cliff=(falls & c("_next_sound")).fill_null(False))
    # a row by itself, or before a cliff of its cache, is a piece without length
    pairs = pairs.with_columns(
        *(
            pl.when(c("_next_sound").fill_null(False) & ~c("_cliff"))
            .then(f"_next_{name}")
            .otherwise(name)
            .alias(f"_next_{name}")
            for name in _LINES
        )
    )
    pairs = pairs.filter(c("_sound") & (c("_next_sessions") >= c("sessions")))
    pairs = pairs.with_columns(_from=c("sessions"), _to=c("_next_sessions")).drop("_next_sound")
    return pl.concat([alone.select(pairs.columns), pairs.with_columns(c("_rank").cast(alone.schema["_rank"]))]).sort(
        CURVE, "_rank"
    )


def within_latency(pieces: pl.DataFrame, limit_s: float, think_time_s: float, preset: loop.ClosedLoop) -> pl.DataFrame:
    """The parts of the pieces on which a turn takes at most ``limit_s`` and memory holds the sessions.

    Narrows ``_from`` and ``_to``; ``_stop`` says what ends a part above: latency, memory, the cache or the table.
    """
    c = pl.col
    low_ms, high_ms, limit_ms = c("turn_latency_ms"), c("_next_turn_latency_ms"), limit_s * 1e3
    share = (limit_ms - low_ms) / (high_ms - low_ms)
    b_at_limit = c("_b") + share * (c("_next__b") - c("_b"))
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
    """The rows of ``wanted`` (``_curve`` and a column of ``sessions``) with the figures of their curve at that load.

    The piece of the lowest load that holds so many sessions counts, as for operating points. Rows without one, and
    rows above the KV wall, are left out.
    """
    c = pl.col
    slack = 1 + TOLERANCE
    at = wanted.with_columns(c(sessions).cast(pl.Float64).alias("_wanted")).with_row_index("_asked")
    found = (
        at.join(pieces, on=CURVE, suffix="_of_row")
        .filter(
            (c("_from") <= c("_wanted") * slack)
            & (c("_wanted") <= c("_to") * slack)
            & (c("_wanted") <= c("_cap") * slack)
        )
        .sort("_asked", "_rank")
        .unique("_asked", keep="first", maintain_order=True)
    )
    low_s, high_s = c("turn_latency_ms") / 1e3, c("_next_turn_latency_ms") / 1e3
    b: Number = in_flight_between(
        c("_wanted") / c("_stations"), c("_b"), low_s, c("_next__b"), high_s, think_time_s, preset
    )
    found = found.with_columns(_share=latency_between(b, c("_b"), 0.0, c("_next__b"), 1.0).clip(0.0, 1.0))
    return found.with_columns(
        *(c(name) + c("_share") * (c(f"_next_{name}") - c(name)) for name in TURN_FIGURES), sessions="_wanted"
    ).drop("_asked", *(f"_next_{name}" for name in _LINES))
