"""The same rows give the same figures to the last bit, however often and in whatever order they come."""

import pytest

from tests.transforms.factory import agent_points, article_scenario, setting, shipped_points

TABLES = (
    "candidates/b200_sxm__llama-3.1-70b__isl1024_osl1024__agg.csv.gz",
    "candidates/b200_sxm__llama-3.1-70b__isl4000_osl1000__agg.csv.gz",
    "candidates/b200_sxm__llama-3.1-70b__isl8192_osl1024__agg.csv.gz",
    "candidates/b200_sxm__llama-3.1-70b__isl4000_osl1000__disagg.csv.gz",
)


@pytest.mark.parametrize("scenario", ["code-agent", "research-agent"])
def test_to_the_last_bit(scenario: str) -> None:
    """Three workloads of each deployment, whose means are what a group of rows adds up to."""
    points = shipped_points(*TABLES)
    shared = setting("b200", "llama-3-1-70b", article_scenario(scenario))
    first, *again = (
        agent_points(rows, shared).sort("point_id")
        for rows in (points, points, points.reverse(), points.sample(fraction=1.0, shuffle=True, seed=3))
    )
    public = [name for name in first.columns if not name.startswith("_")]
    assert first.height > 500
    for other in again:
        assert other.select(public).equals(first.select(public))
