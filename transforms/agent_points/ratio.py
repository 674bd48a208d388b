"""Rows that cannot be taken apart: carried over by the ratio of the roofline's times (MODEL 5.2).

For rows without scheduler columns, or whose figures are not those of the scheduler that they name.
Overheads scale with the work here, which they do not: measured in MODEL 5.2 at 28 % mean error.
"""

from dataclasses import dataclass
from typing import ClassVar

from schemas.models import ModelSpec
from transforms.agent_points.columns import turn_figures
from transforms.agent_points.gpu import Gpu
from transforms.agent_points.roofline_points import article_decode_s, article_prefill_s
from transforms.agent_points.roofline_replica import RooflineReplica
from transforms.agent_points.rows import Flags, Indices, Rows
from transforms.agent_points.workload import Prefill, Workload
from transforms.numbers import Number


@dataclass(frozen=True)
class RatioRows:
    """Any rows of one model."""

    method: ClassVar[str] = "ratio"
    rows: Rows
    spec: ModelSpec

    def take(self, which: Flags | Indices) -> "RatioRows":
        """Those of the rows."""
        return RatioRows(self.rows.take(which), self.spec)

    def carry(self, workload: Workload) -> dict[str, Number]:
        """At the agent's workload: TTFT and TPOT times the ratio of the roofline's.

        Gives the turn figures and ``serving_requests_per_s``: the requests in flight stay, so throughput goes with
        1/R.
        """
        rows, spec, isl = self.rows, self.spec, self.rows["isl_tokens"]
        prefill_gpu, decode_gpu = Gpu.of_rows(rows, "prefill"), Gpu.of_rows(rows, "decode")

        def tpot_s(context_tokens: Number) -> Number:
            replica = RooflineReplica.of_rows(rows, spec, decode_gpu, context_tokens)
            return article_decode_s(replica, rows["batch_per_rank"], spec)

        replica = RooflineReplica.of_rows(rows, spec, prefill_gpu, workload.decode_context_tokens)
        prefill_before = article_prefill_s(replica, isl - rows["prefix_tokens"], spec)

        def ttft(prefill: Prefill) -> Number:
            return rows["row_ttft_ms"] * article_prefill_s(replica, prefill.new_tokens, spec) / prefill_before

        tpot = rows["row_tpot_ms"] * tpot_s(workload.decode_context_tokens) / tpot_s(isl + rows["osl_tokens"] / 2)
        mean, first, last = workload.of_each_turn(ttft)
        turn = turn_figures(mean, first, last, tpot, workload.output_tokens)
        rate = rows["row_requests_per_s"] * rows["row_latency_ms"] / turn["turn_latency_ms"]
        return {**turn, "serving_requests_per_s": rate}

    def prefill_slopes(self, light: Prefill, heavy: Prefill) -> tuple[Number, Number]:
        """TTFT goes with the tokens; the ratio knows no attention."""
        return self.rows["row_ttft_ms"] / (self.rows["isl_tokens"] - self.rows["prefix_tokens"]), 0.0
