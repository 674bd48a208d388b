"""Aggregated rows: engine steps moved to the agent's workload and put together again (MODEL 5.2)."""

import polars as pl

from schemas.models import ModelSpec
from transforms.agent_points.columns import turn_figures
from transforms.agent_points.gpu import Gpu
from transforms.agent_points.linear_work import linear_ms, linear_samples, moved_linear_ms
from transforms.agent_points.measured_reads import with_read_correction
from transforms.agent_points.step_parts import StepParts
from transforms.agent_points.workload import Prefill, Workload
from transforms.configurations import CONFIGURATION_ID
from transforms.equations import engine_steps as steps
from transforms.equations.kv_memory import attention_flops
from transforms.equations.transfer import moved_decode_step_ms, priced_share
from transforms.numbers import Number, maximum
from transforms.steps import cycle_columns, decoding_beside_prefill, replica_rate


def carry_aggregated(
    points: pl.DataFrame, workload: Workload, spec: ModelSpec, gpu: Gpu, told: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Rows with ``mixed_step_ms`` and ``decode_step_ms`` at the agent's workload.

    Adds the turn figures and ``serving_requests_per_s``; all rows are of one model. ``told``: all rows
    of these configurations, whatever their workload; more of them say more of the steps.
    """
    c = pl.col
    parts = StepParts(spec, gpu)
    layers = {spec.slug: spec.layers}
    batch, together = c("batch_per_rank"), c("context_requests_per_step")
    points = take_apart(points, parts)
    known = points if told is None or told.height == points.height else take_apart(told, parts)
    samples = linear_samples(known, CONFIGURATION_ID)
    points = with_read_correction(points, known, CONFIGURATION_ID)

    # the same steps at the agent's workload, put together again
    points = points.with_columns(**cycle_columns(pl.lit(workload.output_tokens), layers))
    points = points.with_columns(_beside=decoding_beside_prefill(pl.lit(workload.output_tokens)))
    points = points.with_columns(
        _t_dec=moved_decode_step_ms(
            c("decode_step_ms"),
            c("_read_correction") * c("_read_before"),
            c("_read_correction") * parts.decode_attention_ms(batch, workload.decode_context_tokens),
        ),
        _beside_read_after=parts.decode_attention_ms(c("_beside"), workload.decode_context_tokens),
        _linear_before=linear_ms(points, samples, c("_step_tokens"), CONFIGURATION_ID),
    )

    def prefill_ms(prefill: Prefill) -> Number:
        """Prefills of one mixed step; the row's own distance from its configuration's curve is kept."""
        after = linear_ms(points, samples, together * prefill.new_tokens + c("_beside"), CONFIGURATION_ID)
        linear = moved_linear_ms(c("_linear"), c("_linear_before"), pl.lit(after))
        return linear + c("_attention_share") * parts.prefill_attention_ms(together, prefill.attention_flops)

    points = points.with_columns(
        _prefill=prefill_ms(workload.mean), _first=prefill_ms(workload.first), _last=prefill_ms(workload.last)
    )
    mixed = c("_prefill") + c("_attention_share") * c("_beside_read_after")
    # a mixed step decodes too: not below a decode step, unless the row's own is
    is_longer = c("mixed_step_ms") >= c("decode_step_ms")
    points = points.with_columns(_t_mix=pl.when(is_longer).then(maximum(mixed, c("_t_dec"))).otherwise(mixed))
    ttft = steps.ttft(c("_t_mix"), c("_queue_factor"), c("_dispatch_ms"))
    tpot = steps.tpot(c("_t_mix"), c("_t_dec"), c("_tpot_mixed"), c("_decode_steps")) / c("accepted_tokens")
    shortest = maximum(c("_t_dec"), 0.0)
    points = points.with_columns(
        **turn_figures(
            ttft,
            maximum(ttft + (c("_first") - c("_prefill")) / together, shortest),
            maximum(ttft + (c("_last") - c("_prefill")) / together, shortest),
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


def take_apart(points: pl.DataFrame, parts: StepParts) -> pl.DataFrame:
    """The rows' steps in their parts: ``_read_before`` (KV of a decode step), ``_linear`` (a mixed step
    without attention) at ``_step_tokens``, ``_weight_read`` (a decode step of few tokens without attention)."""
    c = pl.col
    batch, together = c("batch_per_rank"), c("context_requests_per_step")
    new, context = c("isl_tokens") - c("prefix_tokens"), c("isl_tokens") + c("osl_tokens") / 2
    points = points.with_columns(**cycle_columns(c("osl_tokens"), {parts.spec.slug: parts.spec.layers}))
    points = points.with_columns(
        _t_decode=c("decode_step_ms"),
        _rate_of_steps=replica_rate(c("mixed_step_ms"), c("decode_step_ms"), c("row_latency_ms")),
        _beside=decoding_beside_prefill(c("osl_tokens")),
        _read_before=parts.decode_attention_ms(batch, context),
        _prompt_tokens=together * new,
        _context=context,
    )
    attention = parts.prefill_attention_ms(
        together, attention_flops(parts.spec.attention, c("prefix_tokens"), new)
    ) + parts.decode_attention_ms(c("_beside"), context)
    points = points.with_columns(_attention_share=priced_share(c("mixed_step_ms"), attention))
    return points.with_columns(
        _linear=c("mixed_step_ms") - c("_attention_share") * attention,
        _step_tokens=c("_prompt_tokens") + c("_beside"),
        _weight_read=_weight_read_ms(parts),
    )


def _weight_read_ms(parts: StepParts) -> Number:
    """``W``: a decode step at the configuration's smallest batch, where arithmetic weighs least, without
    its attention, and with the experts that so few tokens leave unread."""
    c = pl.col
    rest = c("decode_step_ms") - c("_read_before") + parts.unread_experts_ms(c("batch_per_rank"))
    smallest = c("batch_per_rank") == c("batch_per_rank").min().over(CONFIGURATION_ID)
    return rest.filter(smallest).mean().over(CONFIGURATION_ID)
