"""A calibrated engine under agents: its steps as the replay of a run asks for them, and pilots that calibrate it.

A pilot is a measured agent run. Its hit rate and its own pauses are facts that are read from it; what it adds to
standard rows is the engine at long contexts, above all the attention of long prefills.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from schemas.arrays import Array
from transforms.agentic.replay import Replay, Server, replay_at_hit_rate
from transforms.calibration.facts import Facts
from transforms.calibration.fit import Fitted, expected_logs, free_parameters
from transforms.calibration.parameters import WIDEST_FACTOR, place, values_of
from transforms.calibration.prior import Prior
from transforms.calibration.step_model import Work, prefill_s, step_s

#: Spreads of the logarithms of what a run reports.
_SPREADS: Final = {"throughput": 0.06, "latency": 0.08, "tpot": 0.10, "ttft": 0.35}
_STEP: Final = 1e-3


@dataclass(frozen=True)
class AgentSteps:
    """The steps of an engine, in ms, as ``transforms.agentic.replay`` takes them."""

    facts: Facts
    logs: Array

    @property
    def wait_ms(self) -> float:
        """Of TTFT, outside the GPUs."""
        return float(1e3 * np.exp(self.logs[place("wait_s")]))

    @property
    def displaced(self) -> float:
        """How long a prefill keeps decoding from running, over how long it takes."""
        return 0.0 if self.facts.disaggregated else float(np.exp(self.logs[place("displaced")]))

    def prefill_ms(self, new_tokens: float, cached_tokens: float) -> float:
        """How long one prefill takes."""
        p, new = values_of(self.logs), np.array([max(new_tokens, 1.0)])
        work = Work(
            in_flight=np.ones(1), later_tokens=np.ones(1), decode_attention_s=np.zeros(1),
            products_s=self.facts.token_s * new,
            attention_s=np.asarray(self.facts.attention_s(new, np.array([cached_tokens]))),
            experts_touched=np.asarray(self.facts.touched(new) + 0.0 * new),
        )  # fmt: skip
        return float(1e3 * prefill_s(work, self.facts, p)[0])

    def decode_ms(self, batch: Array, context_tokens: float, overheads: str = "scaled") -> Array:
        """One token of so many requests."""
        p = values_of(self.logs)
        attention = np.full_like(batch, float(self.facts.decode_attention_s(context_tokens)))
        return np.asarray(1e3 * step_s(batch, attention, self.facts, p) / p["accepted_tokens"])


@dataclass(frozen=True)
class Pilot:
    """A measured agent run: what was replayed, its memory, the hit rate it had and what it reports."""

    replay: Replay
    memory_tokens: float
    hit_rate: float
    output_tokens_per_s: float
    turn_latency_s: float
    tpot_ms: float | None = None
    ttft_s: float | None = None


def fit_pilots(pilots: Sequence[Pilot], facts: Facts, prior: Prior) -> Fitted:
    """The engine that explains the pilots best, between what they say and what is expected."""
    expected, free = expected_logs(prior, facts), free_parameters(facts)
    root = np.linalg.cholesky(np.linalg.inv(prior.covariance[np.ix_(free, free)])).T

    def residuals(x: Array) -> Array:
        logs = expected.copy()
        logs[free] = x
        told = [_off(pilot, AgentSteps(facts, logs)) for pilot in pilots]
        return np.concatenate([*told, root @ (x - expected[free])])

    widest = np.log(WIDEST_FACTOR)
    start = expected[free]
    from scipy.optimize import least_squares  # takes a third of a second to import: for those who fit alone

    found = least_squares(
        residuals,
        start,
        bounds=(start - widest, start + widest),
        diff_step=np.full(len(free), _STEP),
        max_nfev=30,
        xtol=1e-4,
        ftol=1e-4,
    )
    logs = expected.copy()
    logs[free] = found.x
    covariance = np.zeros_like(prior.covariance)
    slopes = np.asarray(found.jac, np.float64)
    covariance[np.ix_(free, free)] = np.linalg.inv(slopes.T @ slopes)
    return Fitted(logs, covariance)


def _off(pilot: Pilot, steps: AgentSteps) -> Array:
    """What the replay says over what the run reports, in logarithms and spreads."""
    found = replay_at_hit_rate(pilot.replay, Server(steps, pilot.memory_tokens), pilot.hit_rate)
    pairs = [
        ("throughput", found.output_tokens_per_s, pilot.output_tokens_per_s),
        ("latency", found.turn_latency_s, pilot.turn_latency_s),
    ]
    if pilot.tpot_ms is not None:
        pairs.append(("tpot", found.tpot_ms, pilot.tpot_ms))
    return np.array([np.log(predicted / measured) / _SPREADS[name] for name, predicted, measured in pairs])
