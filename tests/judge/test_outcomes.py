"""What is published of agents under load, against recorded outcomes of vLLM's own scheduler; no vLLM is needed."""

from functools import cache

import polars as pl
import pytest

from tests.bench.judge.figures import KINDS, errors_of, recorded_outcomes, setting_of

#: Settings that are looked at here; the bench has all of them.
TAKEN = 14


@cache
def errors() -> pl.DataFrame:
    """Of every n-th setting whose sessions pause as they do and start anywhere in their tasks, before the wall."""
    rows = recorded_outcomes()
    steady = rows.filter((pl.col("pauses") != "constant") & (pl.col("start") == "spread"))
    before = steady.filter((pl.col("cache") != "lru") | (pl.col("load") < 0.7))
    return pl.DataFrame([errors_of(row) for row in before.gather_every(before.height // TAKEN).iter_rows(named=True)])


def test_outcomes_say_how_they_came_about() -> None:
    rows = recorded_outcomes()
    assert rows["name"].is_unique().all()
    assert set(rows["vllm"]) == {"0.32.0"}
    assert rows.select(pl.col("seed", "turns_per_s", "turn_latency_p99_s").null_count()).row(0) == (0, 0, 0)
    for row in rows.head(40).iter_rows(named=True):
        pauses = setting_of(row).pause_values
        assert sum(pauses) / len(pauses) == pytest.approx(row["pause_s"], rel=1e-3)


@pytest.mark.parametrize(
    ("figure", "most"),
    [("throughput", 0.05), ("mean latency", 0.07), ("turn p90", 0.1), ("turn p95", 0.1), ("turn p99", 0.15)],
)
def test_mean_errors_before_the_wall(figure: str, most: float) -> None:
    assert set(errors()["kind"]) == {KINDS[0]}
    assert errors()[figure].abs().mean() < most  # type: ignore[operator]


def test_times_per_output_token_before_the_wall() -> None:
    """Those that were run again for it; without waits the p90 of all would be the mean."""
    rows = recorded_outcomes().filter(pl.col("tpot_p90_s").is_not_null() & (pl.col("load") < 0.7))
    found = pl.DataFrame([errors_of(row) for row in rows.head(TAKEN).iter_rows(named=True)])
    assert found.height >= 8
    for figure in ("tpot p90", "tpot p95", "tpot p99"):
        assert found[figure].abs().mean() < 0.1  # type: ignore[operator]


def test_tails_without_the_wait_behind_others_are_too_short() -> None:
    """What was published before: the tail of a turn's own work alone."""
    with_waits, without = (errors()[name].mean() for name in ("turn p90", "turn p90 without waits"))
    assert without < -0.1 < with_waits  # type: ignore[operator]
