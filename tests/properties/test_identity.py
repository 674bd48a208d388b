"""The identity scenario gives each serving point its own figures back (model.md 5.8), whichever way it is carried.

N = 1, Z = 0, h = 1, L0 = ISL, n1 = ISL - prefix, OSL = osl. Figures only: whether a point is feasible is the model's.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from pipelines.reading.catalogues import load_hardware
from schemas.models import ModelSpec
from schemas.options import RooflinePreset
from tests.transforms.factory import (
    MIXED_BACKENDS,
    TABLES,
    agent_points,
    identity_scenario,
    roofline_points,
    setting,
    shipped_points,
)
from transforms.agent_points.carriers.engine_steps import EngineSteps
from transforms.agent_points.carriers.pools import PoolSteps
from transforms.agent_points.carriers.ratio import RatioRows
from transforms.agent_points.carriers.workload import agent_workload
from transforms.agent_points.carry import Setting
from transforms.agent_points.prepare import Carrier
from transforms.agent_points.rows.columns import ROW_FIGURES
from transforms.agent_points.rows.lookups import add_private_columns
from transforms.agent_points.rows.rows import Rows
from transforms.configurations import number_configurations

H100_70B = "candidates/h100_sxm__llama-3.1-70b__isl4000_osl1000"
B200_DEEPSEEK = "candidates/b200_sxm__deepseek-v3__isl4000_osl1000"
GB200_GPT_OSS = "candidates/gb200__gpt-oss-120b__isl4000_osl1000"
H200_70B = "candidates/h200_sxm__llama-3.1-70b__isl1024_osl1024"
#: Dense, mixture of experts with attention data parallelism and MLA, and sliding windows; two workloads.
CANDIDATES = [f"{table}__{mode}.csv.gz" for table in (H100_70B, B200_DEEPSEEK, GB200_GPT_OSS, H200_70B)
              for mode in ("agg", "disagg")]  # fmt: skip
#: TTFT and TPOT carry three decimals: their sum over OSL - 1 steps is off by half of the last digit of each.
HALF_DIGIT_MS = 0.0005


def parts(points: pl.DataFrame, **options: object) -> Iterator[tuple[pl.DataFrame, Setting]]:
    """The points by hardware, model and workload, each with its identity scenario."""
    for keys, part in points.group_by("hardware", "model", "isl_tokens", "osl_tokens", "prefix_tokens"):
        gpu, spec = str(keys[0]), str(keys[1])
        isl, osl, prefix = (float(str(tokens)) for tokens in keys[2:])
        yield part, setting(gpu, spec, identity_scenario(isl, osl, prefix), **options)


def all_points() -> pl.DataFrame:
    """Shipped rows, and the same again as if 1,000 tokens of their inputs had been cached."""
    points = shipped_points(*CANDIDATES, MIXED_BACKENDS)
    cached = points.with_columns(prefix_tokens=pl.lit(1_000.0), point_id=pl.col("point_id") + "-cached")
    return pl.concat([points, cached])


def assert_figures_are_the_rows(carried: pl.DataFrame, rows: pl.DataFrame) -> None:
    """Agent points against the serving points that they came from, joined by key."""
    stated = rows.select(
        "point_id", "osl_tokens", "request_latency_ms", "requests_per_s", row_ttft="ttft_ms", row_tpot="tpot_ms"
    )
    both = carried.join(stated, on="point_id", how="left", maintain_order="left", suffix="_row")
    assert both["row_ttft"].null_count() == 0
    assert both["ttft_ms"].to_list() == pytest.approx(both["row_ttft"].to_list(), rel=1e-9)
    assert both["tpot_ms"].to_list() == pytest.approx(both["row_tpot"].to_list(), rel=1e-9)
    off = (both["turn_latency_ms"] - both["request_latency_ms"]).abs()
    assert (off <= HALF_DIGIT_MS * (both["osl_tokens"] + 1) + 1e-9).all()


def test_the_tables_hold_every_way_of_carrying() -> None:
    kinds = all_points().select("backend", "serving_mode").unique().rows()
    backends = ("trtllm", "vllm", "sglang")
    assert sorted(kinds) == sorted((backend, mode) for backend in backends for mode in ("agg", "disagg"))


@pytest.mark.parametrize("closed_loop", ["arrival", "article"])
def test_direct(closed_loop: str) -> None:
    """A row at the agent's own workload is used as it is; without pauses C = B and X = B/R."""
    for rows, shared in parts(all_points(), closed_loop=closed_loop):
        points = agent_points(rows, shared).filter(~pl.col("interpolated"))
        assert points.height == rows.height
        assert set(points["transfer_method"]) == {"direct"}
        assert_figures_are_the_rows(points, rows)
        rates = points.join(rows.select("point_id", "requests_per_s"), on="point_id", maintain_order="left")
        for name in ("serving_requests_per_s", "turns_per_s"):
            assert rates[name].to_list() == pytest.approx(rates["requests_per_s"].to_list(), rel=1e-9)
        assert points["activity_fraction"].to_list() == [1.0] * points.height
        assert points["sessions"].to_list() == pytest.approx(points["in_flight_requests"].to_list(), rel=1e-12)
        for name in ("first_turn_latency_ms", "last_turn_latency_ms"):
            assert points[name].to_list() == pytest.approx(points["turn_latency_ms"].to_list(), rel=1e-9)


