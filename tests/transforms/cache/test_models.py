"""The models of cache survival: goldens by hand, limits, the cliff."""

import math
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.reading.catalogues import load_scenarios
from pipelines.reading.traces import FitOptions, fit_scenario
from schemas.scenarios import Scenario
from schemas.trace_statistics import LogNormal, PauseMixture
from transforms.cache import (
    CacheLoad,
    LeastRecentlyUsed,
    PauseDistribution,
    SessionShape,
    session_shape,
    settle_hit_rate,
)

#: Two kinds of pauses: four of five take 4 s, the fifth 50 s; mean 13.2 s.
PAUSES = PauseDistribution.empirical([4, 50], weights=[4, 1])
#: Ten turns that hold 100 each; nothing is left behind.
SHAPE = SessionShape(10, 1_000, 900, 0, PAUSES, 10 * 13.2)
LRU = LeastRecentlyUsed()


def lru(memory: float, shape: SessionShape = SHAPE, **more: float) -> tuple[float, float]:
    found = LRU.outcome(shape, CacheLoad(sessions=20, service_s=2, memory=memory, **more))
    return float(found.hit_rate), float(found.kept_s)


def test_memory_balance_by_hand() -> None:
    """A cycle is 10 * (2 + 13.2) = 152 s; in flight 20 * 1000 * 2 / 152 = 263.2.

    With T = 30 s a parked prefix is held 0.8 * 4 + 0.2 * 30 = 9.2 s: 20 * (2000 + 900 * 9.2) / 152 = 1352.6.
    """
    hit_rate, kept = lru(20 * (2_000 + 900 * 9.2) / 152)
    assert kept == pytest.approx(30)
    assert hit_rate == pytest.approx(0.8)
    # T = 2 s: everything is held 2 s, no pause is that short.
    assert lru(20 * (2_000 + 900 * 2) / 152) == pytest.approx((0, 2))


def test_what_ended_sessions_leave_behind_takes_memory() -> None:
    leaves = SessionShape(10, 1_000, 900, 100, PAUSES, 10 * 13.2)
    memory = 20 * (2_000 + 900 * 9.2 + 100 * 30) / 152
    assert lru(memory, leaves) == pytest.approx((0.8, 30))
    # All pauses fit: the rest is time that ended sessions stay.
    assert lru(20 * (2_000 + 900 * 13.2 + 100 * 400) / 152, leaves) == pytest.approx((1, 400))


def test_service_of_large_contexts_counts_by_what_it_holds() -> None:
    """In flight is held for 3 s though a turn takes 2 s."""
    assert lru(20 * (3_000 + 900 * 9.2) / 152, held_service_s=3) == pytest.approx((0.8, 30))


def test_infinite_memory_gives_the_unbounded_hit_rate() -> None:
    compacts = SessionShape(10, 1_000, 900, 100, PAUSES, 132, most_hit_rate=0.988)
    found = LRU.outcome(compacts, CacheLoad(20, 2.0, [1e15, math.inf]))
    assert found.hit_rate.tolist() == pytest.approx([0.988, 0.988])
    assert found.kept_s[1] == math.inf


def test_without_pauses_all_is_in_flight_and_hits() -> None:
    """Z to 0: rho = R/(R+Z) is 1, the memory holds all sessions or it does not."""
    none = SessionShape(10, 1_000, 900, 0, PauseDistribution.constant(0), 0)
    in_flight = 20 * 100
    assert lru(1.001 * in_flight, none)[0] == 1
    found = LRU.outcome(none, CacheLoad(20, 2.0, 0.999 * in_flight))
    assert bool(found.overcommitted)
    assert float(found.hit_rate) == 0
    for pause in (1e-3, 1e-6):
        short = SessionShape(10, 1_000, 900, 0, PauseDistribution.constant(pause), 10 * pause)
        assert lru(1.001 * in_flight, short)[0] == 1


