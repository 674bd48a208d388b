"""Disaggregated rows: both pools moved to the agent's workload apart, and matched again (MODEL 5.2)."""

import polars as pl

from schemas.dtypes import BYTES_PER_WEIGHT
from schemas.hardware import Hardware
from schemas.models import ModelSpec
from transforms.agent_points.columns import attention_flops_per_s, by_dtype, kv_element_bytes, turn_figures
from transforms.agent_points.workload import Prefill, Workload
from transforms.equations import disaggregation as pools
from transforms.equations.kv_memory import attention_flops, kv_bytes, kv_read_bytes_per_gpu
from transforms.equations.transfer import (
    KV_READ_EFFICIENCY,
    attention_ms,
    fixed_part_ms,
    kv_read_ms,
    moved_decode_step_ms,
    moved_prefill_ms,
)
from transforms.numbers import Number, maximum


def carry_disaggregated(
    points: pl.DataFrame, workload: Workload, spec: ModelSpec, prefill_gpu: Hardware, decode_gpu: Hardware
) -> pl.DataFrame:
    """Rows of disaggregated replicas at the agent's workload; all of one model and pair of GPUs.

    Adds the turn figures and ``serving_requests_per_s``. ``workload`` is that of a prefill pool that
    has not seen the output. The row's TTFT carries the handover of its own new tokens; what an agent
    hands over beyond them is added.
    """
    c = pl.col
    new_before = c("isl_tokens") - c("prefix_tokens")
    batch = c("prefill_batch")

    def attention(flops: Number) -> Number:
        return batch * attention_ms(flops, c("prefill_tp"), c("_attention_flops_per_s"))

    def read_ms(tokens: Number) -> Number:
        per_gpu = kv_read_bytes_per_gpu(spec.attention, tokens, c("_kv_element_bytes"), c("decode_tp"))
        return kv_read_ms(c("decode_batch"), per_gpu, decode_gpu.hbm_bandwidth_bytes_per_s)

    points = points.with_columns(
        _kv_element_bytes=kv_element_bytes(), _attention_flops_per_s=attention_flops_per_s(prefill_gpu)
    )
    points = points.with_columns(
        _prefill_before=pools.prefill_of_row_ms(c("row_ttft_ms")),
        _attention_before=attention(attention_flops(spec.attention, c("prefix_tokens"), new_before)),
    )
    points = points.with_columns(_linear=maximum(c("_prefill_before") - c("_attention_before"), 0.0))
    points = points.with_columns(_fixed=fixed_part_ms(c("_linear"), _weight_read_ms(spec, prefill_gpu)))

    def prefill_ms(prefill: Prefill) -> Number:
        linear = moved_prefill_ms(c("_linear"), c("_fixed"), new_before, prefill.new_tokens)
        return linear + attention(prefill.attention_flops)

    def ttft_ms(prefill: Prefill) -> Number:
        more_tokens = maximum(prefill.new_tokens - new_before, 0.0)
        moved = kv_bytes(spec.attention, more_tokens, c("_kv_element_bytes"))
        handover = pools.handover_ms(moved, c("prefill_tp"), _link_bytes_per_s(prefill_gpu))
        return prefill_ms(prefill) * pools.TTFT_QUEUE_FACTOR + handover

    tpot = moved_decode_step_ms(
        c("row_tpot_ms") * c("accepted_tokens"),
        read_ms(c("isl_tokens") + c("osl_tokens") / 2),
        read_ms(workload.decode_context_tokens),
    )
    points = points.with_columns(_tpot=tpot / c("accepted_tokens"), _prefill=prefill_ms(workload.mean))
    points = points.with_columns(
        **turn_figures(
            ttft_ms(workload.mean),
            ttft_ms(workload.first),
            ttft_ms(workload.last),
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


def _weight_read_ms(spec: ModelSpec, gpu: Hardware) -> pl.Expr:
    """One read of a prefill worker's weights, in ms; its own decode step is in no row."""
    per_gpu = by_dtype("linear_dtype", {d: spec.non_expert_bytes(d) for d in BYTES_PER_WEIGHT})
    per_gpu = per_gpu / (pl.col("prefill_tp") * pl.col("prefill_pp"))
    if spec.moe:
        experts = by_dtype("expert_dtype", {d: spec.expert_bytes(d) for d in BYTES_PER_WEIGHT})
        per_gpu = per_gpu + experts / (pl.col("prefill_tp") * pl.col("prefill_pp") * pl.col("prefill_dp"))
    return 1e3 * per_gpu / (gpu.hbm_bandwidth_bytes_per_s * KV_READ_EFFICIENCY)


def _link_bytes_per_s(gpu: Hardware) -> pl.Expr:
    """The link between the pools: the scale-up network where the replica fits it, else the one between nodes."""
    fits = pl.col("gpus_per_replica") <= gpu.scale_up_gpus
    return pl.when(fits).then(gpu.scale_up_bytes_per_s).otherwise(gpu.scale_out_bytes_per_s)
