"""Measured rows of one aggregated deployment, taken apart into engine steps.

Rows of load generators state no scheduler. What their steps take is still in them, if the deployment was measured
with two prompt lengths: TTFT at the lowest load is a wait outside the GPUs (network, tokeniser, dispatch), the same
for every prompt, and a prefill that grows with its tokens. The line through two lengths tells the two apart. In a
cycle of ``b`` requests the engine prefills b times and decodes OSL - 1 times (model.md 5.2 with one prefill a step), so
the share ``1 - X * prefill`` of TPOT is decode.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from schemas.arrays import Array
from schemas.models import ModelSpec
from schemas.options import Pool
from transforms.agent_points.carriers.step_parts import StepParts
from transforms.agent_points.rows.gpu import Gpu
from transforms.agent_points.rows.rows import Rows
from transforms.equations.kv_memory import attention_flops

#: What becomes of a decode step at another context. ``scaled``: all of it by the ratio of its physics, as ``ratio``
#: does with whole rows; ``added``: the change in attention alone, overheads stay (model.md 5.2).
Overheads = Literal["scaled", "added"]

#: What tells one deployment from another among the rows of one model, hardware and precision.
DEPLOYMENT: Final = ("backend", "tp", "dp", "moe_ep")
#: Two prompt lengths tell slope from wait if one is so many times the other.
FAR_APART: Final = 2.0
#: Loads within this ratio are one load: their decode steps are averaged.
ONE_LOAD: Final = 1.25


@dataclass(frozen=True)
class MeasuredSteps:
    """Engine steps of one replica, at loads ``batch`` (ascending).

    ``rest_ms`` is a decode step less its attention, ``slowness`` a decode step over its physics (reads of weights and
    contexts).
    """

    row: pl.DataFrame  #: one row, with the private columns: what attention is priced for
    spec: ModelSpec
    wait_ms: float  #: of TTFT, outside the GPUs
    token_ms: float  #: of a prefill, per new token, beside attention
    batch: Array
    rest_ms: Array
    slowness: Array
    displaced: float = 1.0  #: how long a prefill keeps decoding from running, over how long it takes

    def prefill_ms(self, new_tokens: float, cached_tokens: float) -> float:
        """How long one prefill keeps the replica busy: one read of the weights, its products, its attention."""
        flops = float(attention_flops(self.spec.attention, cached_tokens, new_tokens))
        parts = self._parts("prefill")
        busy = parts.dense_read_ms + parts.experts_read_ms + parts.prefill_attention_ms(1.0, flops)
        return self.token_ms * new_tokens + float(busy[0])

    def decode_ms(self, batch: Array, context_tokens: float, overheads: Overheads) -> Array:
        """One decode step of so many requests; loads beyond those measured along the line of the two nearest."""
        if overheads == "added":
            return _along(batch, self.batch, self.rest_ms) + self.attention_ms(batch, context_tokens)
        # beyond the highest load the engine stays as slow as there
        slowness = _along(np.minimum(batch, self.batch[-1]), self.batch, self.slowness)
        return slowness * self.physics_ms(batch, context_tokens)

    def attention_ms(self, batch: Array, context_tokens: float) -> Array:
        """Attention of one decode step."""
        return np.asarray(self._parts("decode").decode_attention_ms(batch, context_tokens))

    def physics_ms(self, batch: Array, context_tokens: float) -> Array:
        """Weights that one decode step reads, and its attention."""
        parts = self._parts("decode")
        weights = parts.dense_read_ms + parts.experts_read_ms - parts.unread_experts_ms(np.maximum(batch, 1.0))
        return np.asarray(weights + self.attention_ms(batch, context_tokens))

    def _parts(self, pool: Pool) -> StepParts:
        rows = Rows(self.row)
        return StepParts(self.spec, rows, Gpu(rows, pool))


def measured_steps(rows: pl.DataFrame, spec: ModelSpec) -> MeasuredSteps:
    """The steps that the rows of one deployment tell; rows of ``serving_points`` with the private columns.

    Raises ``ValueError`` with the reason where they tell none: one prompt length, or figures that contradict
    each other (prefills that would keep the replica busy for more than all of its time: TTFT was not that of a
    prefill, as where kernels were compiled while requests waited).
    """
    shortest = rows.group_by("isl_tokens").agg(pl.col("ttft_ms").min()).sort("isl_tokens")
    (low, low_ms), (high, high_ms) = shortest.row(0), shortest.row(-1)
    if high < FAR_APART * low:
        raise ValueError(f"one prompt length ({low:g} tokens): the wait in TTFT cannot be told from the prefill")
    none = np.empty(0)
    told = MeasuredSteps(rows.head(1), spec, 0.0, 0.0, none, none, none)
    # the weights are read in both prefills: they cancel in the slope and stay in the wait's place, once
    low_rest, high_rest = low_ms - told.prefill_ms(low, 0.0), high_ms - told.prefill_ms(high, 0.0)
    token_ms = max(high_rest - low_rest, 0.0) / (high - low)
    told = replace(told, token_ms=token_ms, wait_ms=max(low_rest - token_ms * low, 0.0))
    samples = sorted(_sample(row, told) for row in rows.iter_rows(named=True))
    batch, rest, slowness = _one_a_load(samples).T
    return replace(told, batch=batch, rest_ms=np.maximum.accumulate(rest), slowness=slowness)


def usable_deployments(rows: pl.DataFrame, spec: ModelSpec) -> tuple[list[MeasuredSteps], list[str]]:
    """The deployments that can be taken apart, the one with most rows first; and why others cannot.

    ``rows``: aggregated, without draft tokens, of one hardware, model, precision and tp. Among as many rows the
    deployment with the lower mean TPOT comes first.
    """
    found: list[tuple[int, float, MeasuredSteps]] = []
    faults: list[str] = []
    for (backend, tp, dp, ep), part in rows.partition_by(DEPLOYMENT, as_dict=True, maintain_order=True).items():
        try:
            found.append((-part.height, float(part["tpot_ms"].to_numpy().mean()), measured_steps(part, spec)))
        except ValueError as fault:
            faults.append(f"{backend} TP{tp} DP{dp} EP{ep} ({part.height} rows): {fault}")
    return [steps for _, _, steps in sorted(found, key=lambda each: each[:2])], faults


def _sample(row: Mapping[str, Any], told: MeasuredSteps) -> tuple[float, float, float]:
    """Requests that decode in one row, their step less its attention, and their step over its physics."""
    busy = row["requests_per_s"] * told.prefill_ms(row["isl_tokens"], 0.0) / 1e3
    decoding = np.array([row["in_flight_requests"] * (1.0 - row["ttft_ms"] / row["request_latency_ms"])])
    context = row["isl_tokens"] + row["osl_tokens"] / 2
    step = row["tpot_ms"] * (1.0 - busy)
    rest = step - float(told.attention_ms(decoding, context)[0])
    if busy >= 1.0 or rest <= 0.0:
        raise ValueError(
            f"at concurrency {row['concurrency_reported']:g} prefills as long as TTFT says would take "
            f"{busy:.0%} of the time: TTFT is not that of a prefill"
        )
    return float(decoding[0]), rest, step / float(told.physics_ms(decoding, context)[0])


def _one_a_load(samples: Sequence[tuple[float, float, float]]) -> Array:
    """Means of samples at nearly one load."""
    groups: list[list[tuple[float, float, float]]] = []
    for sample in samples:
        if groups and sample[0] <= ONE_LOAD * groups[-1][0][0]:
            groups[-1].append(sample)
        else:
            groups.append([sample])
    return np.array([np.mean(group, axis=0) for group in groups])


def _along(batch: Array, known: Array, values: Array) -> Array:
    """Values between those known; beyond them along the line of the two nearest, never below half the last."""
    inside = np.interp(batch, known, values)
    if len(known) == 1:
        return np.asarray(inside)
    slopes = np.diff(values) / np.diff(known)
    below = values[0] + slopes[0] * (np.maximum(batch, 1.0) - known[0])
    above = values[-1] + slopes[-1] * (batch - known[-1])
    beyond = np.where(batch < known[0], np.maximum(below, values[0] / 2), np.maximum(above, values[-1] / 2))
    return np.asarray(np.where((batch < known[0]) | (batch > known[-1]), beyond, inside))
