"""Points recomputed from their published columns, against carrying the serving points anew."""

from functools import cache

import numpy as np
import polars as pl
import pytest

from schemas.caches import FixedCache
from tests.explorer.page_equations import latency_at_hit_rate, rate_at_hit_rate, session_figures
from tests.transforms.factory import article_scenario, roofline_points, setting, shipped_points
from transforms.agent_points.carry import carry_points
from transforms.agent_points.rows.lookups import stations
from transforms.equations.curve import sessions_that_fit

TABLES = {
    "70b": "candidates/h200_sxm__llama-3.1-70b__isl4000_osl1000__agg.csv.gz",
    "8b": "candidates/h200_sxm__llama-3.1-8b__isl4000_osl1000__agg.csv.gz",
    "disagg": "candidates/h200_sxm__qwen3-32b__isl4000_osl1000__disagg.csv.gz",
}


@cache
def carried(table: str, scenario: str, pause_s: float | None = None, hit_rate: float | None = None) -> pl.DataFrame:
    """The agent points of rows of a table, at a shipped scenario with another pause or hit rate."""
    is_roofline = table.startswith("roofline")
    mode = "disagg" if table == "roofline disagg" else "agg"
    points = (
        roofline_points("h200-sxm", "llama-3-1-70b", serving_mode=mode)
        if is_roofline
        else shipped_points(TABLES[table])
    )
    changed: dict[str, object] = {} if pause_s is None else {"think_time_s": pause_s}
    if hit_rate is not None:
        changed["cache"] = FixedCache(hit_rate=hit_rate)
    shared = setting(points["hardware"][0], points["model"][0], article_scenario(scenario, **changed))
    return carry_points(points, shared).filter(~pl.col("interpolated")).sort("point_id")


@pytest.mark.parametrize("table", ["8b", "disagg", "roofline"])
@pytest.mark.parametrize("pause_s", [0.0, 0.5, 30.0])
def test_another_pause_is_exact(table: str, pause_s: float) -> None:
    """0.5 s is the scenario's own pause: the row's own columns come back."""
    published, wanted = carried(table, "code-agent"), carried(table, "code-agent", pause_s=pause_s)
    scenario = article_scenario("code-agent")
    figures = session_figures(
        pl.col("serving_requests_per_s"), pl.col("turn_latency_ms") / 1e3, pause_s, scenario.turns,
        scenario.output_tokens_per_turn, stations(), pl.col("gpus_per_replica"),
    )  # fmt: skip
    figures["max_sessions"] = sessions_that_fit(
        pl.col("max_parked_sessions"), pl.col("max_in_flight_requests"), figures["activity_fraction"]
    )
    again = published.with_columns(**figures)
    for name in figures:
        np.testing.assert_allclose(again[name].to_numpy(), wanted[name].to_numpy(), rtol=1e-12, err_msg=name)


#: Errors of R and of the rate at hit rates of 0.3, 0.5, 0.8 and 0.9: mean and largest over the rows.
HIT_RATE_ERRORS = {
    ("70b", "code-agent"): (0.002, 0.15), ("70b", "deep-reasoning"): (0.0001, 0.001),
    ("8b", "code-agent"): (0.013, 0.33), ("8b", "research-agent"): (0.005, 0.26),
    ("disagg", "research-agent"): (0.0001, 0.001), ("disagg", "code-agent"): (0.023, 0.32),
    ("roofline", "code-agent"): (1e-9, 1e-6), ("roofline disagg", "code-agent"): (0.028, 0.35),
}  # fmt: skip


@pytest.mark.parametrize(("table", "scenario"), HIT_RATE_ERRORS)
def test_another_hit_rate(table: str, scenario: str) -> None:
    """Exact at 0 and 1; between them the errors stated, large ones on the side of slower turns and lower rates."""
    published, hits, misses = (carried(table, scenario, hit_rate=h) for h in (None, 1.0, 0.0))
    known = article_scenario(scenario).cache_hit_rate
    errors = []
    for hit_rate in (0.0, 0.3, 0.5, 0.8, 0.9, 1.0):
        wanted = carried(table, scenario, hit_rate=hit_rate)
        for column, at in (("turn_latency_ms", latency_at_hit_rate), ("serving_requests_per_s", rate_at_hit_rate)):
            found = at(hit_rate, known, *(points[column].to_numpy() for points in (published, hits, misses)))
            error = found / wanted[column].to_numpy() - 1
            if hit_rate in (0.0, 1.0):
                assert np.abs(error).max() < 1e-12
                continue
            slower = error if column == "turn_latency_ms" else -error
            assert slower.min() > -0.08
            errors.append(np.abs(error))
    mean, largest = HIT_RATE_ERRORS[table, scenario]
    assert np.mean(errors) <= mean
    assert np.max(errors) <= largest
