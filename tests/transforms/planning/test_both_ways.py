"""Plans either way against trying everything: each configuration at each whole number of sessions, real tables."""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.arrays import Array
from schemas.options import Statistic
from tests.transforms.factory import agent_points, article_scenario, setting, shipped_points
from tests.transforms.planning.curves import BY_HAND, PAUSE_S, curve
from transforms.agent_points.judgement.feasibility import WALL_REASONS
from transforms.configurations import CONFIGURATION
from transforms.equations.curve import load_of_most_turns
from transforms.planning.curves import Curves
from transforms.planning.limits import Limits, Loop
from transforms.planning.question import Question, answer

FILES = [f"candidates/h100_sxm__llama-3.1-70b__isl4000_osl1000__{mode}.csv.gz" for mode in ("agg", "disagg")]
FIGURES = ("turn_latency_ms", "turn_latency_p90_ms", "turn_latency_p95_ms", "ttft_ms", "ttft_p90_ms")
LOOP = Loop(4.0, PAUSE_S, 30.0)


@dataclass(frozen=True)
class Tried:
    """One configuration at 1, 2, 3, … sessions: its figures, NaN where it does not serve so many."""

    gpus: int
    figures: dict[str, Array]

    def allowed(self, limits: Limits) -> Array:
        """Whether each number of sessions is served within the limits; of none it is not."""
        fine = np.isfinite(self.figures["turn_latency_ms"])
        at = "" if limits.at == "mean" else f"_{limits.at}"
        for name, limit_s in (("turn_latency", limits.max_turn_latency_s), ("ttft", limits.max_ttft_s)):
            if limit_s is not None:
                fine &= self.figures[f"{name}{at}_ms"] <= 1e3 * limit_s
        return np.concatenate([[False], fine])

    def served(self, limits: Limits) -> Array:
        """Whether each number of sessions is served: as it is, or as more of them would be."""
        return np.logical_or.accumulate(self.allowed(limits)[::-1])[::-1]


@pytest.fixture(scope="module")
def points() -> pl.DataFrame:
    return agent_points(shipped_points(*FILES), setting("h100-sxm", "llama-3-1-70b", article_scenario()))


@pytest.fixture(scope="module")
def scenario() -> Loop:
    of = article_scenario()
    return Loop(of.turns, of.think_time_s, of.output_tokens_per_turn)


@pytest.fixture(scope="module")
def tried(points: pl.DataFrame, scenario: Loop) -> list[Tried]:
    keys = [*CONFIGURATION, "context_requests_per_step"]
    return [try_all(part, scenario) for _, part in points.group_by(keys, maintain_order=True)]


def try_all(part: pl.DataFrame, scenario: Loop) -> Tried:
    """Every number of sessions, by halving the piece of the curve that holds it."""
    first = part.row(0, named=True)
    ranks = first["dp"] or first["decode_workers"] * first["decode_dp"]
    rows = part.filter(~pl.col("interpolated")).sort("batch_per_rank", "sessions").to_dicts()
    cap = wall(part)
    count = int(max([0.0, *(row["sessions"] for row in rows)]) + 1e-6)
    figures = {name: np.full(count, np.nan) for name in FIGURES}
    for sessions in range(1, count + 1):
        if sessions > cap * (1 + 1e-9):
            break
        for name, value in at(rows, sessions, ranks, scenario.think_time_s).items():
            figures[name][sessions - 1] = value
    return Tried(int(first["gpus_per_replica"]), figures)


def wall(part: pl.DataFrame) -> float:
    """Sessions that memory holds."""
    whole = part.filter(~pl.col("interpolated"))
    over = whole["infeasible_reason"].is_in(list(WALL_REASONS)).fill_null(False)
    if whole["max_in_flight_requests"].is_null().any():
        return float(str(whole["max_sessions"].max()))
    if not over.any():
        return math.inf
    held = part.filter("feasible")["sessions"].max()
    alone = whole.filter(over & (pl.col("batch_per_rank") <= 1))["max_sessions"].max()
    return float(str(held or alone or 0.0))


