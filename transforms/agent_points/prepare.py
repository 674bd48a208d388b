"""Serving points prepared once for all scenarios: what a row is and what its steps are made of stays the same."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import polars as pl

from schemas.arrays import Flags, Indices
from schemas.catalogue import HardwareCatalogue
from schemas.models import ModelSpec
from schemas.options import MappingOptions
from schemas.scenarios import Scenario
from transforms.agent_points.carriers.engine_steps import EngineSteps
from transforms.agent_points.carriers.last_answer import LastAnswer
from transforms.agent_points.carriers.measured_rows import (
    CalibratedRows,
    EngineRows,
    StepModelRatio,
    engine_rows,
    is_lockstep,
)
from transforms.agent_points.carriers.pools import PoolSteps
from transforms.agent_points.carriers.ratio import RatioRows
from transforms.agent_points.carriers.roofline import RooflineRows
from transforms.agent_points.carriers.roofline_pools import RooflinePools
from transforms.agent_points.carriers.workload import Prefill, Workload
from transforms.agent_points.curve.kv_wall import RowCurves
from transforms.agent_points.judgement.expected_errors import batch_range_number
from transforms.agent_points.rows.columns import ROW_FIGURES
from transforms.agent_points.rows.lookups import Lookups, add_private_columns
from transforms.agent_points.rows.rows import Configurations, Rows
from transforms.agent_points.selection.alternatives import Alternatives, Choice
from transforms.agent_points.unmeasured_loads import add_unmeasured_loads
from transforms.cache import never_misses
from transforms.calibration.known_engines import Engines
from transforms.configurations import CONFIGURATION_ID, curve_order, number_configurations, roofline_preset
from transforms.numbers import Number, begins_run


class Carrier(Protocol):
    """Rows that are carried to a workload by one method."""

    @property
    def method(self) -> str:
        """The ``transfer_method`` of its points."""
        ...

    def take(self, which: Flags | Indices) -> "Carrier":
        """Those of the rows."""
        ...

    def figures_at(self, workload: Workload) -> dict[str, Number]:
        """Turn figures and ``serving_requests_per_s`` of each row at the workload."""
        ...

    def prefill_slopes(self, light: Prefill, heavy: Prefill) -> tuple[Number, Number]:
        """What a turn's own prefill takes between two of them, in ms: of a new token, of a FLOP of its attention."""
        ...


@dataclass(frozen=True)
class RowGroup:
    """Rows of one serving mode, all roofline rows of one preset or all from tables, in the order of their curves.

    ``carriers``: how to carry them, each with the places of its rows.
    """

    mode: str
    roofline: str | None
    rows: Rows
    curves: RowCurves
    alternatives: Alternatives
    carriers: Sequence[tuple[Carrier, Indices]]
    _chosen: LastAnswer[bytes, "RowGroup"] = field(default_factory=LastAnswer, repr=False, compare=False)

    @property
    def aggregated(self) -> bool:
        return self.mode == "agg"

    def choose(self, scenario: Scenario, options: MappingOptions | None = None) -> Choice:
        """The rows that the scenario takes."""
        one_workload = self.roofline is None and scenario.mix is None
        misses_nothing = never_misses(scenario, options or MappingOptions())
        return self.alternatives.choose(scenario, self.mode, may_be_direct=one_workload, misses_nothing=misses_nothing)

    def take(self, which: Flags) -> "RowGroup":
        """Those of the rows. Scenarios mostly choose alike: the last answer is kept."""
        if which.all():
            return self
        return self._chosen.to(np.packbits(which).tobytes(), lambda: self._taken(which))

    def _taken(self, which: Flags) -> "RowGroup":
        place = np.cumsum(which) - 1
        return RowGroup(
            self.mode,
            self.roofline,
            rows := self.rows.take(which),
            RowCurves.of_rows(rows),
            self.alternatives,
            [(carrier.take(which[places]), place[places[which[places]]]) for carrier, places in self.carriers],
        )


@dataclass(frozen=True)
class PreparedPoints:
    """Serving points of one model, on any hardware, ready to be carried to any scenario.

    ``lookups``: the private columns of their configurations.
    """

    spec: ModelSpec
    groups: tuple[RowGroup, ...]
    lookups: Lookups


