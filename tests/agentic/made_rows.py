"""Standard rows of a made deployment whose engine steps are known, on hardware and models of the catalogues."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from pipelines.reading.catalogues import load_hardware
from schemas.frames import empty_frame
from schemas.models import ModelSpec
from tests.transforms.factory import model
from transforms.agent_points.rows.lookups import add_private_columns
from transforms.agentic import MeasuredSteps

MODEL = "qwen3-32b"
#: Outside the GPUs, and of a prompt token beside attention.
WAIT_MS, TOKEN_MS = 40.0, 0.02
#: The context at which a decode step is so many times its physics.
TYPICAL = 4500.0


def rest_ms(batch: float) -> float:
    """A decode step less its attention, of the made deployment."""
    return 8.0 + 0.2 * batch


def deployment_row(**changed: object) -> pl.DataFrame:
    """What a deployment is, of one row, with the columns of its GPU."""
    facts = {
        "hardware": "h200-sxm", "prefill_hardware": "h200-sxm", "decode_hardware": "h200-sxm", "backend": "vllm",
        "tp": 2, "dp": 1, "cp": 1, "moe_ep": 1, "weight_dtype": "bf16", "linear_dtype": "bf16", "expert_dtype": None,
        "kv_dtype": "bf16", "attention_dtype": "bf16",
    }  # fmt: skip
    schema = empty_frame("serving_points").schema
    row = pl.DataFrame([dict.fromkeys(schema) | facts | changed], schema=schema)
    return add_private_columns(row, model(MODEL), load_hardware())


def known_steps(**changed: object) -> MeasuredSteps:
    """The made deployment as it is."""
    spec, row = model(MODEL), deployment_row(**changed)
    loads = np.array([1.0, 4.0, 16.0, 64.0])
    steps = MeasuredSteps(row, spec, WAIT_MS, TOKEN_MS, loads, np.array([rest_ms(load) for load in loads]), loads)
    slowness = (steps.rest_ms + steps.attention_ms(loads, TYPICAL)) / steps.physics_ms(loads, TYPICAL)
    return replace(steps, slowness=slowness)


def standard_rows(
    lengths: Sequence[float] = (1000.0, 8000.0),
    loads: Sequence[float] = (1.0, 4.0, 16.0, 64.0),
    osl: float = 1000.0,
    slower_ttft: Callable[[float, float], float] = lambda _length, _load: 0.0,
    **changed: object,
) -> pl.DataFrame:
    """Rows that an engine with these steps reports: a cycle of b requests has b prefills and OSL - 1 decode steps."""
    steps, rows = known_steps(**changed), []
    for length in lengths:
        prefill = steps.prefill_ms(length, 0.0)
        for load in loads:
            decode = rest_ms(load) + steps.attention_ms(np.array([load]), length + osl / 2)[0]
            rate = load / ((osl - 1) * decode + load * prefill)
            ttft = WAIT_MS + prefill + slower_ttft(length, load)
            tpot = decode / (1 - rate * prefill)
            latency = ttft + tpot * (osl - 1)
            rows.append({
                "isl_tokens": length, "osl_tokens": osl, "concurrency_reported": load, "ttft_ms": ttft, "tpot_ms": tpot,
                "request_latency_ms": latency, "requests_per_s": 1e3 * rate, "in_flight_requests": rate * latency,
            })  # fmt: skip
    figures = pl.DataFrame(rows)
    return deployment_row(**changed).drop(figures.columns).join(figures, how="cross")


def spec() -> ModelSpec:
    """Its model."""
    return model(MODEL)