def test_equal_pauses_make_a_cliff() -> None:
    """With one pause for all the prefixes survive it or none does."""
    same = SessionShape(10, 1_000, 900, 0, PauseDistribution.constant(20), 200)
    memory = 20 * (2_000 + 900 * 20) / 220
    assert lru(memory * 1.0001, same)[0] == 1
    assert lru(memory * 0.9999, same)[0] == 0


def test_host_memory_adds_reloads() -> None:
    near = 20 * (2_000 + 900 * 2) / 152
    far = 20 * (2_000 + 900 * 9.2) / 152
    found = LRU.outcome(SHAPE, CacheLoad(20, 2.0, near, host_memory=far - near))
    assert (float(found.hit_rate), float(found.reload_rate)) == pytest.approx((0.8, 0.8))
    some = LRU.outcome(SHAPE, CacheLoad(20, 2.0, far, host_memory=1e9))
    assert (float(some.hit_rate), float(some.reload_rate)) == pytest.approx((1, 0.2))
    assert float(LRU.outcome(SHAPE, CacheLoad(20, 2.0, far)).reload_rate) == 0


@given(st.floats(1, 1e6), st.floats(1, 1e4), st.floats(0.01, 100), st.floats(1.01, 3))
def test_more_memory_or_fewer_sessions_never_lose_hits(
    memory: float, sessions: float, service: float, by: float
) -> None:
    pauses = PauseDistribution.log_normals(PauseMixture(log_normals=(LogNormal(weight=1, median_s=9, sigma=1.5),)))
    shape = SessionShape(10, 1_000, 900, 120, pauses, 10 * pauses.mean_s)
    load = CacheLoad([sessions, sessions, sessions * by], service, [memory, memory * by, memory])
    here, more_memory, more_sessions = LRU.outcome(shape, load).hit_rate
    assert more_sessions - 1e-9 <= here <= more_memory + 1e-9


def test_impossible_loads_are_refused() -> None:
    for wrong in (CacheLoad(0, 1), CacheLoad(1, 0), CacheLoad(1, 1, -1), CacheLoad([1, math.nan], 1)):
        with pytest.raises(ValueError, match="must be"):
            LRU.outcome(SHAPE, wrong)


def scenario(**more: object) -> Scenario:
    return Scenario.model_validate(
        {
            "slug": "s", "turns": 3, "think_time_s": 10, "initial_prompt_tokens": 1000, "new_tokens_per_turn": 60,
            "output_tokens_per_turn": 40, "shared_prefix_tokens": 200, "cache_hit_rate": 1,
        } | more
    )  # fmt: skip


def test_shape_of_a_scenario() -> None:
    """Contexts 1000, 1100, 1200, less 200 shared; half an output while served, all of it after."""
    shape = session_shape(scenario())
    assert shape.held_in_flight == 820 + 920 + 1020
    assert shape.held_parked == 840 + 940
    assert shape.held_at_end == 1040
    assert shape.pause_per_session_s == 30
    assert shape.pauses.share_within([9.9, 10]).tolist() == [0, 1]
    bytes_held = session_shape(scenario(), held=lambda tokens: 7 * tokens)
    assert bytes_held.held_at_end == 7 * 1240
    assert session_shape(scenario(turns=1)).held_parked == 0


def test_turns_that_are_not_whole_scale_the_sums() -> None:
    two, between, three = (session_shape(scenario(turns=turns)) for turns in (2, 2.5, 3))
    assert two.held_in_flight < between.held_in_flight < three.held_in_flight
    assert two.held_parked < between.held_parked < three.held_parked
    assert between.held_in_flight / 2.5 == pytest.approx(1_075 - 200 + 20)  # mean context of N = 2.5 is 1075


