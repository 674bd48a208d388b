"""Rows at the agent's own workload are used as they are, hit and miss mixed; else the nearest (model.md 5.1, 5.9)."""

import polars as pl
import pytest

from schemas.caches import FixedCache
from tests.transforms.factory import MIXED_BACKENDS, agent_points, article_scenario, setting, shipped_points
from transforms.agent_points.prepare import prepare_points

#: Code agent: Lbar = 18,198, OSL = 128, h = 0.95; a hit prefills dL = 500 in an aggregated replica, and in a
#: disaggregated one, which has not seen the output, 500 in turn 1 and 628 in the seven others: 612.
CONTEXT, OUTPUT, HIT_RATE = 18_198.0, 128.0, 0.95
NEW_ON_HIT = {"agg": 500.0, "disagg": 612.0}


def one_row(mode: str, **changed: object) -> pl.DataFrame:
    """A shipped row at another workload, its figures changed with it."""
    row = shipped_points(MIXED_BACKENDS).filter(serving_mode=mode, backend="trtllm").head(1)
    return row.with_columns(pl.lit(value).alias(name) for name, value in changed.items())


def at(mode: str, prefix: float, ttft: float, tpot: float, rate: float) -> pl.DataFrame:
    latency = ttft + tpot * (OUTPUT - 1)
    return one_row(
        mode, point_id=f"{mode}-{prefix}", isl_tokens=CONTEXT, osl_tokens=OUTPUT, prefix_tokens=prefix, ttft_ms=ttft,
        tpot_ms=tpot, request_latency_ms=latency, requests_per_s=rate,
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["agg", "disagg"])
def test_hit_and_miss_rows_are_mixed(mode: str) -> None:
    hit = at(mode, CONTEXT - NEW_ON_HIT[mode], 100.0, 10.0, 2.0)
    miss = at(mode, 0.0, 2_000.0, 12.0, 0.5)
    points = agent_points(
        pl.concat([one_row(mode), miss, hit]), setting("h200-sxm", "llama-3-1-8b", article_scenario())
    )
    (point,) = points.filter(~pl.col("interpolated")).to_dicts()
    assert point["transfer_method"] == "direct"
    assert point["ttft_ms"] == pytest.approx(0.95 * 100 + 0.05 * 2_000)
    assert point["tpot_ms"] == pytest.approx(0.95 * 10 + 0.05 * 12)
    assert point["turn_latency_ms"] == pytest.approx(195 + 10.1 * 127)
    # each request takes 1/2 or 1/0.5 of a second of the replica
    assert point["serving_requests_per_s"] == pytest.approx(1 / (0.95 / 2 + 0.05 / 0.5))


def of_file(point_id: str, file: str, row: pl.DataFrame) -> pl.DataFrame:
    return row.with_columns(point_id=pl.lit(point_id), source_file=pl.lit(file))


@pytest.mark.parametrize("seed", [None, 1, 2])
@pytest.mark.parametrize("files", [("one", "one", "one"), ("one", "two", "three")])
def test_two_rows_of_one_load_price_a_miss_each(files: tuple[str, str, str], seed: int | None) -> None:
    """Two hits and two misses at one load are two pairs, the faster with the faster: whatever their order."""
    hits, misses, others = files
    table = pl.concat([
        of_file("slow-hit", hits, at("agg", CONTEXT - 500, 200.0, 20.0, 1.0)),
        of_file("fast-miss", misses, at("agg", 0.0, 2_000.0, 12.0, 0.5)),
        of_file("fast-hit", hits, at("agg", CONTEXT - 500, 100.0, 10.0, 2.0)),
        of_file("slow-miss", others, at("agg", 0.0, 4_000.0, 24.0, 0.25)),
    ])  # fmt: skip
    table = table if seed is None else table.sample(fraction=1.0, shuffle=True, seed=seed)
    points = agent_points(table, setting("h200-sxm", "llama-3-1-8b", article_scenario()))
    found = points.filter(~pl.col("interpolated")).sort("tpot_ms").select("point_id", "ttft_ms", "tpot_ms").rows()
    fast = ("fast-hit", pytest.approx(0.95 * 100 + 0.05 * 2_000), pytest.approx(0.95 * 10 + 0.05 * 12))
    slow = ("slow-hit", pytest.approx(0.95 * 200 + 0.05 * 4_000), pytest.approx(0.95 * 20 + 0.05 * 24))
    assert found == [fast, slow]


