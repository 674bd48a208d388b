"""Percentiles of many linear forms of the same quantities: ``c . V`` for each row ``c``, V known by its nodes.

A percentile is a smooth function of the form's direction, and its gradient there is the mean of V where the form has
its percentile; a form's percentile grows as the form does (Euler's theorem), so that near a direction it is linear in
the row. Rows are put into cells of like direction; the nodes are sorted once for each cell, at its centre, and what is
left is of second order in the size of a cell.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from schemas.arrays import Array, Indices
from transforms.numbers import Number

#: Cells a unit of a direction, whose amounts add up to 1.
_CELLS: Final = 12
_STEPS: Final = 2 * _CELLS + 1
#: The gradient is the mean over nodes within this share about the percentile, or a quarter of what is beyond it.
_ABOUT: Final = 0.02
_ROUNDING: Final = 1e-9
#: Rows whose directions are worked out at a time: they stay in the processor's cache.
_AT_A_TIME: Final = 16_384
#: Where more cells a row could be, those that are taken are found by sorting.
_KEYS_A_ROW: Final = 8


@dataclass(frozen=True)
class Nodes:
    """Values of d quantities at K nodes, ``(K, d)``, and weights of sum 1. ``continuous``: a percentile lies between
    the nodes; else it is that of one of them."""

    values: Array
    weights: Array
    continuous: bool = False
    _found: dict[tuple[int, tuple[float, ...]], Array] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def means(self) -> Array:
        """Of the quantities."""
        return np.asarray(self.weights @ self.values)

    @cached_property
    def deviations(self) -> Array:
        """Of the quantities; 0 for one that does not vary."""
        deviations = np.sqrt(self.weights @ (self.values - self.means) ** 2)
        return np.where(deviations > _ROUNDING * np.abs(self.values).max(axis=0), deviations, 0.0)

    @cached_property
    def varying(self) -> list[int]:
        """The places of the quantities that vary."""
        return np.flatnonzero(self.deviations).tolist()

    @cached_property
    def scaled(self) -> Array:
        """The quantities that vary, less their means and in their deviations."""
        varies = self.deviations > 0
        return np.asarray((self.values - self.means)[:, varies] / self.deviations[varies])

    def factors(self, key: int, shares: tuple[float, ...]) -> Array:
        """What rows of a cell are multiplied by to give their percentiles: ``(d, len(shares))``."""
        if (key, shares) not in self._found:
            varies = self.deviations > 0
            centre = _centre(key, int(varies.sum()))
            factors = np.repeat(self.means[:, None], len(shares), axis=1)
            if centre.any():
                read = _read_between if self.continuous else _read_steps
                at, gradients = read(self, self.scaled @ centre, shares)
                # so that at the centre itself the percentile is exact
                gradients = gradients + np.outer((at - gradients @ centre) / (centre @ centre), centre)
                factors[varies] += self.deviations[varies, None] * gradients.T
            self._found[key, shares] = factors
        return self._found[key, shares]


def percentiles(nodes: Nodes, forms: Sequence[Number], shares: tuple[float, ...]) -> Array:
    """The percentiles of ``c . V``. ``forms``: coefficients of each quantity, an array of one entry a row or a number
    that all rows share; result ``(len(shares), rows)``.

    A row's result does not depend on the rows beside it, to the last bit. ``shares`` rise, and so do the percentiles.
    """
    count = max((form.size for form in forms if isinstance(form, np.ndarray)), default=1)
    table = np.empty((len(shares), count))
    if not count:
        return table
    taken, cell = _cells(nodes, forms, count)
    # each quantity and share: a factor of every cell
    factors = np.stack([nodes.factors(key, shares) for key in taken.tolist()], axis=-1)
    alike = [quantity for quantity in range(len(forms)) if not nodes.deviations[quantity]]
    for some in _blocks(count):
        rest: Number = 0.0
        for quantity in alike:
            rest = rest + _part(forms[quantity], some) * nodes.means[quantity]
        for share, values in enumerate(table[:, some]):
            values[:] = rest
            for quantity in nodes.varying:
                of_cell = factors[quantity, share]
                values += _part(forms[quantity], some) * (of_cell[0] if cell is None else of_cell[cell[some]])
            if share:
                np.maximum(values, table[share - 1, some], out=values)
    return table


def _cells(nodes: Nodes, forms: Sequence[Number], count: int) -> tuple[Indices, Indices | None]:
    """The keys of the cells that rows lie in, and the place of each row's among them; None where there is but one."""
    keys = np.empty(count, dtype=np.int64)
    for some in _blocks(count):
        amounts = [_part(forms[quantity], some) * nodes.deviations[quantity] for quantity in nodes.varying]
        total = np.zeros(len(keys[some]))
        for amount in amounts:
            total += np.abs(amount)
        a_unit = _CELLS / np.where(total > 0, total, 1.0)
        key = np.zeros(len(total))
        for amount in reversed(amounts):
            key *= _STEPS
            key += np.rint(amount * a_unit) + _CELLS
        keys[some] = key
    highest = int(keys.max())
    if keys.min() == highest:
        return keys[:1], None
    if highest < _KEYS_A_ROW * count:
        there = np.bincount(keys) > 0
        return np.flatnonzero(there), (np.cumsum(there) - 1)[keys]
    taken, cell = np.unique(keys, return_inverse=True)
    return taken, cell


