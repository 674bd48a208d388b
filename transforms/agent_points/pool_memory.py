"""What one pool of a replica holds: bytes of a session, bytes left for KV, sessions that fit (MODEL section 4)."""

from dataclasses import dataclass

import polars as pl

from schemas.dtypes import BYTES_PER_WEIGHT
from schemas.models import ModelSpec
from schemas.options import MappingOptions
from schemas.scenarios import Scenario
from transforms.agent_points.columns import by_dtype
from transforms.agent_points.gpu import Gpu
from transforms.equations import kv_memory as kv
from transforms.equations.context import turn_profile
from transforms.numbers import Number, maximum


@dataclass(frozen=True)
class Pool:
    """The ranks of one pool, as expressions; every figure but ``ranks`` is of one rank."""

    ranks: pl.Expr
    tp: pl.Expr
    gpus: pl.Expr
    dp: pl.Expr
    cp: pl.Expr
    gpu: Gpu

    @classmethod
    def aggregated(cls) -> "Pool":
        """The one pool of an aggregated replica."""
        c = pl.col
        return cls(c("dp"), c("tp"), c("gpus_per_replica") / c("dp"), c("dp"), c("cp"), Gpu.of_pool("decode"))

    @classmethod
    def disaggregated(cls, name: str) -> "Pool":
        """The ``prefill`` or ``decode`` pool of a disaggregated replica."""
        c = pl.col
        gpus = c(f"{name}_tp") * c(f"{name}_pp") * c(f"{name}_cp")
        ranks = c(f"{name}_workers") * c(f"{name}_dp")
        return cls(ranks, c(f"{name}_tp"), gpus, c(f"{name}_dp"), c(f"{name}_cp"), Gpu.of_pool(name))


@dataclass(frozen=True)
class SessionBytes:
    """Bytes of one session on a rank, head copies counted, the shared prefix not; ``shared`` is its own."""

    mean: Number
    peak: Number
    slope: Number
    shared: Number


def session_bytes(scenario: Scenario, spec: ModelSpec, pool: Pool, options: MappingOptions) -> SessionBytes:
    """A session at its mean and peak context, and the slope of its KV at the mean."""
    element, groups, paged = pl.col("_kv_element_bytes"), spec.attention, options.kv_layout == "paged"
    shared = scenario.shared_prefix_tokens
    mean, peak = (
        kv.session_bytes_on_rank(groups, tokens, element, pool.tp, shared_tokens=shared, paged=paged)
        for tokens in (scenario.mean_context_tokens, scenario.peak_context_tokens)
    )
    slope = kv.kv_slope_bytes_per_token(groups, scenario.mean_context_tokens, element, pool.tp, paged=paged)
    return SessionBytes(mean, peak, slope, kv.kv_bytes_on_rank(groups, shared, element, pool.tp, paged=paged))


def weights_on_rank(spec: ModelSpec, pool: Pool) -> Number:
    """Bytes of the weights on one rank: the whole non-expert part, its share of the experts.

    Context parallelism splits the tokens of a prompt and their KV, not the weights: each of its GPUs holds
    the non-expert part once more. The experts lie on all GPUs.
    """
    non_expert = by_dtype("linear_dtype", {d: spec.non_expert_bytes(d) for d in BYTES_PER_WEIGHT})
    experts = by_dtype("expert_dtype", {d: spec.expert_bytes(d) for d in BYTES_PER_WEIGHT}) if spec.moe else pl.lit(0.0)
    return kv.weights_bytes_per_rank(non_expert * pool.cp, experts, pool.dp)


def usable_per_gpu(pool: Pool, options: MappingOptions) -> Number:
    """Bytes of one GPU for weights and KV, after the reserve and the runtime's own memory."""
    return pool.gpu.hbm_bytes * (1.0 - options.reserve_fraction) - options.overhead_bytes_per_gpu


def available_on_rank(spec: ModelSpec, pool: Pool, options: MappingOptions) -> Number:
    """Bytes of one rank for KV; negative where the weights do not fit."""
    return kv.available_bytes_per_rank(
        pool.gpus, pool.gpu.hbm_bytes, options.reserve_fraction, weights_on_rank(spec, pool),
        options.overhead_bytes_per_gpu,
    )  # fmt: skip


def add_pool_memory(
    points: pl.DataFrame, scenario: Scenario, spec: ModelSpec, pool: Pool, options: MappingOptions
) -> pl.DataFrame:
    """Adds bytes of a session and bytes for KV, and the sessions that fit (``_fit_mean``, ``_p95``, ``_peak``)."""
    c = pl.col
    bytes_ = session_bytes(scenario, spec, pool, options)
    points = points.with_columns(
        kv_bytes_per_session_mean=bytes_.mean,
        kv_bytes_per_session_peak=bytes_.peak,
        _shared_bytes=bytes_.shared,
        _slope=bytes_.slope,
        _available=available_on_rank(spec, pool, options),
    )
    left = maximum(c("_available") - c("_shared_bytes"), 0.0)
    spread = c("_slope") * turn_profile(scenario).context_sd
    fits = c("_available") > 0
    least = kv.least_gpus_that_fit(weights_on_rank(spec, pool), usable_per_gpu(pool, options))
    return points.with_columns(
        kv_bytes_available=pool.ranks * c("_available"),
        kv_layout=pl.lit(options.kv_layout),
        _weights_fit=fits,
        least_tp_that_fits=pl.when(~fits).then(least),
        _fit_mean=kv.max_sessions(left, c("kv_bytes_per_session_mean"), pool.ranks),
        _fit_p95=pool.ranks * kv.sessions_p95_per_rank(left, c("kv_bytes_per_session_mean"), spread),
        _fit_peak=kv.max_sessions(left, c("kv_bytes_per_session_peak"), pool.ranks),
    )
