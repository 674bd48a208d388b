"""Hit rates that bring themselves about: misses lengthen the service, which changes what the cache keeps (Step 5)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from schemas.arrays import Array
from transforms.cache.models import CacheLoad, CacheModel, CacheOutcome
from transforms.cache.shape import SessionShape

#: The load at hit rates and at rates of reloads from host memory, arrays of one entry a point.
LoadAt = Callable[[Array, Array], CacheLoad]

_ITERATIONS: Final = 500
_SETTLED: Final = 1e-9
#: Halvings of the range of hit rates, and of that of the reloads within each.
_HALVINGS: Final = 30
_RELOAD_HALVINGS: Final = 14


@dataclass(frozen=True)
class OverHitRates:
    """A figure of points at several hit rates, straight between them: arrays of (hit rates, points).

    Hit rates rise from row to row, from 0; above the highest the figure stays.
    """

    hit_rates: Array
    values: Array

    def at(self, hit_rate: Array) -> Array:
        """The figure of each point at a hit rate of its own; array of one entry a point."""
        points = np.arange(self.values.shape[1])
        above = np.clip((self.hit_rates <= hit_rate).sum(axis=0), 1, len(self.hit_rates) - 1)
        low_rate, high_rate = self.hit_rates[above - 1, points], self.hit_rates[above, points]
        low, high = self.values[above - 1, points], self.values[above, points]
        span = high_rate - low_rate
        share = np.where(span > 0, (hit_rate - low_rate) / np.where(span > 0, span, 1.0), 0.0)
        return np.asarray(low + np.minimum(np.maximum(share, 0.0), 1.0) * (high - low))


def settle_hit_rate(
    model: CacheModel, shape: SessionShape, load_at: LoadAt, begin: npt.ArrayLike = 1.0
) -> CacheOutcome:
    """The hit rate of a given number of sessions, where misses leave the cache less to keep prefixes in.

    Where several rates are stable, the one reached from ``begin``: 1 is a warm cache, the best of them; 0 a cold
    one, the worst: a cache that thrashes.
    """
    hit_rate = np.asarray(begin, dtype=np.float64)
    reloads = np.zeros_like(hit_rate)
    found = model.outcome(shape, load_at(hit_rate, reloads))
    for _ in range(_ITERATIONS):
        moves = np.abs(found.hit_rate - hit_rate) + np.abs(found.reload_rate - reloads) >= _SETTLED
        if not moves.any():
            return found
        hit_rate, reloads = (hit_rate + found.hit_rate) / 2, (reloads + found.reload_rate) / 2
        found = model.outcome(shape, load_at(hit_rate, reloads))
    # Points that go to and fro: with little to gain from evicting, misses leave the cache more here too.
    between = settle_at_load(model, shape, load_at)
    parts = (np.where(moves, getattr(between, name), getattr(found, name)) for name in CacheOutcome.__annotations__)
    return CacheOutcome(*parts)


def settle_at_load(model: CacheModel, shape: SessionShape, load_at: LoadAt, halvings: int = _HALVINGS) -> CacheOutcome:
    """The hit rate of a given number of requests in flight, where misses leave the cache more to keep prefixes in.

    Longer turns at the same requests in flight are fewer turns a second and fewer sessions that pause: the more hits
    are assumed the fewer are found, and one rate agrees with itself. Where all pauses are alike, prefixes are kept
    just as long as the pause there, and the share that hits is the one that keeps it so.
    """
    none = np.zeros_like(model.outcome(shape, load_at(np.zeros(()), np.zeros(()))).hit_rate)
    most = none + shape.most_hit_rate
    hit_rate = _bisected(lambda hits: _with_reloads(model, shape, load_at, hits).hit_rate, most, halvings)
    found = _with_reloads(model, shape, load_at, hit_rate)
    return CacheOutcome(hit_rate, np.minimum(found.reload_rate, hit_rate), found.kept_s, found.overcommitted)


def _with_reloads(model: CacheModel, shape: SessionShape, load_at: LoadAt, hit_rate: Array) -> CacheOutcome:
    """What is found at hit rates, the reloads among them settled: they lengthen the service too."""
    found = model.outcome(shape, load_at(hit_rate, np.zeros_like(hit_rate)))
    if not found.reload_rate.any():
        return found
    reloads = _bisected(
        lambda rate: model.outcome(shape, load_at(hit_rate, rate)).reload_rate, hit_rate, _RELOAD_HALVINGS
    )
    found = model.outcome(shape, load_at(hit_rate, reloads))
    return CacheOutcome(found.hit_rate, reloads, found.kept_s, found.overcommitted)


def _bisected(found_at: Callable[[Array], Array], most: Array, halvings: int) -> Array:
    """Where a rate from 0 to ``most`` finds itself; ``found_at`` falls, or jumps down, as the rate rises."""
    low, high = np.zeros_like(most), most
    stays = found_at(most) >= most
    for _ in range(halvings):
        middle = (low + high) / 2
        more = found_at(middle) >= middle
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return np.where(stays, most, np.where(low == 0.0, 0.0, (low + high) / 2))
