"""Rows of load generators, which state no scheduler: carried by the step model of their deployment (model.md 5.2).

Where the deployment is calibrated its engine says what the turns take (``CalibratedRows``). Elsewhere the row is
carried by the ratio of what an engine of its kind would take at both workloads (``StepModelRatio``): overheads, which
do not grow with the work, stay as they are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import polars as pl

from schemas.arrays import Array, Flags, Indices
from schemas.models import ModelSpec
from transforms.agent_points.carriers.workload import Prefill, Workload
from transforms.agent_points.rows.columns import ROW_FIGURES, turn_figures
from transforms.agent_points.rows.rows import Rows
from transforms.calibration.deployments import in_flight_requests
from transforms.calibration.engine import BAND_DEVIATIONS, Band, Engine
from transforms.calibration.facts import Load
from transforms.calibration.known_engines import Engines
from transforms.calibration.parameters import values_of
from transforms.calibration.refusals import prefills_outlast_decodes
from transforms.calibration.step_model import Served, Work, prefill_s, serve
from transforms.configurations import CONFIGURATION_ID
from transforms.numbers import Number


@dataclass(frozen=True)
class EngineRows:
    """Rows and their engines: ``engine_number`` is the place of each row's engine among ``engines``."""

    rows: Rows
    engines: Sequence[Engine]
    engine_number: Indices

    def take(self, which: Flags | Indices) -> "EngineRows":
        """Those of the rows."""
        return EngineRows(self.rows.take(which), self.engines, self.engine_number[which])

    @cached_property
    def in_flight(self) -> Array:
        """Requests in flight of a replica: the load generator's slots, else throughput times latency."""
        reported = self.rows["concurrency_reported"]
        return np.asarray(np.where(np.isfinite(reported), reported, self.rows["in_flight_requests"]))

    def served(self, work_of: Callable[[Engine, Indices], Work]) -> Served:
        """How each row's engine serves some work, which may differ from row to row."""
        figures = {name: np.full(len(self.rows), np.nan) for name in Served.__dataclass_fields__}
        for engine, places in self.by_engine():
            served = serve(work_of(engine, places), engine.facts, values_of(engine.fitted.logs))
            for name, values in figures.items():
                values[places] = getattr(served, name)
        return Served(**figures)

    def by_engine(self) -> list[tuple[Engine, Indices]]:
        """Each engine with the places of its rows."""
        return [(self.engines[number], np.flatnonzero(self.engine_number == number))
                for number in np.unique(self.engine_number)]  # fmt: skip

    def served_turns(self, workload: Workload) -> Served:
        """How the mean turn is served at each row's load, nobody pausing."""
        return self.served(lambda engine, places: _work(engine, self.in_flight[places], workload, places))

    def seconds_of_prefill(self) -> tuple[Array, Array]:
        """What a new token of a prefill takes, and a FLOP of its attention, in seconds."""
        token, flop = np.empty(len(self.rows)), np.empty(len(self.rows))
        for engine, places in self.by_engine():
            p, facts = values_of(engine.fitted.logs), engine.facts
            token[places] = facts.token_s / p["prefill_fraction"]
            flop[places] = facts.attention_flop_s / p["attention_fraction"]
        return token, flop

    def ttft_of_turns(self, mean_s: Array, workload: Workload) -> tuple[Array, Array, Array]:
        """TTFT of the mean, first and last turn in seconds: a turn's own prefill differs from the mean one."""
        token, flop = self.seconds_of_prefill()

        def of_turn(prefill: Prefill) -> Array:
            if prefill is workload.mean:
                return mean_s
            new = prefill.new_tokens - workload.mean.new_tokens
            return np.asarray(mean_s + token * new + flop * (prefill.attention_flops - workload.mean.attention_flops))

        return of_turn(workload.mean), of_turn(workload.first), of_turn(workload.last)


