"""Rows become deployments; lockstep and rows that contradict each other are refused by name."""

import numpy as np
import polars as pl

from pipelines.reading.catalogues import load_hardware, load_models
from pipelines.reading.engines import load_priors
from tests.calibration.made import facts_of, grid, measured, parameters, points
from transforms.calibration.deployments import calibrate, deployments
from transforms.calibration.facts import Load
from transforms.calibration.fit import Measured
from transforms.calibration.refusals import lockstep, out_of_order

LOAD = grid((1_000, 1_000), (8_000, 1_000), loads=(2, 8, 32))
FIGURES = measured(facts_of(), parameters(), LOAD)


def test_versions_are_deployments_of_their_own() -> None:
    rows = pl.concat([points(LOAD, FIGURES), points(LOAD, FIGURES, backend_version="0.20.0")])
    found = list(deployments(rows, load_models(), load_hardware()))
    assert [each.rows.height for each in found] == [6, 6]
    assert [each.identity["backend_version"] for each in found] == ["0.19.1", "0.20.0"]


def test_a_deployment_is_fitted() -> None:
    (deployment,) = deployments(points(LOAD, FIGURES), load_models(), load_hardware())
    found = calibrate(deployment, load_priors())
    assert found.engine is not None
    assert not found.refused
    assert found.engine.rows == 6
    assert np.abs(np.expm1(found.latency_errors)).mean() < 0.1
    within = found.engine.predict(LOAD).latency_s.value / FIGURES.latency_s
    assert np.abs(within - 1).max() < 0.08


def test_two_runs_of_one_load_that_differ_are_refused_both() -> None:
    rows = points(LOAD, FIGURES)
    twice = pl.concat(
        [rows, rows[:1].with_columns(pl.col("ttft_ms", "tpot_ms") * 2, source_row=pl.lit(7).cast(pl.Int64))]
    )
    (deployment,) = deployments(twice, load_models(), load_hardware())
    found = calibrate(deployment, load_priors())
    assert {(each.source_row, each.reason) for each in found.refused} == {
        (1, "contradicts_other_rows"), (7, "contradicts_other_rows"),
    }  # fmt: skip
    assert found.used.height == 5


def refused_of(load: Load, latency_s: list[float]) -> list[tuple[int, str, str]]:
    """Of rows of these latencies, a tenth of each to the first token."""
    latency = np.array(latency_s)
    return out_of_order(Measured(load, latency / 10, 0.9 * latency / (load.output_tokens - 1.0)))


def test_two_rows_are_enough_where_more_requests_take_less_time() -> None:
    """4 in flight take 20 s and 16 take 10 s: which of them is wrong nobody knows, both are refused."""
    load = grid((1_000, 500), loads=(4, 16))
    first, second = refused_of(load, [20.0, 10.0])
    assert (first[:2], second[:2]) == ((0, "contradicts_other_rows"), (1, "contradicts_other_rows"))
    assert "4 requests in flight of 1,000 and 500 tokens take 20 s, 16 requests in flight" in first[2]
    assert refused_of(load, [11.0, 10.0]) == []  # runs repeat no better


def test_neither_of_two_rows_is_an_engine() -> None:
    wrong = points(LOAD, FIGURES)[1:3].with_columns(
        tpot_ms=pl.when(pl.col("source_row") == 3).then(pl.col("tpot_ms") / 4).otherwise("tpot_ms")
    )
    (deployment,) = deployments(wrong, load_models(), load_hardware())
    found = calibrate(deployment, load_priors())
    assert [each.reason for each in found.refused] == ["contradicts_other_rows"] * 2
    assert found.engine is None


def test_of_three_rows_the_odd_one_is_refused() -> None:
    load = grid((1_000, 500), loads=(4, 16, 64))
    assert [row for row, _, _ in refused_of(load, [30.0, 10.0, 12.0])] == [0]
    assert [row for row, _, _ in refused_of(load, [8.0, 10.0, 2.0])] == [2]


def test_longer_prompts_take_no_less_time() -> None:
    load = grid((1_000, 500), (8_000, 500), loads=(4,))
    assert [row for row, _, _ in refused_of(load, [10.0, 7.0])] == [0, 1]
    assert refused_of(grid((1_000, 500), (8_000, 50), loads=(4,)), [10.0, 7.0]) == []


def test_a_stalled_run_is_refused() -> None:
    rows = points(LOAD, FIGURES).with_columns(
        tpot_ms=pl.when(pl.col("source_row") == 3).then(pl.col("tpot_ms") * 8).otherwise("tpot_ms")
    )
    (deployment,) = deployments(rows, load_models(), load_hardware())
    found = calibrate(deployment, load_priors())
    assert [(each.source_row, each.reason) for each in found.refused] == [(3, "contradicts_other_rows")]


def test_lockstep_by_hand() -> None:
    """64 prompts of 0.2 s and 128 tokens of 20 ms: first tokens come after 6.5 s on average, decoding takes 2.5 s."""
    load = grid((8_000, 128), loads=(1, 8, 64))
    together = Measured(load, (load.in_flight + 1) / 2 * 0.2, np.full(3, 0.02))
    assert lockstep(together).tolist() == [False, False, True]


def test_lockstep_is_refused_by_name() -> None:
    load = grid((8_000, 128), loads=(1, 8, 64))
    together = Measured(load, (load.in_flight + 1) / 2 * 0.2, np.full(3, 0.02))
    (deployment,) = deployments(points(load, together), load_models(), load_hardware())
    found = calibrate(deployment, load_priors())
    assert [(each.source_row, each.reason) for each in found.refused] == [(3, "lockstep")]
    assert "more output tokens" in found.refused[0].detail


def test_rows_that_state_a_scheduler_are_no_measurement() -> None:
    modelled = points(LOAD, FIGURES).with_columns(source=pl.lit("aiconfigurator"))
    assert not list(deployments(modelled, load_models(), load_hardware()))
