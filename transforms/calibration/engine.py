"""A calibrated engine: what it serves at any load, with the range in which 80 % of evaluated errors lie.

    engine = fit_engine(measured, facts, prior)
    engine.predict(Load(in_flight, input_tokens, output_tokens)).latency_s.value

All arguments are arrays of one entry a load.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from schemas.arrays import Array
from transforms.calibration.facts import Facts, Load
from transforms.calibration.fit import Fitted, Measured, expected_logs, fit, free_parameters, sensitivities
from transforms.calibration.parameters import values_of
from transforms.calibration.prior import Prior
from transforms.calibration.step_model import Served, Work, serve

#: 80 % of a normal distribution lie within so many standard deviations.
BAND_DEVIATIONS: Final = 1.2816
#: What is left of the logarithm of a figure after a fit, at loads that it has not seen, where a deployment's own rows
#: do not say: medians over measured deployments with one workload left out. They count as so many rows.
LATENCY_LEFT: Final = 0.065
TTFT_LEFT: Final = 0.35
ROWS_OF_OTHERS: Final = 4.0
#: A row is no further off than this, in logarithms, where what is left is measured.
FURTHEST: Final = 0.7
#: The model itself errs further from what was measured: so much for each factor e beyond the loads or the contexts.
BEYOND_LOADS: Final = 0.05
BEYOND_CONTEXTS: Final = 0.05


@dataclass(frozen=True)
class Band:
    """A figure and the range in which 80 % of evaluated errors lie."""

    value: Array
    low: Array
    high: Array

    @classmethod
    def around(cls, value: Array, deviation: Array) -> "Band":
        """``deviation``: standard deviation of the logarithm."""
        factor = np.exp(BAND_DEVIATIONS * deviation)
        return cls(value, value / factor, value * factor)


@dataclass(frozen=True)
class Prediction:
    """How loads are served: seconds, and requests a second of the replica."""

    served: Served
    ttft_s: Band
    tpot_s: Array
    latency_s: Band
    requests_per_s: Band


@dataclass(frozen=True)
class Seen:
    """The range of what an engine was fitted to: requests in flight, and contexts (prompt and half of the output)."""

    least_in_flight: float
    most_in_flight: float
    shortest_context: float
    longest_context: float

    @classmethod
    def of_load(cls, load: Load) -> "Seen":
        """The ends of some loads."""
        context = load.input_tokens + load.output_tokens / 2
        ends = (load.in_flight.min(), load.in_flight.max(), context.min(), context.max())
        return cls(*(float(each) for each in ends))


@dataclass(frozen=True)
class Engine:
    """An engine fitted to a deployment's rows; ``*_left`` is what fits leave of the figure, in logarithms."""

    facts: Facts
    fitted: Fitted
    seen: Seen
    rows: int
    latency_left: float
    ttft_left: float

    def predict(self, load: Load) -> Prediction:
        """Requests that are alike, in a closed loop without pauses."""
        return self.predict_work(
            Work.of_load(load, self.facts), load.input_tokens + load.output_tokens / 2, load.output_tokens
        )

    def predict_work(self, work: Work, context_tokens: Array | float, output_tokens: Array | float) -> Prediction:
        """Any work, as of turns of agents; ``context_tokens`` is the context in the middle of an answer."""
        free = free_parameters(self.facts)
        by_ttft, by_tpot, served = sensitivities(self.fitted.logs, work, self.facts, free)
        latency = served.latency_s(np.asarray(output_tokens, np.float64))
        first = (served.ttft_s / latency)[:, None]
        by_latency = first * by_ttft + (1.0 - first) * by_tpot
        covariance = self.fitted.covariance[np.ix_(free, free)]
        beyond = self._beyond(work.in_flight, np.asarray(context_tokens, np.float64))

        def deviation(slopes: Array, left: float) -> Array:
            of_parameters = np.einsum("ij,jk,ik->i", slopes, covariance, slopes)
            return np.asarray(np.sqrt(of_parameters + left**2 + beyond**2))

        of_latency = deviation(by_latency, self.latency_left)
        return Prediction(
            served,
            Band.around(served.ttft_s, deviation(by_ttft, self.ttft_left)),
            served.tpot_s,
            Band.around(latency, of_latency),
            Band.around(served.requests_per_s, of_latency),
        )

    def _beyond(self, in_flight: Array, context: Array) -> Array:
        """How far loads and contexts lie beyond those seen, as an error of the model."""

        def outside(values: Array, low: float, high: float) -> Array:
            return np.asarray(np.maximum(np.log(values / high), 0.0) + np.maximum(np.log(low / values), 0.0))

        seen = self.seen
        loads = outside(in_flight, seen.least_in_flight, seen.most_in_flight)
        contexts = outside(context, seen.shortest_context, seen.longest_context)
        return np.hypot(BEYOND_LOADS * loads, BEYOND_CONTEXTS * contexts)


def fit_engine(measured: Measured, facts: Facts, prior: Prior, errors: tuple[Array, Array] | None = None) -> Engine:
    """The engine of some rows of one deployment; what fits leave is measured by leaving each row out (``errors``)."""
    latency, ttft = left_out_errors(measured, facts, prior) if errors is None else errors
    return Engine(
        facts, fit(measured, facts, prior), Seen.of_load(measured.load), len(measured),
        _left(latency, LATENCY_LEFT), _left(ttft, TTFT_LEFT),
    )  # fmt: skip


def prior_engine(facts: Facts, prior: Prior, left: float = 0.2) -> Engine:
    """What is expected of a deployment without a row of its own."""
    free = free_parameters(facts)
    covariance = np.zeros_like(prior.covariance)
    covariance[np.ix_(free, free)] = prior.covariance[np.ix_(free, free)]
    anything = Seen(1e-9, 1e18, 1e-9, 1e18)
    return Engine(facts, Fitted(expected_logs(prior, facts), covariance), anything, 0, left, 2 * left)


def left_out_errors(measured: Measured, facts: Facts, prior: Prior) -> tuple[Array, Array]:
    """Logs of predicted over measured latency and TTFT of each row, fitted to the others; none of a single row."""
    rows = len(measured)
    if rows < 2:
        return np.empty(0), np.empty(0)
    latency, ttft = np.empty(rows), np.empty(rows)
    for row in range(rows):
        others = np.arange(rows) != row
        fitted = fit(measured.take(others), facts, prior)
        one = measured.take(~others)
        served = serve_at(fitted.logs, Work.of_load(one.load, facts), facts)
        latency[row] = np.log(served.latency_s(one.load.output_tokens) / one.latency_s)[0]
        ttft[row] = np.log(served.ttft_s / one.ttft_s)[0]
    return latency, ttft


def serve_at(logs: Array, work: Work, facts: Facts) -> Served:
    """The step model at these parameters."""
    return serve(work, facts, values_of(logs))


def _left(errors: Array, of_others: float) -> float:
    squares = np.clip(errors, -FURTHEST, FURTHEST) ** 2
    return float(np.sqrt((ROWS_OF_OTHERS * of_others**2 + squares.sum()) / (ROWS_OF_OTHERS + len(errors))))
