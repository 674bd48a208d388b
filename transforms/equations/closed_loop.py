"""The closed loop: sessions that take turns and pause (Steps 1-3 and 9).

A session is in flight for R and pauses for Z. Times in seconds, rates per second.
"""

from collections.abc import Callable

import numpy as np

from schemas.arrays import Array
from schemas.options import ClosedLoop
from transforms.numbers import Number, largest, smallest

#: Halvings of the range: 2^-52 of it is below the rounding of a number.
BISECTIONS = 52
#: Doublings of a load from 1 on: to 10^6, beyond any batch.
DOUBLINGS = 20


def activity_fraction(turn_latency_s: Number, think_time_s: Number) -> Number:
    """Step 1: ``rho = R / (R + Z)``, the share of its time that a session is in flight."""
    return turn_latency_s / (turn_latency_s + think_time_s)


def in_flight_per_station(requests_per_s: Number, latency_s: Number, stations: Number) -> Number:
    """``b``: requests in flight at one station, by Little's law. A table's slot count is not it."""
    return requests_per_s * latency_s / stations


def sessions_that_fill(in_flight: Number, rho: Number, stations: Number, closed_loop: ClosedLoop = "arrival") -> Number:
    """Sessions that keep ``in_flight`` requests at each of the stations (Step 1, model.md 5.4).

    ``arrival``: a session that starts a turn meets the others only (arrival theorem),
    ``C = s * (1 + (b - 1)/rho)``; below one request in flight a session meets nobody and
    ``C = s * b``. ``article``: ``C = s * b / rho``. Both give ``s * b`` where nobody pauses.
    """
    if closed_loop == "article":
        return stations * in_flight / rho
    return stations * largest(in_flight, 1.0 + (in_flight - 1.0) / rho)


def in_flight_of_sessions(
    sessions: Number, rho: Number, stations: Number, closed_loop: ClosedLoop = "arrival"
) -> Number:
    """Requests in flight at all stations that so many sessions keep: ``sessions_that_fill`` turned round.

    This is what is in flight while a session is served; the mean over time is ``C * rho``.
    """
    if closed_loop == "article":
        return sessions * rho
    per_station = sessions / stations
    return stations * smallest(per_station, 1.0 + (per_station - 1.0) * rho)


def turns_per_s(sessions: Number, turn_latency_s: Number, think_time_s: Number) -> Number:
    """Step 2: ``X_turn = C / (R + Z)``."""
    return sessions / (turn_latency_s + think_time_s)


def task_time_s(turns: Number, turn_latency_s: Number, think_time_s: Number) -> Number:
    """Step 3: ``T_task = N * (R + Z)``; a pause also follows the last turn."""
    return turns * (turn_latency_s + think_time_s)


def tasks_per_s_step9(serving_requests_per_s: Number, turns: Number, rho: Number) -> Number:
    """Step 9 as printed: ``X_serving / N * rho``.

    It counts rho twice where B is read as requests in flight; kept because readers look for it.
    """
    return serving_requests_per_s / turns * rho


def solve_load(sessions_at: Callable[[Array], Array], sessions: Array) -> Array:
    """A load at which so many sessions are served, below the first of 1, 2, 4, … that serves them; NaN where none does.

    ``sessions_at`` maps an array of loads (a batch, say) to the sessions that keep them up, 0 at 0. For engines whose
    requests in flight are not the batch: at saturation a larger batch belongs to no more sessions.
    """
    low, high = np.zeros_like(sessions), np.ones_like(sessions)
    for _ in range(DOUBLINGS):
        too_few = sessions_at(high) < sessions
        low, high = np.where(too_few, high, low), np.where(too_few, 2.0 * high, high)
    solved = _bisect(sessions_at, sessions, low, high)
    return np.where(sessions_at(high) < sessions, np.nan, solved)


def _bisect(sessions_at: Callable[[Array], Array], sessions: Array, lowest: Array, highest: Array) -> Array:
    low, high = lowest.astype(np.float64), highest.astype(np.float64)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        too_many = sessions_at(middle) > sessions
        high = np.where(too_many, middle, high)
        low = np.where(too_many, low, middle)
    return (low + high) / 2
