"""Agent points of turns that are sent to any replica: the mapping at one replica and at several, and by GPUs."""

from itertools import pairwise

import polars as pl
import pytest

from pipelines.building.carrying import Partition, carry_partition
from pipelines.reading.catalogues import load_models
from schemas.engines import NO_ENGINES
from schemas.options import MappingOptions
from schemas.scenarios import Scenario
from tests.transforms import factory
from transforms.cache import recency

H100_70B = "runs/h100_sxm__llama-3.1-70b__isl4000_osl1000"
CACHES = ({"model": "fixed", "hit_rate": 0.95}, {"model": "ttl", "kept_s": 20.0}, {"model": "lru"})


def scenario(**changes: object) -> Scenario:
    """The article's code agent with pauses that vary, and a first turn that computes all of its prompt."""
    own = factory.article_scenario("code-agent").model_dump(exclude_none=True, exclude={"sessions", "gpus"})
    own |= {"first_turn_new_tokens": 16_000.0, "think_time_s": 5.0, "turns": 12.0}
    own["distributions"] = {"think_time_s": {"mean": 5.0, "p50": 3.0, "p90": 12.0}}
    return Scenario.model_validate({**own, **changes})


def carried(asked: Scenario, options: MappingOptions | None = None) -> tuple[pl.DataFrame, pl.DataFrame]:
    points = factory.shipped_points(H100_70B)
    shared = factory.setting("h100-sxm", "llama-3-1-70b", asked)
    (found,) = carry_partition(
        Partition("llama-3-1-70b", points), [asked], shared.hardware, load_models(), options or MappingOptions(),
        NO_ENGINES,
    )  # fmt: skip
    return found.agent_points.sort("point_id"), found.operating_points.sort("point_id")


@pytest.mark.parametrize("cache", CACHES, ids=lambda cache: str(cache["model"]))
def test_one_replica_is_the_session_s_own(cache: dict[str, object]) -> None:
    sticky, _ = carried(scenario(cache=cache))
    alone, _ = carried(scenario(cache=cache, routing="random", replicas=1))
    assert sticky.equals(alone)


@pytest.mark.parametrize("cache", CACHES, ids=lambda cache: str(cache["model"]))
def test_more_replicas_find_less_and_hold_fewer(cache: dict[str, object]) -> None:
    keys = [
        "point_id",
        "turn_latency_ms",
        "turns_per_s_per_gpu",
        "cache_hit_rate",
        "max_sessions",
        "turn_latency_p90_ms",
    ]
    frames = [carried(scenario(cache=cache, routing="random", replicas=n))[0].select(keys) for n in (1, 2, 8)]
    for few, many in pairwise(frames):
        both = few.filter(~pl.col("point_id").str.ends_with("-wall")).join(many, on="point_id", suffix="_many")
        assert both.height > 20
        assert (both["cache_hit_rate_many"] < both["cache_hit_rate"] + 1e-9).all()
        assert (both["turn_latency_ms_many"] > both["turn_latency_ms"] * (1 - 1e-9)).all()
        assert (both["turn_latency_p90_ms_many"] > both["turn_latency_ms_many"]).all()
        if cache["model"] != "lru":  # which counts what is in flight alone
            assert (both["max_sessions_many"] <= both["max_sessions"]).all()


def test_new_tokens_and_memory_by_hand() -> None:
    """Two replicas, three turns from 10,000 tokens by 1,000, all kept: the second turn finds the first in half of the
    cases, the third the second, the first or nothing; of contexts of 10, 11 and 12 thousand 10, 16 and 20 are held."""
    fields = {
        "slug": "three", "turns": 3.0, "think_time_s": 5.0, "initial_prompt_tokens": 10_000.0,
        "new_tokens_per_turn": 900.0, "output_tokens_per_turn": 100.0, "cache_hit_rate": 1.0,
    }  # fmt: skip
    sticky, two = (
        Scenario.model_validate(fields),
        Scenario.model_validate(fields | {"routing": "random", "replicas": 2}),
    )
    one, several = carried(sticky)[0], carried(two)[0]
    # a pool that only prefills has not seen the output: 1,000 and 2,000
    for mode, own in (("agg", 900), ("disagg", 1_000)):
        second = 0.5 * own + 0.5 * 11_000
        third = 0.5 * own + 0.25 * (own + 1_000) + 0.25 * 12_000
        new = several.filter(serving_mode=mode)["prefill_tokens_per_turn"].unique().to_list()
        assert new == pytest.approx([(10_000 + second + third) / 3])
    second, third = (0.5 * 900 + 0.5 * 11_000), (0.5 * 900 + 0.25 * 1_900 + 0.25 * 12_000)
    assert recency(two).found == pytest.approx(1 - (second - 900 + third - 900) / (10_100 + 11_100))
    assert several["cache_hit_rate"].unique().to_list() == pytest.approx([recency(two).found])
    ratio = several["kv_bytes_per_session_mean"].unique()[0] / one["kv_bytes_per_session_mean"].unique()[0]
    assert ratio == pytest.approx((10 + 16 + 20) / (10 + 11 + 12))


def test_as_many_replicas_as_the_gpus_hold() -> None:
    """16 GPUs: two replicas of eight, eight of two; each configuration by its own number, on one frontier."""
    asked = scenario(cache=CACHES[0], routing="random", sessions=40, gpus=16)
    points, operating = carried(asked)
    sizes = points["gpus_per_replica"].unique().to_list()
    assert len(sizes) > 1
    for size in sizes:
        number = scenario(cache=CACHES[0], routing="random", replicas=max(16 // size, 1))
        own = carried(number)[0].filter(gpus_per_replica=size).drop("on_frontier", "on_frontier_3d")
        assert points.filter(gpus_per_replica=size).drop("on_frontier", "on_frontier_3d").equals(own)
    assert (operating["replicas"] == 16 // operating["gpus_per_replica"]).all()
    rates = operating.sort("replicas")["cache_hit_rate"].unique(maintain_order=True).to_list()
    assert rates == sorted(rates, reverse=True)
    best = points.filter("feasible").group_by("weight_dtype").agg(pl.col("turns_per_s_per_gpu").max())
    on = points.filter("on_frontier").group_by("weight_dtype").agg(pl.col("turns_per_s_per_gpu").max())
    assert best.sort("weight_dtype").equals(on.sort("weight_dtype"))
