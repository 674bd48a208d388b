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
#: How near the reloads within a hit rate come to those that they bring about.
_RELOADS_WITHIN: Final = 1e-4
#: More than a range needs in halvings: the middle is taken each third time.
_MOST_TURNS: Final = 100


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


def settle_at_load(model: CacheModel, shape: SessionShape, load_at: LoadAt, within: float = _SETTLED) -> CacheOutcome:
    """The hit rate of a given number of requests in flight, where misses leave the cache more to keep prefixes in.

    Longer turns at the same requests in flight are fewer turns a second and fewer sessions that pause: the more hits
    are assumed the fewer are found, and one rate agrees with itself. Where all pauses are alike, prefixes are kept
    just as long as the pause there, and the share that hits is the one that keeps it so.
    """
    none = np.zeros_like(model.outcome(shape, load_at(np.zeros(()), np.zeros(()))).hit_rate)
    most = none + shape.most_hit_rate
    hit_rate = _found_again(lambda hits: _with_reloads(model, shape, load_at, hits).hit_rate, most, within)
    found = _with_reloads(model, shape, load_at, hit_rate)
    return CacheOutcome(hit_rate, np.minimum(found.reload_rate, hit_rate), found.kept_s, found.overcommitted)


def _with_reloads(model: CacheModel, shape: SessionShape, load_at: LoadAt, hit_rate: Array) -> CacheOutcome:
    """What is found at hit rates, the reloads among them settled: they lengthen the service too."""
    found = model.outcome(shape, load_at(hit_rate, np.zeros_like(hit_rate)))
    if not found.reload_rate.any():
        return found
    reloads = _found_again(
        lambda rate: model.outcome(shape, load_at(hit_rate, rate)).reload_rate, hit_rate, _RELOADS_WITHIN
    )
    found = model.outcome(shape, load_at(hit_rate, reloads))
    return CacheOutcome(found.hit_rate, reloads, found.kept_s, found.overcommitted)


def _found_again(found_at: Callable[[Array], Array], most: Array, within: float) -> Array:
    """Where a rate from 0 to ``most`` finds itself; ``found_at`` falls, or jumps down, as the rate rises.

    The chord between the ends of a bracket (regula falsi as the Illinois rule weighs it), and each third time its
    middle, until all rates find themselves ``within`` so much, or are known so well.
    """
    low, high = np.zeros_like(most), most
    above, below = found_at(low), found_at(most) - most
    stays = below >= 0.0
    rate = np.where(stays, most, low)
    open_ = ~stays & (above > within)
    for turn in range(_MOST_TURNS):
        if not open_.any():
            break
        chord = high - below * (high - low) / np.where(open_, below - above, 1.0)
        rate = np.where(open_, (low + high) / 2 if turn % 3 == 2 else np.clip(chord, low, high), rate)
        off = found_at(rate) - rate
        more = off >= 0.0
        # an end that stays twice weighs half
        above, below = np.where(more, off, above / 2), np.where(more, below / 2, off)
        low, high = np.where(open_ & more, rate, low), np.where(open_ & ~more, rate, high)
        open_ = open_ & (np.abs(off) > within) & (high - low > within)
    return np.asarray(rate)
