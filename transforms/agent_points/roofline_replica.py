"""What the roofline needs to know of a replica, as columns of a frame or as arrays."""

from dataclasses import dataclass, fields
from typing import Literal, Self

import polars as pl

from schemas.dtypes import BYTES_PER_KV_ELEMENT, BYTES_PER_WEIGHT
from schemas.models import ModelSpec
from transforms.agent_points.columns import by_dtype
from transforms.agent_points.gpu import Gpu
from transforms.equations.kv_memory import kv_read_bytes_per_gpu
from transforms.numbers import Number


@dataclass(frozen=True)
class RooflineReplica:
    """Replicas of one model; each field is one number a row. Rates are per GPU.

    ``kv_bytes`` is one context at the decode context on each GPU of a rank; ``flops_per_s`` is the
    article's compute rate, those of the parts are what engines run.
    """

    prefill_gpus: Number
    rank_gpus: Number
    dp: Number
    non_expert_bytes: Number
    bytes_per_expert: Number
    kv_bytes: Number
    flops_per_s: Number
    linear_flops_per_s: Number
    expert_flops_per_s: Number
    attention_flops_per_s: Number
    hbm_bytes_per_s: Number
    link_bytes_per_s: Number

    @classmethod
    def of_columns(
        cls, spec: ModelSpec, gpu: Gpu, decode_context_tokens: Number, pool: Literal["", "prefill_"] = ""
    ) -> Self:
        """The replicas of a frame's rows, as expressions; of a disaggregated one a decode or a prefill worker."""
        c = pl.col
        experts = spec.moe.experts if spec.moe else 1

        def layout(name: str) -> pl.Expr:
            return c(f"{pool}{name}") if pool else pl.coalesce(name, f"decode_{name}")

        tp = layout("tp")
        kv_element = by_dtype("kv_dtype", BYTES_PER_KV_ELEMENT)
        return cls(
            prefill_gpus=pl.coalesce(
                c("tp") * c("pp") * c("dp") * c("cp"),
                c("prefill_tp") * c("prefill_pp") * c("prefill_dp") * c("prefill_cp"),
            ),
            rank_gpus=tp * layout("pp"),
            dp=layout("dp"),
            non_expert_bytes=by_dtype("linear_dtype", {d: spec.non_expert_bytes(d) for d in BYTES_PER_WEIGHT}),
            bytes_per_expert=by_dtype("expert_dtype", {d: spec.expert_bytes(d) / experts for d in BYTES_PER_WEIGHT}),
            kv_bytes=kv_read_bytes_per_gpu(spec.attention, decode_context_tokens, kv_element, tp),
            flops_per_s=gpu.article_flops_per_s,
            linear_flops_per_s=gpu.linear_flops_per_s,
            expert_flops_per_s=gpu.expert_flops_per_s,
            attention_flops_per_s=gpu.bf16_flops_per_s,
            hbm_bytes_per_s=gpu.hbm_bandwidth_bytes_per_s,
            link_bytes_per_s=pl.when(c("gpus_per_replica") <= gpu.scale_up_gpus)
            .then(gpu.scale_up_bytes_per_s)
            .otherwise(gpu.scale_out_bytes_per_s),
        )

    @classmethod
    def of_rows(
        cls,
        rows: pl.DataFrame,
        spec: ModelSpec,
        gpu: Gpu,
        decode_context_tokens: float,
        pool: Literal["", "prefill_"] = "",
    ) -> Self:
        """The same as NumPy arrays of one entry a row."""
        columns = cls.of_columns(spec, gpu, decode_context_tokens, pool)
        values = rows.select(
            getattr(columns, field.name).cast(pl.Float64).alias(field.name) for field in fields(columns)
        )
        return cls(**{name: values[name].to_numpy() for name in values.columns})
