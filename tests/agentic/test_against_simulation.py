"""The fixed point against a simulation of the same runs: before, at and beyond the cliff, long runs and short ones."""

from dataclasses import replace

import numpy as np
import pytest

from tests.agentic.replay_simulation import simulate
from tests.agentic.test_replay import REPLAY, SERVER
from transforms.agentic import predict_replay

#: The simulation's sessions have one context each and never end.
ALIKE = replace(REPLAY, context_spread=0.0, turns=1e6)


@pytest.mark.parametrize("sessions", [8, 16, 24, 30, 40, 80])  # memory holds 24.8 turns in service
def test_long_runs(sessions: int) -> None:
    replay = replace(ALIKE, sessions=sessions, duration_s=20_000.0)
    run, found = simulate(replay, SERVER, seed=1), predict_replay(replay, SERVER)
    assert found.turns_per_s == pytest.approx(run.turns_per_s, rel=0.04)
    assert found.turn_latency_s == pytest.approx(run.turn_latency_s, rel=0.06)
    assert found.hit_rate == pytest.approx(run.hit_rate, abs=0.03)


@pytest.mark.parametrize("sessions", [8, 24, 30, 80])
def test_runs_of_ten_minutes(sessions: int) -> None:
    """The start of all at once, and what is cut off at the end, weigh in them; on the cliff runs differ most."""
    replay = replace(ALIKE, sessions=sessions, duration_s=600.0)
    found, runs = (
        predict_replay(replay, SERVER),
        [simulate(replay, SERVER, seed) for seed in range(30 if sessions == 30 else 10)],
    )
    assert found.turns_per_s == pytest.approx(np.mean([run.turns_per_s for run in runs]), rel=0.05)
    assert found.turn_latency_s == pytest.approx(np.mean([run.turn_latency_s for run in runs]), rel=0.12)
    assert found.hit_rate == pytest.approx(np.mean([run.hit_rate for run in runs]), abs=0.03)
