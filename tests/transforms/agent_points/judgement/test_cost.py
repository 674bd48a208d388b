"""What points cost: the price of the replica's GPUs over what they do."""

import numpy as np
import polars as pl
import pytest

from pipelines.reading.catalogues import load_hardware
from schemas.catalogue import HardwareCatalogue
from schemas.prices import Price, prices_of, with_prices
from tests.transforms.factory import MIXED_BACKENDS, article_scenario, model, shipped_points
from transforms.agent_points.carry import Setting, carry_prepared
from transforms.agent_points.judgement.cost import add_cost, usd_per_gpu_hour
from transforms.agent_points.prepare import prepare_points
from transforms.agent_points.rows.rows import Rows
from transforms.equations import cost
from transforms.operating_points.points import operating_points


def price(hardware: str, usd: float) -> Price:
    return Price.model_validate(
        {"hardware": hardware, "usd_per_gpu_hour": usd, "source": "made up for a test", "date": "2026-01-15"}
    )


PRICED = with_prices(load_hardware(), [price("h100-sxm", 3.0), price("h200-sxm", 5.0)])


def test_worked_by_hand() -> None:
    # a GPU at 3.60 USD an hour, 0.001 USD a second, does a task in 50 s and 20 tokens a second
    assert cost.usd_per_task(3.60, 0.02) == pytest.approx(0.05, rel=1e-12)
    assert cost.usd_per_million_tokens(3.60, 20.0) == pytest.approx(50.0, rel=1e-12)
    # 8 GPUs at 3 and 4 at 6: 48 USD an hour for 12
    assert cost.mean_usd_per_gpu_hour(8, 3.0, 4, 6.0) == 4.0
    assert cost.usd_per_task(np.array([3.60, 7.20]), 0.02).tolist() == pytest.approx([0.05, 0.10])


def test_only_the_gpus_with_a_price_have_one() -> None:
    assert prices_of(PRICED) == {"h100-sxm": 3.0, "h200-sxm": 5.0}
    assert prices_of(load_hardware()) == {}
    assert len(PRICED) == len(load_hardware())
    assert PRICED.find("H200").slug == "h200-sxm"


def point(prefill: str, decode: str, mode: str = "disagg", **shape: int | None) -> dict[str, object]:
    plain = dict.fromkeys(("prefill_pp", "prefill_dp", "prefill_cp"), 1)
    pools = {**plain, "prefill_workers": 2, "prefill_tp": 4, "gpus_per_replica": 16, **shape}
    return {
        "serving_mode": mode, "prefill_hardware": prefill, "decode_hardware": decode,
        "tasks_per_s_per_gpu": 0.01, "output_tokens_per_s_per_gpu": 100.0, **pools,
    }  # fmt: skip


def costed(points: pl.DataFrame, hardware: HardwareCatalogue) -> pl.DataFrame:
    return add_cost(Rows(points.with_columns(usd_per_gpu_hour=usd_per_gpu_hour(hardware)))).to_frame()


AGG = dict.fromkeys(("prefill_workers", "prefill_tp", "prefill_pp", "prefill_dp", "prefill_cp"))


@pytest.mark.parametrize(
    ("row", "price"),
    [
        (point("h200-sxm", "h200-sxm", "agg", **AGG), 5.0),
        (point("h100-sxm", "h200-sxm"), 4.0),  # 8 at 3 and 8 at 5
        (point("h100-sxm", "h200-sxm", prefill_dp=2, gpus_per_replica=20), 3.4),  # 16 at 3 and 4 at 5
        (point("h200-sxm", "h200-sxm"), 5.0),
        (point("b200", "b200", "agg", **AGG), None),
        (point("h100-sxm", "b200"), None),
        (point("b200", "h100-sxm"), None),
    ],
)
def test_each_pool_at_its_own_price(row: dict[str, object], price: float | None) -> None:
    # the row alone, and beside one that has a price
    frame = pl.DataFrame([row, point("h200-sxm", "h200-sxm", "agg", **AGG)], infer_schema_length=None)
    (found, _) = costed(frame, PRICED).to_dicts()
    assert found["usd_per_gpu_hour"] == (price and pytest.approx(price, rel=1e-12))
    if price is None:
        assert (found["usd_per_task"], found["usd_per_million_output_tokens"]) == (None, None)
    else:
        assert found["usd_per_task"] == pytest.approx(price / 36.0, rel=1e-12)
        assert found["usd_per_million_output_tokens"] == pytest.approx(price * 1e6 / 360_000.0, rel=1e-12)


def test_without_prices_the_columns_are_null() -> None:
    priced = costed(pl.DataFrame([point("h100-sxm", "h200-sxm")]), load_hardware())
    for name in ("usd_per_gpu_hour", "usd_per_task", "usd_per_million_output_tokens"):
        assert priced.schema[name] == pl.Float64
        assert priced[name].to_list() == [None]


def test_points_of_shipped_tables_aggregated_and_not() -> None:
    """Agent points, those at the wall and operating points: all priced, by the rates they publish."""
    points = shipped_points(MIXED_BACKENDS)
    shared = Setting(article_scenario(), model("llama-3-1-8b"), PRICED)
    prepared = prepare_points(points, shared.spec, shared.hardware)
    carried = carry_prepared(prepared, shared)
    assert set(carried["serving_mode"]) == {"agg", "disagg"}
    assert carried["interpolated"].any()
    for frame in (carried, operating_points(carried, shared, prepared.lookups)):
        per_task = 5.0 / frame["tasks_per_hour_per_gpu"]
        per_tokens = 5.0 / (frame["output_tokens_per_s_per_gpu"] * 3600 / 1e6)
        assert frame["usd_per_gpu_hour"].unique().to_list() == [5.0]
        assert ((frame["usd_per_task"] / per_task - 1).abs() < 1e-12).all()
        assert ((frame["usd_per_million_output_tokens"] / per_tokens - 1).abs() < 1e-12).all()
        # a code-agent task is 8 turns of 128 tokens
        ratio = frame["usd_per_task"] / frame["usd_per_million_output_tokens"]
        assert ((ratio / (8 * 128 / 1e6) - 1).abs() < 1e-12).all()
