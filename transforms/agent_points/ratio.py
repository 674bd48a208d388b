"""Rows that cannot be taken apart: carried over by the ratio of the roofline's times (MODEL 5.2).

For rows without scheduler columns, or whose figures are not those of the scheduler that they name.
Overheads scale with the work here, which they do not: measured in MODEL 5.2 at 28 % mean error.
"""

import polars as pl

from schemas.models import ModelSpec
from transforms.agent_points.columns import turn_figures
from transforms.agent_points.gpu import Gpu
from transforms.agent_points.roofline_points import article_decode_s, article_prefill_s
from transforms.agent_points.roofline_replica import RooflineReplica
from transforms.agent_points.workload import Prefill, Workload
from transforms.numbers import Number


def carry_by_ratio(
    points: pl.DataFrame, workload: Workload, spec: ModelSpec, prefill_gpu: Gpu, decode_gpu: Gpu
) -> pl.DataFrame:
    """Any rows at the agent's workload: TTFT and TPOT times the ratio of the roofline's.

    The requests in flight stay, so throughput goes with 1/R.
    """
    c = pl.col

    def tpot_s(context_tokens: Number) -> Number:
        replica = RooflineReplica.of_columns(spec, decode_gpu, context_tokens)
        return article_decode_s(replica, c("batch_per_rank"), spec)

    replica = RooflineReplica.of_columns(spec, prefill_gpu, workload.decode_context_tokens)
    prefill_before = article_prefill_s(replica, c("isl_tokens") - c("prefix_tokens"), spec)

    def ttft(prefill: Prefill) -> Number:
        return c("row_ttft_ms") * article_prefill_s(replica, prefill.new_tokens, spec) / prefill_before

    context_before = c("isl_tokens") + c("osl_tokens") / 2
    tpot = c("row_tpot_ms") * tpot_s(workload.decode_context_tokens) / tpot_s(context_before)
    return points.with_columns(
        **turn_figures(ttft(workload.mean), ttft(workload.first), ttft(workload.last), tpot, workload.output_tokens)
    ).with_columns(
        serving_requests_per_s=c("row_requests_per_s") * c("row_latency_ms") / c("turn_latency_ms"),
        transfer_method=pl.lit("ratio"),
    )
