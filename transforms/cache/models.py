"""A cache that forgets what was used least recently, and what any model of a cache takes and gives."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from schemas.arrays import Array, Flags
from transforms.cache.shape import SessionShape


@dataclass(frozen=True)
class CacheLoad:
    """What a cache has to carry; each field a number or an array of one entry a point.

    The memory is what is left for the sessions' KV, in the unit of the session's shape.
    """

    sessions: npt.ArrayLike  #: C
    service_s: npt.ArrayLike  #: R, mean over the turns
    memory: npt.ArrayLike = np.inf  #: HBM
    host_memory: npt.ArrayLike = 0.0  #: DRAM behind it, from which a prefix is reloaded
    #: Mean time that what is held in flight is held, where it is not R (large contexts are served for longer).
    held_service_s: npt.ArrayLike | None = None


@dataclass(frozen=True)
class CacheOutcome:
    """What becomes of a turn's prefix; arrays of one entry a point."""

    hit_rate: Array  #: found at all, in HBM or in host memory
    reload_rate: Array  #: found in host memory only, part of ``hit_rate``
    kept_s: Array  #: how long a prefix outlives its last use; inf where it is never evicted
    overcommitted: Flags  #: what is in flight alone does not fit (HBM), which keeps nothing then

    @classmethod
    def nothing(cls, points: int) -> "CacheOutcome":
        """Nothing is found at so many points; to be filled in."""
        return cls(np.zeros(points), np.zeros(points), np.zeros(points), np.zeros(points, np.bool_))


class CacheModel(Protocol):
    """Any of the models."""

    def outcome(self, shape: SessionShape, load: CacheLoad) -> CacheOutcome:
        """Hits of the shape's sessions under this load."""


@dataclass(frozen=True)
class LeastRecentlyUsed:
    """The prefix used longest ago is evicted first.

    A prefix outlives its last use by a time T, nearly the same for all (H. Che, Y. Tung, Z. Wang, IEEE JSAC 20(7),
    2002). In the closed loop T is where the memory is full:
    ``M = C * [sum L*R + sum_{j<N} L*E[min(Z, T)] + L_end*T] / sum(R + Z)``, and a turn hits if its pause is within T.

    Twenty sessions of two turns hold 100 bytes each, turns take 2 s, half of the pauses 4 s, the others 16 s, and
    nothing stays after the end. 900 bytes are full at T = 9.6 s: ``20 * (200*2 + 100*(4 + 9.6)/2) / 24``. The short
    pauses hit, the long ones do not: half of the reuse is found.

    With ``finite`` T varies, as it does where few sessions share the memory: a turn hits after a pause z if what the
    other C - 1 sessions used since leaves room for its own prefix. That is a sum of independent parts, taken as
    normal with the mean above at T = z and the variance of the parts (after C. Fricker, P. Robert, J. Roberts, ITC
    24, 2012). It needs the shape's squares.

    ``longest_s``: no prefix is kept for longer, whatever the memory.
    """

    finite: bool = False
    longest_s: float = np.inf

    def outcome(self, shape: SessionShape, load: CacheLoad) -> CacheOutcome:
        """T solved once with HBM and once with all memory; hits of the second alone are reloads.

        Raises ``ValueError`` for loads that cannot be, and with ``finite`` for a shape without squares.
        """
        _refuse_impossible(load)
        hbm = np.asarray(load.memory, dtype=np.float64)
        balance = _Balance(shape, load)
        near, far = (
            np.minimum(balance.kept_s(memory), self.longest_s) for memory in (hbm, hbm + np.asarray(load.host_memory))
        )
        if self.finite:
            found_near = balance.varying_share(hbm, self.longest_s)
            found = balance.varying_share(hbm + np.asarray(load.host_memory), self.longest_s)
        else:
            found_near, found = (
                np.where(kept < 0, 0.0, shape.pauses.share_within(np.maximum(kept, 0.0))) for kept in (near, far)
            )
        found, found_near = shape.most_hit_rate * found, shape.most_hit_rate * found_near
        return CacheOutcome(found, found - found_near, np.maximum(far, 0.0), near < 0)


