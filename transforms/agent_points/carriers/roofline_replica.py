"""What the roofline needs to know of a replica."""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from schemas.models import ModelSpec
from transforms.agent_points.rows.gpu import Gpu
from transforms.agent_points.rows.rows import Rows
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
    def of_rows(
        cls,
        rows: Rows,
        spec: ModelSpec,
        gpu: Gpu,
        decode_context_tokens: Number,
        pool: Literal["", "prefill_"] = "",
    ) -> Self:
        """The replicas of rows with the private columns; of a disaggregated one a decode or a prefill worker."""
        tp, pp, dp = (rows[f"{pool or '_rank_'}{name}"] for name in ("tp", "pp", "dp"))
        return cls(
            prefill_gpus=rows["_prefilling_gpus"],
            rank_gpus=tp * pp,
            dp=dp,
            non_expert_bytes=rows["_non_expert_bytes"],
            bytes_per_expert=rows["_expert_bytes"] / (spec.moe.experts if spec.moe else 1),
            kv_bytes=kv_read_bytes_per_gpu(spec.attention, decode_context_tokens, rows["_kv_element_bytes"], tp),
            flops_per_s=gpu.article_flops_per_s,
            linear_flops_per_s=gpu.linear_flops_per_s,
            expert_flops_per_s=gpu.expert_flops_per_s,
            attention_flops_per_s=gpu.bf16_flops_per_s,
            hbm_bytes_per_s=gpu.hbm_bandwidth_bytes_per_s,
            link_bytes_per_s=np.where(
                rows["gpus_per_replica"] <= gpu.scale_up_gpus, gpu.scale_up_bytes_per_s, gpu.scale_out_bytes_per_s
            ),
        )
