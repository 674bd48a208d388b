"""Disaggregated rows: both pools moved to the agent's workload apart, and matched again (MODEL 5.2)."""

import polars as pl

from schemas.models import ModelSpec
from transforms.agent_points.columns import kv_element_bytes, turn_figures
from transforms.agent_points.gpu import Gpu
from transforms.agent_points.linear_work import linear_ms, linear_samples, moved_linear_ms
from transforms.agent_points.measured_reads import with_read_correction
from transforms.agent_points.step_parts import StepParts
from transforms.agent_points.workload import Prefill, Workload
from transforms.equations import disaggregation as pools
from transforms.equations.kv_memory import attention_flops, kv_bytes
from transforms.equations.transfer import moved_decode_step_ms, priced_share
from transforms.numbers import Number, maximum

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


def carry_disaggregated(
    points: pl.DataFrame,
    workload: Workload,
    spec: ModelSpec,
    prefill_gpu: Gpu,
    decode_gpu: Gpu,
    told: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Rows of disaggregated replicas at the agent's workload; all of one model.

    Adds the turn figures and ``serving_requests_per_s``. ``workload`` is that of a prefill pool that
    has not seen the output. The row's TTFT carries the handover of its own new tokens; what an agent
    hands over beyond them is added. ``told``: all rows of these replicas, whatever their workload.
    """
    c = pl.col
    prefill, decode = StepParts(spec, prefill_gpu, "prefill_"), StepParts(spec, decode_gpu, "decode_")
    points = _taken_apart(points, prefill, decode)
    known = points if told is None or told.height == points.height else _taken_apart(told, prefill, decode)
    samples = linear_samples(known, "_prefill_worker")
    points = with_read_correction(points, known, "_decode_worker")
    batch, new_before = c("prefill_batch"), c("isl_tokens") - c("prefix_tokens")
    points = points.with_columns(_linear_before=linear_ms(points, samples, c("_step_tokens"), "_prefill_worker"))

    def prefill_ms(turn: Prefill) -> Number:
        after = linear_ms(points, samples, batch * turn.new_tokens, "_prefill_worker")
        linear = moved_linear_ms(c("_linear"), c("_linear_before"), pl.lit(after))
        return linear + c("_attention_share") * prefill.prefill_attention_ms(batch, turn.attention_flops)

    def ttft_ms(turn: Prefill, prefill_time: str) -> Number:
        more_tokens = maximum(turn.new_tokens - new_before, 0.0)
        moved = kv_bytes(spec.attention, more_tokens, kv_element_bytes())
        handover = pools.handover_ms(moved, c("prefill_tp"), link_bytes_per_s(prefill_gpu))
        return c(prefill_time) * pools.TTFT_QUEUE_FACTOR + handover

    step = moved_decode_step_ms(
        c("_t_decode"),
        c("_read_correction") * c("_read_before"),
        c("_read_correction") * decode.decode_attention_ms(c("decode_batch"), workload.decode_context_tokens),
    )
    points = points.with_columns(
        _tpot=step / c("accepted_tokens"),
        _prefill=prefill_ms(workload.mean),
        _first=prefill_ms(workload.first),
        _last=prefill_ms(workload.last),
    )
    points = points.with_columns(
        **turn_figures(
            ttft_ms(workload.mean, "_prefill"),
            ttft_ms(workload.first, "_first"),
            ttft_ms(workload.last, "_last"),
            c("_tpot"),
            workload.output_tokens,
        )
    )
    before = matched_replica_rate(c("_prefill_before"), c("row_tpot_ms"), c("osl_tokens"))
    after = matched_replica_rate(c("_prefill"), c("_tpot"), pl.lit(workload.output_tokens))
    return points.with_columns(
        # a table's throughput is within its rounding of its own pools: keep the table's
        serving_requests_per_s=after * c("row_requests_per_s") / before,
        transfer_method=pl.lit("transfer"),
    )


def matched_replica_rate(prefill_ms: pl.Expr, tpot_ms: pl.Expr, osl_tokens: pl.Expr) -> Number:
    """Requests a second of a row's replica from the times of its pools."""
    c = pl.col
    per_prefill_worker = c("prefill_batch") * c("prefill_dp")
    per_decode_worker = c("decode_batch") * c("decode_dp") * c("decode_pp")
    return pools.matched_rate(
        pools.prefill_pool_rate(c("prefill_workers"), per_prefill_worker, prefill_ms),
        pools.decode_pool_rate(c("decode_workers"), per_decode_worker, tpot_ms, osl_tokens),
    )


def _taken_apart(points: pl.DataFrame, prefill: StepParts, decode: StepParts) -> pl.DataFrame:
    """The rows' pools in their parts, as ``aggregated.take_apart`` does with mixed steps."""
    c = pl.col
    batch, new = c("prefill_batch"), c("isl_tokens") - c("prefix_tokens")
    points = points.with_columns(
        _prefill_worker=pl.struct(_MAKE + _PREFILL_WORKER).struct.json_encode(),
        _decode_worker=pl.struct(_MAKE + _DECODE_WORKER).struct.json_encode(),
        _prefill_before=pools.prefill_of_row_ms(c("row_ttft_ms")),
        _prompt_tokens=batch * new,
        _step_tokens=batch * new,
        _context=c("isl_tokens") + c("osl_tokens") / 2,
        _t_decode=c("row_tpot_ms") * c("accepted_tokens"),
        # a prefill worker's own decode step is in no row
        _weight_read=prefill.dense_read_ms + prefill.experts_read_ms,
    )
    attention = prefill.prefill_attention_ms(batch, attention_flops(prefill.spec.attention, c("prefix_tokens"), new))
    points = points.with_columns(_attention_share=priced_share(c("_prefill_before"), attention))
    return points.with_columns(
        _linear=c("_prefill_before") - c("_attention_share") * attention,
        _read_before=decode.decode_attention_ms(c("decode_batch"), c("_context")),
    )


def link_bytes_per_s(gpu: Gpu) -> pl.Expr:
    """The link between the pools: the scale-up network where the replica fits it, else the one between nodes."""
    fits = pl.col("gpus_per_replica") <= gpu.scale_up_gpus
    return pl.when(fits).then(gpu.scale_up_bytes_per_s).otherwise(gpu.scale_out_bytes_per_s)
