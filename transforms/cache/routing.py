"""Hits of sessions whose turns are sent to any replica, where memory forgets too (model.md 7)."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from schemas.arrays import Array
from schemas.scenarios import Scenario
from transforms.cache.models import CacheLoad, CacheOutcome
from transforms.cache.pauses import PauseDistribution
from transforms.cache.shape import SessionShape, scenario_pauses
from transforms.equations.context import TurnProfile, turn_profile
from transforms.equations.routing import copies_held, mean_turns_missed, new_tokens_in_slices, share_never_there
from transforms.spread.draws import compressed

#: Equally likely slices of what a turn finds, and entries of a task's profile at most.
_SLICES: Final = 16
_ENTRIES: Final = 100_000
#: Numbers of turns ago from which a class of them begins; the last has no end.
_BEGIN: Final = (1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 14.0, 20.0, 29.0, 42.0, 60.0, 86.0, 123.0)
_PAUSE_NODES: Final = 64
_STEPS: Final = 60
_SETTLED: Final = 1e-9


def is_routed(scenario: Scenario) -> bool:
    """Whether turns go to any of several replicas. Raises ``ValueError`` where nothing says of how many."""
    if scenario.routing == "sticky":
        return False
    if scenario.replicas is None:
        raise ValueError(f"scenario {scenario.slug}: random routing needs a number of replicas")
    return scenario.replicas > 1


@dataclass(frozen=True)
class TurnsAgo:
    """So many turns ago, ``first`` to ``last``: when a session was last on a replica, or will next be."""

    first: float
    last: float
    mean: float
    pauses: PauseDistribution  #: the sum of the pauses between

    def chance(self, turns: Array, replicas: float) -> Array:
        """That it was one of these, of a session with so many turns to choose from."""
        nearer, farther = np.minimum(turns, self.first - 1.0), np.minimum(turns, self.last)
        return np.asarray(share_never_there(nearer, replicas) - share_never_there(farther, replicas))

    def missed(self, turns: Array, replicas: float) -> Array:
        """The turns that came since, in the mean over all sessions: none of those that were there another time."""
        nearer, farther = np.minimum(turns, self.first - 1.0), np.minimum(turns, self.last)
        return np.asarray(mean_turns_missed(farther, replicas) - mean_turns_missed(nearer, replicas))


@dataclass(frozen=True)
class Recency:
    """What turns find, by how many turns ago their session was last on their replica.

    ``reuse``: of each class the share of all that turns could reuse, where nothing is forgotten.
    """

    classes: tuple[TurnsAgo, ...]
    reuse: tuple[float, ...]

    @property
    def found(self) -> float:
        """The share of what turns could reuse that lies on the replica that they are sent to."""
        return sum(self.reuse)

    def found_within(self, kept_s: npt.ArrayLike, service_s: npt.ArrayLike = 0.0) -> Array:
        """The same of what was used within so many seconds; the turns since then took ``service_s`` each."""
        kept, service = np.asarray(kept_s, dtype=np.float64), np.asarray(service_s, dtype=np.float64)
        share = np.zeros(np.broadcast_shapes(kept.shape, service.shape))
        for each, reuse in zip(self.classes, self.reuse, strict=True):
            share += reuse * each.pauses.share_within(kept - (each.mean - 1.0) * service)
        return share


@lru_cache(maxsize=64)
def recency(scenario: Scenario) -> Recency:
    """Of a scenario with random routing. Of a task's first turn, what it finds lies on all replicas, from the tasks
    before; where nothing can be reused all is found."""
    assert scenario.replicas is not None
    profile, replicas = turn_profile(scenario), float(scenario.replicas)
    before = np.arange(len(profile.context), dtype=np.float64)
    before[0] = np.inf
    growth = np.where(before < np.inf, scenario.context_growth_tokens, 0.0)
    possible = profile.new_on_miss - profile.new_on_hit
    classes = _classes(scenario, len(before), replicas)
    if possible.sum() <= 0.0:
        return Recency(classes[:1], (1.0,))
    before = np.minimum(before, 1e9)
    reuse = [
        float((possible * each.chance(before, replicas) - growth * each.missed(before, replicas)).sum())
        for each in classes
    ]
    return Recency(classes, tuple(max(share / float(possible.sum()), 0.0) for share in reuse))


def _classes(scenario: Scenario, turns: int, replicas: float) -> tuple[TurnsAgo, ...]:
    begin = [first for first in _BEGIN if first == 1.0 or (first < turns and replicas > 1)]
    pauses, found = scenario_pauses(scenario), []
    for first, last in zip(begin, [*(after - 1.0 for after in begin[1:]), 1e9], strict=True):
        own = TurnsAgo(first, last, first, pauses)
        every = np.array([1e9])
        mean = 1.0 + float((own.missed(every, replicas) / own.chance(every, replicas))[0])
        found.append(replace(own, mean=mean, pauses=sum_of_pauses(pauses, max(round(mean), 1))))
    return tuple(found)


def sum_of_pauses(pauses: PauseDistribution, number: int) -> PauseDistribution:
    """The distribution of the sum of so many pauses; its mean is kept, its form in a few nodes."""
    if number == 1:
        return pauses
    half, rest = (sum_of_pauses(pauses, part) for part in (number // 2, number - number // 2))
    parts = [compressed(each.values, each.weights, _PAUSE_NODES) for each in (half, rest)]
    sums, place = np.unique(np.add.outer(parts[0][0], parts[1][0]), return_inverse=True)
    chances = np.multiply.outer(parts[0][1], parts[1][1]).ravel()
    at_sums = np.asarray(np.bincount(place.ravel(), weights=chances), dtype=np.float64)
    values, weights = compressed(sums, at_sums, _PAUSE_NODES)
    return PauseDistribution(values, weights / weights.sum(), pauses.continuous)


def routed_profile(scenario: Scenario, profile: TurnProfile) -> TurnProfile:
    """The profile with each turn as equally likely slices of what it finds on the replica that it is sent to."""
    assert scenario.replicas is not None
    count = len(profile.context)
    slices = max(min(_SLICES, _ENTRIES // count), 1)
    before = np.arange(count, dtype=np.float64)
    new = new_tokens_in_slices(
        profile.new_on_hit, profile.new_on_miss, before, scenario.context_growth_tokens, scenario.replicas, slices
    )
    new[0] = profile.new_on_hit[0]
    each = {name: np.repeat(getattr(profile, name), slices) for name in TurnProfile.__annotations__}
    each |= {name: each[name] / slices for name in ("weights", "of_first", "of_last")}
    return TurnProfile(**each | {"new_on_hit": new.ravel()})


def copies_of_context(scenario: Scenario) -> tuple[float, float]:
    """What all replicas together hold of a session over what its own would: in the mean of its turns, at its last."""
    if not is_routed(scenario):
        return 1.0, 1.0
    assert scenario.replicas is not None
    own = turn_profile(scenario).context - scenario.shared_prefix_tokens
    held = copies_held(own, scenario.replicas)
    return float(held.mean() / own.mean()), float(held[-1] / own[-1])


@dataclass(frozen=True)
class RandomlyRouted:
    """``LeastRecentlyUsed`` on each of the replicas that turns are sent to by chance.

    A session leaves a copy on each. One outlives its last use there by T; until the session's next turn there, or T,
    it takes memory, and that turn finds it if it comes within T.

    ``waiting``: what a session leaves on replicas until it is there again, by how many turns that takes; ``left``: what
    it leaves for good; sums over its turns, in the unit of the session's shape. ``longest_s``: none is kept for longer.
    """

    recency: Recency
    waiting: tuple[float, ...]
    left: float
    longest_s: float = np.inf

    @classmethod
    def of(cls, scenario: Scenario, parked: Array, longest_s: float = np.inf) -> "RandomlyRouted":
        """``parked``: what a session holds after each turn."""
        assert scenario.replicas is not None
        found, replicas = recency(scenario), float(scenario.replicas)
        after = np.arange(len(parked), dtype=np.float64)[::-1]
        share = scenario.turns / len(parked)
        waiting = tuple(share * float(parked @ each.chance(after, replicas)) for each in found.classes)
        return cls(found, waiting, share * float(parked @ share_never_there(after, replicas)), longest_s)

    def outcome(self, shape: SessionShape, load: CacheLoad) -> CacheOutcome:
        """As the other models; hits count by what they find of what they could (``Recency``)."""
        hbm, host = np.asarray(load.memory, dtype=np.float64), np.asarray(load.host_memory, dtype=np.float64)
        near = self._kept_s(shape, load, hbm)
        far = self._kept_s(shape, load, hbm + host) if host.any() else near
        most = shape.most_hit_rate / self.recency.found
        found_near, found = (
            most * np.where(kept < 0, 0.0, self.recency.found_within(np.minimum(kept, self.longest_s), load.service_s))
            for kept in (near, far)
        )
        kept_s = np.maximum(np.minimum(far, self.longest_s), 0.0)
        return CacheOutcome(found, found - found_near, kept_s, near < 0)

    def _kept_s(self, shape: SessionShape, load: CacheLoad, memory: Array) -> Array:
        """T at which the memory is full; negative where it does not hold what is in flight.

        What is kept is concave in T: Newton's steps from 0 come nearer from below.
        """
        service = np.asarray(load.service_s, dtype=np.float64)
        cycle = shape.turns * service + shape.pause_per_session_s
        spare = memory / np.asarray(load.sessions, dtype=np.float64) * cycle - shape.held_in_flight * service
        kept = np.zeros_like(spare)
        for _ in range(_STEPS):
            held, more = self._held(kept, service)
            step = (spare - held) / more
            kept = np.maximum(kept + step, kept)
            if not (step > _SETTLED * (1.0 + kept)).any():
                break
        return np.where(spare < 0, -1.0, kept)

    def _held(self, kept_s: Array, service_s: Array) -> tuple[Array, Array]:
        """Seconds times memory of what is kept for so long after its last use, and what a second more would add."""
        held, more = self.left * kept_s, self.left + np.zeros_like(kept_s)
        for each, waiting in zip(self.recency.classes, self.waiting, strict=True):
            between = (each.mean - 1.0) * service_s
            rest = kept_s - between
            within = between + each.pauses.mean_within(np.maximum(rest, 0.0))
            held = held + waiting * np.where(rest > 0, within, kept_s)
            more = more + waiting * np.where(rest > 0, 1.0 - each.pauses.share_within(rest), 1.0)
        return held, more
