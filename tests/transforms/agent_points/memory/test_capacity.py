"""Sessions that fit, through the whole mapping: the exact counts of docs/model.md, ranks, pools, and the KV wall."""

import math

import polars as pl
import pytest

from schemas.caches import FixedCache
from schemas.hardware import Hardware
from schemas.models import ModelSpec, ParameterCounts, StoredBytes
from schemas.options import MappingOptions
from schemas.scenarios import Scenario
from tests.transforms.factory import (
    agent_points,
    article_scenario,
    hardware,
    model,
    roofline_points,
    setting,
    shipped_points,
)
from transforms.agent_points.memory.idle_kv import scenario_under

GIB = 2**30
KAPPA_70B = 327_680  # 2 * 80 layers * 8 heads * 128 * 2 bytes
DISAGG = "candidates/h200_sxm__llama-3.1-8b__isl4000_osl1000__disagg.csv.gz"


def constant_context(tokens: float, **more: object) -> Scenario:
    return Scenario.model_validate(
        {
            "slug": "constant", "turns": 1, "think_time_s": 1, "initial_prompt_tokens": tokens,
            "new_tokens_per_turn": 0, "output_tokens_per_turn": 100, "cache_hit_rate": 1.0, **more,
        }
    )  # fmt: skip


def model_of_140e9_bytes() -> ModelSpec:
    """The article's 70B in 16 bits to the last byte."""
    counts = ParameterCounts(embedding=0, output_head=0, attention=10 * 10**9, dense_mlp=60 * 10**9, norms=0)
    stored = StoredBytes(embedding=0, output_head=0, attention=20 * 10**9, dense_mlp=120 * 10**9, norms=0)
    return model("llama-3-1-70b", parameters=counts, stored_bytes=stored)


@pytest.mark.parametrize(("tokens", "sessions"), [(16_000, 95), (35_152, 43), (56_432, 27)])
def test_exact_counts_of_the_article(tokens: float, sessions: int) -> None:
    """model.md 4: 8 x 80e9 - 140e9 = 500e9 bytes; the article's 98 and 44 mix KiB and KB."""
    gpu = hardware("h100-sxm", hbm_bytes=80 * 10**9)
    rows = roofline_points("h100-sxm", "llama-3-1-70b", weight_dtype="bf16", tp=8)
    shared = setting(gpu, model_of_140e9_bytes(), constant_context(tokens), reserve_fraction=0.0)
    points = agent_points(rows, shared)
    assert set(points["kv_bytes_available"]) == {500e9}
    assert set(points["max_sessions"]) == {sessions}


@pytest.mark.parametrize(("tp", "dp", "sessions"), [(8, 1, 9), (1, 8, 72)])
def test_ranks_of_deepseek_v3(tp: int, dp: int, sessions: int) -> None:
    """Case 08: 40 GiB left on each of 8 GPUs, 65,536 tokens; TP8 copies the latent, DP8 splits the sessions.

    DP8 holds 72, not the 74 that fit into the sum of the ranks.
    """
    spec = model("deepseek-v3")
    rows = roofline_points("h200-sxm", "deepseek-v3", tp=tp, dp=dp)
    linear, experts = str(rows["linear_dtype"][0]), str(rows["expert_dtype"][0])
    weights = (spec.non_expert_bytes(linear) + spec.expert_bytes(experts) / dp) / tp
    gpu = hardware("h200-sxm", hbm_bytes=round(40 * GIB + weights))
    points = agent_points(rows, setting(gpu, spec, constant_context(65_536), reserve_fraction=0.0))
    assert set(points["max_sessions"]) == {sessions}


