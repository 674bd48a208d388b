"""A long replay tends to the steady state that builds publish: one engine, one closed loop."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from pipelines.building.build_inputs import calibrate_points, engine_library
from pipelines.reading.catalogues import load_hardware, load_models, load_scenarios
from schemas.scenarios import Scenario
from tests.calibration.made import facts_of, grid, measured, parameters, points
from transforms.agent_points.carry import Setting, carry_points
from transforms.agentic import Replay, Server, replay_at_hit_rate
from transforms.cache import PauseDistribution
from transforms.calibration.agents import AgentSteps
from transforms.calibration.known_engines import Engines
from transforms.equations.shared_engine import prefill_wait

LOAD = grid((1_000, 1_000), (8_000, 1_000), loads=(2, 8, 32))
LOGS = parameters(step_s=0.009, prefill_fraction=0.35, kv_read_fraction=0.6)
HIT_RATE = 0.9
#: All turns are alike but for hits and misses: 20,000 tokens, of which a hit computes 800.
SCENARIO = Scenario(
    slug="alike", turns=1, think_time_s=6.0, initial_prompt_tokens=20_000, new_tokens_per_turn=0,
    output_tokens_per_turn=300, first_turn_new_tokens=800, cache={"hit_rate": HIT_RATE},  # type: ignore[arg-type]
)  # fmt: skip


def rows() -> pl.DataFrame:
    return points(LOAD, measured(facts_of(), LOGS, LOAD)).with_columns(
        point_id=pl.format("row-{}", "source_row"),
        batch_per_rank="concurrency_reported",
        configuration_id=pl.lit("made"),
    )


def engines() -> Engines:
    file = calibrate_points(rows(), load_hardware(), load_models(), load_scenarios())
    return engine_library(file, load_hardware(), load_models())


def test_a_long_replay_is_the_steady_state_of_builds() -> None:
    """The same engine at the same sessions and hit rate: latency and throughput within 1 %, TTFT within 3 %."""
    library, spec = engines(), load_models().get("llama-3-1-70b")
    found = carry_points(rows(), Setting(SCENARIO, spec, load_hardware(), engines=library))
    found = found.filter(pl.col("interpolated").not_() & pl.col("unmeasured_load").is_null())
    assert found.height >= 3
    engine = library.of(rows().head(1), spec)
    assert engine is not None
    replay = Replay(
        sessions=1.0, duration_s=1e8, input_tokens=20_000.0, output_tokens=300.0, reused_fraction=0.96, turns=1.0,
        pauses=PauseDistribution.constant(6.0),
    )  # fmt: skip
    server = Server(AgentSteps(engine.facts, engine.fitted.logs), memory_tokens=1e12)
    for row in found.iter_rows(named=True):
        steady = replay_at_hit_rate(replace(replay, sessions=row["sessions"]), server, HIT_RATE * 0.96)
        assert steady.turn_latency_s == pytest.approx(row["turn_latency_ms"] / 1e3, rel=0.01)
        assert steady.tpot_ms == pytest.approx(row["tpot_ms"], rel=0.01)
        assert steady.turns_per_s == pytest.approx(row["turns_per_s"], rel=0.01)
        ttft_ms = 1e3 * steady.turn_latency_s - steady.tpot_ms * 299
        assert ttft_ms == pytest.approx(row["ttft_ms"], rel=0.03)


def test_ttft_of_builds_is_that_of_a_single_server() -> None:
    """What TTFT has beside the wait outside the GPUs and the mean prefill is Pollaczek and Khinchine's wait."""
    library, spec = engines(), load_models().get("llama-3-1-70b")
    found = carry_points(rows(), Setting(SCENARIO, spec, load_hardware(), engines=library))
    engine = library.of(rows().head(1), spec)
    assert engine is not None
    steps = AgentSteps(engine.facts, engine.fitted.logs)
    hit, miss = steps.prefill_ms(800.0, 19_200.0), steps.prefill_ms(20_000.0, 0.0)
    mean, square = HIT_RATE * hit + 0.1 * miss, HIT_RATE * hit**2 + 0.1 * miss**2
    row = found.filter(pl.col("concurrency_reported") == 8).row(0, named=True)
    busy = row["serving_requests_per_s"] * mean / 1e3
    wait = prefill_wait(busy, mean, square / mean**2, np.inf)
    assert row["ttft_ms"] == pytest.approx(steps.wait_ms + mean + float(wait), rel=1e-3)
