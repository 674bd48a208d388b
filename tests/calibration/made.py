"""A made deployment: rows of ``serving_points`` that an engine of known parameters would give."""

from typing import Any

import numpy as np
import polars as pl

from pipelines.reading.catalogues import load_hardware, load_models
from schemas.arrays import Array
from schemas.frames import empty_frame
from transforms.calibration.facts import Facts, Load, deployment_facts
from transforms.calibration.fit import Measured
from transforms.calibration.parameters import NAMES, TYPICAL, place, values_of
from transforms.calibration.step_model import Work, serve

DENSE: dict[str, Any] = {
    "source": "vllm", "source_file": "made.json", "source_row": 1, "hardware": "h200-sxm",
    "hardware_name": "H200", "prefill_hardware": "h200-sxm", "decode_hardware": "h200-sxm",
    "model": "llama-3-1-70b", "model_name": "Llama-3.1-70B", "weight_dtype": "fp8", "linear_dtype": "fp8",
    "kv_dtype": "bf16", "attention_dtype": "bf16", "backend": "vllm", "backend_version": "0.19.1",
    "serving_mode": "agg", "tp": 4, "pp": 1, "dp": 1, "cp": 1, "moe_tp": 4, "moe_ep": 1, "gpus_per_replica": 4,
    "prefix_tokens": 0.0, "draft_tokens": 0, "accepted_tokens": 1.0, "latency_statistic": "mean",
    "tpot_source": "reported",
}  # fmt: skip


def facts_of(**changed: Any) -> Facts:
    """Facts of the made deployment with some of its columns changed."""
    row = rows_of([{**DENSE, **changed}])
    return deployment_facts(row, load_models().get(row["model"][0]), load_hardware())


def rows_of(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Serving points with what is said; the rest is NULL."""
    schema = empty_frame("serving_points").schema
    return pl.DataFrame([{name: row.get(name) for name in schema} for row in rows], schema=schema)


def parameters(**changed: float) -> Array:
    """Logarithms of typical parameters, nothing drafted, some of them changed."""
    logs = TYPICAL.copy()
    logs[place("accepted_tokens")] = 0.0
    for name, value in changed.items():
        logs[NAMES.index(name)] = np.log(value)
    return logs


def grid(*workloads: tuple[float, float], loads: tuple[float, ...] = (1, 4, 16, 64)) -> Load:
    """Each workload (prompt, output) at each load."""
    each = [(load, isl, osl) for isl, osl in workloads for load in loads]
    return Load(*(np.array(column, np.float64) for column in zip(*each, strict=True)))


def measured(facts: Facts, logs: Array, load: Load) -> Measured:
    """What a load generator would see, without noise."""
    served = serve(Work.of_load(load, facts), facts, values_of(logs))
    return Measured(load, served.ttft_s, served.tpot_s)


def points(load: Load, figures: Measured, **changed: Any) -> pl.DataFrame:
    """Serving points of these loads."""
    rows = []
    for at in range(len(figures)):
        tokens = float(load.output_tokens[at])
        latency = float(figures.latency_s[at])
        rows.append({
            **DENSE, **changed, "source_row": at + 1, "isl_tokens": float(load.input_tokens[at]),
            "osl_tokens": tokens, "concurrency_reported": float(load.in_flight[at]),
            "in_flight_requests": float(load.in_flight[at]), "ttft_ms": 1e3 * float(figures.ttft_s[at]),
            "tpot_ms": 1e3 * float(figures.tpot_s[at]), "request_latency_ms": 1e3 * latency,
            "requests_per_s": float(load.in_flight[at]) / latency,
        })  # fmt: skip
    return rows_of(rows)
