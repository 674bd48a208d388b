"""Two opinions that share nothing but the curve: the exact solution and the simulation of sessions."""

import pytest

from tests.second_opinion import product_form
from tests.second_opinion.product_form import Figures
from tests.second_opinion.real_curves import TABLES, Replica, first_replica, roofline_points, scenario, table_points
from tests.second_opinion.simulation import (
    Draw,
    Loop,
    Measured,
    constant,
    exponential,
    hit_or_miss,
    log_normal,
    simulate,
)

#: Agreement that is asked for, and the standard error that a run may have: three of them stay below it.
AGREEMENT, STANDARD_ERROR = 0.04, 0.012
TURNS = 50_000


def dense(slug: str = "code-agent") -> Replica:
    return first_replica(table_points(TABLES[0]), scenario(slug), gpus=4)


def mixture() -> Replica:
    """Experts on eight GPUs, attention on eight ranks of one."""
    return first_replica(table_points(TABLES[2]), scenario("code-agent"), gpus=8, stations=8)


def roofline() -> Replica:
    points = roofline_points("h100-sxm", "llama-3-1-70b", "calibrated")
    return first_replica(points, scenario("code-agent"), gpus=8)


def assert_agree(measured: Measured, exact: Figures) -> None:
    assert measured.turns_error < STANDARD_ERROR
    assert measured.latency_error < STANDARD_ERROR
    assert measured.turns_per_s == pytest.approx(exact.turns_per_s, rel=AGREEMENT)
    assert measured.latency_s == pytest.approx(exact.latency_s, rel=AGREEMENT)


@pytest.mark.parametrize(
    ("replica", "sessions", "pauses"),
    [(dense, 2, 1.0), (dense, 32, 3.0), (mixture, 32, 1.0), (roofline, 16, 3.0)],
    ids=["dense-2", "dense-32", "mixture-32", "roofline-16"],
)
def test_simulation_agrees_with_the_exact_solution(replica: object, sessions: int, pauses: float) -> None:
    """Exponential pauses, a prefix cache that hits 95 % and misses that are eight times the work."""
    curve = replica().curve  # type: ignore[operator]
    think_time_s = pauses * float(curve.latency_s[0])
    loop = Loop(curve, sessions, exponential(think_time_s), hit_or_miss(0.95, 8.0))
    assert_agree(simulate(loop, TURNS, seed=1), product_form.solve(curve, sessions, think_time_s))


@pytest.mark.parametrize(
    ("pause", "turns"),
    [(log_normal(1.0, 4.0), 100_000), (constant(1.0), TURNS)],
    ids=["log-normal", "constant"],
)
def test_the_kind_of_pause_does_not_matter(pause: Draw, turns: int) -> None:
    """Insensitivity: only the mean of the pauses counts, heavy tails or none."""
    curve, sessions = dense().curve, 24
    think_time_s = 2.0 * float(curve.latency_s[0])
    loop = Loop(curve, sessions, lambda rng: think_time_s * pause(rng), hit_or_miss(0.9, 10.0))
    assert_agree(simulate(loop, turns, seed=2), product_form.solve(curve, sessions, think_time_s))


def test_heavy_work_does_not_matter_where_requests_share() -> None:
    """Insensitivity again: work of squared variation 4, as spread as prefills are (model.md 7 has 2.5 to 9)."""
    curve, sessions = dense().curve, 16
    think_time_s = 2.0 * float(curve.latency_s[0])
    loop = Loop(curve, sessions, exponential(think_time_s), log_normal(1.0, 4.0))
    assert_agree(simulate(loop, 100_000, seed=3), product_form.solve(curve, sessions, think_time_s))


def test_first_come_first_served_is_where_spread_work_hurts() -> None:
    """The whole rate to whoever came first: with spread work turns wait, and no mean-value figure knows of it."""
    curve, sessions = dense("research-agent").curve, 8
    think_time_s = 3.0 * float(curve.latency_s[0])
    exact = product_form.solve(curve, sessions, think_time_s)
    loops = [
        Loop(curve, sessions, exponential(think_time_s), work, discipline="first-come")
        for work in (exponential(1.0), log_normal(1.0, 4.0))
    ]
    # exponential work: product form holds for this discipline too
    assert_agree(simulate(loops[0], TURNS, seed=4), exact)
    spread = simulate(loops[1], TURNS, seed=4)
    print(f"first come, squared variation 4: R {spread.latency_s / exact.latency_s - 1:+.1%} of shared")
    assert spread.latency_s > exact.latency_s * (1 + 4 * STANDARD_ERROR)


def test_stations_drawn_for_each_turn_agree_with_their_own_exact_solution() -> None:
    curve, sessions = mixture().curve, 32
    think_time_s = float(curve.latency_s[0])
    loop = Loop(curve, sessions, exponential(think_time_s), assignment="drawn-each-turn")
    assert_agree(simulate(loop, TURNS, seed=5), product_form.solve(curve, sessions, think_time_s, "drawn-each-turn"))


def test_sessions_outside_do_not_change_what_is_inside() -> None:
    """40 sessions of which 10 are admitted, task by task, are the closed loop of 10."""
    curve = dense().curve
    think_time_s = 2.0 * float(curve.latency_s[0])
    loop = Loop(curve, 40, exponential(think_time_s), hit_or_miss(0.95, 8.0), max_sessions=10)
    assert_agree(simulate(loop, TURNS, seed=6), product_form.solve(curve, 10, think_time_s))


def test_a_seed_is_a_run() -> None:
    loop = Loop(dense().curve, 4, exponential(1.0), hit_or_miss(0.5, 3.0))
    assert simulate(loop, 400, seed=7) == simulate(loop, 400, seed=7)
    assert simulate(loop, 400, seed=7) != simulate(loop, 400, seed=8)