class _Balance:
    """The memory that sessions take, as a function of the time T for which a prefix is kept after its last use."""

    def __init__(self, shape: SessionShape, load: CacheLoad) -> None:
        self._shape = shape
        self._sessions = np.asarray(load.sessions, dtype=np.float64)
        service = np.asarray(load.service_s, dtype=np.float64)
        self._held_service = service if load.held_service_s is None else np.asarray(load.held_service_s)
        self._cycle = shape.turns * service + shape.pause_per_session_s

    def kept_s(self, memory: Array) -> Array:
        """T in seconds at which the memory is full; negative where it does not hold what is in flight."""
        shape = self._shape
        # The seconds x memory that one session's life may take beside what it takes in flight.
        spare = memory / self._sessions * self._cycle - shape.held_in_flight * self._held_service
        at = np.unique(np.concatenate(([0.0], shape.pauses.values)))
        taken = shape.held_parked * shape.pauses.mean_within(at) + shape.held_at_end * at
        # What is taken grows with T in straight pieces between the pauses, and beyond the last by held_at_end.
        within = np.interp(spare, taken, at)
        with np.errstate(divide="ignore", invalid="ignore"):
            beyond = np.where(spare > taken[-1], at[-1] + (spare - taken[-1]) / shape.held_at_end, within)
        return np.where(spare < 0, -1.0, beyond)

    def varying_share(self, memory: Array, longest_s: float) -> Array:
        """Share of the pauses, up to the longest, that a prefix outlives where the memory in use varies."""
        shape, squares = self._shape, self._shape.squares
        if squares is None:
            raise ValueError("a finite number of sessions needs the squares of what they hold")
        own = squares.parked / shape.held_parked if shape.held_parked else 0.0
        others = np.maximum(self._sessions - 1, 0.0)
        share = np.zeros(np.broadcast_shapes(np.shape(memory), self._cycle.shape, self._sessions.shape))
        coarse = shape.pauses.coarse()
        for pause, weight in zip(coarse.values, coarse.weights, strict=True):
            if pause > longest_s:
                break
            within = float(coarse.mean_within(pause))
            mean = (shape.held_in_flight * self._held_service + shape.held_parked * within) / self._cycle
            mean = mean + shape.held_at_end * pause / self._cycle
            square = (squares.in_flight * self._held_service + squares.parked * within) / self._cycle
            square = square + squares.at_end * pause / self._cycle
            room = memory - own - others * mean
            deviation = np.sqrt(others * np.maximum(square - mean**2, 0.0))
            with np.errstate(divide="ignore", invalid="ignore"):
                normal = _normal_share(room / deviation)
            share += weight * np.where(deviation > 0, normal, room >= 0)
        return share


def _normal_share(score: Array) -> Array:
    """Standard normal distribution function within 1e-7 (Abramowitz and Stegun 26.2.17)."""
    size = np.abs(np.clip(score, -40.0, 40.0))
    t = 1 / (1 + 0.2316419 * size)
    terms = (0.319381530, -0.356563782, 1.781477937, -1.821255978, 1.330274429)
    upper = np.exp(-(size**2) / 2) / np.sqrt(2 * np.pi) * sum(term * t ** (n + 1) for n, term in enumerate(terms))
    return np.asarray(np.where(score < 0, upper, 1 - upper))


def _refuse_impossible(load: CacheLoad) -> None:
    """Raises ``ValueError`` for loads that cannot be."""
    sessions, service, memory, host = (
        np.asarray(part, dtype=np.float64) for part in (load.sessions, load.service_s, load.memory, load.host_memory)
    )
    if not ((sessions > 0).all() and (service > 0).all() and (memory >= 0).all() and (host >= 0).all()):
        raise ValueError("sessions and service_s must be more than 0, memory 0 or more")
