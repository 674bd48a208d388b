"""Percentiles of many linear forms of the same quantities: ``c . V`` for each row ``c``, V known by its nodes.

A percentile is a smooth function of the form's direction, and its gradient there is the mean of V where the form has
its percentile (a form's percentile grows as the form does: Euler's theorem for homogeneous functions). Rows are put
into cells of like direction; in each cell the nodes are sorted once, at its middle, and each row moves from
there along the gradient: what is left is of second order in the size of a cell.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

#: Cells a unit of a direction, whose amounts add up to 1.
_CELLS: Final = 16
_STEPS: Final = 2 * _CELLS + 1
#: Where more cells a row could be, those that are taken are found by sorting.
_KEYS_A_ROW: Final = 8
#: The gradient is the mean over nodes within this share about the percentile, or a quarter of what is beyond it.
_ABOUT: Final = 0.02
_ROUNDING: Final = 1e-9


@dataclass(frozen=True)
class Nodes:
    """Values of d quantities at K nodes, ``(K, d)``, and weights of sum 1. ``continuous``: a percentile lies between
    the nodes; else it is that of one of them."""

    values: Array
    weights: Array
    continuous: bool = False

    @property
    def means(self) -> Array:
        """Of the quantities."""
        return np.asarray(self.weights @ self.values)


def percentiles(nodes: Nodes, rows: Sequence[Array | float], shares: Sequence[float]) -> list[Array]:
    """The percentiles of ``sum_k rows[k] * V[k]``: an array of one entry a row for each share.

    ``rows``: for each quantity its factor in each row, an array or one number for all rows. ``shares`` rise, and so do
    the percentiles.
    """
    means = nodes.means
    middle = np.asarray(sum(factor * mean for factor, mean in zip(rows, means, strict=True)))
    centred = nodes.values - means
    deviations = np.sqrt(nodes.weights @ centred**2)
    varies = np.flatnonzero(deviations > _ROUNDING * np.abs(nodes.values).max(axis=0)).tolist()
    if not varies or not middle.size:
        return [middle for _ in shares]
    amounts = [rows[k] * deviations[k] + np.zeros_like(middle) for k in varies]
    total = np.asarray(sum(np.abs(amount) for amount in amounts))
    cell, centres = _cells([amount / np.where(total > 0, total, 1.0) for amount in amounts])
    scaled = Nodes(centred[:, varies] / deviations[varies], nodes.weights, nodes.continuous)
    at, gradients = _at_centres(scaled, centres, shares)
    offsets = at - np.einsum("cd,csd->cs", centres, gradients)
    found = [
        middle
        + total * offsets[cell, place]
        + sum(amount * gradients[cell, place, k] for k, amount in enumerate(amounts))
        for place in range(len(shares))
    ]
    for place in range(1, len(found)):  # two that are near may have changed places
        found[place] = np.maximum(found[place], found[place - 1])
    return found


def _cells(directions: Sequence[Array]) -> tuple[npt.NDArray[np.int64], Array]:
    """The cell of each row, and the middle of each cell: where a row is read does not depend on the other rows."""
    keys = np.zeros(len(directions[0]), dtype=np.int64)
    for column in directions:
        keys = keys * _STEPS + np.rint(column * _CELLS).astype(np.int64) + _CELLS
    if keys.max() < _KEYS_A_ROW * len(keys):
        taken = np.bincount(keys) > 0
        cell, keys = (np.cumsum(taken) - 1)[keys], np.flatnonzero(taken)
    else:
        keys, cell = np.unique(keys, return_inverse=True)
    centres = np.empty((len(keys), len(directions)))
    for place in reversed(range(len(directions))):
        keys, step = np.divmod(keys, _STEPS)
        centres[:, place] = (step - _CELLS) / _CELLS
    return cell, centres


def _at_centres(nodes: Nodes, centres: Array, shares: Sequence[float]) -> tuple[Array, Array]:
    """Percentiles ``(cells, shares)`` and their gradients ``(cells, shares, d)`` at each centre."""
    at = np.empty((len(centres), len(shares)))
    gradients = np.empty((len(centres), len(shares), nodes.values.shape[1]))
    for number, centre in enumerate(centres):
        read = _read_between if nodes.continuous else _read_steps
        at[number], gradients[number] = read(nodes, nodes.values @ centre, shares)
    return at, gradients


def _read_steps(nodes: Nodes, form: Array, shares: Sequence[float]) -> tuple[Array, Array]:
    """Percentiles that are one of the nodes' values, and the mean V of the nodes that have it."""
    order = np.argsort(form, kind="stable")
    upto = np.cumsum(nodes.weights[order])
    place = np.minimum(np.searchsorted(upto, np.asarray(shares) - _ROUNDING), len(form) - 1)
    at = form[order][place]
    near = np.abs(form - at[:, None]) <= _ROUNDING * np.abs(form).max()
    return at, _mean_where(nodes, near)


def _read_between(nodes: Nodes, form: Array, shares: Sequence[float]) -> tuple[Array, Array]:
    """Percentiles between the nodes' values, and the mean V of the nodes about them."""
    share = np.asarray(shares)
    about = np.minimum(_ABOUT, np.minimum(share, 1 - share) / 4)
    alike = bool((nodes.weights == nodes.weights[0]).all())
    # of nodes that weigh alike the ranks are known before the order: no need of all of it
    order = np.arange(len(form)) if alike else np.argsort(form)
    weights = nodes.weights[order]
    upto = np.cumsum(weights)
    low, high = np.searchsorted(upto, [share - about, share + about])
    next_ = np.clip(np.searchsorted(upto - weights / 2, share), 1, len(form) - 1)
    high = np.minimum(high, len(form) - 1)
    if alike:
        order = np.argpartition(form, np.unique(np.concatenate((low, high, next_ - 1, next_))))
    before, after = form[order[next_ - 1]], form[order[next_]]
    middles = upto - weights / 2
    part = np.clip((share - middles[next_ - 1]) / (middles[next_] - middles[next_ - 1]), 0.0, 1.0)
    gradients = np.empty((len(share), nodes.values.shape[1]))
    for place, (first, last) in enumerate(zip(low, high, strict=True)):
        taken = order[first : last + 1]
        near = nodes.weights[taken]
        gradients[place] = near @ nodes.values[taken] / near.sum()
    return before + part * (after - before), gradients


def _mean_where(nodes: Nodes, taken: npt.NDArray[np.bool_]) -> Array:
    weights = taken * nodes.weights
    return np.asarray(weights @ nodes.values / weights.sum(axis=1)[:, None])
