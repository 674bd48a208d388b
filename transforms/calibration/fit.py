"""An engine fitted to measured rows: the most likely parameters, between what the rows say and what is expected."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from schemas.arrays import Array
from transforms.calibration.facts import Facts, Load
from transforms.calibration.parameters import NAMES, WIDEST_FACTOR, place, values_of
from transforms.calibration.prior import Prior
from transforms.calibration.step_model import Served, Work, excess, prefill_s, serve, served_at

#: Spreads of the logarithms of what one load gives: of its latency least, as what a scheduler takes from the first
#: token it gives to the others.
TPOT_SPREAD: Final = 0.15
TTFT_SPREAD: Final = 0.2
LATENCY_SPREAD: Final = 0.06
#: A residual of so many spreads counts in full, larger ones less (soft L1).
ROBUST_FROM: Final = 1.0
_STEP: Final = 1e-4
_EVALUATIONS: Final = 50


@dataclass(frozen=True)
class Measured:
    """Measured loads of one deployment: TTFT and TPOT in seconds, one entry a load."""

    load: Load
    ttft_s: Array
    tpot_s: Array

    @property
    def latency_s(self) -> Array:
        """``TTFT + TPOT * (OSL - 1)``."""
        return self.ttft_s + self.tpot_s * np.maximum(self.load.output_tokens - 1.0, 0.0)

    def __len__(self) -> int:
        return len(self.ttft_s)

    def take(self, which: npt.NDArray[np.bool_] | npt.NDArray[np.intp]) -> "Measured":
        """Those of the loads."""
        cached = self.load.cached_tokens
        load = Load(
            self.load.in_flight[which],
            self.load.input_tokens[which],
            self.load.output_tokens[which],
            cached[which] if isinstance(cached, np.ndarray) else cached,
        )
        return Measured(load, self.ttft_s[which], self.tpot_s[which])


@dataclass(frozen=True)
class Fitted:
    """Logarithms of the parameters, and their covariance after the rows were seen."""

    logs: Array
    covariance: Array


def free_parameters(facts: Facts) -> list[int]:
    """Places of the parameters that this deployment has: drafts are accepted only where there are any."""
    absent = set()
    if not facts.drafted:
        absent.add("accepted_tokens")
    if facts.disaggregated:
        absent.add("displaced")
    return [at for at, name in enumerate(NAMES) if name not in absent]


def expected_logs(prior: Prior, facts: Facts) -> Array:
    """The prior's means; nothing is accepted where nothing is drafted."""
    logs = prior.logs.copy()
    if not facts.drafted:
        logs[place("accepted_tokens")] = 0.0
    return logs


def fit(measured: Measured, facts: Facts, prior: Prior) -> Fitted:
    """The posterior mode and its covariance (Laplace). Rows that are lockstep must have been refused before."""
    expected, free = expected_logs(prior, facts), free_parameters(facts)
    root = np.linalg.cholesky(np.linalg.inv(prior.covariance[np.ix_(free, free)])).T
    work = Work.of_load(measured.load, facts)
    log_ttft, log_tpot = np.log(measured.ttft_s), np.log(measured.tpot_s)
    log_latency = np.log(measured.ttft_s + measured.tpot_s * work.later_tokens)
    rows = 3 * len(log_ttft)

    def full(x: Array) -> Array:
        logs = expected.copy()
        logs[free] = x
        return logs

    def residuals(x: Array) -> Array:
        served = serve(work, facts, values_of(full(x)))
        off_latency = np.log(served.ttft_s + served.tpot_s * work.later_tokens) - log_latency
        of_rows = (
            (np.log(served.tpot_s) - log_tpot) / TPOT_SPREAD,
            (np.log(served.ttft_s) - log_ttft) / TTFT_SPREAD,
            off_latency / LATENCY_SPREAD,
        )
        return np.concatenate([*of_rows, root @ (x - expected[free])])

    def jacobian(x: Array) -> Array:
        ttft, tpot, served = sensitivities(full(x), work, facts, free)
        first = (served.ttft_s / (served.ttft_s + served.tpot_s * work.later_tokens))[:, None]
        latency = first * ttft + (1.0 - first) * tpot
        return np.concatenate([tpot / TPOT_SPREAD, ttft / TTFT_SPREAD, latency / LATENCY_SPREAD, root])

    def robust(squares: Array) -> Array:
        """Soft L1 of the rows; the prior counts in full."""
        grown = np.sqrt(1.0 + squares)
        rho = np.stack([2.0 * (grown - 1.0), 1.0 / grown, -0.5 / grown**3])
        rho[:, rows:] = squares[rows:], np.ones_like(squares[rows:]), np.zeros_like(squares[rows:])
        return rho

    widest = np.log(WIDEST_FACTOR)
    start = expected[free]
    from scipy.optimize import least_squares  # takes a third of a second to import: for those who fit alone

    found = least_squares(
        residuals, start, jac=jacobian,
        loss=robust,  # type: ignore[arg-type] # the stub wants one row of figures, SciPy takes three
        f_scale=ROBUST_FROM, max_nfev=_EVALUATIONS,
        bounds=(start - widest, start + widest), x_scale=np.sqrt(np.diag(prior.covariance))[free], xtol=1e-5, ftol=1e-5,
    )  # fmt: skip
    slopes = jacobian(found.x)
    weights = np.ones(len(slopes))
    weights[:rows] = 1.0 / np.sqrt(1.0 + (residuals(found.x)[:rows] / ROBUST_FROM) ** 2)
    covariance = np.zeros_like(prior.covariance)
    covariance[np.ix_(free, free)] = np.linalg.inv((slopes * weights[:, None]).T @ slopes)
    return Fitted(full(found.x), covariance)


def sensitivities(logs: Array, work: Work, facts: Facts, free: list[int]) -> tuple[Array, Array, Served]:
    """How log TTFT and log TPOT of each load change with each parameter: a row a load, a column a parameter.

    The load that solves the closed loop is found once; how it moves follows from the equation that it solves.
    """
    served = serve(work, facts, values_of(logs))
    moves = np.zeros((2 * len(free), len(NAMES)))
    for column, at in enumerate(free):
        moves[2 * column, at], moves[2 * column + 1, at] = _STEP, -_STEP
    by_parameter = _log_figures(served.busy, logs + moves, work, facts)
    by_busy = _log_figures(served.busy * np.exp([[_STEP], [-_STEP]]), logs[None, :], work, facts)
    d_parameter = [(figure[0::2] - figure[1::2]) / (2 * _STEP) for figure in by_parameter]
    d_busy = [(figure[0] - figure[1]) / (2 * _STEP) for figure in by_busy]
    moved = np.where(np.abs(by_busy[2][0]) < 1e-2, -d_parameter[2] / d_busy[2], 0.0)
    ttft, tpot = (d_parameter[of] + d_busy[of] * moved for of in (0, 1))
    return ttft.T, tpot.T, served


def _log_figures(busy: Array, logs: Array, work: Work, facts: Facts) -> tuple[Array, Array, Array]:
    p = values_of(logs)
    prefill = prefill_s(work, facts, p)
    served = served_at(busy, prefill, work, facts, p)
    figures = np.log(served.ttft_s), np.log(served.tpot_s), excess(busy, prefill, work, facts, p)
    ttft, tpot, off = np.broadcast_arrays(*figures)
    return ttft, tpot, off
