"""Disaggregated roofline rows: each pool's worker from peak rates, their rates matched (MODEL sections 3 and 5.2)."""

import polars as pl

from schemas.models import ModelSpec
from transforms.agent_points.columns import kv_element_bytes
from transforms.agent_points.disaggregated import link_bytes_per_s
from transforms.agent_points.gpu import Gpu
from transforms.agent_points.roofline_points import TurnTimes, decode_step_s, prefill_batch_s
from transforms.agent_points.roofline_replica import RooflineReplica
from transforms.agent_points.workload import Prefill, Workload
from transforms.equations import disaggregation as pools
from transforms.equations.kv_memory import kv_bytes
from transforms.numbers import Number


def carry_roofline_pools(
    points: pl.DataFrame, workload: Workload, spec: ModelSpec, prefill_gpu: Gpu, decode_gpu: Gpu
) -> pl.DataFrame:
    """Disaggregated roofline rows of one preset at the agent's workload; all of one model.

    ``workload`` is that of a prefill pool that has not seen the output.
    """
    times = pool_times(points, workload, spec, prefill_gpu, decode_gpu)
    return points.with_columns(
        **times.figures(workload.output_tokens),
        serving_requests_per_s=pl.Series(times.requests_per_s),
        transfer_method=pl.lit("roofline"),
    )


def pool_times(
    points: pl.DataFrame, workload: Workload, spec: ModelSpec, prefill_gpu: Gpu, decode_gpu: Gpu
) -> TurnTimes:
    """Times of disaggregated replicas of one preset (``backend_version``), as arrays of one entry a row.

    A prefill worker takes one prompt at a time, a decode worker a step of its whole batch. Queueing before a
    prefill and what matching takes off each pool are those of MODEL 5.2; the KV of a turn's new tokens is handed
    over between the pools. Raises ``KeyError`` for an unknown preset.
    """
    preset, context = str(points["backend_version"].first()), workload.decode_context_tokens
    prefill_worker = RooflineReplica.of_rows(points, spec, prefill_gpu, context, "prefill_")
    decode_worker = RooflineReplica.of_rows(points, spec, decode_gpu, context)
    row = _Rows(points)

    def prefill_s(prefill: Prefill) -> Number:
        return prefill_batch_s(preset, prefill_worker, prefill, workload, spec)

    def ttft_s(prefill: Prefill) -> Number:
        moved = kv_bytes(spec.attention, prefill.new_tokens, row.of(kv_element_bytes()))
        handover = pools.handover_ms(moved, row.of(pl.col("prefill_tp")), row.of(link_bytes_per_s(prefill_gpu)))
        return prefill_s(prefill) * pools.TTFT_QUEUE_FACTOR + handover / 1e3

    tpot_s = decode_step_s(preset, decode_worker, row.of(pl.col("decode_batch")), workload, spec)
    rate = pools.matched_rate(
        pools.prefill_pool_rate(
            row.of(pl.col("prefill_workers")), row.of(pl.col("prefill_dp")), 1e3 * prefill_s(workload.mean)
        ),
        pools.decode_pool_rate(
            row.of(pl.col("decode_workers")),
            row.of(pl.col("decode_batch") * pl.col("decode_dp")),
            1e3 * tpot_s,
            workload.output_tokens,
        ),
    )
    return TurnTimes(ttft_s(workload.mean), ttft_s(workload.first), ttft_s(workload.last), tpot_s, rate)


class _Rows:
    """Expressions on rows as arrays of one entry a row."""

    def __init__(self, rows: pl.DataFrame) -> None:
        self._rows = rows

    def of(self, expression: pl.Expr) -> Number:
        return self._rows.select(expression.cast(pl.Float64)).to_series().to_numpy()
