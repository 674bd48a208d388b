"""Caches that ask for no load: the rate stated, or the share of the pauses within a time to live."""

from pathlib import Path

import polars as pl
import pytest

from pipelines.building.build_inputs import find
from schemas.caches import FixedCache, TimeToLiveCache
from schemas.errors import UserError
from schemas.options import BuildOptions
from schemas.scenarios import Scenario
from schemas.trace_statistics import LogNormal, PauseMixture, TraceStatistics
from tests.transforms.factory import article_scenario, setting, shipped_points
from transforms.agent_points.carry import carry_points
from transforms.cache import constant_hit_rate

TABLE = "candidates/h200_sxm__llama-3.1-8b__isl4000_osl1000__agg.csv.gz"


def with_pauses(scenario: Scenario, mixture: PauseMixture, unbounded: float) -> Scenario:
    """The scenario with what a fit would have found of its pauses and of a cache that never forgets."""
    some = {"count": 9, "mean": 9, "least": 9, "most": 9, **{f"p{share}": 9 for share in (10, 25, 50, 75, 90, 95, 99)}}
    found = TraceStatistics.model_validate(
        {
            "format": "flat", "sessions": 9, "requests": 9, "output_retention_fraction": 1,
            "files": [{"name": "t.csv", "sha256": "0" * 64, "bytes": 9, "requests": 9}],
            **dict.fromkeys(
                ("turns", "initial_prompt_tokens", "input_tokens", "peak_context_tokens", "output_tokens"), some
            ),
            "pauses_s": {"mixture": mixture}, "linear_mean_context_tokens": 9,
            "cache": {"reuse": "bounded", "token_hit_rate": unbounded, "cache_hit_rate": unbounded},
        }
    )  # fmt: skip
    return scenario.model_copy(update={"statistics": found})


def test_a_stated_rate_is_the_rate() -> None:
    assert constant_hit_rate(article_scenario("research-agent")) == 0.70


def test_one_pause_for_all_is_kept_or_lost() -> None:
    """Research agents pause for 5 s each time."""
    rates = [
        constant_hit_rate(article_scenario("research-agent", cache=TimeToLiveCache(kept_s=kept)))
        for kept in (0.0, 4.999, 5.0, 1e7)
    ]
    assert rates == [0.0, 0.0, 1.0, 1.0]


def test_pauses_that_vary() -> None:
    """A log-normal of median 20 s: half of the pauses are kept for 20 s; time without end gives the unbounded rate."""
    mixture = PauseMixture(log_normals=(LogNormal(weight=1.0, median_s=20.0, sigma=1.0),))
    mean = 20.0 * 2.718281828459045**0.5
    agent = with_pauses(article_scenario("research-agent", think_time_s=mean), mixture, 0.98)
    rates = [
        constant_hit_rate(agent.model_copy(update={"cache": TimeToLiveCache(kept_s=kept)}))
        for kept in (20.0, 20.0 * 2.718281828459045, 1e7)
    ]
    # 1 - Phi(1) = 0.158655
    assert rates == pytest.approx([0.98 * 0.5, 0.98 * 0.841345, 0.98], rel=1e-3)
    assert constant_hit_rate(agent.model_copy(update={"cache": TimeToLiveCache(kept_s=1e7)})) <= 0.98


def test_agents_are_carried_at_the_rate_of_their_time_to_live() -> None:
    points = shipped_points(TABLE)
    ttl, fixed = (
        carry_points(points, setting("h200-sxm", "llama-3-1-8b", article_scenario("research-agent", cache=cache)))
        for cache in (TimeToLiveCache(kept_s=5.0), FixedCache(hit_rate=1.0))
    )
    assert ttl.drop("cache_model", "prefix_kept_s").equals(fixed.drop("cache_model", "prefix_kept_s"))
    assert ttl.select("cache_model", "prefix_kept_s").unique().rows() == [("ttl", 5.0)]
    assert ttl.select(pl.col("cache_hit_rate").unique()).to_series().to_list() == [1.0]


def test_sessions_of_a_mix_wait(tmp_path: Path) -> None:
    """Each scenario of a mix holds sessions of its own shape: who asks them to thrash is told that they cannot."""
    file = tmp_path / "mix.yaml"
    file.write_text("""
scenarios:
  - slug: both
    mix: [{scenario: code-agent, weight: 1}, {scenario: research-agent, weight: 1}]
""")
    assert find(BuildOptions(scenarios=(str(file),))).scenarios[0].mix is not None
    with pytest.raises(UserError, match="both is a mix, whose sessions can only wait"):
        find(BuildOptions(scenarios=(str(file),), over_capacity="thrash"))