def at(rows: list[dict[str, Any]], sessions: int, ranks: int, pause_s: float) -> dict[str, float]:
    """The figures of so many sessions on the piece of the lowest load that holds them."""

    def sound(row: dict[str, Any]) -> bool:
        return row["infeasible_reason"] is None or row["infeasible_reason"] in WALL_REASONS

    def in_flight(row: dict[str, Any]) -> float:
        return float(row["serving_requests_per_s"] * row["turn_latency_ms"]) / 1e3 / ranks

    if not rows or not sound(rows[0]):
        return {}
    if sessions <= rows[0]["sessions"] * (1 + 1e-9):
        return {name: rows[0][name] for name in FIGURES}
    for low, high in pairwise(rows):
        if not (sound(low) and sound(high) and low["sessions"] <= sessions * (1 + 1e-9)):
            continue
        if sessions > high["sessions"] * (1 + 1e-9) or high["sessions"] < low["sessions"]:
            continue
        nearest, furthest = 0.0, 1.0
        for _ in range(60):
            share = (nearest + furthest) / 2
            b = in_flight(low) + share * (in_flight(high) - in_flight(low))
            r = (low["turn_latency_ms"] + share * (high["turn_latency_ms"] - low["turn_latency_ms"])) / 1e3
            fill = ranks * max(b, 1 + (b - 1) * (r + pause_s) / r)
            nearest, furthest = (nearest, share) if fill > sessions else (share, furthest)
        return {name: low[name] + nearest * (high[name] - low[name]) for name in FIGURES}
    return {}


