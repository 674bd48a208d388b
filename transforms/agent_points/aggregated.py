"""Aggregated rows: engine steps moved to the agent's workload and put together again (MODEL 5.2)."""

import polars as pl

from schemas.hardware import Hardware
from schemas.models import ModelSpec
from transforms.agent_points.columns import attention_flops_per_s, kv_element_bytes, turn_figures
from transforms.agent_points.workload import Prefill, Workload
from transforms.configurations import CONFIGURATION_ID
from transforms.equations import engine_steps as steps
from transforms.equations.kv_memory import attention_flops, kv_read_bytes_per_gpu
from transforms.equations.transfer import (
    attention_ms,
    fixed_part_ms,
    kv_read_ms,
    moved_decode_step_ms,
    moved_prefill_ms,
)
from transforms.numbers import Number, maximum
from transforms.steps import cycle_columns, replica_rate


def carry_aggregated(points: pl.DataFrame, workload: Workload, spec: ModelSpec, gpu: Hardware) -> pl.DataFrame:
    """Rows with ``mixed_step_ms`` and ``decode_step_ms`` at the agent's workload.

    Adds the turn figures and ``serving_requests_per_s``; all rows are of one model and GPU.
    """
    c = pl.col
    layers = {spec.slug: spec.layers}
    new_before = c("isl_tokens") - c("prefix_tokens")

    def read_ms(contexts: pl.Expr, tokens: Number) -> Number:
        per_gpu = kv_read_bytes_per_gpu(spec.attention, tokens, c("_kv_element_bytes"), c("tp"))
        return kv_read_ms(contexts, per_gpu, gpu.hbm_bandwidth_bytes_per_s)

    def attention(flops: Number) -> Number:
        return attention_ms(flops, c("tp"), c("_attention_flops_per_s")) * c("context_requests_per_step")

    # the row's own steps, taken apart
    points = points.with_columns(
        **cycle_columns(c("osl_tokens"), layers),
        _kv_element_bytes=kv_element_bytes(),
        _attention_flops_per_s=attention_flops_per_s(gpu),
        _beside=maximum(c("batch_per_rank") - c("context_requests_per_step"), 0.0),
    )
    context_before = c("isl_tokens") + c("osl_tokens") / 2
    points = points.with_columns(
        _rate_of_steps=replica_rate(c("mixed_step_ms"), c("decode_step_ms"), c("row_latency_ms")),
        _read_before=read_ms(c("batch_per_rank"), context_before),
        _read_after=read_ms(c("batch_per_rank"), workload.decode_context_tokens),
        _beside_before=read_ms(c("_beside"), context_before),
        _beside_after=read_ms(c("_beside"), workload.decode_context_tokens),
        _attention_before=attention(attention_flops(spec.attention, c("prefix_tokens"), new_before)),
    )
    points = points.with_columns(
        _weight_read=_weight_read_ms(),
        _linear=maximum(c("mixed_step_ms") - c("_beside_before") - c("_attention_before"), 0.0),
    )
    points = points.with_columns(_fixed=fixed_part_ms(c("_linear"), c("_weight_read")))

    # the same steps at the agent's workload, put together again
    t_dec = moved_decode_step_ms(c("decode_step_ms"), c("_read_before"), c("_read_after"))

    def prefill_ms(prefill: Prefill) -> Number:
        linear = moved_prefill_ms(c("_linear"), c("_fixed"), new_before, prefill.new_tokens)
        return linear + attention(prefill.attention_flops)

    points = points.with_columns(
        **cycle_columns(pl.lit(workload.output_tokens), layers),
        _t_dec=t_dec,
        _prefill=prefill_ms(workload.mean),
        _own_first=(prefill_ms(workload.first) - prefill_ms(workload.mean)) / c("context_requests_per_step"),
        _own_last=(prefill_ms(workload.last) - prefill_ms(workload.mean)) / c("context_requests_per_step"),
    )
    points = points.with_columns(_t_mix=maximum(c("_prefill") + c("_beside_after"), c("_t_dec")))
    ttft = steps.ttft(c("_t_mix"), c("_queue_factor"), c("_dispatch_ms"))
    tpot = steps.tpot(c("_t_mix"), c("_t_dec"), c("_tpot_mixed"), c("_decode_steps")) / c("accepted_tokens")
    shortest = maximum(c("_t_dec"), 0.0)
    points = points.with_columns(
        **turn_figures(
            ttft,
            maximum(ttft + c("_own_first"), shortest),
            maximum(ttft + c("_own_last"), shortest),
            tpot,
            workload.output_tokens,
        )
    )
    rate = replica_rate(c("_t_mix"), c("_t_dec"), c("turn_latency_ms"))
    return points.with_columns(
        # a table's throughput is within its rounding of its own steps: keep the table's
        serving_requests_per_s=rate * c("row_requests_per_s") / c("_rate_of_steps"),
        transfer_method=pl.lit("transfer"),
    )


def _weight_read_ms() -> pl.Expr:
    """``W``: the decode step at the configuration's largest batch less its KV time, in ms."""
    rest = pl.col("decode_step_ms") - pl.col("_read_before")
    largest = pl.col("batch_per_rank") == pl.col("batch_per_rank").max()
    return rest.filter(largest).first().over(CONFIGURATION_ID)
