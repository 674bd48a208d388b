"""Measured agent runs: the comparison keeps to the errors that the README states (third-party files, not shipped)."""

import polars as pl
import pytest

from tests.bench.agentic_replay import NEEDED, compared_runs
from tests.bench.bench_agentic import run_errors

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all(path.exists() for path in NEEDED), reason="measured runs not there; set AGENT_PARETO_SHARED"
    ),
]


@pytest.fixture(scope="module")
def runs() -> pl.DataFrame:
    return compared_runs()[0]


def test_all_runs_are_compared(runs: pl.DataFrame) -> None:
    assert runs.group_by("tp").len().sort("tp").rows() == [(4, 24), (8, 20)]
    assert runs["whole"].sum() == 19


def test_errors_before_the_wall(runs: pl.DataFrame) -> None:
    errors = run_errors(runs.filter(pl.col("whole"), pl.col("sessions") <= pl.col("wall")))
    assert errors["scaled_throughput"] < 0.20
    assert errors["scaled_latency_s"] < 0.23
    assert errors["hit_rate"] < 0.015


def test_errors_beyond_the_wall(runs: pl.DataFrame) -> None:
    """Twice too much: the runs' engine prefills and decodes long contexts at about half the speed of the rows'."""
    errors = run_errors(runs.filter(pl.col("whole"), pl.col("sessions") > pl.col("wall")))
    assert errors["scaled_throughput"] < 1.15
    assert errors["scaled_latency_s"] < 0.45


@pytest.mark.parametrize("offload", ["off", "on"])
def test_the_cliff_is_predicted_within_one_step_of_the_measured_sessions(runs: pl.DataFrame, offload: str) -> None:
    """TP4, where runs are whole: the first number of sessions at which half of the hits are gone."""
    part = runs.filter(pl.col("tp") == 4, pl.col("offload") == offload).sort("sessions")
    measured, predicted = (
        int((part[column] < 0.45).arg_max() or 0) for column in ("measured_hit_rate", "scaled_hit_rate")
    )
    assert 0 < measured <= predicted <= measured + 1


def test_hits_at_the_measured_latency(runs: pl.DataFrame) -> None:
    """The cache model by itself, stalled runs included."""
    assert run_errors(runs)["hit_rate_at_latency"] < 0.05
