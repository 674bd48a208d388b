"""How many sessions the replica's memory holds (Step 4, Eq. 5; MODEL section 4)."""

from dataclasses import dataclass

import polars as pl

from schemas.dtypes import BYTES_PER_WEIGHT
from schemas.hardware import Hardware
from schemas.models import ModelSpec
from schemas.options import MappingOptions
from schemas.scenarios import Scenario
from transforms.agent_points.columns import by_dtype, kv_element_bytes
from transforms.equations import kv_memory as kv
from transforms.equations.context import turn_profile
from transforms.numbers import floor, maximum, minimum

CONTEXTS = ("mean", "p95", "peak")


@dataclass(frozen=True)
class _Pool:
    """The ranks of one pool; every figure but ``ranks`` is of one rank."""

    ranks: pl.Expr
    tp: pl.Expr
    gpus: pl.Expr
    dp: pl.Expr
    gpu: Hardware


@dataclass(frozen=True)
class _SessionBytes:
    """Expressions of the bytes of one session on a rank, head copies counted, the shared prefix not."""

    mean: pl.Expr
    peak: pl.Expr
    slope: pl.Expr
    shared: pl.Expr


def add_capacity(
    points: pl.DataFrame,
    scenario: Scenario,
    spec: ModelSpec,
    prefill_gpu: Hardware,
    decode_gpu: Hardware,
    options: MappingOptions,
) -> pl.DataFrame:
    """Adds KV bytes, the sessions that fit and the limit that is met, to rows of one mode.

    Needs the session figures: on a disaggregated replica the decode pool holds what is in flight.
    """
    points = points.with_columns(_kv_element_bytes=kv_element_bytes())
    if points["serving_mode"].first() == "agg":
        return _aggregated_capacity(points, scenario, spec, prefill_gpu, options)
    return _disaggregated_capacity(points, scenario, spec, prefill_gpu, decode_gpu, options)


def _aggregated_capacity(
    points: pl.DataFrame, scenario: Scenario, spec: ModelSpec, gpu: Hardware, options: MappingOptions
) -> pl.DataFrame:
    c = pl.col
    pool = _Pool(c("dp"), c("tp"), c("gpus_per_replica") / c("dp"), c("dp"), gpu)
    points = _with_fit(points, scenario, spec, pool, options)
    return points.with_columns(
        **{f"max_sessions_{context}_context": c(f"_fit_{context}") for context in CONTEXTS},
        max_sessions=c(f"_fit_{options.kv_context}"),
        _parked_limit=c(f"_fit_{options.kv_context}"),
        _decode_slots=pl.lit(None, pl.Float64),
        kv_bytes_per_gpu=(c("sessions") * c("kv_bytes_per_session_mean") + pool.ranks * c("_shared_bytes"))
        / c("gpus_per_replica"),
        binding_limit=pl.lit("kv_memory"),
    )


