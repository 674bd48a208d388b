"""From serving points to deployments that are calibrated: rows of one deployment, its facts, and its engine."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.arrays import Array
from schemas.catalogue import HardwareCatalogue, ModelCatalogue
from transforms.calibration.engine import Engine, fit_engine, left_out_errors
from transforms.calibration.facts import Facts, Load, deployment_facts
from transforms.calibration.fit import Measured
from transforms.calibration.prior import LearntPriors
from transforms.calibration.refusals import off_the_rest, out_of_order, refusals
from transforms.configurations import CONFIGURATION

Places = npt.NDArray[np.intp]

#: What differs between runs of one deployment: who measured, how many drafts were accepted, and for which model of the
#: architecture.
_OF_A_RUN: Final = ("source", "tool_version", "accepted_tokens", "prefill_batch", "shared_from")
FEWEST_ROWS: Final = 2


@dataclass(frozen=True)
class Deployment:
    """Rows of ``serving_points`` of one deployment that state no scheduler, and what physics knows of it."""

    rows: pl.DataFrame
    facts: Facts

    @property
    def identity(self) -> dict[str, Any]:
        """The columns that name it."""
        return self.rows.select(deployment_columns()).row(0, named=True)

    @property
    def measured(self) -> Measured:
        """Its loads."""
        return measured_loads(self.rows)


@dataclass(frozen=True)
class Refused:
    """A row that is not used, and why."""

    source_file: str
    source_row: int
    reason: str
    detail: str


@dataclass(frozen=True)
class Calibration:
    """A deployment and its engine; None where fewer than two rows are left."""

    deployment: Deployment
    used: pl.DataFrame
    engine: Engine | None
    refused: tuple[Refused, ...]
    latency_errors: tuple[float, ...]
    ttft_errors: tuple[float, ...]


def deployment_columns() -> list[str]:
    """The columns that are alike in all rows of one deployment."""
    return [name for name in CONFIGURATION if name not in _OF_A_RUN]


def in_flight_requests() -> pl.Expr:
    """Requests in flight of a replica: the load generator's slots, else throughput times latency."""
    return pl.coalesce("concurrency_reported", "in_flight_requests").cast(pl.Float64)


def measured_loads(rows: pl.DataFrame) -> Measured:
    """TTFT and TPOT of each row at its requests in flight."""

    def column(name: str) -> Array:
        return rows[name].cast(pl.Float64).to_numpy()

    in_flight = rows.select(in_flight_requests()).to_series()
    lengths = (column(name) for name in ("isl_tokens", "osl_tokens", "prefix_tokens"))
    return Measured(Load(in_flight.to_numpy(), *lengths), column("ttft_ms") / 1e3, column("tpot_ms") / 1e3)


def deployments(points: pl.DataFrame, models: ModelCatalogue, hardware: HardwareCatalogue) -> Iterator[Deployment]:
    """The deployments among serving points: of rows of a load generator, which state no scheduler, each load once."""
    c = pl.col
    told = points.filter(c("mixed_step_ms").is_null() & ~c("source").is_in(["roofline", "aiconfigurator"]))
    keys = deployment_columns()
    for _, rows in told.group_by(keys, maintain_order=True):
        yield Deployment(rows, deployment_facts(rows, models.get(rows["model"][0]), hardware))


def calibrate(deployment: Deployment, priors: LearntPriors) -> Calibration:
    """The engine of a deployment, fitted to the rows that are not refused."""
    facts, measured = deployment.facts, deployment.measured
    prior = priors.prior(facts.traits)
    found = refusals(measured, facts.disaggregated)
    kept = _without(np.arange(len(measured)), found)
    errors = left_out_errors(measured.take(kept), facts, prior)
    off = [(int(kept[row]), why, detail) for row, why, detail in off_the_rest(errors[0], measured.take(kept))]
    rest = _without(kept, off)
    off += [(int(rest[row]), why, detail) for row, why, detail in out_of_order(measured.take(rest))]
    if off:
        kept = _without(kept, off)
        found = sorted([*found, *off])
        errors = left_out_errors(measured.take(kept), facts, prior)
    enough = len(kept) >= FEWEST_ROWS
    engine = fit_engine(measured.take(kept), facts, prior, errors) if enough else None
    refused = tuple(
        Refused(deployment.rows["source_file"][row], deployment.rows["source_row"][row], reason, detail)
        for row, reason, detail in found
    )
    return Calibration(
        deployment, deployment.rows[kept], engine, refused, tuple(errors[0].tolist()), tuple(errors[1].tolist())
    )


def _without(rows: Places, found: Sequence[tuple[int, str, str]]) -> Places:
    return rows[~np.isin(rows, [row for row, _, _ in found])]
