"""Serving points taken apart into engine steps (MODEL section 5.2)."""

from collections.abc import Mapping

import polars as pl

from transforms.equations import engine_steps as steps

#: Engines whose scheduler the step equations describe.
BATCHING_BACKENDS = ("trtllm", "sglang")
SERIAL_BACKENDS = ("vllm",)
#: A row whose throughput is not that of its own steps was not made by this scheduler. Rates are
#: printed with three decimals.
STEP_TOLERANCE = 0.01


def add_step_times(points: pl.DataFrame, layers: Mapping[str, int]) -> pl.DataFrame:
    """The points with ``mixed_step_ms`` and ``decode_step_ms``, NULL where they cannot be told.

    They can be told on aggregated rows with scheduler columns whose throughput the two steps give
    back. ``layers`` maps a model's slug to its layers.
    """
    points = points.with_columns(**cycle_columns(pl.col("osl_tokens"), layers))
    t_mix = steps.mixed_step_of_row(pl.col("ttft_ms"), pl.col("_queue_factor"), pl.col("_dispatch_ms"))
    points = points.with_columns(_t_mix=t_mix)
    t_dec = steps.decode_step_of_row(
        pl.col("tpot_ms") * pl.col("accepted_tokens"),
        pl.col("_t_mix"),
        pl.col("_tpot_mixed"),
        pl.col("_decode_steps"),
    )
    points = points.with_columns(_t_dec=pl.when(pl.col("_decode_steps") > 0).then(t_dec))
    rate = replica_rate(pl.col("_t_mix"), pl.col("_t_dec"), pl.col("request_latency_ms"))
    told = (
        (pl.col("serving_mode") == "agg")
        & pl.col("backend").is_in([*BATCHING_BACKENDS, *SERIAL_BACKENDS])
        & (pl.col("context_requests_per_step") >= 1)
        & (pl.col("_t_mix") > 0)
        & (pl.col("_t_dec") > 0)
        & ((rate / pl.col("requests_per_s") - 1).abs() <= STEP_TOLERANCE)
    ).fill_null(False)
    return points.with_columns(
        mixed_step_ms=pl.when(told).then("_t_mix"), decode_step_ms=pl.when(told).then("_t_dec")
    ).drop("_n_mix", "_queue_factor", "_dispatch_ms", "_tpot_mixed", "_decode_steps", "_t_mix", "_t_dec")


def replica_rate(t_mix_ms: pl.Expr, t_dec_ms: pl.Expr, latency_ms: pl.Expr) -> pl.Expr:
    """Requests a second of the replica from its steps; on vLLM not above B / latency."""
    stations = pl.col("dp") * pl.col("pp")
    batch = pl.col("batch_per_rank")
    rate = steps.requests_per_s(batch, stations, pl.col("_n_mix"), pl.col("_decode_steps"), t_mix_ms, t_dec_ms)
    cap = 1e3 * stations * batch / latency_ms
    return pl.when(pl.col("backend").is_in(SERIAL_BACKENDS)).then(pl.min_horizontal(rate, cap)).otherwise(rate)


def decoding_beside_prefill(osl_tokens: pl.Expr) -> pl.Expr:
    """Requests that decode in a mixed step, beside the prefills. Needs the columns of ``cycle_columns``.

    All that do not prefill; where every step is mixed, a cycle of n_mix steps yields OSL tokens for each of
    B requests. vLLM's batch has them all in every step.
    """
    batch = pl.col("batch_per_rank")
    others = pl.max_horizontal(batch - pl.col("context_requests_per_step").ceil(), pl.lit(0.0))
    bound = (pl.col("_decode_steps") <= 0) & ~pl.col("backend").is_in(SERIAL_BACKENDS)
    share = batch * decode_iterations(osl_tokens) / pl.col("_n_mix")
    return pl.when(bound).then(pl.min_horizontal(others, share)).otherwise(others)


def decode_iterations(osl_tokens: pl.Expr) -> pl.Expr:
    """Steps in which a request gets its output: the first token, then ``accepted_tokens`` a step (MODEL 5.10)."""
    return 1.0 + (osl_tokens - 1.0) / pl.col("accepted_tokens")


def cycle_columns(osl_tokens: pl.Expr, layers: Mapping[str, int]) -> dict[str, pl.Expr]:
    """The counts of one cycle of a batch's requests, as private columns."""
    batch = pl.col("batch_per_rank")
    decode_tokens = decode_iterations(osl_tokens)
    serial = pl.col("backend").is_in(SERIAL_BACKENDS)
    n_mix = steps.mixed_steps(batch, pl.col("context_requests_per_step"))
    dispatch = pl.col("model").replace_strict(
        {slug: steps.VLLM_DISPATCH_MS_PER_LAYER * count for slug, count in layers.items()},
        default=None, return_dtype=pl.Float64,
    )  # fmt: skip
    return {
        "_n_mix": n_mix,
        "_queue_factor": steps.ttft_queue_factor(serial, batch, n_mix),
        "_dispatch_ms": pl.when(serial).then(dispatch).otherwise(0.0),
        "_tpot_mixed": steps.tpot_mixed_weight(serial, batch, n_mix, decode_tokens),
        "_decode_steps": steps.decode_only_steps(n_mix, decode_tokens),
    }