def test_the_miss_of_a_hits_own_file_comes_first() -> None:
    """Though one of another file is the faster."""
    table = pl.concat([
        of_file("fast-miss", "one", at("agg", 0.0, 2_000.0, 12.0, 0.5)),
        of_file("slow-miss", "two", at("agg", 0.0, 4_000.0, 24.0, 0.25)),
        of_file("hit", "two", at("agg", CONTEXT - 500, 100.0, 10.0, 2.0)),
    ])  # fmt: skip
    points = agent_points(table, setting("h200-sxm", "llama-3-1-8b", article_scenario()))
    (point,) = points.filter(~pl.col("interpolated")).to_dicts()
    assert point["ttft_ms"] == pytest.approx(0.95 * 100 + 0.05 * 4_000)
    # a further hit takes the miss that is nobody's
    further = of_file("further", "three", at("agg", CONTEXT - 500, 300.0, 30.0, 1.0))
    points = agent_points(pl.concat([table, further]), setting("h200-sxm", "llama-3-1-8b", article_scenario()))
    found = points.filter(~pl.col("interpolated")).sort("tpot_ms")["ttft_ms"].to_list()
    assert found == pytest.approx([0.95 * 100 + 0.05 * 4_000, 0.95 * 300 + 0.05 * 2_000])


def test_a_miss_is_of_the_same_schedule() -> None:
    """A row that prefills two requests in a step does not price the misses of one that prefills one."""
    hit = at("agg", CONTEXT - 500, 100.0, 10.0, 2.0).with_columns(context_requests_per_step=pl.lit(1.0))
    miss = at("agg", 0.0, 2_000.0, 12.0, 0.5).with_columns(context_requests_per_step=pl.lit(2.0))
    points = agent_points(pl.concat([hit, miss], how="vertical_relaxed"),
                          setting("h200-sxm", "llama-3-1-8b", article_scenario()))  # fmt: skip
    assert "direct" not in set(points["transfer_method"])


@pytest.mark.parametrize("mode", ["agg", "disagg"])
def test_a_hit_row_alone_does_not_price_misses(mode: str) -> None:
    hit = at(mode, CONTEXT - NEW_ON_HIT[mode], 100.0, 10.0, 2.0)
    points = agent_points(pl.concat([one_row(mode), hit]), setting("h200-sxm", "llama-3-1-8b", article_scenario()))
    assert "direct" not in set(points["transfer_method"])
    without_misses = article_scenario(cache=FixedCache(hit_rate=1.0))
    points = agent_points(pl.concat([one_row(mode), hit]), setting("h200-sxm", "llama-3-1-8b", without_misses))
    (point,) = points.filter(~pl.col("interpolated")).to_dicts()
    assert (point["transfer_method"], point["ttft_ms"], point["serving_requests_per_s"]) == ("direct", 100.0, 2.0)


@pytest.mark.parametrize(("mode", "other"), [("agg", "disagg"), ("disagg", "agg")])
def test_a_hit_is_that_of_its_mode(mode: str, other: str) -> None:
    """The prefill of a disaggregated hit contains the last output, that of an aggregated one does not."""
    hit = at(mode, CONTEXT - NEW_ON_HIT[other], 100.0, 10.0, 2.0)
    miss = at(mode, 0.0, 2_000.0, 12.0, 0.5)
    points = agent_points(pl.concat([hit, miss]), setting("h200-sxm", "llama-3-1-8b", article_scenario()))
    assert "direct" not in set(points["transfer_method"])


def test_one_agent_point_for_each_load_from_the_nearest_workload() -> None:
    """Tables at 1024/1024, 4000/1000 and 8192/1024: 18,198 tokens of context are nearest to the last."""
    tables = [
        f"candidates/h200_sxm__llama-3.1-70b__isl{workload}__agg.csv.gz"
        for workload in ("1024_osl1024", "4000_osl1000", "8192_osl1024")
    ]
    points = shipped_points(*tables)
    shared = setting("h200-sxm", "llama-3-1-70b", article_scenario())
    (group,) = prepare_points(points, shared.spec, shared.hardware).groups
    rows = group.take(group.choose(shared.scenario).rows).rows.frame
    load = ("tp", "pp", "dp", "linear_dtype", "kv_dtype", "context_requests_per_step", "batch_per_rank")
    nearest = points.group_by(load).agg(pl.col("isl_tokens").max())
    assert rows.height == nearest.height < points.height
    chosen = rows.select(*load, "isl_tokens").sort(load)
    assert chosen.equals(nearest.select(*load, "isl_tokens").sort(load))
    assert rows["isl_tokens"].n_unique() > 1
