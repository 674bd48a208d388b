"""A simulation of an LRU cache of sessions, driven by traces: what the models are held against."""

import heapq
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class TracedSession:
    """A session's requests: tokens in and out, seconds of service, the pause before each (0 before the first)."""

    input_tokens: Sequence[float]
    output_tokens: Sequence[float]
    service_s: Sequence[float]
    pause_s: Sequence[float]


@dataclass(frozen=True)
class Simulated:
    """Shares after the warm-up."""

    hit_rate: float  #: of what later turns could reuse, in tokens
    turn_hit_rate: float  #: of the later turns
    overflow_fraction: float  #: of turns that began with more in flight than the memory holds


def simulate(
    sessions: Sequence[TracedSession], concurrent: int, memory: float, turns: int, seed: int, warm_up: float = 0.3
) -> Simulated:
    """``concurrent`` sessions in a closed loop: when one ends, another is drawn and begins at once.

    A session's KV is kept or evicted as a whole. What is in flight cannot be evicted, and if it overflows the memory
    it is served all the same. Nothing says that a session has ended: its KV stays until it is evicted.
    """
    rng = np.random.default_rng(seed)
    parked: OrderedDict[int, float] = OrderedDict()  # used longest ago first
    used = 0.0
    names = iter(range(10**12))
    events: list[tuple[float, int, int, int, bool]] = []  # time, name, session, turn, whether the turn begins
    for _ in range(concurrent):
        which = int(rng.integers(len(sessions)))
        begin = int(rng.integers(len(sessions[which].input_tokens)))  # in the middle of its life
        heapq.heappush(events, (float(rng.uniform(0, 60)), next(names), which, begin, True))
    could, found, later, hits, overflows, done = 0.0, 0.0, 0, 0, 0, 0
    while done < turns:
        now, name, which, turn, begins = heapq.heappop(events)
        session = sessions[which]
        held = session.input_tokens[turn] + session.output_tokens[turn]
        if not begins:
            parked[name] = held
            if turn + 1 < len(session.input_tokens):
                heapq.heappush(events, (now + session.pause_s[turn + 1], name, which, turn + 1, True))
            else:
                heapq.heappush(events, (now, next(names), int(rng.integers(len(sessions))), 0, True))
            continue
        done += 1
        had = parked.pop(name, None)
        used += held - (had or 0.0)
        while used > memory and parked:
            used -= parked.popitem(last=False)[1]
        if done > warm_up * turns:
            overflows += used > memory
            if turn:
                reusable = min(session.input_tokens[turn], session.input_tokens[turn - 1])
                could, later = could + reusable, later + 1
                if had is not None:
                    found, hits = found + reusable, hits + 1
        heapq.heappush(events, (now + session.service_s[turn], name, which, turn, False))
    return Simulated(found / could, hits / later, overflows / ((1 - warm_up) * turns))
