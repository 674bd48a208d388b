"""Single turns of a task: against carrying each of them, and against the published first and last turn."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from pipelines.reading.catalogues import load_models, load_scenarios
from schemas.caches import FixedCache, LeastRecentlyUsedCache, TimeToLiveCache
from schemas.options import KvLayout, MappingOptions
from tests.explorer.page_equations import hit_differences, miss_differences, ms_per_flop
from tests.transforms.factory import article_scenario, roofline_points, setting, shipped_points
from transforms.agent_points.carriers.workload import agent_workload
from transforms.agent_points.carry import carry_points
from transforms.agent_points.prepare import prepare_points
from transforms.agent_points.single_turns import ON_HIT, ON_MISS, kv_is_linear, turn_differences, turn_work
from transforms.cache import constant_hit_rate

TABLES = (
    "candidates/h200_sxm__llama-3.1-70b__isl4000_osl1000__agg.csv.gz",
    "candidates/h200_sxm__qwen3-32b__isl4000_osl1000__disagg.csv.gz",
    "candidates/b200_sxm__deepseek-v3__isl4000_osl1000__agg.csv.gz",
    "candidates/gb200__gpt-oss-120b__isl4000_osl1000__agg.csv.gz",  # sliding windows
    "roofline agg",
    "roofline disagg",
)


@pytest.mark.parametrize("scenario", ["code-agent", "research-agent", "deep-reasoning"])
@pytest.mark.parametrize("table", TABLES)
def test_every_turn_follows_from_those_evaluated(table: str, scenario: str) -> None:
    kind, _, mode = table.partition(" ")
    is_roofline = kind == "roofline"
    points = roofline_points("h200-sxm", "llama-3-1-70b", serving_mode=mode) if is_roofline else shipped_points(table)
    asked = article_scenario(scenario)
    shared = setting(points["hardware"][0], points["model"][0], asked)
    prepared = prepare_points(points, shared.spec, shared.hardware)
    differences = turn_differences(prepared, asked, points.with_columns(cache_hit_rate=constant_hit_rate(asked)))
    (group,) = prepared.groups
    chosen = group.take(group.choose(asked).rows)
    work = turn_work(asked, shared.spec.attention, prefill_sees_output=group.aggregated)
    mean = agent_workload(asked, shared.spec.attention, prefill_sees_output=group.aggregated)
    ((carrier, _),) = chosen.carriers
    hits, misses, found_hits, found_misses = [], [], [], []
    for turn in range(len(work.context_tokens)):
        figures = carrier.figures_at(replace(mean, first=work.hit(turn), last=work.miss(turn)))
        hits.append(figures["first_turn_latency_ms"])
        misses.append(figures["last_turn_latency_ms"])
    latency = figures["turn_latency_ms"]
    for place, row in enumerate(differences.select(*ON_HIT, *ON_MISS).rows()):
        on_hit, on_miss = row[:3], row[3:]
        found_hits.append(latency[place] + hit_differences(on_hit, work.flops_on_hit))
        slope = ms_per_flop(on_hit[1], on_hit[2], work.flops_on_hit[work.evaluated_on_hit[1]], work.flops_on_hit[-1])
        found = miss_differences(on_miss, work.evaluated_on_miss, work.new_on_miss, work.flops_on_miss, slope)
        found_misses.append(latency[place] + found)
    np.testing.assert_allclose(np.array(found_hits).T, hits, rtol=1e-12)
    np.testing.assert_allclose(np.array(found_misses).T, misses, rtol=1e-12)


def test_first_and_last_turn_are_the_published_ones_where_all_hit_or_all_miss() -> None:
    points = shipped_points(TABLES[0])
    for hit_rate, names in ((1.0, ON_HIT), (0.0, ON_MISS)):
        asked = article_scenario("research-agent", cache=FixedCache(hit_rate=hit_rate))
        shared = setting(points["hardware"][0], points["model"][0], asked)
        published = carry_points(points, shared).filter(~pl.col("interpolated"))
        found = published.select("point_id", "turn_latency_ms", "first_turn_latency_ms", "last_turn_latency_ms").join(
            turn_differences(prepare_points(points, shared.spec, shared.hardware), asked, published), on="point_id"
        )
        assert found.height == published.height
        mean = found["turn_latency_ms"]
        np.testing.assert_allclose(mean + found[names[0]], found["first_turn_latency_ms"], rtol=1e-12)
        np.testing.assert_allclose(mean + found[names[-1]], found["last_turn_latency_ms"], rtol=1e-12)


@pytest.mark.parametrize("cache", [LeastRecentlyUsedCache(), TimeToLiveCache(kept_s=1.0)])
def test_turns_stand_at_each_row_s_own_hit_rate(cache: LeastRecentlyUsedCache | TimeToLiveCache) -> None:
    """Where memory evicts, each row is carried at its own rate: the turns lie about the latency published."""
    points = shipped_points(TABLES[0])
    asked = article_scenario("research-agent", cache=cache)
    shared = setting(points["hardware"][0], points["model"][0], asked)
    published = carry_points(points, shared).filter(~pl.col("interpolated"))
    assert published["cache_hit_rate"].n_unique() > 10 or cache.model == "ttl"
    differences = turn_differences(prepare_points(points, shared.spec, shared.hardware), asked, published)
    found = published.join(differences, on="point_id")
    np.testing.assert_allclose(found["carried_latency_ms"], found["turn_latency_ms"], rtol=1e-12)
    rate = pl.col("cache_hit_rate")
    first = found.select(rate * pl.col("hit_first_ms") + (1 - rate) * pl.col("miss_first_ms")).to_series()
    wanted = found["first_turn_latency_ms"] - found["turn_latency_ms"]
    # mixed tokens are not mixed times where a step's time bends, by little
    np.testing.assert_allclose(first, wanted, atol=0.02 * float(found["turn_latency_ms"].max()))  # type: ignore[arg-type]


def test_a_miss_is_never_quicker_than_a_hit() -> None:
    for table in TABLES[:4]:
        points = shipped_points(table)
        asked = article_scenario("research-agent")
        shared = setting(points["hardware"][0], points["model"][0], asked)
        rates = points.with_columns(cache_hit_rate=0.7)
        found = turn_differences(prepare_points(points, shared.spec, shared.hardware), asked, rates)
        assert (found["miss_first_ms"] >= found["hit_first_ms"]).all()
        assert (found["miss_last_ms"] > found["hit_last_ms"]).all()
        assert (found["hit_last_ms"] >= found["hit_second_ms"]).all()


@pytest.mark.parametrize("layout", ["paged", "ideal"])
def test_kv_by_turn_lies_on_the_line_through_its_mean_and_peak(layout: KvLayout) -> None:
    """Of every model at the shipped scenarios, unless a window ends between a task's first and last context."""
    options = MappingOptions(kv_layout=layout)
    for spec in load_models():
        for scenario in load_scenarios():
            context = turn_work(scenario, spec.attention).context_tokens
            windows = [group.window_tokens for group in spec.attention if group.window_tokens is not None]
            bends = layout == "ideal" and any(context[0] < window < context[-1] for window in windows)
            linear = kv_is_linear(scenario, spec.attention, context, options)
            assert linear is not bends, f"{spec.slug} {scenario.slug}"
    # a window of 128 tokens, and turns that begin with 100
    short = article_scenario(initial_prompt_tokens=100.0, first_turn_new_tokens=100.0, new_tokens_per_turn=10.0)
    groups = load_models().get("gpt-oss-120b").attention
    assert kv_is_linear(short, groups, turn_work(short, groups).context_tokens, options) == (layout == "paged")
