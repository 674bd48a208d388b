"""Agent points whose hit rate is an outcome of memory, sessions and pauses (Step 5, model.md 7)."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy import stats

from schemas.caches import Cache, FixedCache, LeastRecentlyUsedCache, TimeToLiveCache
from schemas.distributions import Distribution, Distributions
from schemas.options import MappingOptions
from schemas.scenarios import Scenario
from schemas.tables import TABLES as TABLES_OF_LAKE
from tests.transforms.factory import (
    agent_points,
    article_scenario,
    hardware,
    identity_scenario,
    roofline_points,
    setting,
    shipped_points,
    solved,
)
from transforms.agent_points.memory.idle_kv import scenario_under
from transforms.cache import PauseDistribution, scenario_pauses

LRU = LeastRecentlyUsedCache()
TABLES = {
    "agg": "candidates/h100_sxm__llama-3.1-70b__isl4000_osl1000__agg.csv.gz",
    "disagg": "candidates/h100_sxm__llama-3.1-70b__isl4000_osl1000__disagg.csv.gz",
}
#: Bytes of a token of Llama 3.1 70B with 2-byte KV: 2 * 80 * 8 * 128 * 2.
KAPPA = 327_680
CACHE_COLUMNS = ("cache_model", "prefix_kept_s")


def agents(cache: Cache, **changed: object) -> Scenario:
    """Research agents: 15 turns, pauses of 5 s, contexts from 24,000 to 66,896."""
    return article_scenario("research-agent", cache=cache, **changed)


def varying(median_s: float = 2.0, sigma: float = 1.35) -> Distributions:
    return Distributions(
        think_time_s=Distribution.model_validate({"log_normals": [{"median": median_s, "sigma": sigma}]})
    )


def carried(scenario: Scenario, table: str = "agg", hbm_bytes: int | None = None, **options: Any) -> pl.DataFrame:
    gpu = hardware("h100-sxm") if hbm_bytes is None else hardware("h100-sxm", hbm_bytes=hbm_bytes)
    points = roofline_points("h100-sxm", "llama-3-1-70b") if table == "roofline" else shipped_points(TABLES[table])
    return agent_points(points, setting(gpu, "llama-3-1-70b", scenario, **options))


def found_by_hand(pauses: PauseDistribution, memory: float, sessions: float, latency_s: float) -> float:
    """Hits of research agents in tokens: at each pause, of a prefix what the others leave room for (normal), its mean
    taken by counting."""
    contexts = 24_000 + np.arange(15) * 3_064.0
    in_flight, parked, end = contexts + 32, contexts[:-1] + 64, contexts[-1] + 64
    cycle, own = 15 * (latency_s + pauses.mean_s), (parked**2).sum() / parked.sum()
    found = 0.0
    for pause, weight in zip(pauses.values, pauses.weights, strict=True):
        within = float(pauses.mean_within(pause))
        mean, square = (
            ((in_flight**power).sum() * latency_s + (parked**power).sum() * within + end**power * pause) / cycle
            for power in (1, 2)
        )
        others = stats.norm((sessions - 1) * mean, np.sqrt((sessions - 1) * max(square - mean**2, 1e-9)))
        part = (np.arange(400) + 0.5) / 400
        found += weight * float(others.cdf(memory - part * own).mean())
    return found


@pytest.mark.parametrize("distributions", [None, varying()], ids=["same pauses", "pauses vary"])
def test_the_loop_closes_on_every_row(distributions: Distributions | None) -> None:
    """The memory balance by hand, in tokens: what is in flight, what is kept through pauses, what ended sessions leave.

    The hits are those that a row's own sessions and latency bring about. Aggregated rows; tp up to 8 holds each of the
    8 KV heads once.
    """
    scenario = agents(LRU, distributions=distributions)
    rows = carried(scenario).filter(~pl.col("interpolated"), kv_dtype="bf16")
    turns = np.arange(15)
    contexts = 24_000 + turns * 3_064
    in_flight, parked, at_end = (contexts + 32).sum(), (contexts[:-1] + 64).sum(), contexts[-1] + 64
    pauses = scenario_pauses(scenario)
    checked = 0
    for row in rows.to_dicts():
        latency, hits = row["turn_latency_ms"] / 1e3, row["cache_hit_rate"]
        assert row["turns_per_s"] * (latency + 5) == pytest.approx(row["sessions"])  # Little
        assert row["prefill_tokens_per_turn"] == pytest.approx(hits * 3_000 + (1 - hits) * contexts.mean())
        memory = row["kv_bytes_available"] / KAPPA
        if row["sessions"] > 1:
            assert hits == pytest.approx(found_by_hand(pauses, memory, row["sessions"], latency), abs=0.01)
        kept = row["prefix_kept_s"]
        if not kept:
            continue
        held = latency * in_flight + float(pauses.mean_within(kept)) * parked + kept * at_end
        assert row["sessions"] * held / (15 * (latency + 5)) == pytest.approx(memory, rel=2e-3)
        checked += 1
    assert checked > 40
    between = (rows["cache_hit_rate"] > 0.02) & (rows["cache_hit_rate"] < 0.98)
    assert between.any()


@pytest.mark.parametrize("table", ["agg", "disagg", "roofline"])
def test_figures_are_those_of_their_hit_rate(table: str) -> None:
    """A row at its own hit rate is the row that states that rate; both ends are those of all hits and all misses."""
    memory = 120_000_000_000 if table == "disagg" else None  # their prefill pools keep nothing with less
    rows = carried(agents(LRU, distributions=varying()), table, memory).filter(~pl.col("interpolated"))
    rows = rows.sort("point_id")
    names = ["ttft_ms", "tpot_ms", "turn_latency_ms", "first_turn_latency_ms", "last_turn_latency_ms",
             "serving_requests_per_s", "sessions", "turns_per_s", "prefill_tokens_per_turn"]  # fmt: skip
    some = rows.filter(pl.col("cache_hit_rate").is_between(0.02, 0.98)).gather_every(3).head(3)
    assert some.height
    for row in some.to_dicts():
        stated = carried(agents(FixedCache(hit_rate=row["cache_hit_rate"])), table, memory).filter(
            point_id=row["point_id"]
        )
        assert [row[name] for name in names] == pytest.approx(list(stated.select(names).row(0)), rel=1e-9)
    for end, rate in (("hits", 1.0), ("misses", 0.0)):
        stated = (
            carried(agents(FixedCache(hit_rate=rate)), table, memory).filter(~pl.col("interpolated")).sort("point_id")
        )
        for name in ("turn_latency_all_{}_ms", "serving_requests_per_s_all_{}"):
            plain = name.replace("_all_{}", "")
            assert_frame_equal(stated.select(plain), rows.select(pl.col(name.format(end)).alias(plain)), rel_tol=1e-12)
            assert stated[plain].to_list() == stated[name.format(end)].to_list()


@pytest.mark.parametrize("table", ["agg", "disagg", "roofline"])
def test_time_or_memory_without_end_is_a_hit_rate_of_one(table: str) -> None:
    """TTL to infinity, and memory to infinity, give fixed(1); or the most that a cache can find."""
    huge = 10**15
    for most in (1.0, 0.9):
        expected = carried(agents(FixedCache(hit_rate=most)), table, huge)
        for cache in (TimeToLiveCache(kept_s=1e7, most_hit_rate=most), LeastRecentlyUsedCache(most_hit_rate=most)):
            found = carried(agents(cache), table, huge)
            # what may limit the sessions is another memory
            limits = ("max_", "kv_utilization", "cache_model", "prefix_kept_s", "binding_limit")
            same = [name for name in TABLES_OF_LAKE["agent_points"].field_names if not name.startswith(limits)]
            assert_frame_equal(found.select(same), expected.select(same), rel_tol=1e-9)


def test_without_pauses_sessions_are_always_in_flight() -> None:
    """Z to 0: rho is 1, what fits in flight hits, and C is the row's own requests in flight."""
    none = carried(agents(LRU, think_time_s=0.0)).filter("feasible")
    short = carried(agents(LRU, think_time_s=1e-6)).filter("feasible")
    for rows in (none, short):
        assert rows["activity_fraction"].to_numpy() == pytest.approx(1.0, abs=1e-6)
        # contexts vary: sessions that fill the memory in the mean do not always fit
        fits = rows.filter(pl.col("kv_utilization_fraction") < 0.7)
        assert fits.height > 20
        assert fits["cache_hit_rate"].unique().to_list() == [1.0]
    assert none["turns_per_s"].to_numpy() == pytest.approx(short["turns_per_s"].to_numpy(), rel=1e-5)


