"""Sessions on one replica, event by event (SimPy): turns, pauses, a prefix cache, stations and admission.

Work is counted in mean turns: a request of work w takes w * R(n) where n requests are in flight all along.
"""

import heapq
import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import simpy

from tests.second_opinion.curve import Curve

#: Random numbers of one quantity: the draw depends on the generator alone.
Draw = Callable[[random.Random], float]
#: Which station serves a turn: the session's own (dealt out evenly), one drawn for each turn, or the emptiest.
Assignment = Literal["even", "drawn-each-turn", "least-loaded"]
#: ``shared``: all in flight progress alike. ``first-come``: the whole rate goes to the request that came first.
Discipline = Literal["shared", "first-come"]
BATCHES = 20


def constant(mean: float) -> Draw:
    return lambda rng: mean


def exponential(mean: float) -> Draw:
    return (lambda rng: rng.expovariate(1.0 / mean)) if mean > 0 else constant(0.0)


def log_normal(mean: float, squared_variation: float) -> Draw:
    """Heavy-tailed, by mean and squared coefficient of variation."""
    variance = float(np.log1p(squared_variation))
    location, scale = float(np.log(mean)) - variance / 2, variance**0.5
    return lambda rng: rng.lognormvariate(location, scale)


def hit_or_miss(hit_rate: float, miss_to_hit: float) -> Draw:
    """Two works of mean 1: a miss is ``miss_to_hit`` times the work of a hit."""
    hit = 1.0 / (hit_rate + (1.0 - hit_rate) * miss_to_hit)
    return lambda rng: hit if rng.random() < hit_rate else hit * miss_to_hit


@dataclass(frozen=True)
class Loop:
    """What is simulated. ``max_sessions`` sessions are admitted, task by task; the others wait outside."""

    curve: Curve
    sessions: int
    pause: Draw
    work: Draw = field(default_factory=lambda: constant(1.0))
    turns_per_task: int = 8
    max_sessions: int | None = None
    assignment: Assignment = "even"
    discipline: Discipline = "shared"


@dataclass(frozen=True)
class Measured:
    """Figures of a run, and the relative standard error of each from the spread of its 20 parts."""

    turns_per_s: float
    latency_s: float
    turns_error: float
    latency_error: float


class Station(Protocol):
    in_flight: int

    def serve(self, work: float) -> simpy.Event: ...


