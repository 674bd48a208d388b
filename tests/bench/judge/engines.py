"""Engines of the judge: the product's own engine steps as plain numbers."""

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import polars as pl

from pipelines.reading.catalogues import load_hardware, load_models
from schemas.catalogue import HardwareCatalogue
from schemas.models import ModelSpec
from schemas.options import MappingOptions
from transforms.agent_points.carriers.roofline import RooflineReplica, decode_step_s
from transforms.agent_points.carriers.workload import Prefill, Workload
from transforms.agent_points.memory.pool_memory import PoolRanks, reckoned_on_rank
from transforms.agent_points.rows.gpu import Gpu
from transforms.agent_points.rows.lookups import add_private_columns
from transforms.agent_points.rows.rows import Rows
from transforms.equations import kv_memory as kv
from transforms.equations import roofline_steps as steps
from transforms.equations.roofline import ETA_PREFILL
from transforms.equations.transfer import KV_READ_EFFICIENCY
from transforms.synthesis.points import synthesize_points

#: Hardware, model, tensor parallelism, format of the weights.
ENGINES: Final = {
    "70b-h100-tp8": ("h100-sxm", "llama-3-1-70b", 8, "bf16"),
    "70b-h100-tp4-fp8": ("h100-sxm", "llama-3-1-70b", 4, "fp8"),
    "8b-h100-tp1": ("h100-sxm", "llama-3-1-8b", 1, "bf16"),
    "32b-h200-tp2": ("h200-sxm", "qwen3-32b", 2, "bf16"),
    "deepseek-b200-tp8": ("b200", "deepseek-v3", 8, "fp8-block"),
}
PRESET: Final = "calibrated"


@dataclass(frozen=True)
class StepTimes:
    """Seconds of a step: ``fixed + max(weights, token * tokens) + added_token * tokens + experts + context_token *
    context tokens of those that decode + sequence * those that decode + pair * pairs of new and seen tokens``.

    Experts: ``max(experts * (1 - (1 - expert_share)^tokens), expert_token * tokens)``.
    """

    fixed_s: float
    weights_s: float
    token_s: float
    added_token_s: float
    context_token_s: float
    sequence_s: float
    pair_s: float
    experts_s: float = 0.0
    expert_token_s: float = 0.0
    expert_share: float = 0.0

    def time_s(self, decoding: float, context: float, new: float, pairs: float) -> float:
        """A step of so many requests that decode, at so many tokens of context together, and so much prefill."""
        tokens = decoding + new
        time_s = self.fixed_s + max(self.weights_s, self.token_s * tokens) + self.added_token_s * tokens
        read = self.experts_s * (1.0 - float((1.0 - self.expert_share) ** tokens))
        time_s += max(read, self.expert_token_s * tokens)
        return time_s + self.context_token_s * context + self.sequence_s * decoding + self.pair_s * pairs


@dataclass(frozen=True)
class Engine:
    """One replica: its serving points, its steps, and the tokens of KV that it holds."""

    points: pl.DataFrame
    spec: ModelSpec
    hardware: HardwareCatalogue
    steps: StepTimes
    kv_tokens: float
    gpus: int

    def as_numbers(self) -> dict[str, Any]:
        return asdict(self.steps)


@lru_cache
def engine(name: str) -> Engine:
    """One of ``ENGINES``."""
    gpu_slug, model, tp, dtype = ENGINES[name]
    hardware, spec = load_hardware(), load_models().get(model)
    c = pl.col
    points = synthesize_points([(hardware.get(gpu_slug), spec)], hardware, PRESET).filter(
        c("serving_mode") == "agg", c("tp") == tp, c("dp") == 1, c("weight_dtype") == dtype
    )
    if points.is_empty():
        raise ValueError(f"{name}: no such replica")
    rows = Rows(add_private_columns(points[:1], spec, hardware))
    available = reckoned_on_rank(rows, PoolRanks.aggregated(rows), MappingOptions())
    token = kv.kv_bytes_on_rank(spec.attention, 1.0, rows["_kv_element_bytes"], rows["tp"])
    return Engine(points, spec, hardware, _steps(rows, spec), float(np.ravel(available / token)[0]), tp)


def _steps(rows: Rows, spec: ModelSpec) -> StepTimes:
    """The calibrated roofline's step of a replica, told apart at two contexts; KV must be linear in the context."""
    gpu = Gpu(rows, "decode")

    def at(context: float) -> RooflineReplica:
        return RooflineReplica.of_rows(rows, spec, gpu, context)

    def step(context: float, batch: float) -> float:
        nothing = Prefill(0.0, 0.0)
        workload = Workload(context, 1.0, nothing, nothing, nothing)
        return _one(decode_step_s(PRESET, at(context), batch, workload, spec))

    replica, moe = at(1.0), spec.moe
    linear = spec.parameters.non_expert - (spec.parameters.embedding if spec.parameters.output_head else 0)
    read = replica.non_expert_bytes - (spec.stored_bytes.embedding if spec.parameters.output_head else 0)
    gpus, bandwidth = replica.rank_gpus, replica.hbm_bytes_per_s * KV_READ_EFFICIENCY
    reduced = [
        _one(steps.all_reduce_s(tokens, spec.hidden_size, spec.layers, gpus, replica.link_bytes_per_s))
        for tokens in (0.0, 1.0)
    ]
    # the share of a whole prefill's FLOPs of attention that one pair of tokens has
    flops_a_pair = float(kv.attention_flops(spec.attention, 1e4, 1e3)) / (1e3 * 1e4 + 1e3 * 1e3 / 2)
    fixed = reduced[0] + steps.launch_s(spec.layers, moe.layers if moe else 0)
    near, far = 10_000.0, 60_000.0
    slope = (step(far, 1.0) - step(near, 1.0)) / (far - near)
    found = StepTimes(
        fixed_s=fixed,
        weights_s=_one(read / gpus / bandwidth),
        token_s=_one(2.0 * linear / gpus / (replica.linear_flops_per_s * ETA_PREFILL)),
        added_token_s=reduced[1] - reduced[0],
        context_token_s=slope,
        sequence_s=0.0,
        pair_s=_one(steps.prefill_attention_s(flops_a_pair / gpus, replica.attention_flops_per_s)),
        experts_s=_one(moe.experts * replica.bytes_per_expert / gpus / bandwidth) if moe else 0.0,
        expert_token_s=_one(
            2.0 * (spec.parameters_active - spec.parameters.non_expert) / gpus
            / (replica.expert_flops_per_s * ETA_PREFILL)
        ) if moe else 0.0,
        expert_share=moe.experts_per_token / moe.experts if moe else 0.0,
    )  # fmt: skip
    for batch, context in ((1.0, near), (16.0, far), (64.0, 30_000.0)):
        told = found.time_s(batch, batch * context, 0.0, 0.0)
        if abs(told / step(context, batch) - 1.0) > 0.01:
            raise ValueError(
                f"a step of {batch:g} at {context:g} tokens is {told:.4f} s, not {step(context, batch):.4f}"
            )
    return found


def _one(value: Any) -> float:
    return float(np.ravel(value)[0])
