"""The exact closed loop: sessions that pause (infinite server) and turns served at stations of a load-dependent rate.

Such a network has a product form: with one station and C sessions, n are in flight with probability
p(n) ~ C!/(C-n)! * Z^-n / prod_{i<=n} X(i). It holds for any distribution of pauses, and of work where the
requests in flight share the station (Baskett, Chandy, Muntz and Palacios, JACM 22(2), 1975). All in logarithms:
factorials of thousands overflow otherwise.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from schemas.arrays import Array
from tests.second_opinion.curve import Curve

#: Who goes where when there are several stations: sessions dealt out evenly and for good, drawn at random for good,
#: or a station drawn at random for each turn.
Assignment = Literal["even", "drawn-once", "drawn-each-turn"]


@dataclass(frozen=True)
class Figures:
    """Turns per second of all sessions and the mean latency of a turn, in seconds."""

    turns_per_s: float
    latency_s: float


def in_flight_probabilities(sessions: int, think_time_s: float, rates: Array) -> Array:
    """p(n), n = 0 ... C, of one station; ``rates`` are X(1) ... X(C) and the pause is not 0."""
    n = np.arange(1, sessions + 1)
    steps = np.log(sessions - n + 1.0) - np.log(think_time_s) - np.log(rates[:sessions])
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum(), np.float64)


def one_station(sessions: int, think_time_s: float, rates: Array) -> Figures:
    """The figures of one station from its p(n)."""
    if think_time_s == 0:
        return Figures(float(rates[sessions - 1]), sessions / float(rates[sessions - 1]))
    p = in_flight_probabilities(sessions, think_time_s, rates)
    turns_per_s = float(p[1:] @ rates[:sessions])
    return Figures(turns_per_s, float(p @ np.arange(sessions + 1)) / turns_per_s)


def met_on_arrival(curve: Curve, sessions: int, think_time_s: float, tail: float = 0.01) -> tuple[int, int]:
    """Requests in flight at one station, a new one counted, that all but the two tails of its turns see at their start.

    Turns start as often as they end, so n are there with probability ~ p(n) * X(n).
    """
    rates = curve.rates(sessions)
    flow = in_flight_probabilities(sessions, think_time_s, rates)[1:] * rates
    below = np.cumsum(flow) / flow.sum()
    return int(np.searchsorted(below, tail)) + 1, min(int(np.searchsorted(below, 1.0 - tail)) + 1, sessions)


def solve(curve: Curve, sessions: int, think_time_s: float, assignment: Assignment = "even") -> Figures:
    """The exact figures of ``sessions`` sessions on the curve's stations."""
    s = curve.stations
    if assignment == "drawn-each-turn" and s > 1:
        return _drawn_each_turn(curve, sessions, think_time_s)
    if assignment == "drawn-once" and s > 1:
        shares = _binomial(sessions, 1.0 / s) * s
        return _together({c: float(share) for c, share in enumerate(shares) if share > 1e-12}, curve, think_time_s)
    fuller = sessions % s
    return _together({sessions // s + 1: float(fuller), sessions // s: float(s - fuller)}, curve, think_time_s)


def _together(stations_by_sessions: dict[int, float], curve: Curve, think_time_s: float) -> Figures:
    """Stations that have nothing to do with each other; the latency is that of the mean turn."""
    turns_per_s = in_flight = 0.0
    for sessions, stations in stations_by_sessions.items():
        if sessions and stations:
            alone = one_station(sessions, think_time_s, curve.rates(sessions))
            turns_per_s += stations * alone.turns_per_s
            in_flight += stations * alone.turns_per_s * alone.latency_s
    return Figures(turns_per_s, in_flight / turns_per_s)


def _drawn_each_turn(curve: Curve, sessions: int, think_time_s: float) -> Figures:
    """Normalising constants by convolution: X(C) = G(C-1) / G(C)."""
    n = np.arange(sessions + 1, dtype=np.float64)
    visits = np.log(1.0 / curve.stations)
    station = np.concatenate([[0.0], np.cumsum(visits - np.log(curve.rates(sessions)))])
    network = station
    for _ in range(curve.stations - 1):
        network = _log_convolution(network, station)
    if think_time_s > 0:
        pauses = n * np.log(think_time_s) - np.concatenate([[0.0], np.cumsum(np.log(n[1:]))])
        network = _log_convolution(network, pauses)
    turns_per_s = float(np.exp(network[sessions - 1] - network[sessions]))
    return Figures(turns_per_s, sessions / turns_per_s - think_time_s)


def _log_convolution(first: Array, second: Array) -> Array:
    """log of the convolution of exp(first) and exp(second)."""
    result = np.empty_like(first)
    for n in range(len(first)):
        logs = first[: n + 1] + second[n::-1]
        top = logs.max()
        result[n] = top + np.log(np.exp(logs - top).sum())
    return result


def _binomial(trials: int, chance: float) -> Array:
    k = np.arange(1, trials + 1)
    steps = np.log(trials - k + 1.0) - np.log(k) + np.log(chance / (1.0 - chance))
    logs = trials * np.log1p(-chance) + np.concatenate([[0.0], np.cumsum(steps)])
    return np.asarray(np.exp(logs), np.float64)
