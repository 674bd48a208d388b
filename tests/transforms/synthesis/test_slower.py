"""Tables that are several times slower than the roofline of their configurations."""

from pathlib import Path

import polars as pl
import pytest

from pipelines.reading.catalogues import SHIPPED_TABLES, load_hardware, load_models
from pipelines.reading.inputs import find_files
from pipelines.reading.read_inputs import read_inputs
from transforms.synthesis.slower import SEVERAL_TIMES, add_slower_than_roofline, slow_tables

CANDIDATES = SHIPPED_TABLES / "aiconfigurator/candidates"


@pytest.mark.parametrize(("factor", "slow"), [(1.0, False), (4.0, True)])
def test_a_table_and_the_same_four_times_slower(factor: float, slow: bool) -> None:
    table = CANDIDATES / "h200_sxm__llama-3.1-70b__isl4000_osl1000__agg.csv.gz"
    points = read_inputs(find_files([table]), load_hardware(), load_models()).serving_points
    flagged = add_slower_than_roofline(points.with_columns(pl.col("tpot_ms") * factor), load_hardware(), load_models())
    assert flagged.columns == points.columns
    found = slow_tables(flagged)
    assert [(table.hardware, table.model, table.source) for table in found] == (
        [("h200-sxm", "llama-3-1-70b", "aiconfigurator")] if slow else []
    )
    if slow:
        assert found[0].times == pytest.approx(4.0, abs=0.2)
    assert (flagged["slower_than_roofline"].null_count() < flagged.height / 10) is slow
    assert flagged["slower_than_roofline"].drop_nulls().gt(SEVERAL_TIMES).all()


def test_one_slow_row_of_a_table() -> None:
    """One row of 5 times its TPOT is flagged, itself and alone; its point_id does not change."""
    table = CANDIDATES / "h200_sxm__llama-3.1-70b__isl4000_osl1000__agg.csv.gz"
    points = read_inputs(find_files([table]), load_hardware(), load_models()).serving_points
    assert points["slower_than_roofline"].null_count() == points.height
    times = pl.when(pl.int_range(pl.len()) == 7).then(5.0).otherwise(1.0)
    flagged = add_slower_than_roofline(points.with_columns(pl.col("tpot_ms") * times), load_hardware(), load_models())
    (row,) = flagged.with_row_index().filter(pl.col("slower_than_roofline").is_not_null()).to_dicts()
    assert row["index"] == 7
    assert row["slower_than_roofline"] == pytest.approx(5.0, rel=0.3)
    assert slow_tables(flagged) == ()


def test_estimated_kernels(shared: Path) -> None:
    """Kimi-K2.5 on H200 in HYBRID mode: case 31."""
    folder = shared / "tables/aiconfigurator/runs/h200_sxm__kimi-k2.5__isl4000_osl1000"
    inputs = read_inputs(find_files([folder]), load_hardware(), load_models())
    (table,) = inputs.slow
    assert (table.hardware, table.model) == ("h200-sxm", "kimi-k2-5")
    assert 2.5 < table.times < 5
    assert "times slower than the roofline" in table.sentence
    assert set(inputs.serving_points["database_mode"]) == {"HYBRID"}
