"""Serving points prepared once for all scenarios: what a row is and what its steps are made of stays the same."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import polars as pl

from schemas.catalogue import HardwareCatalogue
from schemas.models import ModelSpec
from schemas.options import MappingOptions
from schemas.scenarios import Scenario
from transforms.agent_points.aggregated import EngineSteps
from transforms.agent_points.columns import ROW_FIGURES
from transforms.agent_points.curves import Curves
from transforms.agent_points.disaggregated import Pools
from transforms.agent_points.evidence import batch_range_number
from transforms.agent_points.private import add_private_columns
from transforms.agent_points.ratio import RatioRows
from transforms.agent_points.roofline_points import RooflineRows
from transforms.agent_points.roofline_pools import RooflinePools
from transforms.agent_points.rows import Flags, Indices, Rows
from transforms.agent_points.select import Alternatives, Choice
from transforms.agent_points.workload import Prefill, Workload
from transforms.cache import never_misses
from transforms.configurations import CONFIGURATION_ID, CURVE_ID, number_configurations
from transforms.numbers import Number


class Carrier(Protocol):
    """Rows that are carried to a workload by one method."""

    @property
    def method(self) -> str:
        """The ``transfer_method`` of its points."""
        ...

    def take(self, which: Flags | Indices) -> "Carrier":
        """Those of the rows."""
        ...

    def carry(self, workload: Workload) -> dict[str, Number]:
        """Turn figures and ``serving_requests_per_s`` of each row at the workload."""
        ...

    def prefill_slopes(self, light: Prefill, heavy: Prefill) -> tuple[Number, Number]:
        """What a turn's own prefill takes between two of them, in ms: of a new token, of a FLOP of its attention."""
        ...


@dataclass(frozen=True)
class Part:
    """Rows of one serving mode, all roofline rows of one preset or all from tables, in the order of their curves.

    ``carriers``: how to carry them, each with the places of its rows.
    """

    mode: str
    roofline: str | None
    rows: Rows
    curves: Curves
    alternatives: Alternatives
    carriers: Sequence[tuple[Carrier, Indices]]
    _chosen: dict[bytes, "Part"] = field(default_factory=dict, repr=False, compare=False)

    @property
    def aggregated(self) -> bool:
        return self.mode == "agg"

    def choose(self, scenario: Scenario, options: MappingOptions | None = None) -> Choice:
        """The rows that the scenario takes."""
        one_workload = self.roofline is None and scenario.mix is None
        misses_nothing = never_misses(scenario, options or MappingOptions())
        return self.alternatives.choose(scenario, self.mode, may_be_direct=one_workload, misses_nothing=misses_nothing)

    def take(self, which: Flags) -> "Part":
        """Those of the rows. Scenarios mostly choose alike: the last answer is kept."""
        if which.all():
            return self
        key = np.packbits(which).tobytes()
        if key not in self._chosen:
            self._chosen.clear()
            place = np.cumsum(which) - 1
            self._chosen[key] = Part(
                self.mode,
                self.roofline,
                rows := self.rows.take(which),
                Curves.of_rows(rows.frame),
                self.alternatives,
                [(carrier.take(which[places]), place[places[which[places]]]) for carrier, places in self.carriers],
            )
        return self._chosen[key]


@dataclass(frozen=True)
class PreparedPoints:
    """Serving points of one model, on any hardware, ready to be carried to any scenario."""

    spec: ModelSpec
    parts: tuple[Part, ...]


def prepare_points(points: pl.DataFrame, spec: ModelSpec, hardware: HardwareCatalogue) -> PreparedPoints:
    """Rows of the table ``serving_points`` of one model, looked up, numbered and taken apart."""
    if points.is_empty():
        return PreparedPoints(spec, ())
    numbered = number_configurations(points.rename(ROW_FIGURES).rechunk())
    order = numbered.select(pl.arg_sort_by(CURVE_ID, "batch_per_rank", maintain_order=True)).to_series()
    ordered = numbered[order].with_columns(_preset=pl.when(pl.col("source") == "roofline").then("backend_version"))
    columns = _with_private(ordered, spec, hardware)
    lengths = ordered.select(pl.struct("serving_mode", "_preset").rle().struct.field("len")).to_series()
    kinds = [columns[end - length : end] for end, length in zip(lengths.cum_sum(), lengths, strict=True)]
    with np.errstate(all="ignore"):  # what a row does not say is NaN here
        return PreparedPoints(spec, tuple(_prepare_part(Rows(frame), spec) for frame in kinds))


def _with_private(points: pl.DataFrame, spec: ModelSpec, hardware: HardwareCatalogue) -> pl.DataFrame:
    """As ``add_private_columns``, of numbered points: looked up once for each configuration."""
    place = points[CONFIGURATION_ID].to_numpy().astype(np.intp) - 1
    some_row = np.empty(place.max() + 1, np.intp)
    some_row[place] = np.arange(len(place))
    private = add_private_columns(points[some_row], spec, hardware).select(pl.exclude(points.columns))
    return points.hstack(private[place]).with_columns(_batch_range=batch_range_number())


def _prepare_part(rows: Rows, spec: ModelSpec) -> Part:
    mode, preset = rows.frame.select("serving_mode", "_preset").row(0)
    every = np.arange(len(rows))
    carriers: list[tuple[Carrier, Indices]] = []
    if preset is not None:
        priced = RooflineRows if mode == "agg" else RooflinePools
        carriers.append((priced(rows, spec, preset), every))
    else:
        c = pl.col
        told = c("mixed_step_ms").is_not_null() & c("decode_step_ms").is_not_null()
        apart: Flags = rows.frame.select(
            told if mode == "agg" else c("source") == "aiconfigurator"
        ).to_series().to_numpy()  # fmt: skip
        take_apart = EngineSteps.taken_apart if mode == "agg" else Pools.taken_apart
        if apart.any():
            carriers.append((take_apart(rows.take(apart), spec), every[apart]))
        if not apart.all():
            carriers.append((RatioRows(rows.take(~apart), spec), every[~apart]))
    return Part(mode, preset, rows, Curves.of_rows(rows.frame), Alternatives.of_rows(rows.frame), carriers)
