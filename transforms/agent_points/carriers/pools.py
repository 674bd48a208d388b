"""Disaggregated rows: both pools moved to the agent's workload apart, and matched again (model.md 5.2)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from schemas.arrays import Array, Flags, Indices
from schemas.models import ModelSpec
from transforms.agent_points.carriers.linear_work import MovableSteps, StepsApart
from transforms.agent_points.carriers.step_parts import StepParts
from transforms.agent_points.carriers.workload import Prefill, Workload
from transforms.agent_points.rows.columns import turn_figures
from transforms.agent_points.rows.gpu import Gpu
from transforms.agent_points.rows.lookups import Deployed
from transforms.agent_points.rows.rows import Rows
from transforms.equations import disaggregation as pools
from transforms.equations.kv_memory import attention_flops, kv_bytes
from transforms.equations.transfer import priced_share
from transforms.numbers import Number

#: What makes two workers of a pool alike.
_PREFILL_WORKER = ("prefill_tp", "prefill_pp", "prefill_dp", "prefill_cp", "prefill_moe_tp", "prefill_moe_ep")
_DECODE_WORKER = ("decode_tp", "decode_pp", "decode_dp", "decode_cp", "decode_moe_tp", "decode_moe_ep")
_MAKE = (
    "source",
    "tool_version",
    "prefill_hardware",
    "decode_hardware",
    "linear_dtype",
    "expert_dtype",
    "kv_dtype",
    "attention_dtype",
    "backend",
    "backend_version",
)


@dataclass(frozen=True)
class PoolSteps:
    """Rows of disaggregated replicas, their pools taken apart; all rows are of one model."""

    method: ClassVar[str] = "transfer"
    rows: Rows
    spec: ModelSpec
    steps: MovableSteps
    prefill_ms: Array  #: a batch of prefills of the row's own workload

    @classmethod
    def taken_apart(cls, rows: Rows, spec: ModelSpec) -> "PoolSteps":
        """The rows' pools in their parts, as ``engine_steps.EngineSteps`` does with mixed steps."""
        apart, prefill_ms = _apart(rows, spec)
        workers = rows.select(["batch_per_rank", *_MAKE, *_PREFILL_WORKER, *_DECODE_WORKER]).select(
            "batch_per_rank",
            prefill_worker=pl.struct(_MAKE + _PREFILL_WORKER).rank("dense"),
            decode_worker=pl.struct(_MAKE + _DECODE_WORKER).rank("dense"),
        )
        return cls(rows, spec, MovableSteps.of(apart, workers, "prefill_worker", "decode_worker"), prefill_ms)

    def take(self, which: Flags | Indices) -> "PoolSteps":
        """Those of the rows; what the others have told of them stays."""
        return PoolSteps(self.rows.take(which), self.spec, self.steps.take(which), self.prefill_ms[which])

    def figures_at(self, workload: Workload) -> dict[str, Number]:
        """Both pools at the agent's workload, matched again: turn figures and ``serving_requests_per_s``.

        ``workload`` is that of a prefill pool that has not seen the output. The row's TTFT carries the handover of
        its own new tokens; what an agent hands over beyond them is added.
        """
        rows, prefill_gpu = self.rows, Gpu(self.rows, "prefill")
        prefill = StepParts(self.spec, rows, prefill_gpu, "prefill_")
        decode = StepParts(self.spec, rows, Gpu(rows, "decode"), "decode_")
        batch = rows["prefill_batch"]
        output = workload.output_tokens

        def prefill_ms(turn: Prefill) -> Number:
            attention = prefill.prefill_attention_ms(batch, turn.attention_flops)
            return self._linear_ms(turn) + self.steps.apart.attention_share * attention

        mean_ms = prefill_ms(workload.mean)

        def ttft_ms(turn: Prefill) -> Number:
            return self._ttft_ms(turn, mean_ms if turn is workload.mean else prefill_ms(turn), prefill_gpu)

        step = self.steps.decode_ms(decode.decode_attention_ms(rows["decode_batch"], workload.decode_context_tokens))
        tpot = step / rows["accepted_tokens"]
        mean, first, last = workload.of_each_turn(ttft_ms)
        before = matched_replica_rate(rows, self.prefill_ms, rows["row_tpot_ms"], rows["osl_tokens"])
        after = matched_replica_rate(rows, mean_ms, tpot, output)
        # a table's throughput is within its rounding of its own pools: keep the table's
        return {
            **turn_figures(mean, first, last, tpot, output),
            "serving_requests_per_s": after * rows["row_requests_per_s"] / before,
        }

    def prefill_slopes(self, light: Prefill, heavy: Prefill) -> tuple[Number, Number]:
        """Of a batch of prefills, its queueing and the handover, between two of them."""
        rows, gpu = self.rows, Gpu(self.rows, "prefill")
        less, more = (self._ttft_ms(turn, self._linear_ms(turn), gpu) for turn in (light, heavy))
        attention = StepParts(self.spec, rows, gpu, "prefill_").prefill_attention_ms(rows["prefill_batch"], 1.0)
        per_flop = pools.TTFT_QUEUE_FACTOR * self.steps.apart.attention_share * attention
        return (more - less) / (heavy.new_tokens - light.new_tokens), per_flop

    def _linear_ms(self, turn: Prefill) -> Number:
        return self.steps.linear_ms(self.rows["prefill_batch"] * turn.new_tokens)

    def _ttft_ms(self, turn: Prefill, prefill_ms: Number, prefill_gpu: Gpu) -> Number:
        rows = self.rows
        more_tokens = np.maximum(turn.new_tokens - (rows["isl_tokens"] - rows["prefix_tokens"]), 0.0)
        moved = kv_bytes(self.spec.attention, more_tokens, Deployed(rows).kv_element_bytes)
        handover = pools.handover_ms(moved, rows["prefill_tp"], link_bytes_per_s(rows, prefill_gpu))
        return prefill_ms * pools.TTFT_QUEUE_FACTOR + handover


