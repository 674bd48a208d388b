"""A cache that forgets what was used least recently, and what any model of a cache takes and gives."""

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

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

    With ``finite`` T varies, as it does where few sessions share the memory, and a prefix may be lost in part. Of a
    prefix of P the part is found, from its beginning on, for which what the other C - 1 sessions used since leaves
    room: ``min(max(room/P, 0), 1)`` on average, as caches evict the end of a prefix before its beginning. The room is
    the memory less a sum of independent parts, taken as normal with their mean at T = the pause and their variance
    (after C. Fricker, P. Robert, J. Roberts, ITC 24, 2012). It needs the shape's squares. T is that of the mean.

    ``longest_s``: no prefix is kept for longer, whatever the memory.
    """

    finite: bool = False
    longest_s: float = np.inf

    def outcome(self, shape: SessionShape, load: CacheLoad) -> CacheOutcome:
        """T solved once with HBM and once with all memory; hits of the second alone are reloads.

        Raises ``ValueError`` for loads that cannot be, and with ``finite`` for a shape without squares.
        """
        _refuse_impossible(load)
        hbm, host = np.asarray(load.memory, dtype=np.float64), np.asarray(load.host_memory, dtype=np.float64)
        balance = _Balance(shape, load)
        near = np.minimum(balance.kept_s(hbm), self.longest_s)
        far, found_near = near, self._found(shape, load, hbm, near)
        found = found_near
        if host.any():
            far = np.minimum(balance.kept_s(hbm + host), self.longest_s)
            found = self._found(shape, load, hbm + host, far)
        found, found_near = shape.most_hit_rate * found, shape.most_hit_rate * found_near
        return CacheOutcome(found, found - found_near, np.maximum(far, 0.0), near < 0)

    def _found(self, shape: SessionShape, load: CacheLoad, memory: Array, kept_s: Array) -> Array:
        """Share of what can be reused that a memory finds; ``kept_s``: how long it keeps a prefix in the mean."""
        if self.finite:
            return found_among_others(shape, load, memory, self.longest_s)
        return np.where(kept_s < 0, 0.0, shape.pauses.share_within(np.maximum(kept_s, 0.0)))


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


#: Shares next to nothing, or to all, that are so: the normal's tails end there.
_LEAST_SHARE: Final = 1e-6
_SMALLEST: Final = 1e-300
#: Deviations from which on a normal is on one side.
_FAR: Final = 40.0


def found_among_others(shape: SessionShape, load: CacheLoad, memory: Array, longest_s: float) -> Array:
    """Share of the reusable prefixes for which others' use of the memory leaves room: see ``LeastRecentlyUsed``."""
    squares, pauses = shape.squares, shape.classes_of_pauses
    if squares is None:
        raise ValueError("a finite number of sessions needs the squares of what they hold")
    # one entry a point, and a last axis of one entry a class of pauses
    sessions, service, memory = (
        np.asarray(part, dtype=np.float64)[..., None] for part in (load.sessions, load.service_s, memory)
    )
    held_service = service if load.held_service_s is None else np.asarray(load.held_service_s)[..., None]
    cycle = shape.turns * service + shape.pause_per_session_s
    others = np.maximum(sessions - 1.0, 0.0)
    # a prefix's size, large ones counted by what they weigh
    own = squares.parked / shape.held_parked if shape.held_parked else 0.0
    mean, square = (
        (sums.in_flight * held_service + (sums.parked * pauses.within_s + sums.at_end * pauses.values_s)) / cycle
        for sums in (shape.held, squares)
    )
    deviation = np.sqrt(np.maximum(others * (square - mean * mean), 0.0))
    deviation = np.maximum(deviation, max(_LEAST_SHARE * own, _SMALLEST))
    room = np.clip(memory - others * mean, -_FAR * deviation, own + _FAR * deviation)
    if own > 0:
        share = (_room_above(room, deviation) - _room_above(room - own, deviation)) / own
    else:
        share = (room >= 0).astype(np.float64)
    share = np.where(pauses.values_s <= longest_s, share, 0.0) @ pauses.shares
    share = np.where(share > 1.0 - _LEAST_SHARE, 1.0, np.where(share < _LEAST_SHARE, 0.0, share))
    return np.asarray(share)


def _room_above(mean: Array, deviation: Array) -> Array:
    """Mean of a normal where it is above 0, as nothing elsewhere: ``E[max(X, 0)]``."""
    score = mean / deviation
    return np.asarray(mean * ndtr(score) + deviation * np.exp(-0.5 * score * score) / np.sqrt(2 * np.pi))


def _refuse_impossible(load: CacheLoad) -> None:
    """Raises ``ValueError`` for loads that cannot be."""
    sessions, service, memory, host = (
        np.asarray(part, dtype=np.float64) for part in (load.sessions, load.service_s, load.memory, load.host_memory)
    )
    if not ((sessions > 0).all() and (service > 0).all() and (memory >= 0).all() and (host >= 0).all()):
        raise ValueError("sessions and service_s must be more than 0, memory 0 or more")