@pytest.mark.parametrize("hit_rate", [0.0, 0.3])
def test_at_any_hit_rate_a_row_prices_its_own_misses(hit_rate: float) -> None:
    """A miss that is the same turn as a hit: each row gives its own figures, as at h = 1."""
    for rows, shared in parts(all_points()):
        scenario = shared.scenario
        isl, osl = scenario.initial_prompt_tokens, scenario.output_tokens_per_turn
        again = identity_scenario(isl, osl, isl - scenario.first_turn_new_tokens, hit_rate)
        points = agent_points(rows, replace(shared, scenario=again)).filter(~pl.col("interpolated"))
        assert points.height == rows.height
        assert set(points["transfer_method"]) == {"direct"}
        assert_figures_are_the_rows(points, rows)
        rates = points.join(rows.select("point_id", "requests_per_s"), on="point_id", maintain_order="left")
        for name in ("serving_requests_per_s", "turns_per_s"):
            assert rates[name].to_list() == pytest.approx(rates["requests_per_s"].to_list(), rel=1e-9)


def carried_by(
    taken: Callable[[Rows, ModelSpec], Carrier], part: pl.DataFrame, shared: Setting, mode: str
) -> pl.DataFrame:
    """The rows at their identity scenario by one way of carrying, whichever the mapping would take."""
    workload = agent_workload(shared.scenario, shared.spec.attention, prefill_sees_output=mode == "agg")
    numbered = number_configurations(add_private_columns(part.rename(ROW_FIGURES), shared.spec, load_hardware()))
    rows = Rows(numbered)
    return rows.with_figures(taken(rows, shared.spec).figures_at(workload)).to_frame()


def test_steps_taken_apart_and_put_together() -> None:
    rows = all_points().filter(serving_mode="agg")
    assert rows["mixed_step_ms"].null_count() == 0
    for part, shared in parts(rows):
        carried = carried_by(EngineSteps.taken_apart, part, shared, "agg")
        assert_figures_are_the_rows(carried, part)
        rate = carried["serving_requests_per_s"].to_list()
        # vLLM's is capped by B / latency, whose digits are those of TTFT and TPOT
        assert rate == pytest.approx(carried["row_requests_per_s"].to_list(), rel=2e-5)


def test_pools_taken_apart_and_matched_again() -> None:
    for part, shared in parts(all_points().filter(serving_mode="disagg")):
        carried = carried_by(PoolSteps.taken_apart, part, shared, "disagg")
        assert_figures_are_the_rows(carried, part)
        rate = carried["serving_requests_per_s"].to_list()
        assert rate == pytest.approx(carried["row_requests_per_s"].to_list(), rel=1e-9)


@pytest.mark.parametrize("mode", ["agg", "disagg"])
def test_ratio(mode: str) -> None:
    """The requests in flight stay: throughput is off by the rounding of the latency, 0.025 %."""
    for part, shared in parts(all_points().filter(serving_mode=mode)):
        carried = carried_by(RatioRows, part, shared, mode)
        assert_figures_are_the_rows(carried, part)
        rate = carried["serving_requests_per_s"].to_list()
        assert rate == pytest.approx(carried["row_requests_per_s"].to_list(), rel=2.5e-4)


@pytest.mark.parametrize("preset", ["article", "calibrated"])
@pytest.mark.parametrize("spec", ["llama-3-1-70b", "deepseek-v3", "gpt-oss-120b"])
def test_roofline(preset: RooflinePreset, spec: str) -> None:
    rows = roofline_points("mi355x", spec, preset)
    ((part, shared),) = parts(rows)
    points = agent_points(part, shared).filter(~pl.col("interpolated"))
    assert set(points["transfer_method"]) == {"roofline"}
    assert points.height == rows.height
    assert_figures_are_the_rows(points, rows)
    rates = points.join(rows.select("point_id", "requests_per_s"), on="point_id", maintain_order="left")
    assert rates["turns_per_s"].to_list() == pytest.approx(rates["requests_per_s"].to_list(), rel=1e-9)


def test_serving_points_are_the_tables_own_figures() -> None:
    """What the identity gives back are the cells of the file: read here with Polars alone."""
    path = f"{H100_70B}__agg.csv.gz"
    cells = pl.read_csv(Path(TABLES, path), infer_schema_length=None)
    points = shipped_points(path).sort("source_row")
    assert points.height == cells.height
    for ours, theirs in (("ttft_ms", "ttft"), ("tpot_ms", "tpot"), ("request_latency_ms", "request_latency")):
        assert points[ours].to_list() == cells[theirs].to_list()
    per_gpu = points["requests_per_s"] / points["gpus_per_replica"]
    assert per_gpu.to_list() == pytest.approx((cells["tokens/s/gpu"] / 999).to_list(), abs=1.001 * HALF_DIGIT_MS / 999)
    assert points["requests_per_s"].to_list() == pytest.approx((cells["tokens/s"] / 999).to_list(), rel=1e-5)
    assert points["concurrency_reported"].to_list() == cells["concurrency"].to_list()
