"""How many sessions the replica's memory holds, and which memory stops them (Step 4, Eq. 5; MODEL section 4).

Two limits: the sessions whose KV is parked somewhere (``_parked_limit``), and the requests in flight
whose KV lies on the GPUs that decode (``_in_flight_slots``). Which memory is which follows from the
serving mode and from what becomes of the KV of a pausing session (``idle_kv``).
"""

import polars as pl

from schemas.models import ModelSpec
from schemas.options import MappingOptions
from schemas.scenarios import Scenario
from transforms.agent_points.columns import kv_element_bytes
from transforms.agent_points.pool_memory import Pool, add_pool_memory, available_on_rank, session_bytes
from transforms.numbers import Number, floor, maximum

CONTEXTS = ("mean", "p95", "peak")


def add_capacity(points: pl.DataFrame, scenario: Scenario, spec: ModelSpec, options: MappingOptions) -> pl.DataFrame:
    """Adds KV bytes, the sessions that fit and the limit that is met, to rows of one serving mode.

    Needs the session figures: some of the memory holds only what is in flight.
    """
    points = points.with_columns(_kv_element_bytes=kv_element_bytes())
    if points["serving_mode"].first() == "agg":
        return _aggregated(points, scenario, spec, options)
    return _disaggregated(points, scenario, spec, options)


def _aggregated(points: pl.DataFrame, scenario: Scenario, spec: ModelSpec, options: MappingOptions) -> pl.DataFrame:
    """One pool holds what is in flight and, if it stays resident, what pauses."""
    c = pl.col
    pool = Pool.aggregated()
    points = add_pool_memory(points, scenario, spec, pool, options)
    shared = pool.ranks * c("_shared_bytes")
    if options.idle_kv == "resident":
        points = points.with_columns(_parked_sessions="sessions", _in_flight_slots=pl.lit(None, pl.Float64))
    else:
        points = points.with_columns(
            _parked_sessions="in_flight_requests", _in_flight_slots=c(f"_fit_{options.kv_context}")
        )
    taken = c("_parked_sessions") * c("kv_bytes_per_session_mean") + shared
    points = points.with_columns(kv_bytes_per_gpu=taken / c("gpus_per_replica"))
    return _with_limits(points, "kv_memory", "kv_memory", c("gpus_per_replica"), options)


def _disaggregated(points: pl.DataFrame, scenario: Scenario, spec: ModelSpec, options: MappingOptions) -> pl.DataFrame:
    """The cached prefixes of all sessions lie in the pool that parks them, those in flight in decode."""
    c = pl.col
    pools = {name: Pool.disaggregated(name) for name in ("prefill", "decode")}
    parked, decode = pools[options.parked_kv], pools["decode"]
    other = pools["decode" if options.parked_kv == "prefill" else "prefill"]
    on_decode = session_bytes(scenario, spec, decode, options)
    slots_left = maximum(available_on_rank(spec, decode, options) - on_decode.shared, 0.0)
    points = add_pool_memory(points, scenario, spec, parked, options)
    points = points.with_columns(
        _in_flight_slots=decode.ranks * floor(slots_left / on_decode.peak),
        # the pool that does not park must hold its own weights too
        _weights_fit=c("_weights_fit") & (available_on_rank(spec, other, options) > 0),
    )
    parked_sessions = c("sessions") if options.idle_kv == "resident" else pl.lit(0.0)
    taken = parked_sessions * c("kv_bytes_per_session_mean") + c("in_flight_requests") * on_decode.mean
    points = points.with_columns(kv_bytes_per_gpu=(taken + parked.ranks * c("_shared_bytes")) / c("gpus_per_replica"))
    parked_gpus = parked.gpus * parked.ranks
    return _with_limits(points, f"{options.parked_kv}_kv_memory", "decode_kv_memory", parked_gpus, options)


def _with_limits(
    points: pl.DataFrame, parked_limit: str, in_flight_limit: str, parking_gpus: pl.Expr, options: MappingOptions
) -> pl.DataFrame:
    """The sessions that each limit allows, the least of them, and its name."""
    c = pl.col
    in_flight = (c("_in_flight_slots") / c("activity_fraction")).fill_null(float("inf"))
    parked = {context: _parked(context, parking_gpus, options) for context in CONTEXTS}
    name = "host_memory" if options.idle_kv == "offloaded" else parked_limit
    points = points.with_columns(_parked_limit=parked[options.kv_context])
    limits = {
        f"max_sessions_{context}_context": pl.min_horizontal(limit, in_flight) for context, limit in parked.items()
    }
    return points.with_columns(
        **limits,
        max_parked_sessions=pl.when(c("_parked_limit").is_finite()).then("_parked_limit"),
        max_in_flight_requests="_in_flight_slots",
        max_sessions=pl.min_horizontal(c("_parked_limit"), in_flight),
        binding_limit=pl.when(c("_parked_limit") <= in_flight).then(pl.lit(name)).otherwise(pl.lit(in_flight_limit)),
    )


def _parked(context: str, parking_gpus: pl.Expr, options: MappingOptions) -> Number:
    """Sessions whose idle KV has a place: on the GPUs, in host memory, or anywhere if it is dropped."""
    if options.idle_kv == "resident":
        return pl.col(f"_fit_{context}")
    if options.idle_kv == "dropped":
        return pl.lit(float("inf"))
    bytes_ = pl.col("kv_bytes_per_session_peak" if context == "peak" else "kv_bytes_per_session_mean")
    return floor(parking_gpus * options.host_memory_bytes_per_gpu / bytes_)
