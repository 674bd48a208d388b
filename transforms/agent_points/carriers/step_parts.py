"""The parts of an engine step that physics prices, of the rows of one model."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from schemas.models import AttentionGroup, ModelSpec
from transforms.agent_points.rows.gpu import Gpu
from transforms.agent_points.rows.lookups import Deployed
from transforms.agent_points.rows.rows import Rows
from transforms.equations import transfer
from transforms.equations.kv_memory import kv_read_bytes_per_gpu
from transforms.equations.roofline_steps import distinct_experts
from transforms.numbers import Number

#: Rotary part of the keys of every MLA model so far; decode FLOPs are 2 * heads * (2 * latent + rope).
MLA_ROPE_DIM = 64


@dataclass(frozen=True)
class StepParts:
    """Prices steps of one pool of the rows' GPUs, whose columns begin with ``pool`` (empty: an aggregated replica).

    tp splits heads and dense weights, cp the tokens of a prefill, all GPUs the experts; dp ranks bring their
    tokens to the same experts.
    """

    spec: ModelSpec
    rows: Rows
    gpu: Gpu
    pool: Literal["", "prefill_", "decode_"] = ""

    @property
    def tp(self) -> Number:
        return self.rows[f"{self.pool}tp"]

    @property
    def dp(self) -> Number:
        return self.rows[f"{self.pool}dp"]

    @property
    def cp(self) -> Number:
        return self.rows[f"{self.pool}cp"]

    @cached_property
    def _deployed(self) -> Deployed:
        return Deployed(self.rows)

    def decode_attention_ms(self, contexts: Number, tokens: Number) -> Number:
        """``KVt``: attention of one new token for each of ``contexts`` of ``tokens``, all layers."""
        return sum(self._group_decode_ms(group, contexts, tokens) for group in self.spec.attention)

    def _group_decode_ms(self, group: AttentionGroup, contexts: Number, tokens: Number) -> Number:
        in_layer = kv_read_bytes_per_gpu([group], tokens, self._deployed.kv_element_bytes, self.tp) / group.layers
        read_ms = 1e3 * contexts * in_layer / self.gpu.hbm_bandwidth_bytes_per_s
        if group.decode_flops_per_pair is not None:
            flops = contexts * tokens * group.decode_flops_per_pair
            # the latent is multiplied in the format that it is cached in
            peak = np.where(self._deployed.kv_is_fp8, self.gpu.fp8_flops_per_s, self.gpu.bf16_flops_per_s)
            compute_ms = transfer.attention_ms(flops, self.tp, peak)
            # as a read that would take as long
            read_ms = transfer.overlapped(read_ms, compute_ms * transfer.KERNEL_READ_EFFICIENCY)
        if group.kind == "mla":
            converted_ms = 1e3 * contexts * in_layer / transfer.FP8_LATENT_BYTES_PER_S
            read_ms = np.where(self._deployed.converts_latent, converted_ms * transfer.KERNEL_READ_EFFICIENCY, read_ms)
        return group.layers * transfer.kernel_read_ms(read_ms)

    def prefill_attention_ms(self, requests: Number, flops: Number) -> Number:
        """``A``: attention of that many prefills of ``flops`` each."""
        return requests * flops * self.attention_ms_per_flop

    @cached_property
    def attention_ms_per_flop(self) -> Number:
        """Time of one FLOP of a prefill's attention, FLOPs counted in its plain form."""
        peak = self.gpu.attention_flops_per_s
        slowdown = transfer.head_size_slowdown(peak, self._head_dim) * self._deployed.absorbed_prefill
        return slowdown * transfer.attention_ms(1.0, self.tp * self.cp, peak, self._deployed.attention_efficiency)

    @property
    def _head_dim(self) -> float | None:
        """Size of an attention head, the mean of its two products; None where layers have no such heads."""
        for group in self.spec.attention:
            if group.kind in ("mha", "gqa", "mqa", "sliding_window", "chunked"):
                return group.kv_elements_per_entry / (2 * group.kv_heads)
            if group.kind == "mla" and group.decode_flops_per_pair is not None:
                heads = group.decode_flops_per_pair / (2 * (2 * group.kv_elements_per_entry - MLA_ROPE_DIM))
                return group.flops_per_pair / (4 * heads)
        return None

    @property
    def dense_read_ms(self) -> Number:
        """One read of everything but the experts."""
        return self._read_ms(self._deployed.non_expert_bytes / self.tp)

    @property
    def experts_read_ms(self) -> Number:
        """One read of all experts; 0 on a dense model."""
        if self.spec.moe is None:
            return 0.0
        return self._read_ms(self._deployed.expert_bytes / (self.tp * self.dp * self.cp))

    def unread_experts_ms(self, tokens_of_rank: Number) -> Number:
        """Read of the experts that a step of so many tokens does not touch."""
        moe = self.spec.moe
        if moe is None:
            return 0.0
        touched = distinct_experts(tokens_of_rank * self.dp, moe.experts_per_token, moe.experts) / moe.experts
        return self.experts_read_ms * (1.0 - touched)

    def _read_ms(self, bytes_per_gpu: Number) -> Number:
        return 1e3 * bytes_per_gpu / (self.gpu.hbm_bandwidth_bytes_per_s * transfer.KV_READ_EFFICIENCY)