def matched_replica_rate(rows: Rows, prefill_ms: Number, tpot_ms: Number, osl_tokens: Number) -> Number:
    """Requests a second of a row's replica from the times of its pools."""
    per_prefill_worker = rows["prefill_batch"] * rows["prefill_dp"]
    per_decode_worker = rows["decode_batch"] * rows["decode_dp"] * rows["decode_pp"]
    return pools.matched_rate(
        pools.prefill_pool_rate(rows["prefill_workers"], per_prefill_worker, prefill_ms),
        pools.decode_pool_rate(rows["decode_workers"], per_decode_worker, tpot_ms, osl_tokens),
    )


def _apart(rows: Rows, spec: ModelSpec) -> tuple[StepsApart, Array]:
    """The rows' pools in their parts, and the time of a batch of their prefills."""
    prefill = StepParts(spec, rows, Gpu(rows, "prefill"), "prefill_")
    decode = StepParts(spec, rows, Gpu(rows, "decode"), "decode_")
    isl, prefix, batch = rows["isl_tokens"], rows["prefix_tokens"], rows["prefill_batch"]
    new, context = isl - prefix, isl + rows["osl_tokens"] / 2
    before = pools.prefill_of_row_ms(rows["row_ttft_ms"])
    attention = prefill.prefill_attention_ms(batch, attention_flops(spec.attention, prefix, new))
    share = priced_share(before, attention)
    apart = StepsApart(
        prompt_tokens=batch * new,
        step_tokens=batch * new,
        linear_ms=before - share * attention,
        attention_share=share,
        # a prefill worker's own decode step is in no row
        weight_read_ms=prefill.dense_read_ms + prefill.experts_read_ms,
        decode_ms=rows["row_tpot_ms"] * rows["accepted_tokens"],
        read_ms=decode.decode_attention_ms(rows["decode_batch"], context),
        context_tokens=context,
    )
    return apart, before


def link_bytes_per_s(rows: Rows, gpu: Gpu) -> Number:
    """The link between the pools: the scale-up network where the replica fits it, else the one between nodes."""
    return np.where(rows["gpus_per_replica"] <= gpu.scale_up_gpus, gpu.scale_up_bytes_per_s, gpu.scale_out_bytes_per_s)
