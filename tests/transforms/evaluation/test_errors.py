"""Pairs to errors, by hand; which reference rows count."""

from pathlib import Path

import polars as pl
import pytest

from pipelines.reading.catalogues import load_hardware, load_models
from pipelines.reading.inputs import find_files
from pipelines.reading.read_inputs import read_inputs
from schemas.frames import conform
from transforms.evaluation import Pairing, compare_points, summarise_errors, turn_scenario

TABLES = Path(__file__).parent / "tables"


def read(*paths: Path) -> pl.DataFrame:
    inputs = read_inputs(find_files(paths), load_hardware(), load_models())
    assert inputs.faults == 0
    return inputs.serving_points


def compare(standard: pl.DataFrame, reference: pl.DataFrame) -> Pairing:
    return compare_points(standard, reference, load_hardware(), load_models())


def pairs(errors: list[float]) -> pl.DataFrame:
    """Pairs of one deployment with these errors of the latency, and none of another figure."""
    frame = compare(read(TABLES / "standard"), read(TABLES / "reference")).pairs.head(len(errors))
    rest = {f"{name}_error": pl.lit(None, pl.Float64) for name in ("ttft", "tpot", "throughput")}
    return frame.with_columns(pl.Series("turn_latency_error", errors), **rest)


def test_three_errors_by_hand() -> None:
    """0.1, -0.2 and 0.3: mean 0.2, median 0.2, signed 0.2/3; the 90th percentile lies 0.8 between 0.2 and 0.3."""
    errors = conform(summarise_errors(pairs([0.1, -0.2, 0.3])), "evaluation")
    (row,) = errors.filter(pl.col("grouped_by") == "all").to_dicts()
    assert (row["group"], row["figure"], row["points"]) == ("all", "turn_latency", 3)
    assert row["mean_error_fraction"] == pytest.approx(0.2)
    assert row["median_error_fraction"] == pytest.approx(0.2)
    assert row["p90_error_fraction"] == pytest.approx(0.28)
    assert row["signed_error_fraction"] == pytest.approx(0.2 / 3)


def test_every_grouping_counts_every_point_once() -> None:
    result = compare(read(TABLES / "standard"), read(TABLES / "reference"))
    errors = summarise_errors(result.pairs)
    sums = errors.group_by("grouped_by", "figure").agg(pl.col("points").sum())
    assert sums["points"].unique().to_list() == [result.pairs.height]
    assert sums["grouped_by"].n_unique() == 9


def test_a_turn_is_a_scenario_of_one_turn() -> None:
    scenario = turn_scenario(14_000, 13_400, 150)
    assert (scenario.turns, scenario.think_time_s, scenario.cache_hit_rate) == (1, 0, 1)
    assert (scenario.initial_prompt_tokens, scenario.first_turn_new_tokens) == (14_000, 600)
    assert (scenario.output_tokens_per_turn, scenario.shared_prefix_tokens) == (150, 0)


def test_rows_at_the_standard_workload_are_no_evidence() -> None:
    standard, reference = read(TABLES / "standard"), read(TABLES / "reference")
    result = compare(standard, pl.concat([reference, standard]))
    assert result.same_workload == standard.height
    assert result.reference_points == reference.height
    assert result.pairs.height == compare(standard, reference).pairs.height
    nothing = compare(standard, standard)
    assert (nothing.reference_points, nothing.pairs.height) == (0, 0)


def test_rows_without_a_partner_are_counted() -> None:
    """A partner is the same deployment under the same load: neither batch nor shape nor engine may differ."""
    standard, reference = read(TABLES / "standard"), read(TABLES / "reference")
    of_load = pl.col("batch_per_rank") == 16
    result = compare(standard.filter(of_load), reference)
    with_load = reference.filter(of_load)
    assert result.pairs.height == with_load.height > 0
    assert result.without_partner == reference.height - with_load.height
    assert compare(standard.with_columns(backend_version=pl.lit("another")), reference).pairs.is_empty()
    assert compare(standard.with_columns(context_requests_per_step=pl.lit(7.0)), reference).pairs.is_empty()


def test_the_order_of_rows_does_not_matter() -> None:
    standard, reference = read(TABLES / "standard", TABLES / "shorter"), read(TABLES / "reference")
    first = summarise_errors(compare(standard, reference).pairs)
    again = summarise_errors(compare(standard.reverse(), reference.sample(fraction=1, shuffle=True, seed=1)).pairs)
    order = ["grouped_by", "group", "figure"]
    for name in ("mean", "median", "p90", "signed"):
        left, right = (frame.sort(order)[f"{name}_error_fraction"].to_list() for frame in (first, again))
        assert left == pytest.approx(right, rel=1e-9, abs=1e-12)
