"""Aggregated rows: engine steps moved to the agent's workload and put together again (model.md 5.2)."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
import polars as pl

from schemas.arrays import Array, Flags, Indices
from schemas.models import ModelSpec
from transforms.agent_points.carriers.last_answer import LastAnswer
from transforms.agent_points.carriers.linear_work import MovableSteps, StepsApart
from transforms.agent_points.carriers.step_parts import StepParts
from transforms.agent_points.carriers.workload import Prefill, Workload
from transforms.agent_points.rows.columns import turn_figures
from transforms.agent_points.rows.gpu import Gpu
from transforms.agent_points.rows.lookups import Deployed
from transforms.agent_points.rows.rows import Rows
from transforms.configurations import CONFIGURATION_ID
from transforms.equations import engine_steps as equations
from transforms.equations.kv_memory import attention_flops
from transforms.equations.transfer import priced_share
from transforms.numbers import Number
from transforms.serving_points.step_times import (
    Cycle,
    cycle_of,
    decode_iterations,
    decoding_beside_prefill,
    replica_rate,
)


@dataclass(frozen=True)
class _Decoding:
    """What rows do beside prefilling at one context and output: a cycle of their batch, a decode step, and who decodes
    beside the prefills of a mixed step."""

    cycle: Cycle
    step_ms: Number
    beside_prefill: Number
    attention_beside_prefill_ms: Number


@dataclass(frozen=True)
class EngineSteps:
    """Rows with ``mixed_step_ms`` and ``decode_step_ms``, taken apart; all rows are of one model."""

    method: ClassVar[str] = "transfer"
    rows: Rows
    spec: ModelSpec
    steps: MovableSteps
    rate_of_steps: Array  #: requests a second that the row's own steps give back

    _known: LastAnswer[tuple[float, float], _Decoding] = field(default_factory=LastAnswer, repr=False, compare=False)

    @classmethod
    def taken_apart(cls, rows: Rows, spec: ModelSpec) -> "EngineSteps":
        """The rows' steps in their parts. More workloads of a configuration say more of how these move."""
        apart, rate = _apart(rows, StepParts(spec, rows, Gpu(rows, "decode")))
        configurations = rows.select([CONFIGURATION_ID, "batch_per_rank"])
        return cls(rows, spec, MovableSteps.of(apart, configurations, CONFIGURATION_ID, CONFIGURATION_ID), rate)

    def take(self, which: Flags | Indices) -> "EngineSteps":
        """Those of the rows; what the others have told of them stays."""
        return EngineSteps(self.rows.take(which), self.spec, self.steps.take(which), self.rate_of_steps[which])

    def figures_at(self, workload: Workload) -> dict[str, Number]:
        """The same steps at the agent's workload, put together again: turn figures and ``serving_requests_per_s``."""
        rows, together = self.rows, self.rows["context_requests_per_step"]
        # hits and misses decode alike
        decodes = workload.decode_context_tokens, workload.output_tokens
        decoding = self._known.to(decodes, lambda: self._decoding(*decodes))
        cycle, t_dec = decoding.cycle, decoding.step_ms

        def prefill_ms(prefill: Prefill) -> Number:
            """Prefills of one mixed step."""
            linear = self.steps.linear_ms(together * prefill.new_tokens + decoding.beside_prefill)
            return linear + prefill.attention_flops * self._attention_ms_per_flop

        mean, first, last = workload.of_each_turn(prefill_ms)
        mixed = mean + decoding.attention_beside_prefill_ms
        # a mixed step decodes too: not below a decode step, unless the row's own is
        t_mix = np.where(self._mixed_is_longer, np.maximum(mixed, t_dec), mixed)
        ttft = equations.ttft(t_mix, cycle.queue_factor, cycle.dispatch_ms)
        tpot = equations.tpot(t_mix, t_dec, cycle.tpot_mixed, cycle.decode_only) / rows["accepted_tokens"]
        shortest = np.maximum(t_dec, 0.0)
        figures = turn_figures(
            ttft,
            np.maximum(ttft + (first - mean) / together, shortest),
            np.maximum(ttft + (last - mean) / together, shortest),
            tpot,
            workload.output_tokens,
        )
        rate = _rate(rows, cycle, t_mix, t_dec, figures["turn_latency_ms"])
        # a table's throughput is within its rounding of its own steps: keep the table's
        return {**figures, "serving_requests_per_s": rate * rows["row_requests_per_s"] / self.rate_of_steps}

    def prefill_slopes(self, light: Prefill, heavy: Prefill) -> tuple[Number, Number]:
        """Of one of the prefills of a mixed step, between two of them."""
        together = self.rows["context_requests_per_step"]
        less, more = (self.steps.linear_ms(together * turn.new_tokens) for turn in (light, heavy))
        per_token = (more - less) / together / (heavy.new_tokens - light.new_tokens)
        return per_token, self._attention_ms_per_flop / together

    def _decoding(self, context_tokens: float, output_tokens: float) -> _Decoding:
        rows, parts = self.rows, self._parts
        cycle, beside = _cycle(rows, output_tokens)
        step_ms = self.steps.decode_ms(parts.decode_attention_ms(rows["batch_per_rank"], context_tokens))
        attention = self.steps.apart.attention_share * parts.decode_attention_ms(beside, context_tokens)
        return _Decoding(cycle, step_ms, beside, attention)

    @cached_property
    def _parts(self) -> StepParts:
        return StepParts(self.spec, self.rows, Gpu(self.rows, "decode"))

    @cached_property
    def _attention_ms_per_flop(self) -> Number:
        """Of the prefills of one mixed step, FLOPs being those of one of them."""
        together = self.rows["context_requests_per_step"]
        return self.steps.apart.attention_share * self._parts.prefill_attention_ms(together, 1.0)

    @cached_property
    def _mixed_is_longer(self) -> Flags:
        return np.asarray(self.rows["mixed_step_ms"] >= self.rows["decode_step_ms"])


