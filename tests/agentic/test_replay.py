"""Replays on a made deployment: the loop by hand, the cliff, what offload does to it, and the limits."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from tests.agentic.made_rows import WAIT_MS, known_steps
from transforms.agentic import (
    Replay,
    ReplayFigures,
    Server,
    hit_rate_at_latency,
    most_in_engine,
    predict_replay,
)
from transforms.cache import PauseDistribution

PAUSES = PauseDistribution.empirical(np.array([1.0, 5.0, 20.0, 60.0]))
REPLAY = Replay(
    sessions=10, duration_s=1e7, input_tokens=40_000, output_tokens=800, reused_fraction=0.95, turns=40, pauses=PAUSES,
    context_spread=0.3,
)  # fmt: skip
SERVER = Server(known_steps(), memory_tokens=1_000_000)
SLOTS = 1_000_000 / 40_400


def run(sessions: float, server: Server = SERVER, **changed: object) -> ReplayFigures:
    return predict_replay(replace(REPLAY, sessions=sessions, **changed), server)  # type: ignore[arg-type]


def test_one_session_by_hand() -> None:
    """It meets nobody: its turn is the wait, a prefill that misses only at the start, and its decode steps."""
    steps, duration = SERVER.steps, 1e7
    found = run(1, duration_s=duration)
    prefill = steps.prefill_ms(2000.0, 38_000.0)
    decode = 799 * steps.decode_ms(np.array([1.0]), 40_400.0, "scaled")[0]
    latency_s = (WAIT_MS + prefill + decode) / 1e3
    assert found.steady_latency_s == pytest.approx(latency_s, rel=0.03)  # others' prefills: its own, in the mean
    assert found.turns_per_s == pytest.approx(1 / (found.steady_latency_s + PAUSES.mean_s), rel=1e-4)
    assert found.output_tokens_per_s == pytest.approx(800 * found.turns_per_s)
    assert found.hit_rate == pytest.approx(0.95, abs=1e-3)


@pytest.mark.parametrize("sessions", [2, 10, 20, 40, 200])
def test_littles_law_holds_once_the_start_is_over(sessions: float) -> None:
    found = run(sessions)
    assert found.turns_per_s * (found.steady_latency_s + PAUSES.mean_s) == pytest.approx(sessions, rel=1e-3)
    assert found.in_engine <= most_in_engine(REPLAY, SERVER) * (1 + 1e-9)


def test_the_cliff_is_a_cliff() -> None:
    """Where turns in service and parked sessions pass the memory, the hit rate falls from nearly all to nothing."""
    assert most_in_engine(REPLAY, SERVER) == pytest.approx(SLOTS)
    rates = {times: run(times * SLOTS).hit_rate for times in (0.5, 0.8, 1.6, 2.0, 4.0)}
    assert rates[0.5] > 0.9
    assert rates[0.8] > 0.85
    assert rates[1.6] < 0.05
    assert max(rates[2.0], rates[4.0]) < 0.02


def test_past_the_cliff_the_replica_does_less() -> None:
    before, past = run(0.9 * SLOTS), run(2 * SLOTS)
    assert past.output_tokens_per_s < 0.9 * before.output_tokens_per_s
    assert past.steady_latency_s > 2 * before.steady_latency_s


def test_host_memory_moves_the_cliff() -> None:
    behind = replace(SERVER, host_memory_tokens=3_000_000.0, reload_ms_per_token=1e-3)
    at, beyond = run(2 * SLOTS, behind), run(8 * SLOTS, behind)
    assert at.hit_rate > 0.85
    assert at.reload_rate > 0.8
    assert beyond.hit_rate < 0.05
    assert at.output_tokens_per_s > run(2 * SLOTS).output_tokens_per_s


def test_endless_memory_finds_all_that_can_be_reused() -> None:
    endless = replace(SERVER, memory_tokens=1e12)
    assert run(200, endless).hit_rate == pytest.approx(0.95, abs=1e-3)
    # in a short run first turns find nothing
    short = run(200, endless, duration_s=600.0)
    assert short.hit_rate == pytest.approx(0.95 * (1 - short.first_turn_fraction))
    assert short.first_turn_fraction > 0.1


@pytest.mark.parametrize("sessions", [5, 20, 30, 60])
def test_more_memory_never_hurts(sessions: float) -> None:
    server = replace(SERVER, overheads="added")
    found = [run(sessions, replace(server, memory_tokens=memory)) for memory in (4e5, 8e5, 1e6, 2e6, 1e7)]
    for less, more in pairwise(found):
        assert more.hit_rate >= less.hit_rate - 1e-6
        assert more.output_tokens_per_s >= less.output_tokens_per_s * (1 - 1e-6)


def test_without_pauses_all_sessions_are_in_flight() -> None:
    found = run(10, pauses=PauseDistribution.constant(0.0))
    assert found.in_engine == pytest.approx(10, rel=1e-3)


def test_a_shared_prompt_is_found_even_when_all_else_is_gone() -> None:
    found = run(4 * SLOTS, shared_tokens=10_000.0)
    assert found.hit_rate == pytest.approx(0.25, abs=0.02)


def test_the_start_of_a_short_run_counts() -> None:
    """Sessions that begin together queue for their first prefill."""
    long, short = run(20), run(20, duration_s=300.0)
    assert short.turn_latency_s > long.turn_latency_s
    assert short.steady_latency_s == pytest.approx(long.steady_latency_s, rel=0.5)


def test_hits_at_a_latency_that_is_known() -> None:
    """At the latency that is predicted, the hits that are predicted."""
    found = run(20)
    begun = found.turns_per_s * REPLAY.duration_s + found.in_engine
    at = hit_rate_at_latency(replace(REPLAY, sessions=20), SERVER, found.steady_latency_s, begun)
    assert at == pytest.approx(found.hit_rate, abs=2e-3)


def test_overheads_that_grow_make_long_contexts_slower() -> None:
    scaled, added = (run(10, replace(SERVER, overheads=name)) for name in ("scaled", "added"))
    assert scaled.tpot_ms > added.tpot_ms


def test_weights_that_leave_no_memory_are_refused() -> None:
    with pytest.raises(ValueError, match="leave no memory"):
        run(1, replace(SERVER, memory_tokens=-1.0))
