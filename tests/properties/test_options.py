"""The identities of a mapped point hold whatever the options of the mapping say, and its rows fit their table."""

import polars as pl
import pytest

from schemas.frames import conform
from tests.transforms.factory import (
    MIXED_BACKENDS,
    agent_points,
    article_scenario,
    roofline_points,
    setting,
    shipped_points,
    solved,
)

OPTIONS: tuple[dict[str, object], ...] = (
    {},
    {"closed_loop": "article"},
    {"kv_context": "p95"},
    {"kv_context": "peak", "parked_kv": "decode"},
    {"kv_layout": "ideal", "reserve_fraction": 0.0},
    {"cluster_gpus": 4},
)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_identities_under_every_option(options: dict[str, object]) -> None:
    scenario = article_scenario("research-agent")
    tables = shipped_points(MIXED_BACKENDS, "candidates/h200_sxm__llama-3.1-8b__isl4000_osl1000__disagg.csv.gz")
    points = pl.concat([tables, roofline_points("h200-sxm", "llama-3-1-8b", "calibrated")])
    shared = setting("h200-sxm", "llama-3-1-8b", scenario, **options)
    carried = conform(agent_points(points, shared), "agent_points")
    operating = conform(solved(points, shared), "operating_points")
    for frame in (carried, operating):
        assert frame.height > 20
        period_s = frame["turn_latency_ms"] / 1e3 + scenario.think_time_s
        assert frame["sessions"].to_list() == pytest.approx((frame["turns_per_s"] * period_s).to_list(), rel=1e-12)
        assert (frame["feasible"] == frame["infeasible_reason"].is_null()).all()
        feasible = frame.filter("feasible")
        assert feasible.height > 0
        assert (feasible["sessions"] <= feasible["max_sessions"] * (1 + 1e-9)).all()
        assert not frame.filter(~pl.col("feasible"))["on_frontier"].any()
        context = str(options.get("kv_context", "mean"))
        assert frame["max_sessions"].to_list() == frame[f"max_sessions_{context}_context"].to_list()
    walls = carried.filter("interpolated")
    assert walls["sessions"].to_list() == pytest.approx(walls["max_sessions"].to_list(), rel=1e-9)
    if "cluster_gpus" in options:
        assert carried.filter(feasible=True)["gpus_per_replica"].max() == 4
        assert "replica_larger_than_cluster" in set(carried["infeasible_reason"])


def test_the_article_needs_more_sessions_and_promises_more() -> None:
    """B/rho lets no two pauses collide: more sessions and more turns from each row than by the arrival theorem."""
    points = shipped_points(MIXED_BACKENDS)
    arrival, article = (
        agent_points(points, setting("h200-sxm", "llama-3-1-8b", article_scenario(), closed_loop=preset))
        .filter(~pl.col("interpolated"))
        .sort("point_id")
        for preset in ("arrival", "article")
    )
    assert (article["sessions"] > arrival["sessions"]).all()
    assert article["turn_latency_ms"].to_list() == arrival["turn_latency_ms"].to_list()
    assert (article["turns_per_s"] > arrival["turns_per_s"]).all()
    # with no request more than the own one, the two differ most: up to 1/rho
    assert (article["turns_per_s"] / arrival["turns_per_s"]).max() > 1.01  # type: ignore[operator]


def test_without_pauses_every_row_is_given_back() -> None:
    """Z = 0: a session is always in flight, C = B and X = B/R, at any context and number of turns."""
    points = shipped_points(MIXED_BACKENDS)
    for preset in ("arrival", "article"):
        shared = setting("h200-sxm", "llama-3-1-8b", article_scenario(think_time_s=0.0), closed_loop=preset)
        carried = agent_points(points, shared).filter(~pl.col("interpolated"))
        assert carried["turns_per_s"].to_list() == pytest.approx(carried["serving_requests_per_s"].to_list(), rel=1e-9)
        assert set(carried["activity_fraction"]) == {1.0}
        assert carried["tasks_per_s_per_gpu_step9"].to_list() == pytest.approx(
            carried["tasks_per_s_per_gpu"].to_list(), rel=1e-9
        )