@dataclass(frozen=True)
class CalibratedRows:
    """Rows of calibrated deployments: the engine says what turns take, whatever the workload of the row."""

    method: ClassVar[str] = "calibrated"
    of: EngineRows

    def take(self, which: Flags | Indices) -> "CalibratedRows":
        """Those of the rows."""
        return CalibratedRows(self.of.take(which))

    def figures_at(self, workload: Workload) -> dict[str, Number]:
        """Turn figures and ``serving_requests_per_s`` at the requests in flight of each row."""
        served = self.of.served_turns(workload)
        mean, first, last = (1e3 * ttft for ttft in self.of.ttft_of_turns(served.ttft_s, workload))
        turn = turn_figures(mean, first, last, 1e3 * served.tpot_s, workload.output_tokens)
        return {**turn, "serving_requests_per_s": served.requests_per_s}

    def prefill_slopes(self, light: Prefill, heavy: Prefill) -> tuple[Number, Number]:
        """As the engine's share of peak has it."""
        token, flop = self.of.seconds_of_prefill()
        return 1e3 * token, 1e3 * flop

    def deviations(self, workload: Workload) -> tuple[Array, Array]:
        """Standard deviations of the logarithm of turn latency and of TTFT: the posterior's, and what fits leave."""
        latency, ttft = np.empty(len(self.of.rows)), np.empty(len(self.of.rows))
        for engine, places in self.of.by_engine():
            work = _work(engine, self.of.in_flight[places], workload, places)
            predicted = engine.predict_work(work, workload.decode_context_tokens, workload.output_tokens)
            latency[places], ttft[places] = _deviation(predicted.latency_s), _deviation(predicted.ttft_s)
        return latency, ttft


@dataclass(frozen=True)
class StepModelRatio:
    """Rows that no engine was fitted to: times the ratio of what an engine of their kind takes at both workloads."""

    method: ClassVar[str] = "ratio"
    of: EngineRows

    def take(self, which: Flags | Indices) -> "StepModelRatio":
        """Those of the rows."""
        return StepModelRatio(self.of.take(which))

    def figures_at(self, workload: Workload) -> dict[str, Number]:
        """TTFT and TPOT times the ratio; the requests in flight stay, so throughput goes with 1/R."""
        rows, served = self.of.rows, self.of.served_turns(workload)
        scale = self._ttft_over_model
        mean, first, last = (1e3 * scale * ttft for ttft in self.of.ttft_of_turns(served.ttft_s, workload))
        tpot = rows["row_tpot_ms"] * served.tpot_s / self._own.tpot_s
        turn = turn_figures(mean, first, last, tpot, workload.output_tokens)
        rate = rows["row_requests_per_s"] * rows["row_latency_ms"] / turn["turn_latency_ms"]
        return {**turn, "serving_requests_per_s": rate}

    def prefill_slopes(self, light: Prefill, heavy: Prefill) -> tuple[Number, Number]:
        """The engine's, as much larger or smaller as the row's TTFT is."""
        token, flop = self.of.seconds_of_prefill()
        return 1e3 * token * self._ttft_over_model, 1e3 * flop * self._ttft_over_model

    @cached_property
    def _own(self) -> Served:
        """What the engine takes at the rows' own workload."""
        rows = self.of.rows

        def own_work(engine: Engine, places: Indices) -> Work:
            lengths = (rows[name][places] for name in ("isl_tokens", "osl_tokens", "prefix_tokens"))
            return Work.of_load(Load(self.of.in_flight[places], *lengths), engine.facts)

        return self.of.served(own_work)

    @cached_property
    def _ttft_over_model(self) -> Array:
        return np.asarray(self.of.rows["row_ttft_ms"] / (1e3 * self._own.ttft_s))


@dataclass(frozen=True)
class FoundEngines:
    """The engines of some rows: places of rows whose engine was fitted, is expected, or is not to be had (``none``).

    ``number``: the place of each row's engine among ``engines``.
    """

    engines: Sequence[Engine]
    number: Indices
    fitted: Indices
    expected: Indices
    none: Indices


