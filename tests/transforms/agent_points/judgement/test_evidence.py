"""``expected_error_fraction`` and ``extrapolated``."""

import polars as pl
import pytest

from pipelines.reading.catalogues import load_hardware, load_models
from schemas.frames import empty_frame
from tests.transforms.evaluation.test_errors import TABLES, read
from tests.transforms.factory import shipped_points
from transforms.agent_points.carry import Setting, carry_points
from transforms.agent_points.judgement.expected_errors import ABOVE, BATCH_RANGES, EXPECTED_ERRORS, batch_range
from transforms.evaluation import turn_scenario


def carried(points: pl.DataFrame, isl: float, prefix: float, osl: float) -> pl.DataFrame:
    gpus, spec = load_hardware(), load_models().get("llama-3-1-8b")
    return carry_points(points, Setting(turn_scenario(isl, prefix, osl), spec, gpus))


@pytest.fixture(scope="module")
def standard() -> pl.DataFrame:
    return read(TABLES / "standard").filter(pl.col("hardware") == "h100-sxm")


@pytest.mark.parametrize(
    ("batch", "label"),
    [(1, "1"), (2, "2-4"), (4, "2-4"), (5, "5-16"), (64, "17-64"), (65, "65 and more"), (None, None)],
)
def test_ranges(batch: float | None, label: str | None) -> None:
    frame = pl.DataFrame({"batch_per_rank": [batch]}, schema={"batch_per_rank": pl.Float64})
    assert frame.select(batch_range()).item() == label


def test_a_transfer_has_the_error_of_its_batches(standard: pl.DataFrame) -> None:
    points = carried(standard, 14_000, 13_400, 150).filter(~pl.col("interpolated"))
    assert not points["extrapolated"].any()
    for label, batch in BATCH_RANGES:
        of_range = points.filter(pl.col("batch_per_rank") == batch)["expected_error_fraction"].unique().to_list()
        assert of_range == [EXPECTED_ERRORS["transfer", "agg"][label]]


def test_latent_attention_has_an_error_of_its_own() -> None:
    points = shipped_points("candidates/h200_sxm__deepseek-v3__isl4000_osl1000__agg.csv.gz").filter(batch_per_rank=4.0)
    gpus, spec = load_hardware(), load_models().get("deepseek-v3")
    at_turn = carry_points(points, Setting(turn_scenario(14_000, 13_400, 150), spec, gpus))
    own = at_turn.filter(~pl.col("interpolated"), pl.col("transfer_method") == "transfer")
    assert own["expected_error_fraction"].unique().to_list() == [EXPECTED_ERRORS["transfer latent", "agg"]["2-4"]]
    assert EXPECTED_ERRORS["transfer latent", "agg"]["2-4"] > 2 * EXPECTED_ERRORS["transfer", "agg"]["2-4"]


def test_a_direct_row_has_no_mapping_error(standard: pl.DataFrame) -> None:
    points = carried(standard, 4_000, 0, 1_000).filter(~pl.col("interpolated"))
    assert points["transfer_method"].unique().to_list() == ["direct"]
    assert points["expected_error_fraction"].unique().to_list() == [0.0]
    assert not points["extrapolated"].any()


@pytest.mark.parametrize(
    ("isl", "prefix", "osl"),
    [(160_000, 159_000, 100), (20_000, 19_800, 100), (60_000, 0, 100), (9_000, 0, 20), (9_000, 0, 9_000)],
)
def test_workloads_beyond_the_evidence(standard: pl.DataFrame, isl: float, prefix: float, osl: float) -> None:
    """Contexts above 149,312, prefills below 300 or above 36,396 tokens, outputs below 32 or above 8,192."""
    assert carried(standard, isl, prefix, osl)["extrapolated"].all()


def test_other_sources_and_engines_are_beyond_the_evidence(standard: pl.DataFrame) -> None:
    other = standard.with_columns(backend=pl.lit("lmdeploy"), mixed_step_ms=pl.lit(None, pl.Float64))
    points = carried(other, 14_000, 13_400, 150).filter(~pl.col("interpolated"))
    assert points["extrapolated"].all()
    above = points.filter(pl.col("batch_per_rank") == 64)["expected_error_fraction"].unique().to_list()
    assert above == [EXPECTED_ERRORS["ratio", "agg"]["17-64"]]
    measured = standard.with_columns(source=pl.lit("inferencex"))
    assert carried(measured, 14_000, 13_400, 150)["extrapolated"].all()


def test_the_columns_are_in_the_tables() -> None:
    for table in ("agent_points", "agent_frontier", "operating_points"):
        assert {"expected_error_fraction", "extrapolated"} <= set(empty_frame(table).columns)
    assert ABOVE in EXPECTED_ERRORS["transfer", "agg"]
