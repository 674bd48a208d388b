"""What is published of agents under load, against recorded outcomes of vLLM's own scheduler; no vLLM is needed."""

from functools import cache

import polars as pl
import pytest

from tests.bench.judge.figures import KINDS, RECORDED, errors_of, recorded_outcomes, setting_of
from tests.bench.judge.prediction import predicted
from tests.bench.judge.settings import Setting

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
    [("throughput", 0.05), ("mean latency", 0.06), ("turn p90", 0.1), ("turn p95", 0.1), ("turn p99", 0.15)],
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


@cache
def errors_at_the_wall() -> pl.DataFrame:
    """Of some settings of ``lru`` near the wall and beyond it."""
    steady = pl.col("pauses").ne("constant") & pl.col("start").eq("spread") & pl.col("cache").eq("lru")
    rows = recorded_outcomes().filter(steady & (pl.col("load") >= 0.7))
    return pl.DataFrame([errors_of(row) for row in rows.gather_every(rows.height // 8).iter_rows(named=True)])


@pytest.mark.parametrize(("figure", "most"), [("throughput", 0.11), ("mean latency", 0.15), ("hit rate", 0.05)])
def test_mean_errors_at_the_wall(figure: str, most: float) -> None:
    assert set(errors_at_the_wall()["zone"]) == {"near", "beyond"}
    assert errors_at_the_wall()[figure].abs().mean() < most  # type: ignore[operator]


@pytest.mark.parametrize("engine", ["70b-h100-tp8", "8b-h100-tp1"])
def test_the_wall_is_where_half_of_the_hits_are_lost(engine: str) -> None:
    """Sessions with half of the hits, between those that vLLM's scheduler ran: within 5 %."""
    runs = pl.read_csv(RECORDED.with_name("walls.csv")).filter(pl.col("engine") == engine).sort("sessions")
    above, below = (runs.filter(side) for side in (pl.col("hit_rate") >= 0.5, pl.col("hit_rate") < 0.5))
    (more, hits), (fewer, lost) = (
        side.select("sessions", "hit_rate").row(place) for side, place in ((above, -1), (below, 0))
    )
    wall = more + (fewer - more) * (hits - 0.5) / (hits - lost)

    def found(sessions: int) -> float:
        run = runs.row(0, named=True)
        own = {name: run[name] for name in ("engine", "workload", "pauses", "pause_s", "budget", "seed")}
        setting = Setting(
            **own, name="wall", drawn="wall", cache="lru", hit_rate=None, kept_s=None, start="spread",
            sessions=sessions, load=1.0,
        )  # fmt: skip
        return float(predicted(setting)["cache_hit_rate"])

    assert found(int(0.95 * wall)) > 0.5 > found(int(1.05 * wall) + 1)


def test_tails_without_the_wait_behind_others_are_too_short() -> None:
    """What was published before: the tail of a turn's own work alone."""
    with_waits, without = (errors()[name].mean() for name in ("turn p90", "turn p90 without waits"))
    assert without < -0.1 < with_waits  # type: ignore[operator]
