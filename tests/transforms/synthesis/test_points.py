"""Roofline points: the replicas that are priced, and disaggregated ones by hand."""

import polars as pl
import pytest

from schemas.caches import FixedCache
from schemas.frames import conform
from tests.transforms.factory import agent_points, article_scenario, hardware, roofline_points, setting

#: Llama-3.1-70B in 16 bits: 70,553,706,496 parameters; KV 327,680 bytes a token.
PARAMETERS = 70_553_706_496
KV_BYTES = 327_680


def disaggregated(**shape: object) -> pl.DataFrame:
    return roofline_points("h100-sxm", "llama-3-1-70b", "article", serving_mode="disagg", weight_dtype="bf16", **shape)


def test_workers_are_the_smallest_that_hold_the_weights_and_the_largest() -> None:
    """141 GB of weights need two H100 of 86 GB, a fifth kept free: 137 GB on two do not do, 275 GB on four do."""
    rows = disaggregated()
    assert set(rows["prefill_tp"]) == {4}
    assert set(rows["decode_tp"]) == {4, 8}
    assert set(rows.select("prefill_workers", "decode_workers").unique().iter_rows()) == {
        (1, 1),
        (1, 2),
        (1, 4),
        (2, 1),
    }
    gpus = rows["prefill_workers"] * rows["prefill_tp"] + rows["decode_workers"] * rows["decode_tp"]
    assert rows["gpus_per_replica"].to_list() == gpus.to_list()
    assert rows["point_id"].is_unique().all()
    conform(rows, "serving_points")


def test_a_model_that_no_worker_holds_has_no_disaggregated_rows() -> None:
    """671 GB in FP8 exceed 8 x 86 GB less a fifth; the aggregated rows say that weights do not fit."""
    rows = roofline_points("h100-sxm", "deepseek-v3", "article")
    assert set(rows["serving_mode"]) == {"agg"}


def test_both_pools_by_hand() -> None:
    """Eqs. 2 to 3c on each pool, AIConfigurator's queueing and pool shares, KV handed over within a node.

    Prefill of 4,000 tokens on four H100: 2 * P * 4,000 / (4 * 989e12) / 0.65. A decode step of 16 contexts of 4,500
    tokens on four: (P * 2 + 16 * 4,500 * 327,680) / (4 * 3.35e12) * 1.10 / 0.40.
    """
    (row,) = disaggregated(prefill_workers=1, decode_workers=1, decode_tp=4, decode_batch=16.0).to_dicts()
    prefill_s = 2 * PARAMETERS * 4_000 / (4 * 989e12) / 0.65
    handover_s = 4_000 * KV_BYTES / (4 * hardware("h100-sxm").scale_up_bytes_per_s)
    step_s = (2 * PARAMETERS + 16 * 4_500 * KV_BYTES) / (4 * 3.35e12) * 1.10 / 0.40
    assert row["ttft_ms"] == pytest.approx(1e3 * (1.8 * prefill_s + handover_s), rel=1e-6)
    assert row["tpot_ms"] == pytest.approx(1e3 * step_s, rel=1e-6)
    assert row["requests_per_s"] == pytest.approx(min(0.9 / prefill_s, 0.92 * 16 / (step_s * 999)), rel=1e-6)


def test_decode_workers_add_up_until_prefill_is_the_slower_pool() -> None:
    """A worker of eight decodes 64 contexts in 24.2 ms a step, 2.44 requests/s; the prefill worker takes 4.10."""
    rates = [
        disaggregated(prefill_workers=1, decode_workers=workers, decode_tp=8, decode_batch=64.0)[
            "requests_per_s"
        ].item()
        for workers in (1, 2, 4)
    ]
    step_s = (2 * PARAMETERS + 64 * 4_500 * KV_BYTES) / (8 * 3.35e12) * 1.10 / 0.40
    prefill_s = 2 * PARAMETERS * 4_000 / (4 * 989e12) / 0.65
    assert rates[0] == pytest.approx(0.92 * 64 / (step_s * 999), rel=1e-6)
    assert rates[0] == pytest.approx(2.44, abs=0.005)
    assert rates[1:] == pytest.approx([0.9 / prefill_s] * 2, rel=1e-6)
    assert rates[1:] == pytest.approx([4.10] * 2, abs=0.005)


@pytest.mark.parametrize("preset", ["article", "calibrated"])
def test_a_replica_gives_its_own_figures_back(preset: str) -> None:
    """The identity scenario (model.md 5.8) on disaggregated rooflines."""
    rows = roofline_points("h200-sxm", "qwen3-235b-a22b", preset, serving_mode="disagg")  # type: ignore[arg-type]
    scenario = article_scenario(
        turns=1, think_time_s=0.0, initial_prompt_tokens=4_000, first_turn_new_tokens=4_000, new_tokens_per_turn=1,
        output_tokens_per_turn=1_000, cache=FixedCache(hit_rate=1.0),
    )  # fmt: skip
    points = agent_points(rows, setting("h200-sxm", "qwen3-235b-a22b", scenario)).filter(~pl.col("interpolated"))
    both = points.join(rows, on="point_id", suffix="_of_row")
    assert both.height == rows.height > 50
    for name, of_row in (
        ("ttft_ms", "ttft_ms_of_row"), ("tpot_ms", "tpot_ms_of_row"), ("turn_latency_ms", "request_latency_ms"),
        ("turns_per_s", "requests_per_s"),
    ):  # fmt: skip
        assert both[name].to_list() == pytest.approx(both[of_row].to_list(), rel=1e-9), name
