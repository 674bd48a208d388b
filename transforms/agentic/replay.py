"""A replay of agent sessions for a limited time on one replica: throughput, latency and cache hits predicted.

The sessions start together with an empty cache, each in the middle of its life; a session takes a turn, pauses, takes
the next. Memory holds what is in flight first; a turn that finds no room waits (admission). What is parked stays as
long as memory lasts (``transforms.cache``); a turn whose prefix is gone is prefilled anew. Longer service holds more
memory and more is lost: hits, waits and throughput are one fixed point.
"""

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from schemas.arrays import Array
from transforms.agentic.steps import Overheads
from transforms.cache import CacheLoad, HeldSums, LeastRecentlyUsed, PauseDistribution, SessionShape
from transforms.equations import closed_loop as loop
from transforms.equations.shared_engine import output_token_time, prefill_wait

_ITERATIONS: Final = 400
_SETTLED: Final = 1e-7
#: The share of its time that a replica prefills stays below one.
BUSIEST: Final = 0.9995
#: Loads at which the engine's cycle is worked out; between them it is read off.
_LOADS: Final[Array] = np.unique(np.concatenate((np.linspace(0.05, 8, 160), np.geomspace(8, 2048, 400))))


class Steps(Protocol):
    """Steps of an engine in ms, whatever they are known from."""

    @property
    def wait_ms(self) -> float:
        """Of TTFT, outside the GPUs."""
        ...

    @property
    def displaced(self) -> float:
        """How long a prefill keeps decoding from running, over how long it takes."""
        ...

    def prefill_ms(self, new_tokens: float, cached_tokens: float) -> float:
        """How long one prefill takes."""
        ...

    def decode_ms(self, batch: Array, context_tokens: float, overheads: Overheads) -> Array:
        """One decode step of so many requests."""
        ...


@dataclass(frozen=True)
class Replay:
    """What is replayed; tokens are means of the requests."""

    sessions: float
    duration_s: float
    input_tokens: float
    output_tokens: float
    reused_fraction: float  #: of a later turn's prompt: what a cache without end finds
    turns: float  #: that a session has left when it starts
    pauses: PauseDistribution
    shared_tokens: float = 0.0  #: of the prompt: what all sessions share
    context_spread: float = 0.0  #: standard deviation of contexts over their mean


@dataclass(frozen=True)
class Server:
    """One replica. Memory in tokens of KV, weights and reserve taken off."""

    steps: Steps
    memory_tokens: float
    host_memory_tokens: float = 0.0
    reload_ms_per_token: float = 0.0
    overheads: Overheads = "scaled"


@dataclass(frozen=True)
class ReplayFigures:
    """Means of the run; latencies and rates of the turns that were answered before its end."""

    turns_per_s: float
    output_tokens_per_s: float
    turn_latency_s: float
    steady_latency_s: float  #: once the start is over
    tpot_ms: float
    hit_rate: float  #: of the prompts' tokens: shared, resident or reloaded
    reload_rate: float  #: part of it: reloaded from host memory
    first_turn_fraction: float  #: of the turns that were begun
    in_engine: float  #: turns in service; those that wait for admission are not counted


@dataclass(frozen=True)
class _Steady:
    """The replica once the start is over, at one mix of prefills."""

    turns_per_s: float
    service_s: float  #: of a turn once it is admitted
    wait_s: float  #: for admission
    tpot_ms: float

    @property
    def in_engine(self) -> float:
        return self.turns_per_s * self.service_s


@dataclass(frozen=True)
class _Shares:
    """What the turns find: shares of prefixes that survive a pause, of those reloaded, and of first turns."""

    kept: float
    reloaded: float
    first: float

    def towards(self, other: "_Shares") -> "_Shares":
        """Half of the way."""
        return _Shares(
            (self.kept + other.kept) / 2, (self.reloaded + other.reloaded) / 2, (self.first + other.first) / 2
        )

    def distance(self, other: "_Shares") -> float:
        """Largest difference."""
        return max(abs(self.kept - other.kept), abs(self.reloaded - other.reloaded), abs(self.first - other.first))


def most_in_engine(replay: Replay, server: Server) -> float:
    """Turns whose KV the memory holds at once, at least one. Raises ``ValueError`` where the weights leave none."""
    return most_in_memory(replay, server.memory_tokens)


