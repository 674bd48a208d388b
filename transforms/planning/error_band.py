"""What an answer is where turns take as much shorter or longer as the figures are known to err."""

from collections.abc import Callable

import polars as pl

from transforms.agent_points.curve.between import in_flight_per_station
from transforms.agent_points.rows.columns import TURN_FIGURES
from transforms.agent_points.rows.lookups import stations
from transforms.configurations import SCHEDULE_ID
from transforms.equations import closed_loop as loop
from transforms.planning.curves import Curves

#: What solves a question: curves in, a plan for each out.
Solve = Callable[[Curves], pl.DataFrame]
_NONE_LEFT = 1e-3


def error_factors(columns: list[str]) -> dict[str, pl.Expr]:
    """How many times as long a turn is at the ``low`` and at the ``high`` end: by the point's own range where it has
    one, else by its expected error; NULL where neither is known."""
    c = pl.col
    error = c("expected_error_fraction")
    factors = {}
    for end, by_error in (("low", (1.0 - error).clip(_NONE_LEFT)), ("high", 1.0 + error)):
        own = f"turn_latency_ms_{end}"
        factors[end] = pl.coalesce(c(own) / c("turn_latency_ms"), by_error) if own in columns else by_error
    return factors


def slower_by(curves: Curves, factor: pl.Expr) -> Curves:
    """The curves with turns that take ``factor`` times as long, at the same requests in flight."""
    c, scenario = pl.col, curves.scenario
    points = curves.points.with_columns(_factor=factor).filter(c("_factor").is_not_null())
    in_ms = [name for name in (*TURN_FIGURES, *curves.figures) if not name.startswith("task_time")]
    # pauses stay as long as they are
    longer_s = scenario.turns * (c("_factor") - 1.0) * c("turn_latency_ms") / 1e3
    tasks = [(c(name) + longer_s).alias(name) for name in curves.figures if name.startswith("task_time")]
    b = in_flight_per_station()
    rho = loop.activity_fraction(c("_factor") * c("turn_latency_ms") / 1e3, scenario.think_time_s)
    points = points.with_columns(
        *((c(name) * c("_factor")).alias(name) for name in in_ms),
        *tasks,
        sessions=pl.when("interpolated")
        .then("sessions")
        .otherwise(loop.sessions_that_fill(b, rho, stations(), curves.closed_loop)),
        serving_requests_per_s=c("serving_requests_per_s") / c("_factor"),
    )
    return Curves(points, curves.limits, scenario, curves.closed_loop)


def add_band(answers: pl.DataFrame, curves: Curves, solve: Solve, figure: str) -> pl.DataFrame:
    """Answers with ``low`` and ``high``: their ``figure`` (gpus or sessions) where turns are shorter, and longer.

    Of the configuration of the answer. NULL at an end that it does not reach, and where no error is known.
    """
    c = pl.col
    chosen = curves.points.join(answers.select(SCHEDULE_ID), on=SCHEDULE_ID, how="semi")
    of_answers = Curves(chosen, curves.limits, curves.scenario, curves.closed_loop)
    ends = []
    for end, factor in error_factors(chosen.columns).items():
        plans = solve(slower_by(of_answers, factor)).select(
            SCHEDULE_ID, gpus=c("replicas") * c("gpus_per_replica"), sessions="sessions_planned"
        )
        ends.append((end, plans.select(SCHEDULE_ID, c(figure).alias(f"_{end}_end"))))
    for _, plans in ends:
        answers = answers.join(plans, on=SCHEDULE_ID, how="left", maintain_order="left")
    known = c("expected_error_fraction").is_not_null()
    # what turns round by rounding is the answer itself; least and most of the three are the ends
    low, high = c("_low_end"), c("_high_end")
    values = (low, c(figure), high)
    both = low.is_not_null() & high.is_not_null()
    return answers.with_columns(
        low=pl.when(known).then(pl.min_horizontal(*values) if figure == "gpus" else high),
        high=pl.when(known).then(pl.when(both).then(pl.max_horizontal(*values)) if figure == "gpus" else low),
    ).drop("_low_end", "_high_end")