@pytest.mark.parametrize("table", ["agg", "roofline"])
@pytest.mark.parametrize("distributions", [None, varying()], ids=["same pauses", "pauses vary"])
def test_at_fixed_sessions_memory_and_short_pauses_never_cost(table: str, distributions: Distributions | None) -> None:
    """More memory never lowers the throughput of the same sessions, from a warm cache or a cold.

    Shorter pauses do not where the memory holds all sessions (8 of 11); beyond, more turns in flight leave the cache
    less room, and throughput falls with the load: that is thrashing.
    """
    whole = roofline_points("h100-sxm", "llama-3-1-70b") if table == "roofline" else shipped_points(TABLES[table])
    points = whole.filter(pl.col("weight_dtype") == "bf16", pl.col("tp") == 4).filter(
        pl.col("context_requests_per_step").fill_null(1) == 1
    )

    def operating(sessions: int, hbm_bytes: float = 85_899_345_920, think_time_s: float = 5.0) -> pl.DataFrame:
        scenario = agents(LRU, sessions=sessions, think_time_s=think_time_s, distributions=distributions)
        found = solved(points, setting(hardware("h100-sxm", hbm_bytes=int(hbm_bytes)), "llama-3-1-70b", scenario))
        cold = pl.coalesce("cold_start_turns_per_s", "turns_per_s")
        return found.select("point_id", "weight_dtype", "tp", "feasible", "sessions", "turns_per_s", _cold=cold)

    compared = 0
    for sessions in (16, 24):
        here = operating(sessions)
        more_memory = operating(sessions, hbm_bytes=1.2 * 85_899_345_920)
        for better in (more_memory, operating(sessions, think_time_s=3.0)) if sessions == 16 else (more_memory,):
            assert better.height == here.height
            both = here.with_columns(better.select(pl.all().name.suffix("_better"))).filter(
                pl.col("feasible") & pl.col("feasible_better") & (pl.col("sessions") == pl.col("sessions_better"))
            )
            assert (both["turns_per_s_better"] >= both["turns_per_s"] * (1 - 1e-3)).all()
            assert (both["_cold_better"] >= both["_cold"] * (1 - 1e-3)).all()
            compared += both.height
    assert compared >= 3


