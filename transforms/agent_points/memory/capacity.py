"""How many sessions the replica's memory holds, and which memory stops them (Step 4, Eq. 5; model.md 4).

Two limits: the sessions whose KV is parked somewhere (``_parked_limit``), and the requests in flight
whose KV lies on the GPUs that decode (``_in_flight_slots``). Which memory is which follows from the
serving mode and from what becomes of the KV of a pausing session (``idle_kv``); where memory evicts it, only
what is in flight must fit. A configuration's memory is the same at any load, but for a mix, whose sessions
change with it.
"""

from collections.abc import Mapping

import numpy as np

from schemas.options import MappingOptions
from transforms.agent_points.agent import Agent
from transforms.agent_points.memory.pool_memory import PoolRanks, available_on_rank, pool_memory, session_bytes
from transforms.agent_points.rows.rows import Configurations, Rows, code
from transforms.cache import evicts
from transforms.numbers import Number

CONTEXTS = ("mean", "p95", "peak")


def add_capacity(rows: Rows, agent: Agent, options: MappingOptions) -> Rows:
    """Adds KV bytes, the sessions that fit and the limit that is met, to rows of one serving mode.

    Needs the session figures: some of the memory holds only what is in flight.
    """
    return (_aggregated if agent.aggregated else _disaggregated)(rows, agent, options)


def _aggregated(rows: Rows, agent: Agent, options: MappingOptions) -> Rows:
    """One pool holds what is in flight and, if it stays resident, what pauses."""
    of = _memory_of(rows, agent)
    rows = _with(rows, of, pool_memory(of.rows, agent, PoolRanks.aggregated(of.rows), options))
    evicting, resident = evicts(agent.scenario, options), options.idle_kv == "resident"
    parked = rows["sessions"] if resident or evicting else rows["in_flight_requests"]
    taken = parked * rows["kv_bytes_per_session_mean"] + rows["_shared_bytes"]
    if evicting:
        taken = np.minimum(taken, np.maximum(rows["kv_bytes_available"], 0.0))
    rows = rows.with_figures(
        _in_flight_slots=np.nan if resident and not evicting else rows[f"_fit_{options.kv_context}"],
        kv_bytes_per_gpu=taken / rows["gpus_per_replica"],
    )
    return _with_limits(rows, "kv_memory", "kv_memory", rows["gpus_per_replica"], agent, options)


def _disaggregated(rows: Rows, agent: Agent, options: MappingOptions) -> Rows:
    """The cached prefixes of all sessions lie in the pool that parks them, those in flight in decode."""
    of = _memory_of(rows, agent)
    pools = {name: PoolRanks.disaggregated(of.rows, name) for name in ("prefill", "decode")}
    parked, decode = pools[options.parked_kv], pools["decode"]
    other = pools["decode" if options.parked_kv == "prefill" else "prefill"]
    on_decode = session_bytes(of.rows, agent, decode, options)
    slots_left = np.maximum(available_on_rank(of.rows, agent, decode, options) - on_decode.shared, 0.0)
    memory = pool_memory(of.rows, agent, parked, options)
    # the pool that does not park must hold its own weights too
    memory["_weights_fit"] &= available_on_rank(of.rows, agent, other, options) > 0
    memory["_in_flight_slots"] = decode.ranks * np.floor(slots_left / on_decode.peak)
    rows = _with(rows, of, memory)
    evicting = evicts(agent.scenario, options)
    parked_sessions = rows["sessions"] if options.idle_kv == "resident" or evicting else 0.0
    taken = parked_sessions * rows["kv_bytes_per_session_mean"]
    if evicting:
        taken = np.minimum(taken, np.maximum(rows["kv_bytes_available"], 0.0))
    taken = taken + rows["in_flight_requests"] * of.to_rows(on_decode.mean)
    rows = rows.with_figures(kv_bytes_per_gpu=(taken + rows["_shared_bytes"]) / rows["gpus_per_replica"])
    parking_gpus = of.to_rows(parked.gpus * parked.ranks)
    return _with_limits(rows, f"{options.parked_kv}_kv_memory", "decode_kv_memory", parking_gpus, agent, options)


def _memory_of(rows: Rows, agent: Agent) -> Configurations:
    """What memory is worked out for: a configuration has the same at any load, but for the sessions of a mix."""
    return Configurations(rows, None) if agent.is_mix else rows.configurations


def _with(rows: Rows, of: Configurations, memory: Mapping[str, Number]) -> Rows:
    return rows.with_figures({name: of.to_rows(figure) for name, figure in memory.items()})


def _with_limits(
    rows: Rows,
    parked_limit: str,
    in_flight_limit: str,
    parking_gpus: Number,
    agent: Agent,
    options: MappingOptions,
) -> Rows:
    """The sessions that each limit allows, the least of them, and its name."""
    anywhere = evicts(agent.scenario, options)
    parked = {context: np.inf if anywhere else _parked(rows, context, parking_gpus, options) for context in CONTEXTS}
    parks = code("binding_limit", "host_memory" if options.idle_kv == "offloaded" else parked_limit)
    limit, slots = parked[options.kv_context], rows["_in_flight_slots"]
    figures = {
        "_parked_limit": limit,
        "max_parked_sessions": np.where(np.isfinite(limit), limit, np.nan),
        "max_in_flight_requests": slots,
    }
    least: Mapping[str, Number] = parked
    binding: Number = parks
    if np.ndim(slots):  # what is in flight has a limit of its own
        in_flight = slots / rows["activity_fraction"]
        least = {context: np.minimum(sessions, in_flight) for context, sessions in parked.items()}
        serves = code("binding_limit", in_flight_limit)
        binding = np.where(limit <= in_flight, np.int8(parks), np.int8(serves))
    figures |= {f"max_sessions_{context}_context": sessions for context, sessions in least.items()}
    return rows.with_figures(figures, max_sessions=least[options.kv_context], binding_limit=binding)


def _parked(rows: Rows, context: str, parking_gpus: Number, options: MappingOptions) -> Number:
    """Sessions whose idle KV has a place: on the GPUs, in host memory, or anywhere if it is dropped."""
    if options.idle_kv == "resident":
        return rows[f"_fit_{context}"]
    if options.idle_kv == "dropped":
        return np.inf
    bytes_ = rows["kv_bytes_per_session_peak" if context == "peak" else "kv_bytes_per_session_mean"]
    return np.floor(parking_gpus * options.host_memory_bytes_per_gpu / bytes_)
