"""The fewest GPUs: curves worked by hand, an oracle that tries every number of replicas, and real operating points."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from schemas.scenarios import Scenario
from tests.transforms.factory import (
    MIXED_BACKENDS,
    agent_points,
    article_scenario,
    roofline_points,
    setting,
    shipped_points,
    solved,
)
from tests.transforms.planning.curves import BY_HAND, PAUSE_S, curve
from transforms.configurations import CONFIGURATION
from transforms.equations import closed_loop as loop
from transforms.planning.curves import Curves
from transforms.planning.limits import Limits, Loop
from transforms.planning.question import Question, answer

#: N = 4, Z = 2 s, OSL = 30.
LOOP = Loop(4.0, PAUSE_S, 30.0)
NONE = Limits()


def plan(points: pl.DataFrame, sessions: int, limits: Limits = NONE, scenario: Loop = LOOP) -> dict[str, object]:
    (row,) = answer(Curves.of_points(points, limits, scenario), Question(sessions=sessions)).to_dicts()
    return row


class TestByHand:
    """Rows (b, R): (1, 1), (3, 2), (5, 4), (9, 8), so C = 1 + (b - 1)*(R + 2)/R = 1, 5, 7, 11.

    Between (3, 2) and (5, 4) R = b - 1, so C = R + 3.
    """

    def test_memory_binds(self) -> None:
        """8 sessions fit: 20 on three replicas as 7, 7, 6; R(7) = 4 s and R(6) = 3 s."""
        row = plan(curve(BY_HAND, 8), 20)
        assert (row["feasible"], row["gpus"], row["replicas"], row["sessions_per_replica"]) == (True, 6, 3, 7)
        assert row["turn_latency_ms"] == pytest.approx(4_000)
        assert row["task_time_s"] == pytest.approx(4 * (4 + 2))
        assert row["e2e_tokens_per_s_per_user"] == pytest.approx(30 / 4)
        assert row["tasks_per_hour"] == pytest.approx(3600 / 4 * (2 * 7 / 6 + 6 / 5))
        assert row["tasks_per_hour_per_gpu"] == pytest.approx(3600 / 4 * (2 * 7 / 6 + 6 / 5) / 6)
        assert row["kv_utilization_fraction"] == pytest.approx(7 / 8)
        assert (row["binding_limit"], row["headroom_sessions"]) == ("kv_memory", 3 * 8 - 20)
        assert row["expected_error_fraction"] == 0.02

    def test_nothing_is_read_off_across_a_cliff_of_the_cache(self) -> None:
        """Hits fall from 1 to 0.1 between 5 and 7 sessions: 6 have no figure, so 12 take three replicas of 4."""
        hit_rates = pl.Series("cache_hit_rate", [1.0, 1.0, 0.1, 0.1])
        row = plan(curve(BY_HAND, 100).with_columns(hit_rates), 12, Limits(max_turn_latency_s=3.5))
        assert (row["replicas"], row["sessions_per_replica"], row["binding_limit"]) == (3, 4, "cache_hit_rate")
        gentle = curve(BY_HAND, 100).with_columns(pl.Series("cache_hit_rate", [1.0, 0.9, 0.7, 0.5]))
        row = plan(gentle, 12, Limits(max_turn_latency_s=3.5))
        assert (row["replicas"], row["sessions_per_replica"]) == (2, 6)

    def test_fewer_fit_than_a_batch_of_one_serves(self) -> None:
        """A disaggregated batch of one with 3 in flight: 5 sessions at R = 2 s, of which 4 fit, 2 in flight."""
        points = curve([(3.0, 2.0)], 4, batch_per_rank=1.0, max_in_flight_requests=2.0)
        row = plan(points, 7)
        assert (row["feasible"], row["replicas"], row["sessions_per_replica"]) == (True, 2, 4)
        assert row["turn_latency_ms"] == pytest.approx(2_000)
        assert (row["binding_limit"], row["headroom_sessions"]) == ("kv_memory", 1)

    @pytest.mark.parametrize(
        ("limits", "most", "binding"),
        [
            (Limits(max_turn_latency_s=3.0), 6, "turn_latency"),
            (Limits(max_task_time_s=20.0), 6, "task_time"),
            (Limits(min_tokens_per_s_per_user=10.0), 6, "tokens_per_s_per_user"),
            (Limits(max_turn_latency_s=2.0, max_task_time_s=20.0), 5, "turn_latency"),
            (Limits(max_turn_latency_s=3.0, max_task_time_s=16.0), 5, "task_time"),
            (Limits(max_turn_latency_s=2.99), 5, "turn_latency"),
            (Limits(max_turn_latency_s=100.0), 8, "kv_memory"),
        ],
    )
    def test_limits(self, limits: Limits, most: int, binding: str) -> None:
        """R(6) = 3 s: a task of 4*(3 + 2) s at 30/3 tokens a second; R(5) = 2 s."""
        row = plan(curve(BY_HAND, 8), 20, limits)
        replicas = math.ceil(20 / most)
        assert (row["replicas"], row["sessions_per_replica"]) == (replicas, math.ceil(20 / replicas))
        assert (row["binding_limit"], row["headroom_sessions"]) == (binding, replicas * most - 20)

    def test_the_table_ends(self) -> None:
        row = plan(curve(BY_HAND, 100), 23)
        assert (row["replicas"], row["sessions_per_replica"], row["binding_limit"]) == (3, 8, "table_range")
        assert row["headroom_sessions"] == 10

    def test_one_replica(self) -> None:
        row = plan(curve(BY_HAND, 8), 1)
        assert (row["gpus"], row["turn_latency_ms"], row["binding_limit"]) == (2, 1_000, "one_replica")
        assert row["headroom_sessions"] == 7

    def test_nothing_is_fast_enough(self) -> None:
        """A lone session takes 1 s a turn, 4*(1 + 2) s a task, at 30 tokens a second."""
        limits = Limits(max_turn_latency_s=0.5, min_tokens_per_s_per_user=31.0)
        row = plan(curve(BY_HAND, 8), 20, limits)
        assert (row["feasible"], row["gpus"], row["infeasible_reason"]) == (False, None, "turn_latency")
        assert row["least_turn_latency_s"] == pytest.approx(1.0)
        assert plan(curve(BY_HAND, 8), 20, Limits(1.0, 12.0, 30.0))["replicas"] == 20
        # no task is shorter than its pauses
        assert plan(curve(BY_HAND, 8), 20, Limits(max_task_time_s=7.0))["infeasible_reason"] == "turn_latency"

    def test_a_table_that_begins_later(self) -> None:
        """Its first row has 5 sessions at 2 s, memory holds 8: 3 are served no slower, and 9 are 5 and 4."""
        points = curve(BY_HAND[1:], 8)
        assert plan(points, 6)["replicas"] == 1
        assert plan(points, 10)["replicas"] == 2
        row = plan(points, 3)
        assert (row["gpus"], row["sessions_per_replica"], row["figures_at_sessions"]) == (2, 3, 5)
        assert row["turn_latency_ms"] == pytest.approx(2_000)
        assert row["tasks_per_hour"] == pytest.approx(3600 / 4 * 3 / (2 + 2))
        row = plan(points, 9)
        assert (row["replicas"], row["sessions_per_replica"], row["figures_at_sessions"]) == (2, 5, 5)
        assert row["tasks_per_hour"] == pytest.approx(3600 / 4 * 9 / (2 + 2))
        assert plan(points, 3, Limits(max_turn_latency_s=1.9))["infeasible_reason"] == "turn_latency"

    def test_fewer_sessions_are_read_off_where_the_limit_holds(self) -> None:
        """R falls from 3 s to 2 s between 4.33 and 5 sessions: at most 2.1 s hold at 5, and so many are read for 4."""
        points = curve([(3.0, 3.0), (3.0001, 2.0)], 8, batch_per_rank=1.0)
        row = plan(points, 4, Limits(max_turn_latency_s=2.1))
        assert (row["replicas"], row["sessions_per_replica"], row["figures_at_sessions"]) == (1, 4, 5)

    def test_reasons_that_no_number_of_replicas_mends(self) -> None:
        points = curve(BY_HAND, 0, infeasible_reason="weights_do_not_fit", feasible=False, least_tp_that_fits=4)
        row = plan(points, 5)
        assert (row["feasible"], row["infeasible_reason"]) == (False, "weights_do_not_fit")
        assert row["least_tp_that_fits"] == 4
        assert plan(curve(BY_HAND, 0.0), 5)["infeasible_reason"] == "kv_capacity"

    def test_fewest_gpus_then_shortest_turns(self) -> None:
        """A larger replica that is faster wins where it needs no more GPUs."""
        slow, fast = curve(BY_HAND, 8), curve([(b, r / 4) for b, r in BY_HAND], 40, gpus=4)
        other = curve(BY_HAND, 2, hardware="b200")
        curves = Curves.of_points(pl.concat([slow, fast, other]), NONE, LOOP)
        rows = answer(curves, Question(sessions=16)).to_dicts()
        assert [(row["hardware"], row["gpus"], row["tp"]) for row in rows] == [("h100-sxm", 4, 4), ("b200", 16, 2)]
        # slow: 6 and 5 on two replicas, 3 s; fast: C = 1 + 2/0.2 = 11 at b = 3, R = 1/2 s
        row = plan(pl.concat([slow, fast]), 11)
        assert (row["gpus"], row["tp"]) == (4, 4)
        assert row["turn_latency_ms"] == pytest.approx(500)


@st.composite
def rising_curves(draw: st.DrawFn) -> list[tuple[float, float]]:
    """From a batch of one on, more in flight, slower turns, more sessions."""
    steps = draw(st.lists(st.tuples(st.floats(0.5, 6.0), st.floats(0.0, 2.0)), min_size=1, max_size=5))
    in_flight = 1.0 + np.cumsum([0.0, *(step for step, _ in steps)])
    latency_s = draw(st.floats(0.1, 2.0)) + np.cumsum([0.0, *(step for _, step in steps)])
    grid = np.linspace(1.0, in_flight[-1], 200)
    latencies = np.interp(grid, in_flight, latency_s)
    # a steep rise of R means fewer sessions for more in flight: no load gives the number then, or several do
    assume(np.all(np.diff(loop.sessions_that_fill(grid, latencies / (latencies + PAUSE_S), 1)) > 0))
    return list(zip(in_flight.tolist(), latency_s.tolist(), strict=True))


def latency_at(rows: list[tuple[float, float]], sessions: int) -> float:
    """R of so many sessions by bisection along the whole curve; infinite beyond its end."""
    in_flight, latencies = (np.array(values) for values in zip(*rows, strict=True))

    def fills(b: float) -> float:
        r = float(np.interp(b, in_flight, latencies))
        return float(loop.sessions_that_fill(b, r / (r + PAUSE_S), 1))

    low, high = in_flight[0], in_flight[-1]
    if sessions > fills(high) * (1 + 1e-9):
        return math.inf
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if fills(middle) > sessions else (middle, high)
    return float(np.interp(low, in_flight, latencies))


LIMITS = st.builds(Limits, max_turn_latency_s=st.none() | st.floats(0.1, 10.0))


@settings(max_examples=40, deadline=None)
@given(rows=rising_curves(), wall=st.integers(1, 30), sessions=st.integers(1, 60), limits=LIMITS)
def test_no_fewer_replicas_do(rows: list[tuple[float, float]], wall: int, sessions: int, limits: Limits) -> None:
    """Against trying them all, one after the other."""
    longest = math.inf if limits.max_turn_latency_s is None else limits.max_turn_latency_s * (1 + 1e-9)
    row = plan(curve(rows, wall), sessions, limits)
    found = row["replicas"]
    for replicas in range(1, sessions + 1):
        share = math.ceil(sessions / replicas)
        latency_s = latency_at(rows, share) if share <= wall else math.inf
        if abs(latency_s - longest) < 1e-6 * longest:
            return  # a coin toss of rounding
        if latency_s <= longest and latency_s < math.inf:
            assert found == replicas
            assert row["turn_latency_ms"] == pytest.approx(latency_s * 1e3, rel=1e-6)
            return
    assert found is None


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(rows=rising_curves(), wall=st.integers(1, 30), sessions=st.integers(1, 60), more=st.integers(0, 20),
       limit_s=st.floats(0.2, 10.0), tighter=st.floats(0.5, 1.0))  # fmt: skip
def test_more_sessions_and_tighter_limits_never_need_fewer_gpus(
    rows: list[tuple[float, float]], wall: int, sessions: int, more: int, limit_s: float, tighter: float
) -> None:
    points = pl.concat([curve(rows, wall), curve([(b, r * 0.8) for b, r in rows], wall + 5, gpus=3)])

    def gpus(count: int, longest_s: float) -> float:
        found = plan(points, count, Limits(max_turn_latency_s=longest_s))["gpus"]
        return math.inf if found is None else float(str(found))

    assert gpus(sessions + more, limit_s) >= gpus(sessions, limit_s)
    assert gpus(sessions, limit_s * tighter) >= gpus(sessions, limit_s)
    row = plan(points, sessions, Limits(max_turn_latency_s=limit_s))
    if row["feasible"]:
        # all of the headroom can be used, one more cannot with these replicas
        full = sessions + int(str(row["headroom_sessions"]))
        assert gpus(full, limit_s) <= gpus(sessions, limit_s)
        assert plan(points.filter(tp=row["tp"]), full + 1, Limits(max_turn_latency_s=limit_s))["gpus"] != row["gpus"]


@pytest.mark.parametrize(
    ("mode", "sessions", "longest_s"),
    [
        ("agg", 7, None),
        ("agg", 30, None),
        ("agg", 60, 3.0),
        ("agg", 200, 6.0),
        ("disagg", 200, 6.0),
        ("disagg", 1_000, 4.0),
    ],
)
def test_the_plan_is_an_operating_point_of_real_tables(mode: str, sessions: int, longest_s: float | None) -> None:
    """Step 7 solves the same sessions on the same GPUs, and on one replica less breaks a limit."""
    points = shipped_points(MIXED_BACKENDS).filter(pl.col("serving_mode") == mode)
    gpu, spec = str(points["hardware"][0]), str(points["model"][0])
    scenario = article_scenario()
    agents = agent_points(points, setting(gpu, spec, scenario))
    of = Loop(scenario.turns, scenario.think_time_s, scenario.output_tokens_per_turn)
    row = plan(agents, sessions, Limits(max_turn_latency_s=longest_s), of)
    assert row["feasible"] is True
    replicas, size = int(str(row["replicas"])), int(str(row["gpus_per_replica"]))

    def same_configuration(gpus: int) -> list[dict[str, object]]:
        fixed: Scenario = article_scenario(sessions=sessions, gpus=gpus)
        operating = solved(points, setting(gpu, spec, fixed))
        shape = [name for name in CONFIGURATION if name in row and row[name] is not None]
        return operating.filter(pl.col(name) == pl.lit(row[name]) for name in shape).to_dicts()

    if float(str(row["figures_at_sessions"])) > int(str(row["sessions_per_replica"])):
        # an operating point is not told where the table begins above it; a plan takes the first row as the most
        reasons = {point["infeasible_reason"] for point in same_configuration(replicas * size)}
        assert reasons == {"fewer_sessions_than_table"}
        return
    latencies = [
        point["turn_latency_ms"] for point in same_configuration(replicas * size)
        if point["feasible"] and point["sessions_admitted"] == sessions
    ]  # fmt: skip
    assert any(latency == pytest.approx(row["turn_latency_ms"], rel=1e-6) for latency in latencies)
    longest_ms = math.inf if longest_s is None else longest_s * 1e3
    if replicas > 1:
        for point in same_configuration((replicas - 1) * size):
            meets = point["feasible"] and point["sessions_admitted"] == sessions
            assert not (meets and float(str(point["turn_latency_ms"])) <= longest_ms)


@pytest.mark.parametrize("sessions", [3, 9, 20, 40])
def test_between_rows_of_the_roofline(sessions: int) -> None:
    """Operating points evaluate the roofline where the plan goes straight from row to row: R within 3 %."""
    points = roofline_points("h200-sxm", "llama-3-1-8b", "calibrated", tp=2, weight_dtype="fp8", serving_mode="agg")
    scenario = article_scenario("research-agent", sessions=sessions, gpus=2)
    shared = setting("h200-sxm", "llama-3-1-8b", scenario)
    (exact,) = solved(points, shared).to_dicts()
    of = Loop(scenario.turns, scenario.think_time_s, scenario.output_tokens_per_turn)
    row = plan(agent_points(points, shared), sessions, NONE, of)
    assert (row["replicas"], exact["feasible"], exact["sessions_admitted"]) == (1, True, sessions)
    assert row["turn_latency_ms"] == pytest.approx(exact["turn_latency_ms"], rel=0.03)


def test_limits_turned_round() -> None:
    limits = Limits(max_turn_latency_s=3.0, max_task_time_s=16.0, min_tokens_per_s_per_user=5.0)
    bounds = {bound.name: bound for bound in limits.bounds(LOOP)}
    assert {bound.column for bound in bounds.values()} == {"turn_latency_ms"}
    assert {name: bound.most / 1e3 for name, bound in bounds.items()} == {
        "turn_latency": 3.0, "task_time": 2.0, "tokens_per_s_per_user": 6.0,
    }  # fmt: skip
    assert {name: limits.as_given(bound, bound.most, LOOP) for name, bound in bounds.items()} == {
        "turn_latency": 3.0, "task_time": 16.0, "tokens_per_s_per_user": 5.0,
    }  # fmt: skip
