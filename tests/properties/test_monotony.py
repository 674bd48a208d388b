"""What must not turn round: pauses, cache hits, sessions and memory, at a fixed number of sessions."""

from collections.abc import Sequence
from itertools import pairwise

import polars as pl
import pytest

from schemas.caches import FixedCache
from schemas.options import RooflinePreset
from schemas.scenarios import Scenario
from tests.transforms.factory import (
    agent_points,
    article_scenario,
    hardware,
    roofline_points,
    setting,
    shipped_points,
    solved,
)
from transforms.configurations import CONFIGURATION

CURVE = (*CONFIGURATION, "context_requests_per_step")
TABLES = {
    ("h100-sxm", "llama-3-1-70b"): [f"candidates/h100_sxm__llama-3.1-70b__isl4000_osl1000__{mode}.csv.gz"
                                    for mode in ("agg", "disagg")],
    ("b200", "deepseek-v3"): ["candidates/b200_sxm__deepseek-v3__isl4000_osl1000__agg.csv.gz"],
}  # fmt: skip
ROOFLINE: tuple[tuple[str, RooflinePreset], ...] = (
    ("llama-3-1-70b", "article"),
    ("llama-3-1-70b", "calibrated"),
    ("deepseek-v3", "article"),
    ("gpt-oss-120b", "calibrated"),
)
SCENARIOS = ("code-agent", "research-agent")


def from_tables_and_roofline() -> list[tuple[pl.DataFrame, str, str]]:
    tables = [(shipped_points(*files), gpu, spec) for (gpu, spec), files in TABLES.items()]
    return [*tables, *from_roofline()]


def from_roofline() -> list[tuple[pl.DataFrame, str, str]]:
    return [(roofline_points("mi355x", spec, preset), "mi355x", spec) for spec, preset in ROOFLINE]


def steps(points: pl.DataFrame, gpu: str, spec: str, scenarios: Sequence[Scenario]) -> pl.DataFrame:
    """Configurations that solve two scenarios in a row, figures of the second with ``_next``."""
    columns = (*CURVE, "turns_per_s", "sessions", "turn_latency_ms")
    runs = [solved(points, setting(gpu, spec, scenario)).filter("feasible").select(columns) for scenario in scenarios]
    pairs = [run.join(following, on=CURVE, nulls_equal=True, suffix="_next") for run, following in pairwise(runs)]
    return pl.concat(pairs)


def at_equal_sessions(pairs: pl.DataFrame) -> pl.DataFrame:
    """Without those that memory or the decode slots cap at another number."""
    return pairs.filter((pl.col("sessions_next") / pl.col("sessions") - 1).abs() < 1e-9)


@pytest.mark.parametrize("slug", SCENARIOS)
def test_throughput_never_rises_with_the_pause(slug: str) -> None:
    """On the roofline, whose throughput never falls with load. On a table that does, a longer pause may help."""
    for points, gpu, spec in from_roofline():
        pauses = [article_scenario(slug, think_time_s=pause) for pause in (0.0, 0.5, 5.0, 60.0)]
        pairs = at_equal_sessions(steps(points, gpu, spec, pauses))
        assert pairs.height > 10
        assert (pairs["turns_per_s_next"] <= pairs["turns_per_s"] * (1 + 1e-9)).all()
        assert (pairs["turn_latency_ms_next"] <= pairs["turn_latency_ms"] * (1 + 1e-9)).all()


@pytest.mark.parametrize("slug", SCENARIOS)
def test_more_cache_hits_never_lower_throughput(slug: str) -> None:
    for points, gpu, spec in from_tables_and_roofline():
        hits = [article_scenario(slug, cache=FixedCache(hit_rate=rate)) for rate in (0.0, 0.5, 0.9, 1.0)]
        pairs = at_equal_sessions(steps(points, gpu, spec, hits))
        assert pairs.height > 10
        assert (pairs["turns_per_s_next"] >= pairs["turns_per_s"] * (1 - 1e-9)).all()


@pytest.mark.parametrize("slug", SCENARIOS)
def test_more_sessions_never_raise_a_sessions_own_throughput(slug: str) -> None:
    for points, gpu, spec in from_tables_and_roofline():
        counts = [article_scenario(slug, sessions=count) for count in (8, 16, 64, 256)]
        pairs = steps(points, gpu, spec, counts)
        assert pairs.height > 10
        own, next_own = (pairs[f"turns_per_s{n}"] / pairs[f"sessions{n}"] for n in ("", "_next"))
        assert (next_own <= own * (1 + 1e-9)).all()


@pytest.mark.parametrize("option", ["mean", "p95", "peak"])
def test_sessions_that_fit_never_fall_with_memory(option: str) -> None:
    """By card size and by what is kept free of it; agg and disagg."""
    (files,) = [files for (gpu, _), files in TABLES.items() if gpu == "h100-sxm"]
    points = shipped_points(*files)
    sizes = [hardware("h100-sxm", hbm_bytes=int(gib * 2**30)) for gib in (60, 80, 80.5, 141)]
    reserves = (0.5, 0.1, 0.0)
    runs = [setting(gpu, "llama-3-1-70b", article_scenario(), kv_context=option) for gpu in sizes]
    for series in (
        runs,
        [
            setting("h100-sxm", "llama-3-1-70b", article_scenario(), kv_context=option, reserve_fraction=share)
            for share in reserves
        ],
    ):
        fits = []
        for shared in series:
            carried = agent_points(points, shared).filter(~pl.col("interpolated")).sort("point_id")
            fits.append(carried.select("point_id", "max_sessions", "kv_bytes_available", "feasible"))
        for less, more in pairwise(fits):
            assert less["point_id"].equals(more["point_id"])
            assert (more["max_sessions"] >= less["max_sessions"]).all()
            assert (more["kv_bytes_available"] > less["kv_bytes_available"]).all()
            assert (more["feasible"] >= less["feasible"]).all()
        assert (fits[-1]["max_sessions"] > fits[0]["max_sessions"]).any()


def test_windows_that_free_their_tokens_never_hold_fewer_sessions() -> None:
    points = roofline_points("h100-sxm", "gpt-oss-120b")
    ideal, paged = (
        agent_points(points, setting("h100-sxm", "gpt-oss-120b", article_scenario(), kv_layout=layout))
        .filter(~pl.col("interpolated"))
        .sort("point_id")
        for layout in ("ideal", "paged")
    )
    assert (ideal["max_sessions"] >= paged["max_sessions"]).all()
    assert (ideal["max_sessions"] > paged["max_sessions"]).any()