def engine_rows(rows: Rows, spec: ModelSpec, engines: Engines) -> FoundEngines:
    """The engine of each row that states no scheduler: the one fitted to its deployment, else the expected one.

    An expected engine carries aggregated rows of load generators that are not in lockstep. AIConfigurator's rows have
    none: its prices follow other rules.
    """
    of_deployments: list[Engine] = []
    number = np.full(len(rows), -1, np.intp)
    is_fitted = np.zeros(len(rows), np.bool_)
    facts = rows.select(["source", "serving_mode", "lockstep", CONFIGURATION_ID])
    measured = (facts["source"] != "aiconfigurator").to_numpy()
    may_be_expected = (facts["serving_mode"] == "agg").to_numpy() & ~facts["lockstep"].to_numpy()
    configuration = facts[CONFIGURATION_ID].to_numpy()
    for of in np.unique(configuration[measured]):
        here = (configuration == of) & measured
        row = rows.frame[int(np.flatnonzero(here)[0])]
        fitted = engines.of(row, spec)
        places = here if fitted is not None else here & may_be_expected
        if not places.any():
            continue
        number[places] = len(of_deployments)
        is_fitted |= places & (fitted is not None)
        of_deployments.append(fitted if fitted is not None else engines.expected_of(row, spec))
    has = number >= 0
    return FoundEngines(
        of_deployments, number, np.flatnonzero(is_fitted), np.flatnonzero(has & ~is_fitted), np.flatnonzero(~has)
    )


def is_lockstep() -> pl.Expr:
    """Whether an aggregated row's requests prefill together and then decode together: ``N * P > OSL * step``.

    In lockstep a request waits for half of all prefills, ``TTFT = (N + 1) / 2 * P``, and decodes undisturbed. Rows of
    tools that state their scheduler, and of the roofline, never are.
    """
    c = pl.col
    later_tokens = (c("osl_tokens").cast(pl.Float64) - 1.0).clip(0.0)
    ttft, tpot = c(ROW_FIGURES["ttft_ms"]), c(ROW_FIGURES["tpot_ms"])
    outlast: pl.Expr = prefills_outlast_decodes(in_flight_requests(), ttft, tpot, later_tokens)
    measured = ~c("source").is_in(["aiconfigurator", "roofline"]) & (c("serving_mode") == "agg")
    return (measured & outlast).fill_null(False)


def _work(engine: Engine, in_flight: Array, workload: Workload, places: Indices) -> Work:
    """The mean turn as work of the rows at these places; the workload has one figure for all rows, or one for each."""
    facts = engine.facts

    def of_rows(figure: Number) -> Array:
        values = np.asarray(figure, np.float64)
        return values[places] if values.ndim else np.full(len(places), float(values))

    new, flops = of_rows(workload.mean.new_tokens), of_rows(workload.mean.attention_flops)
    work = Work(
        in_flight=in_flight,
        later_tokens=np.full(len(places), max(workload.output_tokens - 1.0, 0.0)),
        decode_attention_s=np.full(len(places), facts.decode_attention_s(workload.decode_context_tokens)),
        products_s=facts.token_s * new,
        attention_s=facts.attention_flop_s * flops,
        experts_touched=np.asarray(facts.touched(new) + 0.0 * new),
    )
    if workload.squares is None:
        return work
    p = values_of(engine.fitted.logs)
    token, flop = facts.token_s / p["prefill_fraction"], facts.attention_flop_s / p["attention_fraction"]
    variance = of_rows(workload.prefill_variance(float(token[0]), float(flop[0])))
    return replace(work, second_moment=1.0 + variance / prefill_s(work, facts, p) ** 2)


def _deviation(band: Band) -> Array:
    return np.asarray(np.log(band.high / band.value) / BAND_DEVIATIONS)
