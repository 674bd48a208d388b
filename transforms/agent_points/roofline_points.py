"""Roofline rows need no transfer: Eqs. 1-3c are evaluated at the agent's own workload (MODEL 5.9)."""

from dataclasses import dataclass, fields
from typing import Self

import polars as pl

from schemas.dtypes import BYTES_PER_KV_ELEMENT, BYTES_PER_WEIGHT
from schemas.hardware import Hardware
from schemas.models import ModelSpec
from transforms.agent_points.columns import by_dtype, turn_figures
from transforms.agent_points.workload import Workload
from transforms.equations import roofline
from transforms.equations.kv_memory import kv_read_bytes_per_gpu
from transforms.numbers import Number


@dataclass(frozen=True)
class RooflineReplica:
    """What the roofline needs of replicas, as columns (``of_columns``) or as arrays (``of_rows``).

    ``kv_bytes`` is one context at the decode context on each GPU of a rank.
    """

    prefill_gpus: Number
    rank_gpus: Number
    dp: Number
    non_expert_bytes: Number
    bytes_per_expert: Number
    kv_bytes: Number
    flops_per_s: Number

    @classmethod
    def of_columns(cls, spec: ModelSpec, gpu: Hardware, decode_context_tokens: Number) -> Self:
        """The replicas of a frame's rows, aggregated or disaggregated, as expressions."""
        c = pl.col
        experts = spec.moe.experts if spec.moe else 1
        kv_element = by_dtype("kv_dtype", BYTES_PER_KV_ELEMENT)
        tp = pl.coalesce("tp", "decode_tp")
        return cls(
            prefill_gpus=pl.coalesce(
                c("tp") * c("pp") * c("dp") * c("cp"),
                c("prefill_tp") * c("prefill_pp") * c("prefill_dp") * c("prefill_cp"),
            ),
            rank_gpus=tp * pl.coalesce("pp", "decode_pp"),
            dp=pl.coalesce("dp", "decode_dp"),
            non_expert_bytes=by_dtype("linear_dtype", {d: spec.non_expert_bytes(d) for d in BYTES_PER_WEIGHT}),
            bytes_per_expert=by_dtype("expert_dtype", {d: spec.expert_bytes(d) / experts for d in BYTES_PER_WEIGHT}),
            kv_bytes=kv_read_bytes_per_gpu(spec.attention, decode_context_tokens, kv_element, tp),
            flops_per_s=by_dtype("weight_dtype", {d: gpu.compute_flops_per_s(d) for d in BYTES_PER_WEIGHT}),
        )

    @classmethod
    def of_rows(cls, rows: pl.DataFrame, spec: ModelSpec, gpu: Hardware, decode_context_tokens: float) -> Self:
        """The same as NumPy arrays of one entry a row."""
        columns = cls.of_columns(spec, gpu, decode_context_tokens)
        values = rows.select(
            getattr(columns, field.name).cast(pl.Float64).alias(field.name) for field in fields(columns)
        )
        return cls(**{name: values[name].to_numpy() for name in values.columns})


def carry_roofline(points: pl.DataFrame, workload: Workload, spec: ModelSpec, gpu: Hardware) -> pl.DataFrame:
    """Roofline rows at the agent's workload; all of one model and GPU."""
    c = pl.col
    replica = RooflineReplica.of_columns(spec, gpu, workload.decode_context_tokens)
    tpot = 1e3 * decode_step_s(replica, c("batch_per_rank"), spec, gpu)
    mean, first, last = (
        1e3 * prefill_s(replica, prefill.new_tokens, spec) for prefill in (workload.mean, workload.first, workload.last)
    )
    points = points.with_columns(**turn_figures(mean, first, last, tpot, workload.output_tokens))
    return points.with_columns(
        serving_requests_per_s=1e3 * c("concurrency_reported") / c("turn_latency_ms"),
        transfer_method=pl.lit("roofline"),
    )


def prefill_s(replica: RooflineReplica, new_tokens: Number, spec: ModelSpec) -> Number:
    """Eq. 2 on all GPUs that prefill together."""
    return roofline.prefill_s(spec.parameters_active, new_tokens, replica.prefill_gpus, replica.flops_per_s)


def decode_step_s(replica: RooflineReplica, batch_per_rank: Number, spec: ModelSpec, gpu: Hardware) -> Number:
    """TPOT by Eqs. 3-3c. Under attention data parallelism each rank reads the whole non-expert part."""
    bandwidth = gpu.hbm_bandwidth_bytes_per_s
    all_gpus, tokens = replica.rank_gpus * replica.dp, batch_per_rank * replica.dp
    weights = roofline.weight_read_s(replica.non_expert_bytes, replica.rank_gpus, bandwidth)
    if spec.moe is not None:
        active = roofline.active_experts(tokens, spec.moe.experts_per_token, spec.moe.experts)
        weights = weights + roofline.expert_read_s(active, replica.bytes_per_expert, all_gpus, bandwidth)
    kv = roofline.kv_read_s(batch_per_rank, replica.kv_bytes, bandwidth)
    compute = roofline.decode_compute_s(spec.parameters_active, tokens, all_gpus, replica.flops_per_s)
    return roofline.tpot_s(weights, kv, compute)
