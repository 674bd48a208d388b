"""The closed loop as properties: two directions of one equation, and its fixed point."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.arrays import Array
from schemas.options import ClosedLoop
from tests.transforms.equations.bisection import solve_in_flight
from transforms.equations.closed_loop import (
    activity_fraction,
    in_flight_of_sessions,
    sessions_that_fill,
    solve_load,
    turns_per_s,
)

PRESETS = st.sampled_from(["arrival", "article"])
IN_FLIGHT = st.floats(1e-3, 1e4)
RHO = st.floats(1e-3, 1.0)
STATIONS = st.sampled_from([1, 2, 4, 8, 64])
PAUSES = st.floats(0.0, 1e3)


@given(in_flight=IN_FLIGHT, rho=RHO, stations=STATIONS, preset=PRESETS)
def test_sessions_turned_round_give_the_requests_in_flight(
    in_flight: float, rho: float, stations: int, preset: ClosedLoop
) -> None:
    sessions = sessions_that_fill(in_flight, rho, stations, preset)
    assert in_flight_of_sessions(sessions, rho, stations, preset) == pytest.approx(stations * in_flight, rel=1e-9)


@given(in_flight=IN_FLIGHT, rho=RHO, stations=STATIONS)
def test_the_arrival_theorem_needs_no_more_sessions_than_the_article(
    in_flight: float, rho: float, stations: int
) -> None:
    """A session does not meet itself: 1 + (b - 1)/rho <= b/rho; where nobody pauses both are b."""
    arrival = sessions_that_fill(in_flight, rho, stations, "arrival")
    article = sessions_that_fill(in_flight, rho, stations, "article")
    assert stations * in_flight <= arrival * (1 + 1e-12)
    assert arrival <= article * (1 + 1e-12)
    assert sessions_that_fill(in_flight, 1.0, stations, "arrival") == pytest.approx(stations * in_flight)
    assert sessions_that_fill(in_flight, 1.0, stations, "article") == pytest.approx(stations * in_flight)


@given(
    sessions=st.floats(1.0, 1e4),
    fixed_s=st.floats(1e-3, 1e2),
    per_request_s=st.floats(0.0, 10.0),
    pause_s=PAUSES,
    preset=PRESETS,
)
def test_the_solution_is_the_fixed_point(
    sessions: float, fixed_s: float, per_request_s: float, pause_s: float, preset: ClosedLoop
) -> None:
    """With R = a + m*b, article: b*(R + Z) = c*R is a quadratic in b; both: the loop closes."""

    def latency_s(b: Array) -> Array:
        return fixed_s + per_request_s * b

    solved = solve_in_flight(latency_s, np.array([sessions]), pause_s, np.array([0.0]), np.array([sessions]), preset)
    rho = activity_fraction(latency_s(solved), pause_s)
    assert sessions_that_fill(solved, rho, 1, preset) == pytest.approx([sessions], rel=1e-6)
    if preset == "article":
        # m*b^2 + (a + Z - c*m)*b - c*a = 0
        linear = fixed_s + pause_s - sessions * per_request_s
        root = np.sqrt(linear**2 + 4 * per_request_s * sessions * fixed_s)
        by_hand = 2 * sessions * fixed_s / (linear + root)
        assert solved == pytest.approx([by_hand], rel=1e-6)


def test_a_bracket_without_the_solution_gives_its_nearer_end() -> None:
    def latency_s(b: Array) -> Array:
        return 1.0 + 0.1 * b

    lowest, highest = np.array([5.0, 5.0]), np.array([9.0, 9.0])
    solved = solve_in_flight(latency_s, np.array([1.0, 500.0]), 2.0, lowest, highest)
    assert solved == pytest.approx([5.0, 9.0], rel=1e-9)


@given(
    sessions=st.floats(1.0, 1e3),
    more=st.floats(0.0, 1e3),
    fixed_s=st.floats(1e-3, 1e2),
    per_request_s=st.floats(0.0, 10.0),
    pause_s=PAUSES,
    longer_s=PAUSES,
    preset=PRESETS,
)
def test_more_sessions_and_longer_pauses(
    sessions: float,
    more: float,
    fixed_s: float,
    per_request_s: float,
    pause_s: float,
    longer_s: float,
    preset: ClosedLoop,
) -> None:
    """On one server: throughput never rises with the pause, a session's own never rises with the others."""

    def latency_s(b: Array) -> Array:
        return fixed_s + per_request_s * b

    def throughput(count: float, pause: float) -> float:
        b = solve_in_flight(latency_s, np.array([count]), pause, np.array([0.0]), np.array([count]), preset)
        return float(turns_per_s(count, latency_s(b)[0], pause))

    now = throughput(sessions, pause_s)
    assert throughput(sessions, pause_s + longer_s) <= now * (1 + 1e-9)
    assert throughput(sessions + more, pause_s) / (sessions + more) <= now / sessions * (1 + 1e-9)
    assert throughput(sessions + more, pause_s) >= now * (1 - 1e-9)


def test_the_load_that_fills() -> None:
    """Two sessions a unit of load, ten at most, fewer from a load of 12 on."""

    def sessions_at(load: Array) -> Array:
        return np.where(load < 12, np.minimum(2 * load, 10), 9.0)

    solved = solve_load(sessions_at, np.array([0.0, 1.0, 5.0, 9.5, 12.0]))
    assert solved[:4] == pytest.approx([0.0, 0.5, 2.5, 4.75], abs=1e-12)
    assert np.isnan(solved[4])
