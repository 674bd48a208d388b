"""Disaggregated roofline rows: each pool's worker from peak rates, their rates matched (model.md 3 and 5.2)."""

from dataclasses import dataclass
from typing import ClassVar

from schemas.arrays import Flags, Indices
from schemas.models import ModelSpec
from transforms.agent_points.carriers.pools import link_bytes_per_s
from transforms.agent_points.carriers.roofline import (
    RooflineReplica,
    TurnTimes,
    decode_step_s,
    prefill_batch_s,
    prefill_slopes_ms,
)
from transforms.agent_points.carriers.workload import Prefill, Workload
from transforms.agent_points.rows.gpu import Gpu
from transforms.agent_points.rows.lookups import Deployed
from transforms.agent_points.rows.rows import Rows
from transforms.equations import disaggregation as pools
from transforms.equations.kv_memory import kv_bytes
from transforms.numbers import Number


@dataclass(frozen=True)
class RooflinePools:
    """Disaggregated roofline rows of one model and preset (``backend_version``)."""

    method: ClassVar[str] = "roofline"
    rows: Rows
    spec: ModelSpec
    preset: str

    def take(self, which: Flags | Indices) -> "RooflinePools":
        """Those of the rows."""
        return RooflinePools(self.rows.take(which), self.spec, self.preset)

    def figures_at(self, workload: Workload) -> dict[str, Number]:
        """The roofline at the agent's workload: turn figures and ``serving_requests_per_s``.

        ``workload`` is that of a prefill pool that has not seen the output.
        """
        times = pool_times(self.preset, self.rows, workload, self.spec)
        return {**times.figures(workload.output_tokens), "serving_requests_per_s": times.requests_per_s}

    def prefill_slopes(self, light: Prefill, heavy: Prefill) -> tuple[Number, Number]:
        """Of one prefill on a prefill worker, its queueing and the handover, by the preset."""
        rows, gpu = self.rows, Gpu(self.rows, "prefill")
        worker = RooflineReplica.of_rows(rows, self.spec, gpu, 0.0, "prefill_")
        per_token, per_flop = prefill_slopes_ms(self.preset, worker, light, heavy, self.spec)
        less, more = (
            pools.handover_ms(
                kv_bytes(self.spec.attention, turn.new_tokens, Deployed(rows).kv_element_bytes),
                rows["prefill_tp"],
                link_bytes_per_s(rows, gpu),
            )
            for turn in (light, heavy)
        )
        handover = (more - less) / (heavy.new_tokens - light.new_tokens)
        return pools.TTFT_QUEUE_FACTOR * per_token + handover, pools.TTFT_QUEUE_FACTOR * per_flop


def pool_times(preset: str, rows: Rows, workload: Workload, spec: ModelSpec) -> TurnTimes:
    """Times of disaggregated replicas by a preset, as arrays of one entry a row.

    A prefill worker takes one prompt at a time, a decode worker a step of its whole batch. Queueing before a
    prefill and what matching takes off each pool are those of model.md 5.2; the KV of a turn's new tokens is handed
    over between the pools. Raises ``KeyError`` for an unknown preset.
    """
    context, prefill_gpu = workload.decode_context_tokens, Gpu(rows, "prefill")
    prefill_worker = RooflineReplica.of_rows(rows, spec, prefill_gpu, context, "prefill_")
    decode_worker = RooflineReplica.of_rows(rows, spec, Gpu(rows, "decode"), context)

    def prefill_s(prefill: Prefill) -> Number:
        return prefill_batch_s(preset, prefill_worker, prefill, workload, spec)

    def ttft_s(prefill: Prefill) -> Number:
        moved = kv_bytes(spec.attention, prefill.new_tokens, Deployed(rows).kv_element_bytes)
        handover = pools.handover_ms(moved, rows["prefill_tp"], link_bytes_per_s(rows, prefill_gpu))
        return prefill_s(prefill) * pools.TTFT_QUEUE_FACTOR + handover / 1e3

    tpot_s = decode_step_s(preset, decode_worker, rows["decode_batch"], workload, spec)
    rate = pools.matched_rate(
        pools.prefill_pool_rate(rows["prefill_workers"], rows["prefill_dp"], 1e3 * prefill_s(workload.mean)),
        pools.decode_pool_rate(
            rows["decode_workers"], rows["decode_batch"] * rows["decode_dp"], 1e3 * tpot_s, workload.output_tokens
        ),
    )
    return TurnTimes(*workload.of_each_turn(ttft_s), tpot_s, rate)