def test_the_cliff_is_a_cliff() -> None:
    """Two replicas of four H100 hold 11 agents each in the mean: 8 always hit, 14 hardly ever, and turn the throughput
    into less than a fifth; between them contexts that vary let some hit."""
    points = shipped_points(TABLES["agg"]).filter(pl.col("tp") == 4, pl.col("context_requests_per_step") == 1)

    def replica(sessions: int, **options: object) -> dict[str, Any]:
        shared = setting("h100-sxm", "llama-3-1-70b", agents(LRU, sessions=sessions), **options)
        (found,) = solved(points, shared).filter("feasible").to_dicts()
        return found

    below, at_wall, above = replica(16), replica(22), replica(28)
    assert (below["sessions"], at_wall["sessions"]) == (8, 11)
    assert below["cache_hit_rate"] > 0.999 > 0.9 > at_wall["cache_hit_rate"] > 0.5 > 0.05 > above["cache_hit_rate"]
    assert above["turns_per_s"] < below["turns_per_s"] / 4 < 2 * at_wall["turns_per_s"]
    assert below["waiting_turns_per_s"] is None
    # had those beyond the eleventh waited
    assert above["waiting_sessions"] == 11
    waits = replica(28, over_capacity="wait")
    assert (waits["sessions"], waits["cache_hit_rate"], waits["cache_model"]) == (11, 1.0, "lru")
    assert waits["turns_per_s"] == pytest.approx(above["waiting_turns_per_s"], rel=1e-6)
    assert waits["turns_per_s"] > below["turns_per_s"] > 4 * above["turns_per_s"]
    assert waits["waiting_sessions"] is None