def _cycle(rows: Rows, output_tokens: Number) -> tuple[Cycle, Number]:
    """The cycle of each row's batch with requests of so many tokens, and those that decode beside a prefill."""
    deployed, batch, together = Deployed(rows), rows["batch_per_rank"], rows["context_requests_per_step"]
    serial = deployed.is_serial
    iterations = decode_iterations(output_tokens, rows["accepted_tokens"])
    cycle = cycle_of(serial, batch, together, iterations, deployed.dispatch_ms)
    return cycle, decoding_beside_prefill(serial, batch, together, cycle, iterations)


def _rate(rows: Rows, cycle: Cycle, t_mix: Number, t_dec: Number, latency_ms: Number) -> Number:
    return replica_rate(
        Deployed(rows).is_serial, rows["batch_per_rank"], rows["dp"] * rows["pp"], cycle, t_mix, t_dec, latency_ms
    )


def _apart(rows: Rows, parts: StepParts) -> tuple[StepsApart, Array]:
    """The rows' steps in their parts, and the requests a second that these give back."""
    batch, together, t_mix, t_dec = (
        rows[name] for name in ("batch_per_rank", "context_requests_per_step", "mixed_step_ms", "decode_step_ms")
    )
    isl, osl, prefix = rows["isl_tokens"], rows["osl_tokens"], rows["prefix_tokens"]
    new, context = isl - prefix, isl + osl / 2
    cycle, beside = _cycle(rows, osl)
    attention = parts.prefill_attention_ms(
        together, attention_flops(parts.spec.attention, prefix, new)
    ) + parts.decode_attention_ms(beside, context)
    share = priced_share(t_mix, attention)
    read = parts.decode_attention_ms(batch, context)
    # ``W``: a decode step without its attention, and with the experts that so few tokens leave unread
    rest = t_dec - read + parts.unread_experts_ms(batch)
    apart = StepsApart(
        prompt_tokens=together * new,
        step_tokens=together * new + beside,
        linear_ms=t_mix - share * attention,
        attention_share=share,
        weight_read_ms=_at_smallest_batch(rows, rest),
        decode_ms=t_dec,
        read_ms=read,
        context_tokens=context,
    )
    return apart, np.asarray(_rate(rows, cycle, t_mix, t_dec, rows["row_latency_ms"]))


def _at_smallest_batch(rows: Rows, values: Array) -> Array:
    """The values at each configuration's smallest batch, where arithmetic weighs least."""
    c = pl.col
    frame = rows.select([CONFIGURATION_ID, "batch_per_rank"]).with_columns(_value=pl.Series(values, nan_to_null=True))
    priced = frame.filter(c("_value").is_not_null())
    smallest = priced.filter(c("batch_per_rank") == c("batch_per_rank").min().over(CONFIGURATION_ID))
    means = smallest.group_by(CONFIGURATION_ID, maintain_order=True).agg(c("_value").mean())
    joined = frame.select(CONFIGURATION_ID).join(means, on=CONFIGURATION_ID, how="left", maintain_order="left")
    return np.asarray(joined["_value"].to_numpy())
