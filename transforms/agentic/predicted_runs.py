"""A measured agent run as its engine lets expect it: throughput, turn latency and its band, cache hits."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from schemas.arrays import Array
from transforms.agentic.replay import ReplayFigures, Server, predict_replay, replay_at_hit_rate
from transforms.agentic.runs import AgentRun
from transforms.calibration.agents import AgentSteps
from transforms.calibration.engine import BAND_DEVIATIONS
from transforms.calibration.facts import Facts
from transforms.calibration.fit import Fitted, free_parameters
from transforms.calibration.parameters import NAMES

#: What the replay leaves of the logarithm of the turn latency (standard deviation) beside what the engine's parameters
#: do: before memory is full where a run of the deployment is known, and where none is; and beyond the wall or within
#: this fraction of it. The least with which 80 % of the evaluated runs lie in the band; of deployments that had no part
#: in choosing it 81, 76 and 72 % do (``python -m tests.bench agentic``).
LEFT: Final = 0.10
LEFT_WITHOUT_PILOT: Final = 0.20
LEFT_AT_THE_WALL: Final = 0.27
NEAR_THE_WALL: Final = 0.3
#: Parameters are moved so far, in logarithms: across the cliff of the cache a shorter step would tell nothing.
_STEP: Final = 0.2


@dataclass(frozen=True)
class PredictedRun:
    """What a run is expected to report; the latency with the range in which 80 % of evaluated errors lie."""

    output_tokens_per_s_per_gpu: float
    turn_latency_s: float
    turn_latency_low_s: float
    turn_latency_high_s: float
    cache_hit_rate: float


def predict_run(
    run: AgentRun, facts: Facts, fitted: Fitted, *, piloted: bool, hits_given: bool = False
) -> PredictedRun:
    """The run by the replay. ``piloted``: the engine was fitted to runs of its deployment; ``hits_given``: with the hit
    rate that the run had, where it states one."""
    hits = run.hit_rate if hits_given else None
    found = _replayed(run, facts, fitted.logs, hits)
    near = run.row["sessions"] > run.wall * (1.0 - NEAR_THE_WALL)
    left = LEFT_AT_THE_WALL if near else LEFT if piloted else LEFT_WITHOUT_PILOT
    deviation = np.hypot(_open(run, facts, fitted, hits, found.turn_latency_s), left)
    factor = float(np.exp(BAND_DEVIATIONS * deviation))
    return PredictedRun(
        output_tokens_per_s_per_gpu=found.output_tokens_per_s / run.row["gpus_per_replica"],
        turn_latency_s=found.turn_latency_s,
        turn_latency_low_s=found.turn_latency_s / factor,
        turn_latency_high_s=found.turn_latency_s * factor,
        cache_hit_rate=found.hit_rate,
    )


def _open(run: AgentRun, facts: Facts, fitted: Fitted, hits: float | None, latency_s: float) -> float:
    """What the engine's parameters leave open of the logarithm of the turn latency (standard deviation)."""
    free = [at for at in free_parameters(facts) if NAMES[at] != "queue"]  # the replay knows when turns come

    def slope(at: int) -> float:
        logs = fitted.logs.copy()
        logs[at] += _STEP
        return float(np.log(_replayed(run, facts, logs, hits).turn_latency_s / latency_s) / _STEP)

    slopes = np.array([slope(at) for at in free])
    return float(np.sqrt(slopes @ fitted.covariance[np.ix_(free, free)] @ slopes))


def _replayed(run: AgentRun, facts: Facts, logs: Array, hits: float | None) -> ReplayFigures:
    server = Server(AgentSteps(facts, logs), run.memory_tokens, run.host_tokens, run.reload_ms_per_token)
    return predict_replay(run.replay, server) if hits is None else replay_at_hit_rate(run.replay, server, hits)