def _disaggregated_capacity(
    points: pl.DataFrame,
    scenario: Scenario,
    spec: ModelSpec,
    prefill_gpu: Hardware,
    decode_gpu: Hardware,
    options: MappingOptions,
) -> pl.DataFrame:
    """The cached prefixes of all sessions lie in the pool that parks them, those in flight in decode."""
    c = pl.col
    prefill, decode = (
        _Pool(
            c(f"{name}_workers") * c(f"{name}_dp"),
            c(f"{name}_tp"),
            c(f"{name}_tp") * c(f"{name}_pp") * c(f"{name}_cp"),
            c(f"{name}_dp"),
            gpu,
        )
        for name, gpu in (("prefill", prefill_gpu), ("decode", decode_gpu))
    )
    peak_on_decode = _session_bytes(scenario, spec, decode, options)
    slots_left = maximum(_available(spec, decode, options) - peak_on_decode.shared, 0.0)
    slots = decode.ranks * floor(slots_left / peak_on_decode.peak)
    parked = prefill if options.parked_kv == "prefill" else decode
    points = _with_fit(points, scenario, spec, parked, options)
    # the pool that does not park must hold its own weights too
    other = decode if options.parked_kv == "prefill" else prefill
    points = points.with_columns(
        _available_other=_available(spec, other, options),
        _decode_slots=slots,
        _mean_on_decode=peak_on_decode.mean,
    )
    in_flight_limit = c("_decode_slots") / c("activity_fraction")
    fits = {f"max_sessions_{x}_context": minimum(c(f"_fit_{x}"), in_flight_limit) for x in CONTEXTS}
    parked_limit = c(f"_fit_{options.kv_context}")
    return points.with_columns(
        **fits,
        max_sessions=minimum(parked_limit, in_flight_limit),
        _parked_limit=parked_limit,
        kv_bytes_per_gpu=(
            c("sessions") * c("kv_bytes_per_session_mean")
            + c("in_flight_requests") * c("_mean_on_decode")
            + parked.ranks * c("_shared_bytes")
        )
        / c("gpus_per_replica"),
        binding_limit=pl.when(parked_limit <= in_flight_limit)
        .then(pl.lit(f"{options.parked_kv}_kv_memory"))
        .otherwise(pl.lit("decode_kv_memory")),
        _weights_fit=c("_weights_fit") & (c("_available_other") > 0),
    )


def _with_fit(
    points: pl.DataFrame, scenario: Scenario, spec: ModelSpec, pool: _Pool, options: MappingOptions
) -> pl.DataFrame:
    """What the pool holds: bytes of a session, bytes for KV, and the sessions that fit."""
    c = pl.col
    bytes_ = _session_bytes(scenario, spec, pool, options)
    points = points.with_columns(
        kv_bytes_per_session_mean=bytes_.mean,
        kv_bytes_per_session_peak=bytes_.peak,
        _shared_bytes=bytes_.shared,
        _slope=bytes_.slope,
        _available=_available(spec, pool, options),
    )
    left = maximum(c("_available") - c("_shared_bytes"), 0.0)
    spread = c("_slope") * turn_profile(scenario).context_sd
    return points.with_columns(
        kv_bytes_available=pool.ranks * c("_available"),
        kv_layout=pl.lit(options.kv_layout),
        _weights_fit=c("_available") > 0,
        _fit_mean=kv.max_sessions(left, c("kv_bytes_per_session_mean"), pool.ranks),
        _fit_p95=pool.ranks * kv.sessions_p95_per_rank(left, c("kv_bytes_per_session_mean"), spread),
        _fit_peak=kv.max_sessions(left, c("kv_bytes_per_session_peak"), pool.ranks),
    )


def _session_bytes(scenario: Scenario, spec: ModelSpec, pool: _Pool, options: MappingOptions) -> _SessionBytes:
    element, groups, paged = pl.col("_kv_element_bytes"), spec.attention, options.kv_layout == "paged"
    shared = scenario.shared_prefix_tokens
    mean, peak = (
        kv.session_bytes_on_rank(groups, tokens, element, pool.tp, shared_tokens=shared, paged=paged)
        for tokens in (scenario.mean_context_tokens, scenario.peak_context_tokens)
    )
    slope = kv.kv_slope_bytes_per_token(groups, scenario.mean_context_tokens, element, pool.tp, paged=paged)
    return _SessionBytes(mean, peak, slope, kv.kv_bytes_on_rank(groups, shared, element, pool.tp, paged=paged))


def _available(spec: ModelSpec, pool: _Pool, options: MappingOptions) -> pl.Expr:
    non_expert = by_dtype("linear_dtype", {d: spec.non_expert_bytes(d) for d in BYTES_PER_WEIGHT})
    experts = by_dtype("expert_dtype", {d: spec.expert_bytes(d) for d in BYTES_PER_WEIGHT}) if spec.moe else pl.lit(0.0)
    weights = kv.weights_bytes_per_rank(non_expert, experts, pool.dp)
    available: pl.Expr = kv.available_bytes_per_rank(
        pool.gpus, float(pool.gpu.hbm_bytes), options.reserve_fraction, weights
    )
    return available