def has_measured_rows(points: pl.DataFrame) -> bool:
    """Whether any row is a load generator's, which engines carry; AIConfigurator's and rooflines need none."""
    return not points["source"].is_in(["aiconfigurator", "roofline"]).all()


def prepare_points(
    points: pl.DataFrame, spec: ModelSpec, hardware: HardwareCatalogue, engines: Engines | None = None
) -> PreparedPoints:
    """Rows of the table ``serving_points`` of one model, looked up, numbered and taken apart.

    Measured rows are carried by their ``engines``; without any, by the plain ratio of the roofline.
    """
    loads = points.with_columns(unmeasured_load=pl.lit(None, pl.String))
    measured = has_measured_rows(points)
    if engines is not None and measured:
        loads = add_unmeasured_loads(points, spec, engines)
    numbered = number_configurations(loads.rename(ROW_FIGURES).rechunk()).with_columns(
        roofline_preset(),
        # a configuration has one memory: the least that its servers state
        pl.col("kv_tokens").min().over(CONFIGURATION_ID),
        _batch_range=batch_range_number(),
        lockstep=is_lockstep() if measured else pl.lit(False),
    )
    order = curve_order(numbered)
    number = numbered[CONFIGURATION_ID].to_numpy().astype(np.intp) - 1
    number = number if order is None else number[order]
    first_rows = np.flatnonzero(begins_run(number))
    some_rows = numbered[first_rows if order is None else order[first_rows]]
    configurations = add_private_columns(some_rows, spec, hardware)
    with np.errstate(all="ignore"):  # what a row does not say is NaN here
        groups = [
            _prepare_group(Rows(numbered, places=places, configurations=of_kind), spec, engines)
            for places, of_kind in _by_kind(order, number, configurations)
        ]
    return PreparedPoints(spec, tuple(groups), Lookups.of_configurations(configurations, numbered.columns))


def _by_kind(
    order: Indices | None, number: Indices, configurations: pl.DataFrame
) -> Iterator[tuple[Indices | None, Configurations]]:
    """The places of rows that are alike in their serving mode and their roofline's preset, and their configurations.

    ``number``: the place of the configuration of each row, in ``order``.
    """
    kinds = configurations.select(pl.struct("serving_mode", "_preset").rank("dense")).to_series().to_numpy()
    for kind in np.unique(kinds):
        of_kind = kinds == kind
        if of_kind.all():
            yield order, Configurations(Rows(configurations), number)
            continue
        there = np.flatnonzero(of_kind[number])
        place = np.cumsum(of_kind) - 1
        of_rows = Configurations(Rows(configurations.filter(of_kind)), place[number[there]])
        yield there if order is None else order[there], of_rows


def _prepare_group(rows: Rows, spec: ModelSpec, engines: Engines | None) -> RowGroup:
    mode, preset = rows.configurations.rows.frame.select("serving_mode", "_preset").row(0)
    every = np.arange(len(rows))
    carriers: list[tuple[Carrier, Indices]] = []
    if preset is not None:
        priced = RooflineRows if mode == "agg" else RooflinePools
        carriers.append((priced(rows, spec, preset), every))
    else:
        apart = _can_be_taken_apart(rows, mode)
        take_apart = EngineSteps.taken_apart if mode == "agg" else PoolSteps.taken_apart
        if apart.any():
            carriers.append((take_apart(rows.take(apart), spec), every[apart]))
        whole = every[~apart]
        if engines is not None and len(whole):
            measured = engine_rows(rows.take(whole), spec, engines)
            carriers += [
                (
                    carrier(EngineRows(rows.take(whole[places]), measured.engines, measured.number[places])),
                    whole[places],
                )
                for carrier, places in ((CalibratedRows, measured.fitted), (StepModelRatio, measured.expected))
                if len(places)
            ]
            whole = whole[measured.none]
        if len(whole):
            carriers.append((RatioRows(rows.take(whole), spec), whole))
    return RowGroup(mode, preset, rows, RowCurves.of_rows(rows), Alternatives.of_rows(rows), carriers)


def _can_be_taken_apart(rows: Rows, mode: str) -> Flags:
    if mode == "agg":
        return np.asarray(np.isfinite(rows["mixed_step_ms"]) & np.isfinite(rows["decode_step_ms"]))
    from_tool: Flags = (rows.select(["source"]).to_series() == "aiconfigurator").to_numpy()
    return from_tool
