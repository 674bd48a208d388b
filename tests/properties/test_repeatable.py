"""The same rows give the same figures to the last bit, however often, in whatever order and beside whom they come."""

import polars as pl
import pytest

from pipelines.reading.catalogues import load_hardware
from schemas.options import MappingOptions
from tests.transforms.factory import (
    agent_points,
    article_scenario,
    model,
    roofline_points,
    setting,
    shipped_points,
    solved,
)
from transforms.agent_points.carry import Setting
from transforms.configurations import in_curve_order

TABLES = (
    "candidates/b200_sxm__llama-3.1-70b__isl1024_osl1024__agg.csv.gz",
    "candidates/b200_sxm__llama-3.1-70b__isl4000_osl1000__agg.csv.gz",
    "candidates/b200_sxm__llama-3.1-70b__isl8192_osl1024__agg.csv.gz",
    "candidates/b200_sxm__llama-3.1-70b__isl4000_osl1000__disagg.csv.gz",
)
GPUS = ("h100-sxm", "a100-sxm")


def orders(points: pl.DataFrame) -> list[pl.DataFrame]:
    return [points, points.reverse(), points.sample(fraction=1.0, shuffle=True, seed=3), in_curve_order(points)]


@pytest.mark.parametrize("scenario", ["code-agent", "research-agent"])
def test_to_the_last_bit(scenario: str) -> None:
    """Three workloads of each deployment, whose means are what a group of rows adds up to."""
    points = shipped_points(*TABLES)
    shared = setting("b200", "llama-3-1-70b", article_scenario(scenario))
    first, *again = (agent_points(rows, shared).sort("point_id") for rows in (points, *orders(points)))
    public = [name for name in first.columns if not name.startswith("_")]
    assert first.height > 500
    for other in again:
        assert other.select(public).equals(first.select(public))


def test_beside_other_hardware_modes_and_rooflines() -> None:
    """All at once, in any order, as each hardware by itself: agent points and operating points."""
    tables = shipped_points(*TABLES)
    pooled = [roofline_points(gpu, "llama-3-1-70b") for gpu in GPUS]
    scenario = article_scenario("code-agent", sessions=64, gpus=16)
    shared = Setting(scenario, model("llama-3-1-70b"), load_hardware(), MappingOptions())
    apart = [(agent_points(rows, shared), solved(rows, shared)) for rows in (tables, *pooled)]
    assert {tuple(pair) for pair in pl.concat(pooled).select("source", "serving_mode").unique().iter_rows()} == {
        ("roofline", "agg"),
        ("roofline", "disagg"),
    }
    for rows in orders(pl.concat([tables, *pooled])):
        for together, alone in zip(
            (agent_points(rows, shared), solved(rows, shared)), zip(*apart, strict=True), strict=True
        ):
            public = [name for name in together.columns if not name.startswith("_")]
            expected = pl.concat(frame.select(public) for frame in alone).sort("hardware", "point_id")
            assert together.select(public).sort("hardware", "point_id").equals(expected)