def most_in_memory(replay: Replay, memory_tokens: float) -> float:
    """As ``most_in_engine``, of a memory."""
    if memory_tokens <= replay.shared_tokens:
        raise ValueError("the weights and the shared prompt leave no memory for sessions")
    held = replay.input_tokens - replay.shared_tokens + replay.output_tokens / 2
    return max((memory_tokens - replay.shared_tokens) / held, 1.0)


def predict_replay(replay: Replay, server: Server) -> ReplayFigures:
    """The run as predicted; raises as ``most_in_engine``.

    Where several fixed points are stable, the one reached from a warm cache.
    """
    steps, tokens, slots = server.steps, replay.input_tokens, most_in_engine(replay, server)
    reused = replay.reused_fraction * tokens
    warm_ms = steps.prefill_ms(tokens - reused, reused)
    cold_ms = steps.prefill_ms(tokens - replay.shared_tokens, replay.shared_tokens)
    decode_ms = steps.decode_ms(_LOADS, tokens + replay.output_tokens / 2, server.overheads)
    shares = _Shares(1.0, 0.0, 0.0)
    for _ in range(_ITERATIONS):
        found = (1 - shares.first) * shares.kept
        reload_ms = (1 - shares.first) * shares.reloaded * reused * server.reload_ms_per_token
        prefill_ms = found * warm_ms + (1 - found) * cold_ms
        square = found * warm_ms**2 + (1 - found) * cold_ms**2
        engine = _Engine(decode_ms, prefill_ms, square / prefill_ms**2, steps.displaced, steps.wait_ms + reload_ms)
        steady = _steady(replay, engine, slots)
        begun = steady.turns_per_s * replay.duration_s + steady.in_engine
        now = _survival(replay, server, steady.service_s, steady.wait_s, begun)
        moved = shares.distance(now)
        shares = shares.towards(now)
        if moved < _SETTLED:
            break
    return _figures(replay, steady, slots, cold_ms / 1e3, shares)


def replay_at_hit_rate(replay: Replay, server: Server, hit_rate: float) -> ReplayFigures:
    """The run where its hit rate is known, as a share of its prompts' tokens; raises as ``most_in_engine``."""
    steps, tokens, slots = server.steps, replay.input_tokens, most_in_engine(replay, server)
    reused = replay.reused_fraction * tokens
    shared = replay.shared_tokens / tokens
    kept = min(max((hit_rate - shared) / max(replay.reused_fraction - shared, 1e-9), 0.0), 1.0)
    warm_ms = steps.prefill_ms(tokens - reused, reused)
    cold_ms = steps.prefill_ms(tokens - replay.shared_tokens, replay.shared_tokens)
    decode_ms = steps.decode_ms(_LOADS, tokens + replay.output_tokens / 2, server.overheads)
    prefill_ms = kept * warm_ms + (1 - kept) * cold_ms
    square = kept * warm_ms**2 + (1 - kept) * cold_ms**2
    engine = _Engine(decode_ms, prefill_ms, square / prefill_ms**2, steps.displaced, steps.wait_ms)
    steady = _steady(replay, engine, slots)
    return _figures(replay, steady, slots, cold_ms / 1e3, _Shares(kept, 0.0, 0.0))


def hit_rate_at_latency(replay: Replay, server: Server, turn_latency_s: float, turns_begun: float) -> float:
    """The hit rate if turns take so long: what the cache model says by itself, whatever the engine's speed."""
    turns_per_s = loop.turns_per_s(replay.sessions, turn_latency_s, replay.pauses.mean_s)
    service_s = min(turn_latency_s, most_in_engine(replay, server) / turns_per_s)
    shares = _survival(replay, server, service_s, turn_latency_s - service_s, turns_begun)
    return _hit_rate(replay, shares)


@dataclass(frozen=True)
class _Engine:
    """The engine at one mix of prefills, in ms: decode steps at ``_LOADS``, the mean prefill and its second moment."""

    decode_ms: Array
    prefill_ms: float
    second_moment: float
    displaced: float
    overhead_ms: float


