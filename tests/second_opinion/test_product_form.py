"""The exact solution against closed forms that textbooks have, and at sizes where factorials overflow."""

import math

import numpy as np
import pytest

from tests.second_opinion import product_form
from tests.second_opinion.curve import Curve

#: R grows as n: one server of one turn a second, whoever is in flight.
SERVER = Curve("one server", np.array([1.0, 2000.0]), np.array([1.0, 2000.0]))
#: R does not grow: nobody is in anybody's way.
NO_QUEUE = Curve("no queue", np.array([1.0, 2000.0]), np.array([3.0, 3.0]))


@pytest.mark.parametrize("sessions", [1, 2, 8, 40])
def test_one_server_is_the_machine_repair_model(sessions: int) -> None:
    """M/M/1//C: the server is idle with Erlang's B of C servers at the load Z/R."""
    z = 7.0
    terms = [z**n / math.factorial(n) for n in range(sessions + 1)]
    busy = 1.0 - terms[sessions] / sum(terms)
    exact = product_form.solve(SERVER, sessions, z)
    assert exact.turns_per_s == pytest.approx(busy, rel=1e-12)
    assert exact.latency_s == pytest.approx(sessions / busy - z, rel=1e-12)


@pytest.mark.parametrize("sessions", [1, 5, 2000])
@pytest.mark.parametrize("think_time_s", [0.0, 0.1, 1e4])
def test_without_queues_sessions_do_not_meet(sessions: int, think_time_s: float) -> None:
    for assignment in ("even", "drawn-once", "drawn-each-turn"):
        exact = product_form.solve(NO_QUEUE, sessions, think_time_s, assignment)
        assert exact.latency_s == pytest.approx(3.0, rel=1e-6)
        assert exact.turns_per_s == pytest.approx(sessions / (3.0 + think_time_s), rel=1e-9)


@pytest.mark.parametrize("think_time_s", [1e-6, 1.0, 1500.0, 1e7])
def test_two_thousand_sessions_are_no_more_than_numbers(think_time_s: float) -> None:
    p = product_form.in_flight_probabilities(2000, think_time_s, SERVER.rates(2000))
    assert np.isfinite(p).all()
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    exact = product_form.solve(SERVER, 2000, think_time_s)
    assert exact.turns_per_s <= 1.0 + 1e-12
    assert exact.turns_per_s * (exact.latency_s + think_time_s) == pytest.approx(2000, rel=1e-9)


def test_two_ways_to_the_same_figures() -> None:
    """Normalising constants and the probabilities of one station agree; two stations have a form of their own."""
    curve = Curve("kinked", np.array([1.0, 4.0, 30.0]), np.array([1.0, 1.4, 9.0]), stations=2)
    one = Curve("kinked", curve.in_flight, curve.latency_s)
    for sessions in (1, 3, 25):
        even = product_form.solve(one, sessions, 2.0, "even")
        constants = product_form._drawn_each_turn(one, sessions, 2.0)
        assert constants.turns_per_s == pytest.approx(even.turns_per_s, rel=1e-10)
        assert constants.latency_s == pytest.approx(even.latency_s, rel=1e-9)
    # two sessions, two stations, by hand over (in flight at one, at the other)
    z, x1, x2 = 2.0, 1.0, 2.0 / curve.latency_at(np.array([2.0]))[0]
    g1 = z + 1 / x1
    g2 = z**2 / 2 + z / x1 + 2 * 0.25 / (x1 * x2) + 0.25 / x1**2
    assert product_form.solve(curve, 2, z, "drawn-each-turn").turns_per_s == pytest.approx(g1 / g2, rel=1e-12)


def test_drawing_stations_for_good_is_the_mean_over_the_draws() -> None:
    """Two sessions on two stations: together or apart with a half each."""
    curve = Curve("server", SERVER.in_flight, SERVER.latency_s, stations=2)
    apart = 2 * product_form.one_station(1, 2.0, SERVER.rates(1)).turns_per_s
    together = product_form.one_station(2, 2.0, SERVER.rates(2)).turns_per_s
    drawn = product_form.solve(curve, 2, 2.0, "drawn-once")
    assert drawn.turns_per_s == pytest.approx((apart + together) / 2, rel=1e-12)
