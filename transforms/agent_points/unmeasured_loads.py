"""Loads of calibrated deployments that nobody measured: between the measured ones, and up to twice the highest."""

from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl

from schemas.arrays import Array
from schemas.models import ModelSpec
from transforms.agent_points.rows.columns import BETWEEN_MEASURED, BEYOND_MEASURED
from transforms.agent_points.selection.alternatives import WORKLOAD
from transforms.calibration.deployments import deployment_columns, in_flight_requests
from transforms.calibration.engine import Engine
from transforms.calibration.facts import Load
from transforms.calibration.known_engines import Engines
from transforms.calibration.step_model import Served

#: Neighbouring loads differ by this factor at most.
STEP: Final = 1.25
#: As many times the highest measured load.
HIGHEST: Final = 2.0


def unmeasured_loads(measured: Array) -> dict[float, str]:
    """Whole numbers of requests in flight beside the measured ones, each ``between`` them or ``beyond``.

    >>> unmeasured_loads(np.array([4.0, 8.0]))
    {5.0: 'between', 6.0: 'between', 9.0: 'beyond', 11.0: 'beyond', 13.0: 'beyond', 16.0: 'beyond'}
    """
    loads = np.unique(measured[np.isfinite(measured)])
    ends = np.append(loads, HIGHEST * loads[-1])
    kinds: dict[float, str] = {}
    for low, high in pairwise(ends):
        steps = int(np.ceil(np.log(high / low) / np.log(STEP)))
        within = np.unique(np.floor(low * (high / low) ** (np.arange(1, steps) / steps)))
        kind = BETWEEN_MEASURED if high <= loads[-1] else BEYOND_MEASURED
        kinds |= {float(load): kind for load in within if low < load < high}
    kinds[float(np.floor(ends[-1]))] = BEYOND_MEASURED
    return {load: kind for load, kind in kinds.items() if load not in loads}


def add_unmeasured_loads(points: pl.DataFrame, spec: ModelSpec, engines: Engines) -> pl.DataFrame:
    """Serving points of one model with ``unmeasured_load``: NULL of a row, ``between`` or ``beyond`` of an added one.

    Each workload of a calibrated deployment has all loads that any of them has, so that a scenario finds them at the
    nearest. An added row has the figures of the engine at the workload, and the name of a row with ``-at-N``.
    """
    marked = points.with_columns(unmeasured_load=pl.lit(None, pl.String))
    if not (engines.calibrated or engines.piloted):
        return marked
    stated = points.filter(pl.col("source") != "roofline")
    added = [
        _rows_at_further_loads(rows, engine)
        for _, rows in stated.group_by(deployment_columns(), maintain_order=True)
        if (engine := engines.of(rows, spec)) is not None
    ]
    return pl.concat([marked, *(each for each in added if each.height)])


def _rows_at_further_loads(rows: pl.DataFrame, engine: Engine) -> pl.DataFrame:
    """Rows of one deployment at the loads that a workload lacks."""
    in_flight = in_flight_requests()
    measured = rows.select(in_flight).to_series().to_numpy()
    kinds = dict.fromkeys(np.unique(measured).tolist(), BETWEEN_MEASURED) | unmeasured_loads(measured)
    added = []
    for _, of_workload in rows.group_by(*WORKLOAD, "context_requests_per_step", maintain_order=True):
        there = set(of_workload.select(in_flight).to_series())
        missing = [load for load in kinds if load not in there]
        if missing:
            template = of_workload[[0] * len(missing)]
            added.append(_at_loads(template, np.array(missing), [kinds[load] for load in missing], engine))
    empty = rows.clear().with_columns(unmeasured_load=pl.lit(None, pl.String))
    return pl.concat([empty, *added])


def _at_loads(rows: pl.DataFrame, loads: Array, kinds: list[str], engine: Engine) -> pl.DataFrame:
    """Copies of a row with the figures of its engine at other loads."""
    lengths = (rows[name].cast(pl.Float64).to_numpy() for name in WORKLOAD)
    served = engine.predict(Load(loads, *lengths)).served
    figures = _figures(rows, loads, served)
    named = pl.format("{}-at-{}", "point_id", pl.Series([f"{load:g}" for load in loads]))
    return rows.with_columns(
        named.alias("point_id"),
        *(pl.Series(name, values).cast(rows.schema[name]) for name, values in figures.items()),
        pl.lit(None, rows.schema["memory_bytes_per_gpu"]).alias("memory_bytes_per_gpu"),
        unmeasured_load=pl.Series(kinds, dtype=pl.String),
    )


def _figures(rows: pl.DataFrame, loads: Array, served: Served) -> dict[str, Array]:
    output = rows["osl_tokens"].cast(pl.Float64).to_numpy()
    latency_s = served.latency_s(output)
    stations = loads / (rows["concurrency_reported"] / rows["batch_per_rank"]).cast(pl.Float64).to_numpy()
    return {
        "concurrency_reported": loads,
        "batch_per_rank": stations,
        "ttft_ms": 1e3 * served.ttft_s,
        "tpot_ms": 1e3 * served.tpot_s,
        "request_latency_ms": 1e3 * latency_s,
        "requests_per_s": served.requests_per_s,
        "in_flight_requests": served.requests_per_s * latency_s,
        "output_tokens_per_s_per_gpu": served.requests_per_s * output / rows["gpus_per_replica"].to_numpy(),
        "tokens_per_s_per_user": 1.0 / served.tpot_s,
    }