def test_contexts_at_which_a_session_is_counted() -> None:
    """Mean, peak, and the number n that fits in 95 of 100 moments: n * kv(Lbar + 1.64 * sd/sqrt(n)) <= left."""
    scenario = article_scenario("research-agent")
    rows = roofline_points("h200-sxm", "llama-3-1-70b", weight_dtype="bf16", tp=8)
    left = float(agent_points(rows, setting("h200-sxm", "llama-3-1-70b", scenario))["kv_bytes_available"][0])
    contexts = [24_000 + turn * 3_064 for turn in range(15)]
    mean, peak = sum(contexts) / 15, contexts[-1] + 64
    sd = math.sqrt(sum((context - mean) ** 2 for context in contexts) / 15)

    def needed(count: int) -> float:
        return count * KAPPA_70B * (mean + 1.64 * sd / math.sqrt(count))

    fits_p95 = max(count for count in range(1, 200) if needed(count) <= left)
    expected = {"mean": left // (KAPPA_70B * mean), "p95": fits_p95, "peak": left // (KAPPA_70B * peak)}
    assert expected["peak"] < expected["p95"] < expected["mean"]
    for option, sessions in expected.items():
        points = agent_points(rows, setting("h200-sxm", "llama-3-1-70b", scenario, kv_context=option))
        assert set(points["max_sessions"]) == {sessions}
        for name, count in expected.items():
            assert set(points[f"max_sessions_{name}_context"]) == {count}


def test_a_shared_prefix_is_taken_once_a_rank() -> None:
    """model.md 4: a session takes kv(Lbar) - kv(S), S itself once; two ranks of TP4 by hand."""
    shared_tokens, tokens = 6_000, 20_000
    rows = roofline_points("h200-sxm", "llama-3-1-70b", weight_dtype="bf16", tp=8)
    scenario = constant_context(tokens, shared_prefix_tokens=shared_tokens)
    points = agent_points(rows, setting("h200-sxm", "llama-3-1-70b", scenario))
    left = float(points["kv_bytes_available"][0])
    fits = (left - shared_tokens * KAPPA_70B) // ((tokens - shared_tokens) * KAPPA_70B)
    assert set(points["max_sessions"]) == {fits}
    used = points["sessions"] * (tokens - shared_tokens) * KAPPA_70B + shared_tokens * KAPPA_70B
    assert points["kv_bytes_per_gpu"].to_list() == pytest.approx((used / 8).to_list(), rel=1e-12)


def held_by_pool(
    point: dict[str, float], pool: str, tokens: float, gpu: Hardware, spec: ModelSpec, element: int, stored: int
) -> float:
    """Ranks of a pool x floor(available / kv(tokens)), a tenth of the memory kept; dense GQA models."""
    (group,) = spec.attention
    linear = spec.parameters.attention + spec.parameters.dense_mlp
    weights = linear * stored + 2 * (spec.parameters_total - linear)
    tp, pp = point[f"{pool}_tp"], point[f"{pool}_pp"]
    left = tp * pp * gpu.hbm_bytes * 0.9 - weights
    session = group.layers * group.kv_elements_per_entry * element * tokens * tp / min(tp, group.kv_heads)
    return point[f"{pool}_workers"] * point[f"{pool}_dp"] * max(left // session, 0)


@pytest.mark.parametrize("parked", ["prefill", "decode"])
@pytest.mark.parametrize("slug", ["code-agent", "deep-reasoning"])
def test_pools_of_a_disaggregated_replica(slug: str, parked: str) -> None:
    """model.md 5: parked prefixes in one pool at the mean context, those in flight in the decode pool at the peak."""
    scenario, gpu, spec = article_scenario(slug), hardware("h200-sxm"), model("llama-3-1-8b")
    points = agent_points(shipped_points(DISAGG), setting(gpu, spec, scenario, parked_kv=parked, reserve_fraction=0.1))
    limits = []
    for point in points.filter(~pl.col("interpolated")).to_dicts():
        element, stored = ({"bf16": 2, "fp8": 1}[point[name]] for name in ("kv_dtype", "linear_dtype"))
        in_pool = held_by_pool(point, parked, scenario.mean_context_tokens, gpu, spec, element, stored)
        slots = held_by_pool(point, "decode", scenario.peak_context_tokens, gpu, spec, element, stored)
        in_flight = slots * (point["turn_latency_ms"] + 1e3 * scenario.think_time_s) / point["turn_latency_ms"]
        assert point["max_sessions"] == pytest.approx(min(in_pool, in_flight), rel=1e-9)
        limits.append(in_pool <= in_flight)
    assert len(limits) > 50
    if parked == "prefill":
        assert 0 < sum(limits) < len(limits), "both limits must occur"


def test_misses_need_no_other_memory() -> None:
    """The cache model fixes the hit rate; what sessions hold does not depend on it."""
    rows = roofline_points("h200-sxm", "llama-3-1-70b", weight_dtype="bf16", tp=8)
    fits = {
        float(
            agent_points(rows, setting("h200-sxm", "llama-3-1-70b", article_scenario(cache=cache)))["max_sessions"][0]
        )
        for cache in (FixedCache(hit_rate=0.0), FixedCache(hit_rate=1.0))
    }
    assert len(fits) == 1


def with_shape(rows: pl.DataFrame, **shape: int) -> pl.DataFrame:
    """The rows as if they had been served by replicas of another shape."""
    return rows.with_columns(**{name: pl.lit(value, pl.Int64) for name, value in shape.items()})


def test_context_parallelism_copies_the_weights_and_splits_the_kv() -> None:
    """tp4 cp2: 8 x 80e9 - 2 x 140e9 = 360e9 bytes, 327,680 a token over the rank: 68 sessions of 16,000."""
    gpu = hardware("h100-sxm", hbm_bytes=80 * 10**9)
    rows = with_shape(roofline_points("h100-sxm", "llama-3-1-70b", weight_dtype="bf16", tp=4), cp=2, gpus_per_replica=8)
    points = agent_points(rows, setting(gpu, model_of_140e9_bytes(), constant_context(16_000), reserve_fraction=0.0))
    assert set(points["kv_bytes_available"]) == {360e9}
    assert set(points["max_sessions"]) == {math.floor(360e9 / (16_000 * KAPPA_70B))} == {68}


@pytest.mark.parametrize(("overhead_gb", "sessions"), [(0.0, 95), (10.0, 80)])
def test_the_runtime_takes_its_memory_on_each_gpu(overhead_gb: float, sessions: int) -> None:
    """500e9 bytes less 8 x 10e9: floor(420e9 / 5,242,880,000) = 80."""
    gpu = hardware("h100-sxm", hbm_bytes=80 * 10**9)
    rows = roofline_points("h100-sxm", "llama-3-1-70b", weight_dtype="bf16", tp=8)
    options = {"reserve_fraction": 0.0, "overhead_bytes_per_gpu": overhead_gb * 1e9}
    points = agent_points(rows, setting(gpu, model_of_140e9_bytes(), constant_context(16_000), **options))
    assert set(points["max_sessions"]) == {sessions}


def test_weights_that_do_not_fit_say_the_least_tp_that_does() -> None:
    """140e9 bytes on GPUs of 80e9 with a reserve of 10 %: one holds 72e9, two 144e9."""
    gpu = hardware("h100-sxm", hbm_bytes=80 * 10**9)
    rows = roofline_points("h100-sxm", "llama-3-1-70b", weight_dtype="bf16", serving_mode="agg")
    points = agent_points(rows, setting(gpu, model_of_140e9_bytes(), constant_context(16_000)))
    by_tp = points.group_by("tp").agg(pl.col("infeasible_reason").first(), pl.col("least_tp_that_fits").first())
    said = {tp: (reason == "weights_do_not_fit", least) for tp, reason, least in by_tp.iter_rows()}
    assert said == {1: (True, 2), 2: (False, None), 4: (False, None), 8: (False, None)}


class TestIdleKv:
    """32 GB left: floor(32e9 / (16,000 * 327,680)) = 6 sessions of 5.24e9 bytes on 8 GPUs of 21.5e9 bytes."""

    gpu = hardware("h100-sxm", hbm_bytes=21_500_000_000)

    def points(self, **options: object) -> pl.DataFrame:
        rows = roofline_points("h100-sxm", "llama-3-1-70b", weight_dtype="bf16", tp=8)
        scenario = constant_context(16_000, think_time_s=60)
        shared = setting(self.gpu, model_of_140e9_bytes(), scenario, reserve_fraction=0.0, **options)
        return agent_points(rows, shared)

    def test_resident_counts_all_sessions(self) -> None:
        points = self.points()
        assert set(points["max_sessions"]) == {6.0}
        assert set(points["binding_limit"]) == {"kv_memory"}

    def test_dropped_counts_what_is_in_flight(self) -> None:
        points = self.points(idle_kv="dropped")
        expected = [6.0 / rho for rho in points["activity_fraction"]]
        assert points["max_sessions"].to_list() == pytest.approx(expected)

    def test_offloaded_is_limited_by_the_host_too(self) -> None:
        """8 x 10e9 bytes of host memory hold floor(80e9 / 5.24e9) = 15 sessions, the GPUs 6 in flight."""
        points = self.points(idle_kv="offloaded", host_memory_bytes_per_gpu=10e9)
        for limit, rho, name in points.select("max_sessions", "activity_fraction", "binding_limit").iter_rows():
            assert limit == pytest.approx(min(15.0, 6.0 / rho))
            assert name in ("table_range", "host_memory" if 6.0 / rho >= 15.0 else "kv_memory")
        assert {"host_memory_capacity"} <= set(points["infeasible_reason"].drop_nulls())

    def test_a_reload_costs_its_bytes_over_the_link(self) -> None:
        """code-agent: 18,198 - 500 tokens cached in 95 of 100 turns; each GPU loads an eighth at 64e9 B/s."""
        rows = roofline_points("h100-sxm", "llama-3-1-70b", weight_dtype="bf16", tp=8)
        scenario = article_scenario("code-agent")
        stays, moves = (
            agent_points(rows, setting("h100-sxm", "llama-3-1-70b", scenario, **options)).filter(
                ~pl.col("interpolated")
            )
            for options in ({}, {"idle_kv": "offloaded", "host_memory_bytes_per_gpu": 100e9})
        )
        added = (moves["ttft_ms"] - stays["ttft_ms"]).to_list()
        cached = 18_198 - 500
        assert added == pytest.approx([0.95 * 1e3 * cached * KAPPA_70B / 8 / 64e9] * len(added), rel=1e-9)

    def test_a_dropped_prefix_is_a_miss_after_each_pause(self) -> None:
        dropped = MappingOptions(idle_kv="dropped")
        assert scenario_under(article_scenario("code-agent"), dropped).cache_hit_rate == 0.0
        assert scenario_under(article_scenario("code-agent", think_time_s=0.0), dropped).cache_hit_rate == 0.95
        assert scenario_under(article_scenario("code-agent"), MappingOptions()).cache_hit_rate == 0.95
