"""A point's own rate lies between its rates at all hits and at all misses, on rows of a table and between them."""

from typing import Any

import polars as pl
import pytest

from schemas.caches import LeastRecentlyUsedCache
from tests.transforms.factory import article_scenario, roofline_points, setting, shipped_points, solved
from transforms.agent_points.carry import carry_points
from transforms.agent_points.rows.columns import with_own_rate

AGG = "candidates/h200_sxm__llama-3.1-8b__isl4000_osl1000__agg.csv.gz"
DISAGG = "candidates/h200_sxm__qwen3-32b__isl4000_osl1000__disagg.csv.gz"
OFFLOADED: dict[str, Any] = {"idle_kv": "offloaded", "host_memory_bytes_per_gpu": 1e12}
OPTIONS: tuple[dict[str, Any], ...] = ({}, {"closed_loop": "article"}, OFFLOADED)
#: Of the rates; what is solved is off by some last digits.
ROUNDING = 1e-9


def points_of(table: str) -> pl.DataFrame:
    return shipped_points(table) if table != "roofline" else roofline_points("h200-sxm", "llama-3-1-70b")


def assert_between(points: pl.DataFrame) -> None:
    own, *ends = (pl.col(f"serving_requests_per_s{end}") for end in ("", "_all_hits", "_all_misses"))
    assert points.height > 0
    below, above = pl.min_horizontal(ends) / own - 1, 1 - pl.max_horizontal(ends) / own
    outside = points.filter(pl.max_horizontal(below, above) > ROUNDING)
    assert outside.is_empty(), outside.select("point_id", own, *ends)
    assert points.select(own, *ends).null_count().sum_horizontal().item() == 0


@pytest.mark.parametrize("options", OPTIONS, ids=["arrival", "article", "offloaded"])
@pytest.mark.parametrize("slug", ["code-agent", "deep-reasoning"])
@pytest.mark.parametrize("table", [AGG, DISAGG, "roofline"])
def test_own_rate_lies_between(table: str, slug: str, options: dict[str, Any]) -> None:
    """On rows, at the wall and at operating points of few sessions and of many; some are beyond the table."""
    points = points_of(table)
    for sessions in (10, 3_000):
        scenario = article_scenario(slug, sessions=sessions, gpus=64)
        shared = setting(points["hardware"][0], points["model"][0], scenario, **options)
        assert_between(solved(points, shared))
    assert_between(carry_points(points, shared))


@pytest.mark.parametrize("over_capacity", ["wait", "thrash"])
def test_own_rate_lies_between_where_memory_evicts(over_capacity: str) -> None:
    points = shipped_points(AGG)
    scenario = article_scenario("code-agent", cache=LeastRecentlyUsedCache(), sessions=400, gpus=8)
    shared = setting("h200-sxm", "llama-3-1-8b", scenario, over_capacity=over_capacity)
    assert_between(carry_points(points, shared))
    assert_between(solved(points, shared))


def test_rates_leave_the_line_by_one_factor() -> None:
    """Of 4, 5 and 2 requests/s on the line, 6 of its own: 7.5 at all hits, 3 at all misses."""
    ends = {"serving_requests_per_s_all_hits": 5.0, "serving_requests_per_s_all_misses": 2.0}
    line = {"serving_requests_per_s": 4.0, **ends}
    assert with_own_rate(line, 6.0) == {
        "serving_requests_per_s": 6.0,
        "serving_requests_per_s_all_hits": 7.5,
        "serving_requests_per_s_all_misses": 3.0,
    }
    assert with_own_rate(line, 4.0) == line
