"""Measured deployments predicted from their other rows: one workload left out, or from one workload to another."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from pipelines.reading.catalogues import load_hardware, load_models
from pipelines.reading.inputs import find_files
from pipelines.reading.read_inputs import read_inputs
from schemas.arrays import Array
from tests.bench.learning import Example, learn_priors
from tests.bench.measured_deployments import Known
from transforms.agent_points.carriers.ratio import RatioRows
from transforms.agent_points.carriers.workload import table_workload
from transforms.agent_points.rows.columns import ROW_FIGURES
from transforms.agent_points.rows.lookups import add_private_columns
from transforms.agent_points.rows.rows import Rows
from transforms.calibration.deployments import deployments
from transforms.calibration.engine import Band, fit_engine, serve_at
from transforms.calibration.fit import Measured, expected_logs, fit
from transforms.calibration.prior import LearntPriors, Prior
from transforms.calibration.refusals import refusals
from transforms.calibration.step_model import Work

Apart = Literal["deployment", "gpu"]
Case = Literal["left out", "pair"]
Places = np.ndarray[Any, np.dtype[np.intp]]
#: Prompts that are fitted to, and those that are held against, in tokens.
SHORT: Final = 4_200
LONG: Final = 8_000
METHODS: Final = ("fitted", "step_ratio", "ratio", "prior")


@dataclass(frozen=True)
class _Priors:
    """Priors learnt from all deployments but one, at all of its versions, or from all other GPUs."""

    known: Sequence[Known]
    apart: Apart
    learnt: dict[str, LearntPriors]

    def prior(self, target: Known) -> Prior:
        held = target.key if self.apart == "deployment" else target.gpu
        if held not in self.learnt:
            others = [each for each in self.known if (each.key if self.apart == "deployment" else each.gpu) != held]
            self.learnt[held] = learn_priors([each.example for each in others])
        return self.learnt[held].prior(target.deployment.facts.traits)


def workload_errors(known: Sequence[Known], case: Case, apart: Apart, *, bars: bool = False) -> pl.DataFrame:
    """One row for each predicted row: relative errors of latency, TTFT and throughput by each of ``METHODS``.

    ``bars``: whether the figure lies in the fit's 80 % band; these take each row's own leave-one-out.
    """
    priors = _Priors(known, apart, {})
    found = [row for target in known for row in _errors(target, priors.prior(target), case, bars)]
    return pl.DataFrame(found, infer_schema_length=None)


def _errors(target: Known, prior: Prior, case: Case, bars: bool) -> Iterator[dict[str, Any]]:
    deployment = target.deployment
    rows, facts, measured = deployment.rows, deployment.facts, deployment.measured
    workload = rows.select(pl.struct("isl_tokens", "osl_tokens").rank("dense")).to_series().to_numpy()
    for wanted in np.unique(workload):
        to = np.flatnonzero(workload == wanted)
        sources = [workload != wanted] if case == "left out" else [workload == each for each in np.unique(workload)]
        for source in sources:
            of = np.flatnonzero(source & (workload != wanted))
            if not len(of):
                continue
            nobody = (np.empty(0), np.empty(0))
            engine = fit_engine(measured.take(of), facts, prior, None if bars else nobody)
            load = measured.take(to).load
            predicted = engine.predict(load)
            nearest = [_nearest(measured, of, int(each)) for each in to]
            figures = {
                "fitted": (predicted.ttft_s.value, predicted.tpot_s),
                "prior": _at(expected_logs(prior, facts), measured.take(to), target),
                "ratio": _ratio_today(target, rows[nearest], rows[to]),
            }
            own, there = (_at(expected_logs(prior, facts), measured.take(at), target) for at in (np.array(nearest), to))
            figures["step_ratio"] = (
                measured.ttft_s[nearest] * there[0] / own[0], measured.tpot_s[nearest] * there[1] / own[1],
            )  # fmt: skip
            known_load = np.isin(load.in_flight, measured.load.in_flight[of])
            for at, row in enumerate(to):
                yield {
                    "key": target.key, "gpu": target.gpu, "disaggregated": facts.disaggregated,
                    "drafted": facts.drafted, "load_known": bool(known_load[at]),
                    **_row_errors(figures, measured, int(row), at),
                    "latency_inside": _inside(predicted.latency_s, measured.latency_s[row], at),
                    "ttft_inside": _inside(predicted.ttft_s, measured.ttft_s[row], at),
                }  # fmt: skip


def long_prompt_errors(folder: Path, known: Sequence[Known]) -> Iterator[tuple[str, str, pl.DataFrame]]:
    """Each deployment of the folder: its name, rows used and refused in words, and errors of prompts of 8K and above.

    Fitted to the rows of 4K and below that are not refused; priors learnt on ``known``.
    """
    priors, models, hardware = learn_priors([each.example for each in known]), load_models(), load_hardware()
    points = read_inputs(find_files([folder]), hardware, models).serving_points
    for deployment in deployments(points, models, hardware):
        rows, facts, measured = deployment.rows, deployment.facts, deployment.measured
        short, long = (np.flatnonzero(which) for which in (rows["isl_tokens"] <= SHORT, rows["isl_tokens"] >= LONG))
        refused = {row for row, _, _ in refusals(measured, facts.disaggregated)}
        used = np.array([row for row in short if row not in refused], np.intp)
        if len(used) < 2 or not len(long):
            continue
        target = Known(facts.spec.slug, rows["hardware"][0], deployment, Example("", facts.traits, np.empty(0), 0.0))
        fitted = fit(measured.take(used), facts, priors.prior(facts.traits))
        nearest = [_nearest(measured, short, int(row)) for row in long]
        figures = {
            "fitted": _at(fitted.logs, measured.take(long), target),
            "ratio": _ratio_today(target, rows[nearest], rows[long]),
        }
        errors = [_row_errors(figures, measured, int(row), at) for at, row in enumerate(long)]
        in_short, in_long = (sum(int(row) in refused for row in part) for part in (short, long))
        lockstep = f", {in_short} refused (lockstep)" if in_short else ""
        words = f"{len(used)} rows used{lockstep} to {len(long)} rows, {in_long} of them lockstep by themselves"
        yield facts.spec.slug, words, pl.DataFrame(errors)


def _row_errors(figures: Mapping[str, tuple[Array, Array]], measured: Measured, row: int, at: int) -> dict[str, float]:
    errors = {}
    for method, (ttft, tpot) in figures.items():
        latency = ttft[at] + tpot[at] * (measured.load.output_tokens[row] - 1.0)
        errors[f"{method}_latency"] = latency / measured.latency_s[row] - 1.0
        errors[f"{method}_ttft"] = ttft[at] / measured.ttft_s[row] - 1.0
        # the same requests are in flight: throughput goes with one over the latency
        errors[f"{method}_throughput"] = measured.latency_s[row] / latency - 1.0
    return errors


def _inside(band: Band, measured: float, at: int) -> bool:
    return bool(band.low[at] <= measured <= band.high[at])


def _at(logs: Array, measured: Measured, target: Known) -> tuple[Array, Array]:
    served = serve_at(logs, Work.of_load(measured.load, target.deployment.facts), target.deployment.facts)
    return served.ttft_s, served.tpot_s


def _nearest(measured: Measured, of: Places, row: int) -> int:
    """The row of the source that a ratio carries: of the same load, or of the nearest."""
    load = measured.load
    apart = np.abs(np.log(load.in_flight[of] / load.in_flight[row]))
    lengths = np.abs(np.log(load.input_tokens[of] / load.input_tokens[row])) + np.abs(
        np.log(load.output_tokens[of] / load.output_tokens[row])
    )
    return int(of[np.argmin(apart + 0.01 * lengths)])


def _ratio_today(target: Known, source: pl.DataFrame, wanted: pl.DataFrame) -> tuple[Array, Array]:
    """TTFT and TPOT by the ratio of the article's roofline, in seconds."""
    spec = target.deployment.facts.spec
    frame = add_private_columns(source.rename(ROW_FIGURES), spec, load_hardware())
    ttft, tpot = np.empty(wanted.height), np.empty(wanted.height)
    for at, (isl, osl) in enumerate(wanted.select("isl_tokens", "osl_tokens").iter_rows()):
        carried = RatioRows(Rows(frame[at : at + 1]), spec).figures_at(table_workload(isl, osl, spec.attention))
        ttft[at], tpot[at] = (float(np.asarray(carried[name]).ravel()[0]) / 1e3 for name in ("ttft_ms", "tpot_ms"))
    return ttft, tpot
