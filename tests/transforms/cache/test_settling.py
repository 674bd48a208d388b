"""Hit rates that bring themselves about, worked by hand: at a fixed load, with reloads, and figures between nodes."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.arrays import Array
from schemas.trace_statistics import LogNormal, PauseMixture
from transforms.cache import (
    CacheLoad,
    HeldSums,
    LeastRecentlyUsed,
    OverHitRates,
    PauseDistribution,
    SessionShape,
    settle_at_load,
    settle_hit_rate,
)

LRU = LeastRecentlyUsed()
#: Ten turns that hold 100 each, which stay behind at the end; each pause takes 20 s.
SAME_PAUSES = SessionShape(10, 1_000, 900, 100, PauseDistribution.constant(20), 200)
#: Ten requests in flight at R = 4 s: 1 + 9 * 24/4 = 55 sessions. Prefixes kept for all of the pause take this.
MEMORY = 55 * (1_000 * 4 + 1_000 * 20) / (10 * 24)


class AtLoad:
    """Ten requests in flight; a hit takes 1 s, a miss 10 s, a reload ``reload_s`` on top."""

    def __init__(self, memory: npt.ArrayLike, host_memory: float = 0.0, reload_s: float = 0.0) -> None:
        self._memory, self._host, self._reload_s = np.asarray(memory, np.float64), host_memory, reload_s

    def service_s(self, hits: Array, reloads: Array) -> Array:
        return np.asarray(10 - 9 * hits + self._reload_s * reloads)

    def __call__(self, hits: Array, reloads: Array) -> CacheLoad:
        service = self.service_s(hits, reloads)
        return CacheLoad(1 + 9 * (service + 20) / service, service, self._memory, self._host)


def test_the_share_that_keeps_prefixes_just_long_enough() -> None:
    """R = 4 s is two hits and one miss in three."""
    found = settle_at_load(LRU, SAME_PAUSES, AtLoad([MEMORY, 1e9, 0.0]))
    assert found.hit_rate.tolist() == pytest.approx([2 / 3, 1, 0], abs=1e-9)
    assert found.kept_s[0] == pytest.approx(20)
    assert found.overcommitted.tolist() == [False, False, True]


def test_reloads_lengthen_the_service_of_hits() -> None:
    """All is found in host memory; R = 4 s where three turns in ten reload for 10 s on top of the 1 s of a hit."""
    found = settle_at_load(LRU, SAME_PAUSES, AtLoad([MEMORY, 1e9], host_memory=1e9, reload_s=10))
    assert found.hit_rate.tolist() == [1, 1]
    assert found.reload_rate.tolist() == pytest.approx([0.3, 0], abs=1e-4)


@given(st.floats(0, 1e5), st.floats(1, 3), st.floats(0.1, 2))
def test_a_load_has_one_hit_rate_and_more_memory_never_lowers_it(memory: float, more: float, sigma: float) -> None:
    mixture = PauseMixture(log_normals=(LogNormal(weight=1, median_s=20, sigma=sigma),))
    pauses = PauseDistribution.log_normals(mixture)
    shape = SessionShape(10, 1_000, 900, 120, pauses, 10 * pauses.mean_s)
    at_load = AtLoad([memory, memory * more])
    found = settle_at_load(LRU, shape, at_load)
    again = LRU.outcome(shape, at_load(found.hit_rate, found.reload_rate))
    assert again.hit_rate == pytest.approx(found.hit_rate, abs=1e-4)
    assert found.hit_rate[0] <= found.hit_rate[1] + 1e-9


def test_a_time_to_live_before_the_cache_is_full() -> None:
    """Prefixes are kept for 30 s at most: pauses of 50 s are lost however much memory there is."""
    pauses = PauseDistribution.empirical([4, 50], weights=[4, 1])
    shape = SessionShape(10, 1_000, 900, 0, pauses, 10 * pauses.mean_s)
    squares = HeldSums(100_000, 90_000, 0)
    for finite in (False, True):
        model, load = LeastRecentlyUsed(finite, longest_s=30), CacheLoad(20, 2.0, [1e9, 0.0])
        capped = model.outcome(replace(shape, squares=squares), load)
        assert capped.hit_rate.tolist() == pytest.approx([0.8, 0], abs=1e-3)
        assert capped.kept_s.tolist() == [30, 0]


def test_sessions_on_the_cliff_end_warm_or_cold() -> None:
    """20 sessions, one pause for all, nothing left behind. To keep prefixes for 20 s takes 20*(1000 + 900*20)/210 =
    1810 while they hit (R = 1 s), 20*(10000 + 18000)/300 = 1867 while they miss: between the two both last."""

    def load(hits: Array, reloads: Array) -> CacheLoad:
        return CacheLoad(20.0, 10 - 9 * hits, [1_800.0, 1_840.0, 1_880.0])

    nothing_left = replace(SAME_PAUSES, held_at_end=0)
    warm, cold = (settle_hit_rate(LRU, nothing_left, load, np.full(3, begin)) for begin in (1.0, 0.0))
    assert warm.hit_rate.tolist() == [0, 1, 1]
    assert cold.hit_rate.tolist() == [0, 0, 1]


def test_figures_between_hit_rates() -> None:
    curve = OverHitRates(np.array([[0.0, 0.0], [0.5, 0.8], [1.0, 0.8]]), np.array([[10.0, 10.0], [4.0, 2.0], [2, 2]]))
    assert curve.at(np.array([0.25, 0.4])).tolist() == pytest.approx([7, 6])
    assert curve.at(np.array([0.75, 0.8])).tolist() == pytest.approx([3, 2])
    assert curve.at(np.array([1.0, 1.0])).tolist() == pytest.approx([2, 2])
    assert curve.at(np.zeros(())).tolist() == [10, 10]