def test_waiting_is_what_a_build_that_lets_them_wait_says() -> None:
    """150 code agents at eight H100: 77 are held, which is on the verge of the cliff. They hit nevertheless.

    8 * 0.9 * (79.2 GiB - 0.98 for a step's logits - 2 for libraries - 16.43 of weights) over 18,198 * 327,680 bytes.
    """
    points = shipped_points(TABLES["agg"]).filter(pl.col("tp") == 8)
    scenario = article_scenario("code-agent", sessions=150)
    waits, thrashes = (
        solved(points, setting("h100-sxm", "llama-3-1-70b", scenario, over_capacity=option)).sort("point_id")
        for option in ("wait", "thrash")
    )
    assert thrashes["feasible"].all()
    assert thrashes["waiting_sessions"].to_list() == [77] * thrashes.height
    for name in ("turn_latency_ms", "turns_per_s"):
        assert thrashes[f"waiting_{name}"].sort().to_list() == pytest.approx(waits[name].sort().to_list(), rel=1e-9)
    assert (thrashes["waiting_turns_per_s"] > 6 * thrashes["turns_per_s"]).all()


def test_a_cold_cache_goes_on_thrashing() -> None:
    """92 code agents at eight H100, more than the 77 that they hold in the mean, and pauses that vary widely.

    A warm cache keeps the short pauses. From an empty one on nearly every turn misses, R is six times Z and nearly all
    are in flight: no more than fit, and next to nothing is kept.
    """
    points = shipped_points(TABLES["agg"]).filter(pl.col("tp") == 8, pl.col("context_requests_per_step") == 1)
    scenario = article_scenario("code-agent", cache=LRU, distributions=varying(), think_time_s=10.0, sessions=92)
    (point,) = solved(points, setting("h100-sxm", "llama-3-1-70b", scenario)).filter("feasible").to_dicts()
    assert point["sessions"] == 92
    assert point["cache_hit_rate"] > 0.7
    assert point["cold_start_cache_hit_rate"] < 0.1
    latency_s = point["cold_start_turn_latency_ms"] / 1e3
    assert point["cold_start_sessions"] / (latency_s + 10) == pytest.approx(point["cold_start_turns_per_s"])
    assert point["cold_start_sessions"] * latency_s / (latency_s + 10) == pytest.approx(77, rel=0.01)
    assert point["cold_start_turns_per_s"] < point["turns_per_s"] / 2.5
    assert point["waiting_sessions"] == 77
    assert point["waiting_turns_per_s"] > point["turns_per_s"]


def test_stated_rates_thrash_too_when_asked() -> None:
    """--over-capacity thrash: a stated rate is found while memory lasts, and no more than it."""
    waits, thrashes = (
        carried(agents(FixedCache(hit_rate=0.7)), over_capacity=option).filter(~pl.col("interpolated"))
        for option in (None, "thrash")
    )
    assert waits["cache_hit_rate"].unique().to_list() == [0.7]
    both = waits.join(thrashes, on="point_id", suffix="_thrashing")
    fits = both.filter(pl.col("sessions") < 0.6 * pl.col("max_sessions"))
    assert fits.height > 20
    assert fits["cache_hit_rate_thrashing"].unique().to_list() == [0.7]
    assert fits["turns_per_s_thrashing"].to_numpy() == pytest.approx(fits["turns_per_s"].to_numpy(), rel=1e-12)
    nearly = both.filter(pl.col("sessions").is_between(0.6 * pl.col("max_sessions"), 0.9 * pl.col("max_sessions")))
    assert ((nearly["cache_hit_rate_thrashing"] <= 0.7) & (nearly["cache_hit_rate_thrashing"] > 0.6)).all()
    # capacity counts whole sessions: a little more than it still fits
    beyond = both.filter("feasible_thrashing", pl.col("sessions") > 1.1 * pl.col("max_sessions"))
    assert beyond.height > 3
    assert (beyond["cache_hit_rate_thrashing"] < 0.7).all()
    lives = carried(agents(TimeToLiveCache(kept_s=4.0)), over_capacity="thrash")
    assert lives["cache_hit_rate"].unique().to_list() == [0.0]
    assert lives["cache_model"].unique().to_list() == ["lru"]