def _steady(replay: Replay, engine: _Engine, slots: float) -> _Steady:
    """The load at which the closed loop and the engine's cycle agree; memory caps what is in the engine.

    In a cycle b requests decode together: ``X = b / ((OSL - 1) * t_dec(b) + b * displaced * prefill)``. A prefill waits
    for those before it (misses queue in front of hits), at most for one of each other session.
    """
    steps, prefill_ms = max(replay.output_tokens - 1, 0.0), engine.prefill_ms
    displaced_ms = engine.displaced * prefill_ms
    # prefills fill the engine at most: what displaces less than it takes never takes more than all of the time
    rate = _LOADS / np.maximum(steps * engine.decode_ms + _LOADS * displaced_ms, _LOADS * prefill_ms / BUSIEST)
    tpot = np.asarray(output_token_time(engine.decode_ms, rate * displaced_ms))
    others = max(replay.sessions - 1, 0.0)
    queue = np.asarray(prefill_wait(rate * prefill_ms, prefill_ms, engine.second_moment, others))
    service = engine.overhead_ms + queue + prefill_ms + steps * tpot
    in_engine = rate * service
    pause_s = replay.pauses.mean_s
    sessions = loop.sessions_that_fill(in_engine, loop.activity_fraction(service / 1e3, pause_s), 1.0)
    wanted = float(np.interp(replay.sessions, np.maximum.accumulate(sessions), _LOADS))
    load = min(wanted, float(np.interp(slots, np.maximum.accumulate(in_engine), _LOADS)))

    def at_load(values: Array) -> float:
        return float(np.interp(load, _LOADS, values))

    service_s = at_load(service) / 1e3
    if load == wanted:  # nobody waits for admission
        turns_per_s = loop.turns_per_s(replay.sessions, service_s, pause_s)
        return _Steady(float(turns_per_s), service_s, 0.0, at_load(tpot))
    turns_per_s = slots / service_s
    wait_s = max(replay.sessions / turns_per_s - pause_s - service_s, 0.0)
    return _Steady(turns_per_s, service_s, wait_s, at_load(tpot))


def _survival(replay: Replay, server: Server, service_s: float, wait_s: float, turns_begun: float) -> _Shares:
    """Which prefixes outlive a pause and the wait for admission after it: what waits is not yet held."""
    private = replay.input_tokens - replay.shared_tokens
    served, parked = private + replay.output_tokens / 2, private + replay.output_tokens
    spread, turns = 1 + replay.context_spread**2, max(replay.turns, 1.0)
    pauses = PauseDistribution(replay.pauses.values + wait_s, replay.pauses.weights, replay.pauses.continuous)
    shape = SessionShape(
        turns=turns,
        held_in_flight=turns * served,
        held_parked=(turns - 1) * parked,
        held_at_end=parked,
        pauses=pauses,
        pause_per_session_s=turns * pauses.mean_s,
        squares=HeldSums(turns * served**2 * spread, (turns - 1) * parked**2 * spread, parked**2 * spread),
    )
    memory = server.memory_tokens - replay.shared_tokens
    load = CacheLoad(replay.sessions, service_s, memory, server.host_memory_tokens)
    outcome = LeastRecentlyUsed(finite=True).outcome(shape, load)
    return _Shares(float(outcome.hit_rate), float(outcome.reload_rate), min(replay.sessions / turns_begun, 1.0))


def _hit_rate(replay: Replay, shares: _Shares) -> float:
    """Of the prompts' tokens: a first turn and a turn whose prefix is gone find what all share."""
    shared = replay.shared_tokens / replay.input_tokens
    later = shares.kept * replay.reused_fraction + (1 - shares.kept) * shared
    return shares.first * shared + (1 - shares.first) * later


def _figures(replay: Replay, steady: _Steady, slots: float, cold_s: float, shares: _Shares) -> ReplayFigures:
    """What a run of this length reports.

    At the start all sessions ask at once: their prefills queue, and those beyond ``slots`` wait until others leave.
    Turns still in the engine at the end count for half of their work.
    """
    rate, sessions = steady.turns_per_s, replay.sessions
    answered = max(rate * replay.duration_s - steady.in_engine / 2, 1.0)
    beginners = min(sessions, answered)
    beyond = max(beginners - slots, 0.0)
    start_s = steady.service_s + (min(sessions, slots) - 1) / 2 * cold_s + beyond**2 / (2 * beginners * rate)
    steady_s = steady.service_s + steady.wait_s
    at_start = beginners / answered
    return ReplayFigures(
        turns_per_s=answered / replay.duration_s,
        output_tokens_per_s=answered / replay.duration_s * replay.output_tokens,
        turn_latency_s=at_start * start_s + (1 - at_start) * steady_s,
        steady_latency_s=steady_s,
        tpot_ms=steady.tpot_ms,
        hit_rate=_hit_rate(replay, shares),
        reload_rate=(1 - shares.first) * shares.reloaded * replay.reused_fraction,
        first_turn_fraction=shares.first,
        in_engine=steady.in_engine,
    )