def simulate(loop: Loop, turns: int, seed: int) -> Measured:
    """Runs until ``turns`` turns are measured, after a warm-up of a tenth of them."""
    env, rng = simpy.Environment(), random.Random(seed)
    kind = _Shared if loop.discipline == "shared" else _FirstCome
    rates = [0.0, *loop.curve.rates(loop.sessions).tolist()]
    stations: list[Station] = [kind(env, rates) for _ in range(loop.curve.stations)]
    log = _Log(env, warm_up=turns // 10, turns=turns)
    admission = simpy.Resource(env, loop.max_sessions or loop.sessions)
    for number in range(loop.sessions):
        env.process(_session(env, rng, loop, number, stations, admission, log))
    env.run(until=log.done)
    return log.measured()


def _session(
    env: simpy.Environment,
    rng: random.Random,
    loop: Loop,
    number: int,
    stations: list[Station],
    admission: simpy.Resource,
    log: "_Log",
) -> Generator[simpy.Event, Any, None]:
    count = len(stations)
    mine = stations[number % count]
    while True:
        with admission.request() as admitted:
            yield admitted
            for _ in range(loop.turns_per_task):
                yield env.timeout(loop.pause(rng))
                if loop.assignment == "drawn-each-turn":
                    mine = rng.choice(stations)
                elif loop.assignment == "least-loaded":
                    least = min(station.in_flight for station in stations)
                    mine = rng.choice([station for station in stations if station.in_flight == least])
                start = env.now
                yield mine.serve(loop.work(rng))
                log.turn(env.now - start)


class _Shared:
    """All in flight progress at the speed 1/R(n): what each has received since the start is one number."""

    def __init__(self, env: simpy.Environment, rates: list[float]) -> None:
        self.env, self.in_flight = env, 0
        self._speed = [rate / max(n, 1) for n, rate in enumerate(rates)]
        self._received = self._updated = 0.0
        self._waiting: list[tuple[float, int, simpy.Event]] = []
        self._plan = 0

    def serve(self, work: float) -> simpy.Event:
        self._advance()
        done = self.env.event()
        self._plan += 1
        heapq.heappush(self._waiting, (self._received + work, self._plan, done))
        self.in_flight += 1
        self._plan_next()
        return done

    def _advance(self) -> None:
        self._received += (self.env.now - self._updated) * self._speed[self.in_flight]
        self._updated = self.env.now

    def _plan_next(self) -> None:
        self._plan += 1
        if self._waiting:
            left = max(self._waiting[0][0] - self._received, 0.0)
            timeout = self.env.timeout(left / self._speed[self.in_flight], value=self._plan)
            timeout.callbacks.append(self._finish)

    def _finish(self, event: simpy.Event) -> None:
        if event.value != self._plan:
            return  # somebody came meanwhile
        self._advance()
        done = heapq.heappop(self._waiting)[2]
        self.in_flight -= 1
        done.succeed()
        self._plan_next()


class _FirstCome:
    """The whole rate X(n) goes to the request that came first."""

    def __init__(self, env: simpy.Environment, rates: list[float]) -> None:
        self.env, self.in_flight = env, 0
        self._rates = rates
        self._queue: list[tuple[float, simpy.Event]] = []
        self._left = self._updated = 0.0
        self._plan = 0

    def serve(self, work: float) -> simpy.Event:
        self._advance()
        done = self.env.event()
        if not self._queue:
            self._left = work
        self._queue.append((work, done))
        self.in_flight += 1
        self._plan_next()
        return done

    def _advance(self) -> None:
        self._left -= (self.env.now - self._updated) * self._rates[self.in_flight]
        self._updated = self.env.now

    def _plan_next(self) -> None:
        self._plan += 1
        if self._queue:
            delay = max(self._left, 0.0) / self._rates[self.in_flight]
            timeout = self.env.timeout(delay, value=self._plan)
            timeout.callbacks.append(self._finish)

    def _finish(self, event: simpy.Event) -> None:
        if event.value != self._plan:
            return  # somebody came meanwhile
        self._advance()
        _, done = self._queue.pop(0)
        self.in_flight -= 1
        if self._queue:
            self._left = self._queue[0][0]
        done.succeed()
        self._plan_next()


class _Log:
    """Turns as they end; the warm-up is forgotten."""

    def __init__(self, env: simpy.Environment, warm_up: int, turns: int) -> None:
        self.env, self.done = env, env.event()
        self._first, self._last = warm_up, warm_up + turns // BATCHES * BATCHES
        self._ends: list[float] = []
        self._latencies: list[float] = []

    def turn(self, latency_s: float) -> None:
        self._ends.append(self.env.now)
        self._latencies.append(latency_s)
        if len(self._ends) == self._last:
            self.done.succeed()

    def measured(self) -> Measured:
        ends = np.array(self._ends[self._first - 1 : self._last])
        latency = np.array(self._latencies[self._first : self._last]).reshape(BATCHES, -1).mean(axis=1)
        size = (len(ends) - 1) // BATCHES
        spans = np.diff(ends[::size])
        return Measured(
            turns_per_s=(len(ends) - 1) / float(ends[-1] - ends[0]),
            latency_s=float(latency.mean()),
            turns_error=float(spans.std(ddof=1) / BATCHES**0.5 / spans.mean()),
            latency_error=float(latency.std(ddof=1) / BATCHES**0.5 / latency.mean()),
        )
