"""The key and the words of a deployment."""

import polars as pl
import pytest

from schemas.frames import conform
from tests.transforms.factory import MIXED_BACKENDS, shipped_points
from transforms.configurations import (
    CURVE_ID,
    DEPLOYMENT,
    configuration_ids,
    deployments,
    in_curve_order,
    number_configurations,
)

POINTS = shipped_points(MIXED_BACKENDS)
AGG = POINTS.filter(pl.col("serving_mode") == "agg").head(1)
DISAGG = POINTS.filter(pl.col("serving_mode") == "disagg").head(1)


def one(points: pl.DataFrame, **changed: object) -> pl.DataFrame:
    return points.with_columns(pl.lit(value).cast(points.schema[name]).alias(name) for name, value in changed.items())


def id_of(points: pl.DataFrame) -> str:
    (found,) = configuration_ids(points)
    return str(found)


def words(points: pl.DataFrame, **changed: object) -> str:
    shape = {"weight_dtype": "fp8", "kv_dtype": "fp8", "backend": "trtllm", "backend_version": "1.2.0"}
    (label,) = deployments(one(points, **{**shape, **changed}))["configuration"]
    return str(label)


@pytest.mark.parametrize("name", DEPLOYMENT)
def test_all_that_makes_a_deployment_makes_its_key(name: str) -> None:
    other: object = "other" if POINTS.schema[name] == pl.String else 77
    assert id_of(one(AGG, **{name: other})) != id_of(AGG)


@pytest.mark.parametrize(
    "name", ["hardware", "prefill_hardware", "decode_hardware", "model", "source_file", "point_id"]
)
def test_place_and_origin_do_not(name: str) -> None:
    assert id_of(one(AGG, **{name: "other"})) == id_of(AGG)
    assert id_of(one(AGG, concurrency_reported=99, isl_tokens=99)) == id_of(AGG)


def test_the_key_is_fixed() -> None:
    """Dashboards keep it: a change of this figure is a change of every published key."""
    fixed = AGG.select(pl.lit(None, AGG.schema[name]).alias(name) for name in AGG.columns)
    fixed = one(fixed, source="vllm", tp=4, accepted_tokens=1.0)
    assert id_of(fixed) == "e12ac1e4b399"
    assert id_of(one(fixed, tp=8)) != id_of(fixed)


def test_serving_points_carry_it() -> None:
    assert POINTS["configuration_id"].equals(configuration_ids(POINTS))
    assert conform(deployments(POINTS), "dim_configuration").height == POINTS["configuration_id"].n_unique()
    assert POINTS.select(DEPLOYMENT).unique().height == POINTS["configuration_id"].n_unique()


@pytest.mark.parametrize(
    ("shape", "label"),
    [
        ({"tp": 4, "pp": 1, "dp": 1}, "TP4 PP1 DP1, fp8, KV fp8, trtllm 1.2.0"),
        ({"tp": 1, "pp": 2, "dp": 8, "moe_ep": 8}, "TP1 PP2 DP8 EP8, fp8, KV fp8, trtllm 1.2.0"),
        ({"tp": 8, "pp": 1, "dp": 1, "cp": 2, "weight_dtype": "nvfp4"}, "TP8 PP1 DP1 CP2, nvfp4, KV fp8, trtllm 1.2.0"),
        ({"tp": 4, "pp": 1, "dp": 1, "draft_tokens": 3}, "TP4 PP1 DP1, fp8, KV fp8, trtllm 1.2.0, 3 drafts"),
        ({"tp": 4, "pp": 1, "dp": 1, "latency_statistic": "p50"}, "TP4 PP1 DP1, fp8, KV fp8, trtllm 1.2.0, medians"),
        ({"tp": 4, "pp": 1, "dp": 1, "backend_version": None}, "TP4 PP1 DP1, fp8, KV fp8, trtllm"),
    ],
)
def test_one_pool_in_words(shape: dict[str, object], label: str) -> None:
    assert words(AGG, **{"moe_ep": 1, "cp": 1, **shape}) == label


def test_two_pools_in_words() -> None:
    plain = {f"{pool}_{name}": 1 for pool in ("prefill", "decode") for name in ("pp", "dp", "cp", "moe_ep")}
    shape = {**plain, "prefill_workers": 2, "prefill_tp": 4, "decode_workers": 1, "decode_tp": 8}
    assert words(DISAGG, **shape) == "2 x prefill TP4 + 1 x decode TP8, fp8, KV fp8, trtllm 1.2.0"
    wide = {**shape, "decode_tp": 1, "decode_dp": 8, "decode_moe_ep": 8, "decode_pp": 2}
    assert words(DISAGG, **wide) == "2 x prefill TP4 + 1 x decode TP1 PP2 DP8 EP8, fp8, KV fp8, trtllm 1.2.0"


def test_in_the_order_of_curves_each_curve_stands_together_and_its_load_rises() -> None:
    ordered = in_curve_order(POINTS.sample(fraction=1.0, shuffle=True, seed=5))
    assert ordered.sort("point_id").equals(POINTS.sort("point_id"))
    numbered = number_configurations(ordered)
    curve, batch = numbered[CURVE_ID], numbered["batch_per_rank"].fill_null(-1.0)
    assert curve.is_sorted()
    assert numbered.select((batch.diff() >= 0) | (curve.diff() > 0)).to_series().drop_nulls().all()
    assert in_curve_order(ordered).equals(ordered)


def test_numbers_do_not_depend_on_the_order() -> None:
    """Rows of a curve apart from each other, NULLs among what tells them apart."""
    rows = pl.concat([AGG, DISAGG, one(AGG, tp=None), one(AGG, isl_tokens=77), DISAGG, AGG, one(AGG, tp=None)])
    numbers = number_configurations(rows)
    assert numbers[CURVE_ID].to_list() == [3, 4, 1, 2, 4, 3, 1]
    assert numbers["_configuration"].to_list() == [2, 3, 1, 2, 3, 2, 1]
    assert number_configurations(rows.reverse()).reverse().equals(numbers)
    assert number_configurations(rows.clear()).is_empty()