def fewest(tried: list[Tried], sessions: int, limits: Limits) -> float:
    """GPUs by trying every number of replicas."""
    best = math.inf
    for each in tried:
        served = each.served(limits)
        for replicas in range(1, sessions + 1):
            if replicas * each.gpus >= best:
                break
            shares = {math.ceil(sessions / replicas), sessions // replicas}
            if all(share < len(served) and served[share] for share in shares):
                best = replicas * each.gpus
                break
    return best


def most(tried: list[Tried], gpus: int, limits: Limits) -> int:
    """Sessions by trying every number on each replica."""
    totals = [
        gpus // each.gpus * max((int(n) for n in np.flatnonzero(each.allowed(limits))), default=0) for each in tried
    ]
    return max(totals)


def questions(count: int) -> Iterator[tuple[str, int, Limits]]:
    """Random ones, the same each time."""
    dice = random.Random(19)
    statistics: tuple[Statistic, ...] = ("mean", "p90", "p95")
    for number in range(count):
        longest = dice.choice([None, dice.uniform(0.5, 12.0)])
        at = dice.choice(statistics)
        first = None if at == "p95" else dice.choice([None, dice.uniform(0.05, 2.0)])
        limits = Limits(max_turn_latency_s=longest, max_ttft_s=first, at=at)
        yield ("sessions", dice.randint(1, 300), limits) if number % 2 else ("gpus", dice.randint(1, 64), limits)


@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_random_questions(points: pl.DataFrame, scenario: Loop, tried: list[Tried], count: int) -> None:
    answered = 0
    for asked, number, limits in questions(count):
        curves = Curves.of_points(points, limits, scenario)
        (row,) = answer(curves, Question(**{asked: number}), with_band=False).to_dicts()
        if asked == "sessions":
            expected = fewest(tried, number, limits)
            found = math.inf if row["gpus"] is None else row["gpus"]
        else:
            expected, found = most(tried, number, limits), row["sessions"] if row["feasible"] else 0
        assert found == expected, (asked, number, limits)
        answered += row["feasible"]
    assert answered > count / 2


@settings(max_examples=15, deadline=None)
@given(gpus=st.integers(1, 40), more=st.integers(0, 20), limit_s=st.floats(0.5, 9.0), looser=st.floats(1.0, 3.0))
def test_more_gpus_and_looser_limits_never_serve_fewer(gpus: int, more: int, limit_s: float, looser: float) -> None:
    points = pl.concat([curve(BY_HAND, 8), curve([(b, r * 0.8) for b, r in BY_HAND], 13, gpus=3)])

    def sessions(count: int, longest_s: float) -> int:
        curves = Curves.of_points(points, Limits(max_turn_latency_s=longest_s), LOOP)
        (row,) = answer(curves, Question(gpus=count), with_band=False).to_dicts()
        return int(row["sessions"]) if row["feasible"] else 0

    assert sessions(gpus + more, limit_s) >= sessions(gpus, limit_s)
    assert sessions(gpus, limit_s * looser) >= sessions(gpus, limit_s)


class TestByHand:
    """Rows (b, R): (1, 1), (3, 2), (5, 4), (9, 8), so C = 1, 5, 7, 11; eight fit; N = 4, Z = 2 s, 2 GPUs a replica."""

    def test_most_sessions(self) -> None:
        """Seven GPUs are three replicas of 8 sessions at R(8) = 5 s: rho = 5/7, C = 1 + (b - 1)*7/5, b = 6."""
        (row,) = answer(Curves.of_points(curve(BY_HAND, 8), Limits(), LOOP), Question(gpus=7)).to_dicts()
        assert (row["gpus"], row["replicas"], row["sessions"], row["binding_limit"]) == (6, 3, 24, "kv_memory")
        assert row["turn_latency_s"] == pytest.approx(5.0)
        assert row["tasks_per_hour"] == pytest.approx(3600 / 4 * 24 / 7)
        (row,) = answer(Curves.of_points(curve(BY_HAND, 8), Limits(), LOOP), Question(gpus=1)).to_dicts()
        assert (row["feasible"], row["infeasible_reason"]) == (False, "replica_larger_than_gpus")
        assert row["least_gpus"] == 2

    def test_why_there_is_none_is_of_replicas_that_the_gpus_hold(self) -> None:
        """One GPU cannot hold the weights, two can: what two serve is no reason for one."""
        one = curve(BY_HAND, 8, gpus=1, least_tp_that_fits=2).with_columns(
            feasible=pl.lit(False), infeasible_reason=pl.lit("weights_do_not_fit")
        )
        points = pl.concat([one, curve(BY_HAND, 8), curve(BY_HAND, 8, hardware="b200")])
        curves = Curves.of_points(points, Limits(), LOOP)
        small, large = answer(curves, Question(gpus=1)).sort("hardware", descending=True).to_dicts()
        assert (small["infeasible_reason"], small["least_tp_that_fits"]) == ("weights_do_not_fit", 2)
        assert (large["infeasible_reason"], large["least_gpus"]) == ("replica_larger_than_gpus", 2)

    def test_tasks(self) -> None:
        """X = C/(R + 2): 1/3, 5/4, 7/6, 8/7 turns a second: five sessions are best, 1,125 tasks an hour a replica."""
        curves = Curves.of_points(curve(BY_HAND, 8), Limits(), LOOP)
        for tasks, replicas in ((1.0, 1), (1_125.0, 1), (1_126.0, 2), (11_000.0, 10)):
            (row,) = answer(curves, Question(tasks_per_hour=tasks)).to_dicts()
            assert (row["replicas"], row["sessions_per_replica"]) == (replicas, 5)
            assert row["tasks_per_hour"] == pytest.approx(1_125 * replicas)

    def test_a_percentile_stops_where_the_mean_does_not(self) -> None:
        """p90 is 1.5 R: at most 4.5 s are R = 3 s, six sessions, and TTFT stops at its own column."""
        points = curve(BY_HAND, 8).with_columns(turn_latency_p90_ms=1.5 * pl.col("turn_latency_ms"))
        points = points.with_columns(ttft_p90_ms=0.1 * pl.col("turn_latency_ms"))
        limits = Limits(max_turn_latency_s=4.5, at="p90")
        (row,) = answer(Curves.of_points(points, limits, LOOP), Question(gpus=2)).to_dicts()
        assert (row["sessions"], row["binding_limit"]) == (6, "turn_latency")
        assert row["turn_latency_s"] == pytest.approx(4.5)
        limits = Limits(max_turn_latency_s=4.5, max_ttft_s=0.2, at="p90")
        (row,) = answer(Curves.of_points(points, limits, LOOP), Question(gpus=2)).to_dicts()
        assert (row["sessions"], row["binding_limit"]) == (5, "ttft")
        assert row["ttft_s"] == pytest.approx(0.2)

    def test_the_band_of_an_answer(self) -> None:
        """A tenth slower, R = 1.1, 2.2, 4.4: at most 3 s lie between b = 3, C = 4.82, and b = 5: five sessions."""
        points = curve(BY_HAND, 8, expected_error_fraction=0.1)
        limits = Limits(max_turn_latency_s=3.0)
        (row,) = answer(Curves.of_points(points, limits, LOOP), Question(sessions=24)).to_dicts()
        # six sessions at R = 3 s; a tenth faster, 3 s are b = 4.33, R + 2 = 5: C = 1 + 3.33*5/3 = 6.56
        assert (row["gpus"], row["low"], row["high"]) == (8, 8, 10)
        (row,) = answer(Curves.of_points(points, limits, LOOP), Question(gpus=8)).to_dicts()
        assert (row["sessions"], row["low"], row["high"]) == (24, 20, 24)
        (row,) = answer(
            Curves.of_points(points, Limits(max_turn_latency_s=1.05), LOOP), Question(sessions=3)
        ).to_dicts()
        assert (row["gpus"], row["low"], row["high"]) == (6, 6, None)


def test_the_load_of_most_turns() -> None:
    """Against trying many; by hand in the docstring."""
    assert load_of_most_turns(2.0, 1.0, 4.0, 5.0, 2.0) == 2.0
    assert load_of_most_turns(2.0, 3.0, 10.0, 19.0, 2.0) == pytest.approx(2.914, abs=1e-3)
    assert load_of_most_turns(2.0, 3.0, 10.0, 4.0, 2.0) == 10.0
    for low_b, low_s, high_b, high_s, pause_s in ((1.0, 1.0, 9.0, 30.0, 5.0), (1.5, 1.0, 6.0, 9.0, 3.0)):
        b = np.linspace(low_b, high_b, 200_001)
        latency = low_s + (b - low_b) / (high_b - low_b) * (high_s - low_s)
        turns = (b - 1) / latency + 1 / (latency + pause_s)
        found = load_of_most_turns(low_b, low_s, high_b, high_s, pause_s)
        assert found == pytest.approx(b[np.argmax(turns)], abs=1e-3)


@pytest.mark.parametrize("count", [15, pytest.param(200, marks=pytest.mark.slow)])
def test_more_sessions_and_tighter_limits_never_need_fewer_gpus(
    points: pl.DataFrame, scenario: Loop, count: int
) -> None:
    """On real tables, which begin at some load, jump between schedules and are not smooth."""
    dice = random.Random(7)

    def gpus(sessions: int, longest_s: float, at: Statistic) -> float:
        curves = Curves.of_points(points, Limits(max_turn_latency_s=longest_s, at=at), scenario)
        (row,) = answer(curves, Question(sessions=sessions), with_band=False).to_dicts()
        return math.inf if row["gpus"] is None else float(row["gpus"])

    for _ in range(count):
        sessions, longest_s = dice.randint(1, 60), dice.uniform(1.0, 9.0)
        at: Statistic = dice.choice(("mean", "p90", "p95"))
        asked = gpus(sessions, longest_s, at)
        assert gpus(sessions + dice.randint(1, 20), longest_s, at) >= asked, (sessions, longest_s, at)
        assert gpus(sessions, longest_s * dice.uniform(0.7, 1.0), at) >= asked, (sessions, longest_s, at)