def test_pauses_and_most_hits_of_a_fit(tmp_path: Path) -> None:
    """The mixture has the quantiles' form and the scenario's mean; without a fit there is the mean alone."""
    rows = [
        f"{name},{1000 - 500 * (turn == 7)},10,{400 * (turn > 0)},{(turn + 1) * 3}"
        for name in "abcd"
        for turn in range(9)
    ]
    trace = tmp_path / "t.csv"
    trace.write_text("session,isl,osl,hit_tok,think\n" + "\n".join(rows))
    fitted = fit_scenario([trace], FitOptions("s"))
    shape = session_shape(fitted)
    assert shape.pauses.mean_s == pytest.approx(16.5) == fitted.think_time_s  # 6, 9, .. 27
    assert 0.3 < float(shape.pauses.share_within(15)) < 0.7
    assert shape.most_hit_rate == pytest.approx((6 * 400 + 400 + 400) / (6 * 1000 + 2 * 500), rel=1e-5)
    unbounded = LRU.outcome(shape, CacheLoad(10, 1.0, math.inf))
    assert float(unbounded.hit_rate) == shape.most_hit_rate
    (article,) = load_scenarios(["code-agent"])
    assert session_shape(article).pauses.mean_s == article.think_time_s
    assert session_shape(article).most_hit_rate == 1


def loop(sessions: float, memory: float, begin: float) -> float:
    """Sessions whose misses take 100 s instead of 1 s."""

    def load(hit_rate: npt.NDArray[np.float64], reloads: npt.NDArray[np.float64]) -> CacheLoad:
        return CacheLoad(sessions, hit_rate * 1.0 + (1 - hit_rate) * 100.0, memory)

    pauses = PauseDistribution.log_normals(PauseMixture(log_normals=(LogNormal(weight=1, median_s=10, sigma=0.3),)))
    shape = SessionShape(10, 1_000, 900, 0, pauses, 10 * pauses.mean_s)
    found = settle_hit_rate(LRU, shape, load, begin)
    again = LRU.outcome(shape, load(found.hit_rate, found.reload_rate))
    assert float(again.hit_rate) == pytest.approx(float(found.hit_rate), abs=1e-6)  # it brings itself about
    return float(found.hit_rate)


def test_the_loop_of_hits_and_service_has_two_ends_on_the_cliff() -> None:
    """Well above and below the cliff warm and cold caches end alike; on it a cold cache goes on thrashing."""
    assert loop(20, 20 * 100, 1.0) == pytest.approx(loop(20, 20 * 100, 0.0), abs=1e-6) == pytest.approx(1, abs=0.02)
    assert loop(20, 20 * 10, 1.0) == loop(20, 20 * 10, 0.0) == 0
    warm, cold = loop(20, 20 * 92, 1.0), loop(20, 20 * 92, 0.0)
    assert (warm, cold) == pytest.approx((1, 0), abs=0.02)


def test_a_finite_number_of_sessions() -> None:
    """Many sessions: as without; one alone: its prefix stays as long as it fits."""
    shape = session_shape(scenario(), pauses=PAUSES)
    finite = LeastRecentlyUsed(finite=True)
    for memory, exact in ((0.6, 0.8), (2.5, 1.0)):
        load = CacheLoad(1e8, 2.0, memory * 1e8 * 900)
        assert float(LRU.outcome(shape, load).hit_rate) == exact
        assert float(finite.outcome(shape, load).hit_rate) == pytest.approx(exact, abs=1e-3)
    # its prefixes weigh 840 and 940, (840^2 + 940^2) / 1780 = 892.8 by what they weigh: half of one is found in half
    alone = finite.outcome(shape, CacheLoad(1, 2.0, [0, 446.4, 893]))
    assert alone.hit_rate.tolist() == pytest.approx([0, 0.5, 1], abs=1e-4)
    few = finite.outcome(shape, CacheLoad([4, 40, 400], 2.0, np.array([4, 40, 400]) * 600.0)).hit_rate
    assert abs(few[0] - 0.8) > abs(few[1] - 0.8) > abs(few[2] - 0.8)  # the more sessions, the nearer
    with pytest.raises(ValueError, match="squares"):
        finite.outcome(SHAPE, CacheLoad(1, 1.0))
