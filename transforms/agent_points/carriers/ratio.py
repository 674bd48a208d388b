"""Rows that cannot be taken apart: carried over by the ratio of the roofline's times (model.md 5.2).

For rows without scheduler columns, or whose figures are not those of the scheduler that they name.
Overheads scale with the work here, which they do not: measured in model.md 5.2 at 28 % mean error.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

from schemas.arrays import Flags, Indices
from schemas.models import ModelSpec
from transforms.agent_points.carriers.last_answer import LastAnswer
from transforms.agent_points.carriers.roofline import RooflineReplica, article_decode_s
from transforms.agent_points.carriers.workload import Prefill, Workload
from transforms.agent_points.rows.columns import turn_figures
from transforms.agent_points.rows.gpu import Gpu
from transforms.agent_points.rows.lookups import Deployed
from transforms.agent_points.rows.rows import Rows
from transforms.equations.kv_memory import kv_read_bytes_per_gpu
from transforms.numbers import Number


@dataclass(frozen=True)
class RatioRows:
    """Any rows of one model."""

    method: ClassVar[str] = "ratio"
    rows: Rows
    spec: ModelSpec

    _known: LastAnswer[float, Number] = field(default_factory=LastAnswer, repr=False, compare=False)

    def take(self, which: Flags | Indices) -> "RatioRows":
        """Those of the rows."""
        return RatioRows(self.rows.take(which), self.spec)

    def figures_at(self, workload: Workload) -> dict[str, Number]:
        """At the agent's workload: TTFT and TPOT times the ratio of the roofline's.

        Gives the turn figures and ``serving_requests_per_s``: the requests in flight stay, so throughput goes with
        1/R.
        """
        rows = self.rows

        def ttft(prefill: Prefill) -> Number:
            return self._ttft_ms_per_token * prefill.new_tokens

        context = workload.decode_context_tokens
        # hits and misses decode alike
        tpot = self._known.to(context, lambda: self._tpot_over_roofline * self._tpot_s(context))
        mean, first, last = workload.of_each_turn(ttft)
        turn = turn_figures(mean, first, last, tpot, workload.output_tokens)
        rate = rows["row_requests_per_s"] * rows["row_latency_ms"] / turn["turn_latency_ms"]
        return {**turn, "serving_requests_per_s": rate}

    def prefill_slopes(self, light: Prefill, heavy: Prefill) -> tuple[Number, Number]:
        """TTFT goes with the tokens; the ratio knows no attention."""
        return self._ttft_ms_per_token, 0.0

    @cached_property
    def _ttft_ms_per_token(self) -> Number:
        """The roofline's prefill goes with its new tokens (Eq. 2), and so does their ratio."""
        rows = self.rows
        return rows["row_ttft_ms"] / (rows["isl_tokens"] - rows["prefix_tokens"])

    @cached_property
    def _decoding(self) -> RooflineReplica:
        return RooflineReplica.of_rows(self.rows, self.spec, Gpu(self.rows, "decode"), 0.0)

    @cached_property
    def _tpot_over_roofline(self) -> Number:
        """TPOT of the rows over that of the roofline at their own workload."""
        return self.rows["row_tpot_ms"] / self._tpot_s(self.rows["isl_tokens"] + self.rows["osl_tokens"] / 2)

    def _tpot_s(self, context: Number) -> Number:
        """TPOT of the roofline at the rows' batches."""
        rows, deployed = self.rows, Deployed(self.rows)
        read = kv_read_bytes_per_gpu(self.spec.attention, context, deployed.kv_element_bytes, deployed.rank_tp)
        return article_decode_s(replace(self._decoding, kv_bytes=read), rows["batch_per_rank"], self.spec)
