"""More cache, fewer tokens and shorter pauses never lower throughput at fixed sessions.

Two exceptions, both of the tables' own making, are bounded here. A turn of few output tokens: where mixed steps
outnumber decode-only ones, the schedulers' equations no longer leave out three steps of the drain, and R jumps.
A curve whose throughput falls as batches grow (mixed steps are whole numbers): more in flight is then less.
"""

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from schemas.caches import FixedCache
from schemas.scenarios import Scenario
from tests.second_opinion.real_curves import TABLES, roofline_points, setting_of, table_points
from transforms.agent_points.carry import carry_points, carry_prepared
from transforms.agent_points.prepare import prepare_points
from transforms.configurations import SCHEDULE_ID
from transforms.operating_points.points import operating_points

#: Scenarios for each source and property, the same in each run; a failing one is shown as it was drawn.
CHOSEN = settings(max_examples=14, derandomize=True, phases=(Phase.explicit, Phase.generate))
#: Solutions are found by bisection and tables are rounded.
ROUNDING = 1e-6
#: Output tokens from which R never jumps, and by how much R and throughput may be worse below and on falling curves.
MANY_TOKENS, JUMP, FALL = 32.0, 0.25, 0.05
FIGURES = ("turn_latency_ms", "serving_requests_per_s")

SOURCES: dict[str, Callable[[], pl.DataFrame]] = {
    "dense": lambda: table_points(TABLES[0]),
    "disagg": lambda: table_points(TABLES[1]),
    "mixture": lambda: table_points(TABLES[2]),
    "roofline": lambda: roofline_points("h100-sxm", "llama-3-1-70b", "calibrated"),
}


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """Agents of every kind that fit the models' context."""
    first = draw(st.floats(500, 24_000))
    new = draw(st.floats(50, 3_000))
    return Scenario(
        slug="drawn",
        turns=float(draw(st.integers(2, 16))),
        think_time_s=draw(st.floats(0.0, 60.0)),
        initial_prompt_tokens=first,
        new_tokens_per_turn=new,
        output_tokens_per_turn=float(draw(st.integers(16, 1_500))),
        output_retention_fraction=draw(st.floats(0.0, 1.0)),
        first_turn_new_tokens=first,
        cache=FixedCache(hit_rate=draw(st.floats(0.0, 1.0))),
        sessions=draw(st.integers(1, 128)),
        gpus=8,
    )


def changed(at: Scenario, field: str, factor: float) -> Scenario:
    """The scenario with less of one thing, or more cache; ``factor`` between 0 and 1."""
    given: dict[str, Any] = at.model_dump()
    if field == "cache":
        given["cache"] = {"hit_rate": 1.0 - factor * (1.0 - at.cache_hit_rate)}
    elif field == "output_tokens_per_turn":
        given[field] = max(16.0, float(int(factor * at.output_tokens_per_turn)))
    elif field == "new_tokens_per_turn":
        given[field] = max(1.0, factor * at.new_tokens_per_turn)
    elif field == "initial_prompt_tokens":
        given[field] = given["first_turn_new_tokens"] = max(100.0, factor * at.initial_prompt_tokens)
    else:
        given[field] = factor * given[field]
    return Scenario.model_validate(given)


LESS = ("cache", "output_tokens_per_turn", "new_tokens_per_turn", "initial_prompt_tokens", "think_time_s")


@pytest.mark.parametrize("source", SOURCES)
@settings(CHOSEN)
@given(at=scenarios(), field=st.sampled_from(LESS), factor=st.floats(0.2, 0.95))
def test_operating_points_never_lose_throughput(source: str, at: Scenario, field: str, factor: float) -> None:
    """Configuration by configuration, where both scenarios have an answer."""
    less = changed(at, field, factor)
    both = _throughput(source, at).join(_throughput(source, less), on=SCHEDULE_ID, suffix="_after")
    c = pl.col
    strict = c("rises") & c("rises_after") & (less.output_tokens_per_turn >= MANY_TOKENS)
    allowed = pl.when(strict).then(ROUNDING).otherwise(FALL)
    lost = both.filter(c("cluster_turns_per_s_after") < c("cluster_turns_per_s") * (1 - allowed))
    assert lost.is_empty(), (field, factor, lost)


@pytest.mark.parametrize("source", SOURCES)
@settings(CHOSEN)
@given(at=scenarios(), field=st.sampled_from(LESS), factor=st.floats(0.2, 0.95))
def test_carried_rows_never_get_slower(source: str, at: Scenario, field: str, factor: float) -> None:
    """Row by row: a batch is served at no lower rate, and no turn takes longer."""
    less = changed(at, field, factor)
    both = _carried(source, at).join(_carried(source, less), on="point_id", suffix="_after")
    assert both.height > 0
    jump = ROUNDING if less.output_tokens_per_turn >= MANY_TOKENS else JUMP
    c = pl.col
    slower = both.filter(
        (c("turn_latency_ms_after") > c("turn_latency_ms") * (1 + jump))
        | (c("serving_requests_per_s_after") < c("serving_requests_per_s") * (1 - ROUNDING))
    )
    worse = slower.select("batch_per_rank", *FIGURES, *(f"{name}_after" for name in FIGURES))
    assert worse.is_empty(), (field, factor, worse)


def _carried(source: str, at: Scenario) -> pl.DataFrame:
    points = SOURCES[source]()
    return carry_points(points, setting_of(points, at)).filter(~pl.col("interpolated"))


def _throughput(source: str, at: Scenario) -> pl.DataFrame:
    """Turns per second of the eight GPUs for each configuration that can be run, and whether its rows' rate rises."""
    points = SOURCES[source]()
    setting = setting_of(points, at)
    prepared = prepare_points(points, setting.spec, setting.hardware)
    carried = carry_prepared(prepared, setting)
    # one row a configuration, in the order of their first rows
    solved = operating_points(carried, setting, prepared.lookups)
    solved = solved.with_columns(carried[SCHEDULE_ID].unique(maintain_order=True))
    rate = pl.col("serving_requests_per_s")
    rows = carried.filter(~pl.col("interpolated")).sort("batch_per_rank")
    rises = rows.group_by(SCHEDULE_ID).agg(rises=(rate.diff().drop_nulls() >= 0).all())
    return solved.filter("feasible").select(SCHEDULE_ID, "cluster_turns_per_s").join(rises, on=SCHEDULE_ID)
