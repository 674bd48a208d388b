"""Serving points taken apart into engine steps (model.md 5.2)."""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from transforms.equations import engine_steps as steps
from transforms.numbers import Number, if_else, largest, rounded_up, smallest

#: Engines whose scheduler the step equations describe.
BATCHING_BACKENDS = ("trtllm", "sglang")
SERIAL_BACKENDS = ("vllm",)
#: A row whose throughput is not that of its own steps was not made by this scheduler. Rates are
#: printed with three decimals.
STEP_TOLERANCE = 0.01


@dataclass(frozen=True)
class Cycle:
    """The counts of one cycle of a batch's requests, and the waits that go with them; one number a row each."""

    mixed: Number
    queue_factor: Number
    dispatch_ms: Number
    tpot_mixed: Number
    decode_only: Number


def is_serial() -> pl.Expr:
    """Whether a row's engine batches as vLLM does."""
    return pl.col("backend").is_in(SERIAL_BACKENDS)


def add_step_times(points: pl.DataFrame, layers: Mapping[str, int]) -> pl.DataFrame:
    """The points with ``mixed_step_ms`` and ``decode_step_ms``, NULL where they cannot be told.

    They can be told on aggregated rows with scheduler columns whose throughput the two steps give
    back. ``layers`` maps a model's slug to its layers.
    """
    c = pl.col
    dispatch = c("model").replace_strict(
        {slug: steps.VLLM_DISPATCH_MS_PER_LAYER * count for slug, count in layers.items()},
        default=None, return_dtype=pl.Float64,
    )  # fmt: skip
    batch, accepted = c("batch_per_rank"), c("accepted_tokens")
    cycle = cycle_of(
        is_serial(), batch, c("context_requests_per_step"), decode_iterations(c("osl_tokens"), accepted),
        pl.when(is_serial()).then(dispatch).otherwise(0.0),
    )  # fmt: skip
    points = points.with_columns(number.alias(f"_cycle_{name}") for name, number in vars(cycle).items())
    cycle = Cycle(**{name: c(f"_cycle_{name}") for name in vars(cycle)})
    t_mix = steps.mixed_step_of_row(c("ttft_ms"), cycle.queue_factor, cycle.dispatch_ms)
    points = points.with_columns(_t_mix=t_mix)
    t_dec = steps.decode_step_of_row(c("tpot_ms") * accepted, c("_t_mix"), cycle.tpot_mixed, cycle.decode_only)
    points = points.with_columns(_t_dec=pl.when(cycle.decode_only > 0).then(t_dec))
    rate = replica_rate(is_serial(), batch, c("dp") * c("pp"), cycle, c("_t_mix"), c("_t_dec"), c("request_latency_ms"))
    told = (
        (c("serving_mode") == "agg")
        & c("backend").is_in([*BATCHING_BACKENDS, *SERIAL_BACKENDS])
        & (c("context_requests_per_step") >= 1)
        & (c("_t_mix") > 0)
        & (c("_t_dec") > 0)
        & ((rate / c("requests_per_s") - 1).abs() <= STEP_TOLERANCE)
    ).fill_null(False)
    return points.with_columns(
        mixed_step_ms=pl.when(told).then("_t_mix"), decode_step_ms=pl.when(told).then("_t_dec")
    ).drop("_t_mix", "_t_dec", *(f"_cycle_{name}" for name in vars(cycle)))


def replica_rate(
    serial: Number,
    batch: Number,
    stations: Number,
    cycle: Cycle,
    t_mix_ms: Number,
    t_dec_ms: Number,
    latency_ms: Number,
) -> Number:
    """Requests a second of the replica from its steps; on vLLM not above B / latency. Stations: dp * pp."""
    rate = steps.requests_per_s(batch, stations, cycle.mixed, cycle.decode_only, t_mix_ms, t_dec_ms)
    return if_else(serial, smallest(rate, 1e3 * stations * batch / latency_ms), rate)


def decoding_beside_prefill(
    serial: Number, batch: Number, prefills_per_mixed_step: Number, cycle: Cycle, iterations: Number
) -> Number:
    """Requests that decode in a mixed step, beside the prefills. ``iterations``: those of one request.

    All that do not prefill; where every step is mixed, a cycle of n_mix steps yields OSL tokens for each of
    B requests. vLLM's batch has them all in every step.
    """
    others = largest(batch - rounded_up(prefills_per_mixed_step), 0.0)
    share = smallest(others, batch * iterations / cycle.mixed)
    return if_else(serial, others, if_else(cycle.decode_only <= 0, share, others))


def decode_iterations(osl_tokens: Number, accepted_tokens: Number) -> Number:
    """Steps in which a request gets its output: the first token, then ``accepted_tokens`` a step (model.md 5.10)."""
    return 1.0 + (osl_tokens - 1.0) / accepted_tokens


def cycle_of(
    serial: Number, batch: Number, prefills_per_mixed_step: Number, iterations: Number, dispatch_ms: Number
) -> Cycle:
    """One cycle of a batch whose requests decode in so many ``iterations``; ``serial``: as vLLM does."""
    n_mix = steps.mixed_steps(batch, prefills_per_mixed_step)
    return Cycle(
        mixed=n_mix,
        queue_factor=steps.ttft_queue_factor(serial, batch, n_mix),
        dispatch_ms=dispatch_ms,
        tpot_mixed=steps.tpot_mixed_weight(serial, batch, n_mix, iterations),
        decode_only=steps.decode_only_steps(n_mix, iterations),
    )
