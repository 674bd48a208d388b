"""Hit rates of rows whose memory evicts the prefixes of pausing sessions, least recently used first (model.md 7).

A row's hit rate is an outcome: hits give the turn latency, that the sessions, their prefixes fill the memory, and
what the memory keeps through a pause gives the hits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from schemas.arrays import Array, Indices
from schemas.options import ClosedLoop, MappingOptions
from transforms.agent_points.agent import Agent
from transforms.agent_points.memory.idle_kv import reload_ms
from transforms.agent_points.memory.pool_memory import PoolRanks, available_on_rank, session_bytes
from transforms.agent_points.rows.lookups import Deployed
from transforms.agent_points.rows.rows import Rows
from transforms.cache import (
    CacheLoad,
    CacheModel,
    CacheOutcome,
    OverHitRates,
    RandomlyRouted,
    SessionShape,
    evicting_model,
    host_memory_bytes_per_gpu,
    is_routed,
    session_shape,
    settle_at_load,
    settle_hit_rate,
)
from transforms.equations import closed_loop as loop
from transforms.equations.context import turn_profile
from transforms.equations.kv_memory import session_bytes_on_rank
from transforms.numbers import Number


@dataclass(frozen=True)
class ServiceAtHitRates:
    """How rows serve turns at several hit rates, nobody pausing; between these rates straight."""

    latency_s: OverHitRates  #: R
    seconds_a_request: OverHitRates  #: of the replica: 1 / serving_requests_per_s


@dataclass(frozen=True)
class EvictingMemory:
    """The memory of each row's replica and what sessions hold in it; arrays of one entry a row.

    Rows of one number format and one number of head copies have one shape of sessions, in bytes, and one model.
    """

    models: Sequence[CacheModel]
    shapes: Sequence[SessionShape]
    shape_of: Indices
    memory: Array  #: bytes of the GPUs for the sessions' KV
    host_memory: Array  #: bytes behind them
    reload_s: Array  #: to bring one prefix back from there
    stations: Array
    think_time_s: float
    closed_loop: ClosedLoop

    def at_own_load(self, service: ServiceAtHitRates, within: float = 1e-9) -> CacheOutcome:
        """Each row at its own requests in flight: as many sessions as keep them so; hit rates ``within`` so much."""

        def load_of(rows: Indices) -> CacheOutcome:
            latency, request = _take(service.latency_s, rows), _take(service.seconds_a_request, rows)

            def load_at(hits: Array, reloads: Array) -> CacheLoad:
                latency_s = latency.at(hits) + reloads * self.reload_s[rows]
                in_flight = loop.in_flight_per_station(1.0 / request.at(hits), latency_s, self.stations[rows])
                rho = loop.activity_fraction(latency_s, self.think_time_s)
                sessions = loop.sessions_that_fill(in_flight, rho, self.stations[rows], self.closed_loop)
                return self._load(rows, sessions, latency_s)

            return settle_at_load(*self._of(rows), load_at, within)

        return self._by_shape(load_of)

    def at_sessions(self, sessions: Array, latency_s: OverHitRates, begin: float) -> CacheOutcome:
        """Each row at a number of sessions; ``latency_s`` is R at these sessions. ``begin``: 1 warm, 0 cold."""

        def load_of(rows: Indices) -> CacheOutcome:
            latency = _take(latency_s, rows)

            def load_at(hits: Array, reloads: Array) -> CacheLoad:
                return self._load(rows, sessions[rows], latency.at(hits) + reloads * self.reload_s[rows])

            model, shape = self._of(rows)
            return settle_hit_rate(model, shape, load_at, np.full(len(rows), begin * shape.most_hit_rate))

        return self._by_shape(load_of)

    def _load(self, rows: Indices, sessions: Array, latency_s: Array) -> CacheLoad:
        return CacheLoad(sessions, latency_s, self.memory[rows], self.host_memory[rows])

    def _of(self, rows: Indices) -> tuple[CacheModel, SessionShape]:
        number = int(self.shape_of[rows[0]])
        return self.models[number], self.shapes[number]

    def _by_shape(self, settled: Callable[[Indices], CacheOutcome]) -> CacheOutcome:
        """The outcome of all rows from that of the rows of each shape."""
        whole = CacheOutcome.nothing(len(self.shape_of))
        for number in range(len(self.shapes)):
            rows = np.flatnonzero(self.shape_of == number)
            if len(rows):
                outcome = settled(rows)
                for name in CacheOutcome.__annotations__:
                    getattr(whole, name)[rows] = getattr(outcome, name)
        return whole


def _take(figure: OverHitRates, rows: Indices) -> OverHitRates:
    return OverHitRates(figure.hit_rates[:, rows], figure.values[:, rows])


def evicting_memory(rows: Rows, agent: Agent, options: MappingOptions) -> EvictingMemory:
    """The memory that keeps the prefixes of rows of one serving mode: that of the pool that parks idle KV."""
    pool = PoolRanks.aggregated(rows) if agent.aggregated else PoolRanks.disaggregated(rows, options.parked_kv)
    shared = session_bytes(rows, agent, pool, options).shared
    left = np.maximum(available_on_rank(rows, agent, pool, options) - shared, 0.0)
    model, most = evicting_model(agent.scenario)
    kinds, shape_of = np.unique(np.stack([Deployed(rows).kv_element_bytes, pool.tp]), axis=1, return_inverse=True)
    paged, shared_tokens = options.kv_layout == "paged", agent.scenario.shared_prefix_tokens

    def of_kind(element_bytes: float, tp: float) -> tuple[CacheModel, SessionShape]:
        def held(tokens: Array) -> Array:
            on_rank = session_bytes_on_rank(
                agent.spec.attention, tokens, element_bytes, tp, shared_tokens=shared_tokens, paged=paged
            )
            return np.asarray(on_rank)

        shape = session_shape(agent.scenario, held, most_hit_rate=most)
        if not is_routed(agent.scenario):
            return model, shape
        kept = turn_profile(agent.scenario).context + agent.scenario.output_tokens_per_turn
        return RandomlyRouted.of(agent.scenario, held(kept), model.longest_s), shape

    models, shapes = zip(*(of_kind(float(element), float(tp)) for element, tp in kinds.T), strict=True)
    host = host_memory_bytes_per_gpu(agent.scenario, options)
    return EvictingMemory(
        models=models,
        shapes=shapes,
        shape_of=shape_of.reshape(-1).astype(np.intp),
        memory=pool.ranks * left,
        host_memory=pool.ranks * pool.gpus * host,
        reload_s=reload_ms(rows, agent)[0] / 1e3 + np.zeros(len(rows)),
        stations=Deployed(rows).stations,
        think_time_s=agent.think_time_s,
        closed_loop=options.closed_loop,
    )


def cache_figures(outcome: CacheOutcome) -> dict[str, Number]:
    """The columns of an outcome."""
    return {
        "cache_hit_rate": outcome.hit_rate,
        "cache_reload_fraction": outcome.reload_rate,
        "prefix_kept_s": np.where(np.isfinite(outcome.kept_s), outcome.kept_s, np.nan),
    }
