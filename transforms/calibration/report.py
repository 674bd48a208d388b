"""What a calibration says: parameters in words, what its rows cannot tell, and which load tests would tell most."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from schemas.arrays import Array
from schemas.engines import CalibratedEngine, LeaveOneOut, RefusedRow, SeenRange
from schemas.scenarios import Scenario
from transforms.calibration.deployments import Calibration
from transforms.calibration.engine import LATENCY_LEFT, TTFT_LEFT, Engine, Seen
from transforms.calibration.facts import Facts, Load
from transforms.calibration.fit import (
    LATENCY_SPREAD,
    TPOT_SPREAD,
    TTFT_SPREAD,
    Fitted,
    free_parameters,
    sensitivities,
)
from transforms.calibration.parameters import NAMES, in_words, values_of
from transforms.calibration.prior import Prior
from transforms.calibration.refusals import would_lockstep
from transforms.calibration.step_model import Work

#: Load tests that may be proposed: prompt and output tokens, and requests in flight.
_WORKLOADS: Final = ((1_000, 1_000), (8_000, 1_000), (32_000, 500), (100_000, 200))
_IN_FLIGHT: Final = (1, 4, 16, 64, 256)
_TURNS_IN_FLIGHT: Final = (4.0, 32.0)
_TESTS: Final = 3
#: A parameter whose spread is still so much of the prior's is not told by the rows.
_UNTOLD: Final = 0.8
#: Attention of a prefill is told from its products by prompts of so many tokens.
_LONG_PROMPT: Final = 16_000


@dataclass(frozen=True)
class LoadTest:
    """A load test that would tell more: requests of these lengths, so many in flight."""

    input_tokens: int
    output_tokens: int
    in_flight: int

    def command(self, model: str) -> str:
        """The command of vLLM's load generator; prompts are random, so that none is cached."""
        return (
            f"vllm bench serve --model {shlex.quote(model)} --dataset-name random "
            f"--random-input-len {self.input_tokens} --random-output-len {self.output_tokens} --ignore-eos "
            f"--max-concurrency {self.in_flight} --num-prompts {max(10 * self.in_flight, 20)} --save-result"
        )


def turns_of(scenarios: Sequence[Scenario]) -> Load:
    """The mean turn of each scenario, on a hit and on a miss, at few and at many in flight."""
    rows = [
        (in_flight, each.mean_context_tokens, each.output_tokens_per_turn, cached)
        for each in scenarios
        for in_flight in _TURNS_IN_FLIGHT
        for cached in (max(each.mean_context_tokens - each.new_tokens_per_turn, 0.0), 0.0)
    ]
    return Load(*(np.array(column, np.float64) for column in zip(*rows, strict=True)))


def next_load_tests(engine: Engine, turns: Load) -> list[LoadTest]:
    """The three tests after which the latency of these turns is known best, the one that tells most first.

    Linear and Gaussian: a test's row adds what it says of the parameters to the posterior's precision.
    """
    facts, logs = engine.facts, engine.fitted.logs
    free = free_parameters(facts)
    precision = np.linalg.inv(engine.fitted.covariance[np.ix_(free, free)])
    wanted = _latency_slopes(logs, Work.of_load(turns, facts), facts, free)
    candidates = _candidates(facts, logs)
    told = [_told_by(test, facts, logs, free) for test in candidates]
    chosen: list[LoadTest] = []
    while candidates and len(chosen) < _TESTS:
        left = [float(np.einsum("ij,jk,ik->", wanted, np.linalg.inv(precision + each), wanted)) for each in told]
        best = int(np.argmin(left))
        precision = precision + told.pop(best)
        chosen.append(candidates.pop(best))
    return chosen


def _candidates(facts: Facts, logs: Array) -> list[LoadTest]:
    """Tests within the model's context that would not run in lockstep."""
    longest = facts.spec.max_context_tokens or np.inf
    tests = [
        LoadTest(isl, osl, load) for isl, osl in _WORKLOADS for load in _IN_FLIGHT if isl + osl <= longest
    ]  # fmt: skip
    p = values_of(logs)
    return [test for test in tests if not would_lockstep(Work.of_load(_load(test), facts), facts, p)[0]]


def _load(test: LoadTest) -> Load:
    return Load(*(np.array([float(each)]) for each in (test.in_flight, test.input_tokens, test.output_tokens)))


def _told_by(test: LoadTest, facts: Facts, logs: Array, free: list[int]) -> Array:
    work = Work.of_load(_load(test), facts)
    ttft, tpot, _ = sensitivities(logs, work, facts, free)
    latency = _latency_slopes(logs, work, facts, free)
    rows = np.concatenate([ttft / TTFT_SPREAD, tpot / TPOT_SPREAD, latency / LATENCY_SPREAD])
    return np.asarray(rows.T @ rows)


