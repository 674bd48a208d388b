"""The closed-loop LRU model against a simulated LRU cache of sessions."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.transforms.cache.session_cache import TracedSession, simulate
from transforms.cache import CacheLoad, HeldSums, LeastRecentlyUsed, PauseDistribution, SessionShape

CONCURRENT = 256
TIMES_ACTIVE = (1.2, 1.5, 2.0, 3.0, 5.0, 8.0)


def weka_sessions(table: Path, cap_s: float) -> list[TracedSession]:
    """Main streams; a service time that is missing is the median, a pause that is missing 0."""
    rows = pl.read_csv(table, infer_schema_length=None).filter(pl.col("stream") == "main").sort("trace", "k")
    rows = rows.with_columns(
        pl.col("api").fill_null(pl.col("api").median()), pl.col("think").fill_null(0.0).clip(upper_bound=cap_s)
    )
    grouped = rows.group_by("trace", maintain_order=True).agg("isl", "osl", "api", "think")
    return [TracedSession(*lists) for lists in grouped.select("isl", "osl", "api", "think").iter_rows()]


def made_sessions(count: int, seed: int) -> list[TracedSession]:
    """Sessions of 20 turns that grow, with pauses for tools and people."""
    rng = np.random.default_rng(seed)
    sessions = []
    for _ in range(count):
        inputs = 20_000 + np.cumsum(rng.integers(100, 3_000, 20))
        pauses = np.where(rng.random(20) < 0.8, rng.lognormal(1, 1, 20), rng.lognormal(4, 0.5, 20))
        service = rng.uniform(2, 10, 20)
        sessions.append(TracedSession(inputs.tolist(), [300.0] * 20, service.tolist(), pauses.tolist()))
    return sessions


def modelled(sessions: list[TracedSession]) -> tuple[SessionShape, CacheLoad, float]:
    """Shape and load of the traces, the memory still open, and what is held in flight on average."""
    held = [np.add(session.input_tokens, session.output_tokens) for session in sessions]
    service = [np.asarray(session.service_s) for session in sessions]
    pauses = [pause for session in sessions for pause in session.pause_s[1:]]
    count, turns = len(sessions), sum(map(len, held))
    in_flight = sum(float(tokens @ seconds) for tokens, seconds in zip(held, service, strict=True))
    all_held, all_service = sum(float(tokens.sum()) for tokens in held), sum(float(s.sum()) for s in service)
    shape = SessionShape(
        turns=turns / count,
        held_in_flight=all_held / count,
        held_parked=sum(float(tokens[:-1].sum()) for tokens in held) / count,
        held_at_end=sum(float(tokens[-1]) for tokens in held) / count,
        pauses=PauseDistribution.empirical(pauses, np.concatenate([tokens[:-1] for tokens in held])),
        pause_per_session_s=sum(pauses) / count,
        squares=HeldSums(
            in_flight=sum(float((tokens**2).sum()) for tokens in held) / count,
            parked=sum(float((tokens[:-1] ** 2).sum()) for tokens in held) / count,
            at_end=sum(float(tokens[-1] ** 2) for tokens in held) / count,
        ),
    )
    load = CacheLoad(CONCURRENT, all_service / turns, held_service_s=in_flight / all_held)
    return shape, load, CONCURRENT * in_flight / (all_service + sum(pauses))


def model_rates(sessions: list[TracedSession], *, finite: bool = False) -> dict[float, float]:
    """Modelled hit rate for each memory."""
    shape, load, active = modelled(sessions)
    memory = [times * active for times in TIMES_ACTIVE]
    whole_load = CacheLoad(load.sessions, load.service_s, memory, 0.0, load.held_service_s)
    found = LeastRecentlyUsed(finite).outcome(shape, whole_load)
    return dict(zip(TIMES_ACTIVE, found.hit_rate.tolist(), strict=True))


def simulated_rates(sessions: list[TracedSession], turns: int, warm_up: float, seeds: int = 1) -> dict[float, float]:
    """Simulated hit rate for each memory, mean of the seeds."""
    _, _, active = modelled(sessions)
    return {
        times: float(
            np.mean(
                [
                    simulate(sessions, CONCURRENT, times * active, turns, seed=seed, warm_up=warm_up).hit_rate
                    for seed in range(seeds)
                ]
            )
        )
        for times in TIMES_ACTIVE
    }


def test_pauses_capped_at_a_minute(shared: Path) -> None:
    sessions = weka_sessions(shared / "traces" / "weka_requests.csv.gz", 60.0)
    simulated = simulated_rates(sessions, turns=300_000, warm_up=0.5)  # shorter runs differ by 0.1: few sessions end
    assert model_rates(sessions) == pytest.approx(simulated, abs=0.05)
    assert model_rates(sessions, finite=True) == pytest.approx(simulated, abs=0.03)
    assert simulated[1.2] < 0.1  # the memories span the cliff
    assert simulated[3.0] > 0.7


@pytest.mark.slow
def test_uncapped_pauses(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """About 13 of 256 sessions are in flight: how long a prefix is kept varies, and runs differ by 0.1 on the cliff."""
    sessions = weka_sessions(shared / "traces" / "weka_requests.csv.gz", 1e9)
    simulated = simulated_rates(sessions, turns=200_000, warm_up=0.6, seeds=3)
    plain, finite = model_rates(sessions), model_rates(sessions, finite=True)
    with capsys.disabled():
        print("\nlru against simulation, pauses not capped (memory / active KV: simulated, error, error of finite):")
        for times in TIMES_ACTIVE:
            error, finite_error = plain[times] - simulated[times], finite[times] - simulated[times]
            print(f"  {times:3g}: {simulated[times]:.3f} {error:+.3f} {finite_error:+.3f}")
    assert plain == pytest.approx(simulated, abs=0.20)
    assert finite == pytest.approx(simulated, abs=0.10)
    assert plain[8.0] == pytest.approx(simulated[8.0], abs=0.02)


def test_made_sessions() -> None:
    sessions = made_sessions(200, seed=2)
    simulated = simulated_rates(sessions, turns=40_000, warm_up=0.3)
    assert model_rates(sessions) == pytest.approx(simulated, abs=0.05)
    assert model_rates(sessions, finite=True) == pytest.approx(simulated, abs=0.05)


def test_a_simulated_cache_by_hand() -> None:
    """Two sessions that never meet: all hits in a large memory, none where one session does not fit beside another."""
    sessions = [TracedSession([100.0, 110.0, 120.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 5.0, 5.0])]
    assert simulate(sessions, 2, 1e9, turns=300, seed=1).hit_rate == 1
    none = simulate(sessions, 50, 150, turns=3_000, seed=1)
    assert none.hit_rate < 0.05
    assert none.overflow_fraction > 0.9  # about ten are in flight
