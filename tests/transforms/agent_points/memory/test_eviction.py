"""Rows whose memory evicts: the loop of hits, latency, sessions and memory closes on each, and its limits."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.trace_statistics import LogNormal, PauseMixture
from tests.transforms.equations.bisection import solve_in_flight
from transforms.agent_points.memory.eviction import EvictingMemory, ServiceAtHitRates
from transforms.cache import LeastRecentlyUsed, OverHitRates, PauseDistribution, SessionShape
from transforms.equations import closed_loop as loop

NODES = np.array([0.0, 0.5, 1.0])
BATCHES = np.array([1.0, 4.0, 16.0, 64.0])


def service(batches: np.ndarray = BATCHES) -> ServiceAtHitRates:
    """R = 2 + 0.1 * b on a hit; a miss prefills for 4 s, and 0.5 s more for each other request."""
    latency = np.stack([2 + 0.1 * batches + (1 - hit) * (4 + 0.5 * batches) for hit in NODES])
    rates = np.repeat(NODES[:, None], len(batches), axis=1)
    return ServiceAtHitRates(OverHitRates(rates, latency), OverHitRates(rates, latency / batches))


def memory(
    bytes_: float, pauses: PauseDistribution, count: int = len(BATCHES), most: float = 1.0, host: float = 0.0
) -> EvictingMemory:
    """Contexts of 100 in ten turns, which an ended session leaves behind; a reload takes 0.2 s."""
    shape = SessionShape(10, 1_000, 900, 100, pauses, 10 * pauses.mean_s, most_hit_rate=most)
    ones = np.ones(count)
    return EvictingMemory(
        [LeastRecentlyUsed()], [shape], np.zeros(count, np.intp), bytes_ * ones, host * ones, 0.2 * ones, ones,
        pauses.mean_s, "arrival",
    )  # fmt: skip


def log_normal(median_s: float, sigma: float) -> PauseDistribution:
    mixture = PauseMixture(log_normals=(LogNormal(weight=1, median_s=median_s, sigma=sigma),))
    return PauseDistribution.log_normals(mixture)


PAUSES = log_normal(10.0, 1.0)


def test_the_loop_closes_on_every_row() -> None:
    """R at the hit rate gives sessions whose memory keeps prefixes long enough for just that hit rate."""
    rows, times = memory(2_000.0, PAUSES), service()
    found = rows.at_own_load(times)
    latency = times.latency_s.at(found.hit_rate)
    sessions = 1 + (BATCHES - 1) * (latency + PAUSES.mean_s) / latency
    held = PAUSES.mean_within(found.kept_s)
    taken = sessions * (1_000 * latency + 900 * held + 100 * found.kept_s) / (10 * (latency + PAUSES.mean_s))
    full = np.isfinite(found.kept_s) & ~found.overcommitted
    assert taken[full] == pytest.approx(np.full(full.sum(), 2_000.0), rel=1e-6)
    assert found.hit_rate[full] == pytest.approx(PAUSES.share_within(found.kept_s[full]), abs=1e-6)
    assert found.hit_rate[0] == pytest.approx(1, abs=1e-6)  # one session
    assert 0.02 < found.hit_rate[2] < 0.98  # on the cliff
    assert (found.hit_rate[3], found.overcommitted[3]) == (0, True)  # 64 contexts of 100 in flight
    assert (np.diff(found.hit_rate) <= 0).all()


def test_memory_without_end_gives_the_unbounded_hit_rate() -> None:
    for size in (1e9, math.inf):
        found = memory(size, PAUSES, most=0.97).at_own_load(service())
        assert found.hit_rate.tolist() == [0.97] * 4
        assert not found.overcommitted.any()


def test_without_pauses_every_session_is_in_flight_and_hits() -> None:
    """Z to 0: rho 1; the memory holds what is in flight, or nothing is kept."""
    for pause in (0.0, 1e-6):
        found = memory(1_700.0, PauseDistribution.constant(pause)).at_own_load(service())
        assert found.hit_rate.tolist() == [1, 1, 1, 0]
        assert loop.activity_fraction(service().latency_s.at(found.hit_rate), pause) == pytest.approx(1, abs=1e-6)


def test_host_memory_brings_prefixes_back() -> None:
    alone, behind = (memory(2_000.0, PAUSES, host=host).at_own_load(service()) for host in (0.0, 1e9))
    assert behind.hit_rate[:3].tolist() == [1, 1, 1]
    assert (behind.reload_rate[2] > 0.1) & (behind.hit_rate[2] - behind.reload_rate[2] < alone.hit_rate[2])
    assert alone.reload_rate.tolist() == [0, 0, 0, 0]


@settings(max_examples=6)
@given(
    size=st.floats(50, 2e4), more=st.floats(1, 4), sessions=st.floats(1, 300), shorter=st.floats(0.2, 1),
    sigma=st.floats(0.1, 2),
)  # fmt: skip
def test_at_fixed_sessions_memory_and_short_pauses_never_cost(
    size: float, more: float, sessions: float, shorter: float, sigma: float
) -> None:
    """More memory never lowers throughput, warm or cold; neither do shorter pauses where all sessions fit."""

    def turns_per_s(bytes_: float, median_s: float, begin: float) -> float:
        pauses = log_normal(median_s, sigma)
        fixed = np.array([sessions])

        def latency(hit: float) -> float:  # R = 2 + 0.1 b on a hit, b = 1 + (C - 1) * rho
            found = solve_in_flight(
                lambda b: 2 + 0.1 * b + (1 - hit) * (4 + 0.5 * b), fixed, pauses.mean_s, np.zeros(1), fixed + 1.0
            )
            return float(2 + 0.1 * found[0] + (1 - hit) * (4 + 0.5 * found[0]))

        nodes = np.linspace(0, 1, 11)[:, None]
        over = OverHitRates(nodes, np.array([[latency(float(hit))] for hit in nodes[:, 0]]))
        outcome = memory(bytes_, pauses, 1).at_sessions(fixed, over, begin)
        return float(sessions / (over.at(outcome.hit_rate)[0] + pauses.mean_s))

    for begin in (0.0, 1.0):
        here = turns_per_s(size, 10.0, begin)
        assert turns_per_s(size * more, 10.0, begin) >= here * (1 - 1e-6)
        fits = max(size, 100.0 * sessions)
        assert turns_per_s(fits, 10.0 * shorter, begin) >= turns_per_s(fits, 10.0, begin) * (1 - 1e-6)
    assert turns_per_s(size, 10.0, 0.0) <= turns_per_s(size, 10.0, 1.0) * (1 + 1e-6)


def test_the_cliff_is_a_cliff() -> None:
    """16 sessions of 100 in 2,000, pauses about the same: a few sessions more and all prefixes are lost."""
    pauses = log_normal(10.0, 0.2)
    sessions = np.arange(14.0, 30.0)
    rates = np.repeat(NODES[:, None], len(sessions), axis=1)
    over = OverHitRates(rates, np.stack([2 + (1 - hit) * (4 + 0.05 * sessions) for hit in NODES]))
    rows = memory(2_000.0, pauses, len(sessions))
    warm, cold = (rows.at_sessions(sessions, over, begin).hit_rate for begin in (1.0, 0.0))
    assert (warm[sessions <= 18] > 0.95).all()
    assert (cold[sessions >= 25] < 0.05).all()
    assert (cold <= warm + 1e-9).all()
    assert np.diff(warm).min() < -0.2


def test_shapes_of_their_own() -> None:
    """Rows of another number format hold sessions of another size."""
    rows = memory(2_000.0, PAUSES)
    small = replace(rows.shapes[0], held_in_flight=10, held_parked=9, held_at_end=1)
    models, shape_of = 2 * list(rows.models), np.array([0, 1, 0, 1], np.intp)
    mixed = replace(rows, models=models, shapes=[rows.shapes[0], small], shape_of=shape_of)
    alone, found = rows.at_own_load(service()), mixed.at_own_load(service())
    assert found.hit_rate[[0, 2]].tolist() == alone.hit_rate[[0, 2]].tolist()
    assert found.hit_rate[[1, 3]].tolist() == pytest.approx([1, 1], abs=1e-6)