def _latency_slopes(logs: Array, work: Work, facts: Facts, free: list[int]) -> Array:
    ttft, tpot, served = sensitivities(logs, work, facts, free)
    first = (served.ttft_s / (served.ttft_s + served.tpot_s * work.later_tokens))[:, None]
    return np.asarray(first * ttft + (1.0 - first) * tpot)


def untold(engine: Engine, prior: Prior) -> list[str]:
    """What the rows do not tell, in sentences."""
    free = free_parameters(engine.facts)
    spread = np.sqrt(np.diag(engine.fitted.covariance))
    before = np.sqrt(np.diag(prior.covariance))
    names = [NAMES[at] for at in free if spread[at] > _UNTOLD * before[at]]
    said = []
    if engine.seen.longest_context < _LONG_PROMPT:
        names = [name for name in names if name != "attention_fraction"]
        said.append(
            f"attention at long contexts: the longest context measured has {engine.seen.longest_context:,.0f} tokens; "
            "one cold prompt of 32,000 tokens or more would tell"
        )
    if names:
        said.append(f"{', '.join(names)}: the rows hardly move them from what is expected of such engines")
    return said


def in_schema(calibration: Calibration, engine: Engine, prior: Prior, turns: Load) -> CalibratedEngine:
    """The engine as ``engines.yaml`` holds it."""
    model = engine.facts.spec.checkpoint or engine.facts.spec.name
    latency, ttft = (np.array(errors) for errors in (calibration.latency_errors, calibration.ttft_errors))
    seen = engine.seen
    return CalibratedEngine(
        deployment=calibration.deployment.identity,
        rows_used=engine.rows,
        parameters={name: float(np.exp(log)) for name, log in zip(NAMES, engine.fitted.logs.tolist(), strict=True)},
        meaning=tuple(in_words(engine.fitted.logs, free_parameters(engine.facts))),
        covariance=tuple(tuple(row) for row in engine.fitted.covariance.tolist()),
        latency_left=engine.latency_left,
        ttft_left=engine.ttft_left,
        seen=SeenRange(
            least_in_flight=seen.least_in_flight, most_in_flight=seen.most_in_flight,
            shortest_context_tokens=seen.shortest_context, longest_context_tokens=seen.longest_context,
        ),
        leave_one_out=LeaveOneOut(
            turn_latency=_mean_error(latency), ttft=_mean_error(ttft), throughput=_mean_error(-latency)
        ),
        cannot_tell=tuple(untold(engine, prior)),
        next_tests=tuple(test.command(model) for test in next_load_tests(engine, turns)),
        refused=tuple(
            RefusedRow(source_file=row.source_file, source_row=row.source_row, reason=row.reason, detail=row.detail)
            for row in calibration.refused
        ),
    )  # fmt: skip


def piloted_in_schema(
    identity: dict[str, Any],
    facts: Facts,
    fitted: Fitted,
    standard: Engine | None,
    pilots: Sequence[str],
    *,
    in_flight: tuple[float, float],
    contexts: tuple[float, float],
) -> CalibratedEngine:
    """An engine that was fitted to agent runs, after the standard rows of the deployment where it has any."""
    loads, lengths = list(in_flight), list(contexts)
    if standard is not None:
        loads += [standard.seen.least_in_flight, standard.seen.most_in_flight]
        lengths += [standard.seen.shortest_context, standard.seen.longest_context]
    return CalibratedEngine(
        deployment=identity,
        rows_used=0 if standard is None else standard.rows,
        pilots=tuple(pilots),
        parameters={name: float(np.exp(log)) for name, log in zip(NAMES, fitted.logs.tolist(), strict=True)},
        meaning=tuple(in_words(fitted.logs, free_parameters(facts))),
        covariance=tuple(tuple(row) for row in fitted.covariance.tolist()),
        latency_left=LATENCY_LEFT if standard is None else standard.latency_left,
        ttft_left=TTFT_LEFT if standard is None else standard.ttft_left,
        seen=SeenRange(
            least_in_flight=min(loads), most_in_flight=max(loads),
            shortest_context_tokens=min(lengths), longest_context_tokens=max(lengths),
        ),
        leave_one_out=LeaveOneOut(turn_latency=None, ttft=None, throughput=None),
    )  # fmt: skip


def engine_of(said: CalibratedEngine, facts: Facts) -> Engine:
    """The engine that a file holds, on the facts of its deployment."""
    seen = said.seen
    return Engine(
        facts,
        Fitted(np.log([said.parameters[name] for name in NAMES]), np.array(said.covariance)),
        Seen(seen.least_in_flight, seen.most_in_flight, seen.shortest_context_tokens, seen.longest_context_tokens),
        said.rows_used,
        said.latency_left,
        said.ttft_left,
    )


def _mean_error(logs: Array) -> float | None:
    """Mean absolute relative error of errors in logarithms."""
    return float(np.abs(np.expm1(logs)).mean()) if len(logs) else None