def test_host_memory_behind_the_gpus() -> None:
    """Prefixes come back over PCIe: the reload is in TTFT, and host memory may be the scenario's or the build's."""
    host = LeastRecentlyUsedCache(host_memory_gb_per_gpu=200)
    alone, behind = (carried(agents(cache)).filter(~pl.col("interpolated")) for cache in (LRU, host))
    both = alone.join(behind, on="point_id", suffix="_behind")
    more = both.filter("feasible", pl.col("cache_hit_rate") < 0.9)
    assert more.height > 5
    assert (more["cache_hit_rate_behind"] > more["cache_hit_rate"]).all()
    reloads = both.filter((pl.col("cache_reload_fraction_behind") == 1.0) & (pl.col("tp") == 4))
    assert reloads.height
    # mean context less 3,000 new tokens, over 4 links of 64 GB/s at most
    link = hardware("h100-sxm").host_link_bytes_per_s
    load_ms = 1e3 * (24_000 + 7 * 3_064 - 3_000) * KAPPA / 4 / link
    hits = reloads["turn_latency_all_hits_ms_behind"].to_numpy()
    assert reloads["turn_latency_ms_behind"].to_numpy() == pytest.approx(hits + load_ms, rel=1e-9)
    options: dict[str, Any] = {"idle_kv": "offloaded", "host_memory_bytes_per_gpu": 200e9}
    assert_frame_equal(
        carried(agents(LRU), **options), carried(agents(LeastRecentlyUsedCache(host_memory_gb_per_gpu=200)))
    )


def test_one_request_hits_and_misses_alike() -> None:
    """The identity scenario where nothing is cached: a hit prefills what a miss does."""
    points = shipped_points(TABLES["agg"])
    found = agent_points(points, setting("h100-sxm", "llama-3-1-70b", identity_scenario(4_000, 1_000)))
    for name in ("turn_latency_all_{}_ms", "serving_requests_per_s_all_{}"):
        plain = name.replace("_all_{}", "")
        assert found[name.format("hits")].to_list() == found[name.format("misses")].to_list() == found[plain].to_list()


@pytest.mark.parametrize("option", [{"idle_kv": "dropped"}, {"over_capacity": "wait"}], ids=["dropped", "wait"])
def test_options_that_leave_nothing_to_evict(option: dict[str, Any]) -> None:
    options = MappingOptions.model_validate(option)
    rate = 0.0 if "idle_kv" in option else 1.0
    stated, lru = (scenario_under(agents(cache), options) for cache in (FixedCache(hit_rate=rate), LRU))
    found, expected = carried(lru, **option), carried(stated, **option)
    assert_frame_equal(found.drop("cache_model"), expected.drop("cache_model"))


def test_no_point_at_the_wall_where_the_cache_falls() -> None:
    """Code agents on these rows reach the wall just where their hits go; on the roofline's finer curves they do not."""
    coarse, fine = (
        carried(article_scenario("code-agent", cache=LRU), table, reserve_fraction=0.1) for table in ("agg", "roofline")
    )
    assert "kv_capacity" in set(coarse["infeasible_reason"])
    assert coarse.filter("feasible")["cache_hit_rate"].max() == 1.0
    assert coarse.filter(infeasible_reason="kv_capacity")["cache_hit_rate"].max() < 0.25  # type: ignore[operator]
    assert not coarse["interpolated"].any()
    at_wall = fine.filter("interpolated")
    assert at_wall.height > 2
    # none of them is read off halfway down the cliff
    assert at_wall.filter(pl.col("cache_hit_rate").is_between(0.25, 0.75)).is_empty()