def _blocks(count: int) -> Iterator[slice]:
    return (slice(first, min(first + _AT_A_TIME, count)) for first in range(0, count, _AT_A_TIME))


def _part(form: Number, some: slice) -> Number:
    return form[some] if isinstance(form, np.ndarray) else form


def _centre(key: int, quantities: int) -> Array:
    """The direction at the centre of a cell; 0 for rows in which nothing varies."""
    steps = np.array([key // _STEPS**place % _STEPS for place in range(quantities)]) - _CELLS
    return np.asarray(steps / max(np.abs(steps).sum(), 1))


def _read_steps(nodes: Nodes, form: Array, shares: Sequence[float]) -> tuple[Array, Array]:
    """Percentiles that are one of the nodes' values, and the mean of the scaled quantities where they are."""
    order = np.argsort(form, kind="stable")
    upto = np.cumsum(nodes.weights[order])
    place = np.minimum(np.searchsorted(upto, np.asarray(shares) - _ROUNDING), len(form) - 1)
    at = form[order][place]
    weights = (np.abs(form - at[:, None]) <= _ROUNDING * np.abs(form).max()) * nodes.weights
    return at, np.asarray(weights @ nodes.scaled / weights.sum(axis=1)[:, None])


def _read_between(nodes: Nodes, form: Array, shares: Sequence[float]) -> tuple[Array, Array]:
    """Percentiles between the nodes' values, and the mean of the scaled quantities at the nodes about them."""
    share = np.asarray(shares)
    about = np.minimum(_ABOUT, np.minimum(share, 1 - share) / 4)
    alike = bool((nodes.weights == nodes.weights[0]).all())
    # of nodes that weigh alike the ranks are known before the order: no need of all of it
    order = np.arange(len(form)) if alike else np.argsort(form)
    weights = nodes.weights[order]
    upto = np.cumsum(weights)
    low, high = np.searchsorted(upto, [share - about, share + about])
    high = np.minimum(high, len(form) - 1)
    middles = upto - weights / 2
    after = np.clip(np.searchsorted(middles, share), 1, len(form) - 1)
    if alike:
        order = np.argpartition(form, np.unique(np.concatenate((low, high, after - 1, after))))
    below, above = form[order[after - 1]], form[order[after]]
    part = np.clip((share - middles[after - 1]) / (middles[after] - middles[after - 1]), 0.0, 1.0)
    gradients = np.empty((len(share), nodes.scaled.shape[1]))
    for place, (first, last) in enumerate(zip(low, high, strict=True)):
        taken = order[first : last + 1]
        near = nodes.weights[taken]
        gradients[place] = near @ nodes.scaled[taken] / near.sum()
    return below + part * (above - below), gradients
