"""Percentiles of TTFT: a turn's own prefill behind those that are there before it.

A prompt waits for the step that runs when it arrives, and shares the next with what else has arrived. The wait is 0
with one chance and exponential otherwise, with the mean of a single server's queue (Pollaczek and Khinchine) whose
work is steps: that makes the percentile of a turn's own prefill plus its wait a closed form.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import numpy as np

from schemas.arrays import Array
from transforms.numbers import Number
from transforms.spread.forms import Nodes
from transforms.tails.waits import BUSIEST, Load

#: Shares of the turns, by their new tokens, that are one class of prefills each: finer where they are long.
_LEAST: Final = 1e-9
_EDGES: Final = (0.3, 0.6, 0.8, 0.9, 0.95, 0.985)


@dataclass(frozen=True)
class PrefillClasses:
    """Classes of turns by what they prefill, about ascending: new tokens, FLOPs, shares; one entry a class."""

    new_tokens: Array
    flops: Array
    shares: Array

    @property
    def work(self) -> tuple[list[float], list[float]]:
        """New tokens and FLOPs of each."""
        return self.new_tokens.tolist(), self.flops.tolist()

    @classmethod
    def of(cls, turns: Nodes) -> "PrefillClasses":
        """Of nodes with new tokens and FLOPs of attention in their second and third column."""
        tokens, flops = turns.values[:, 1], turns.values[:, 2]
        # hits of equal tokens differ in the context that they attend to
        means = np.maximum(turns.weights @ turns.values[:, 1:3], _LEAST)
        order = np.argsort(tokens / means[0] + flops / means[1], kind="stable")
        weights = turns.weights[order] / turns.weights.sum()
        group = np.searchsorted(_EDGES, np.cumsum(weights) - weights / 2)
        share = np.bincount(group, weights=weights)
        there = share > 0

        def of_classes(values: Array) -> Array:
            return np.asarray(np.bincount(group, weights=weights * values[order])[there] / share[there])

        return cls(of_classes(tokens), of_classes(flops), share[there].astype(np.float64))


@dataclass(frozen=True)
class FirstTokenQueue:
    """What a prompt meets: ``busy``, the chance that it waits, and ``mean_ms`` of the wait if so."""

    busy: Number
    mean_ms: Number

    @classmethod
    def of(cls, load: Load, step_ms: Number) -> "FirstTokenQueue":
        """Each of the others' prompts takes a step: its prefill, and ``step_ms`` for those that decode beside it."""
        m1, m2, _ = load.prefill_ms
        busy = np.minimum(load.arrivals_per_ms * (m1 + step_ms), BUSIEST)
        square = m2 + step_ms * (2.0 * m1 + step_ms)
        # those that come while a prompt waits are prefilled in the same step: it waits for them too
        mean = 0.5 * load.arrivals_per_ms * square * load.stretch * (1.0 + busy)
        least = np.maximum(busy, _LEAST)
        return cls(least, np.maximum(mean / least, _LEAST))


def ttft_percentiles(
    own_ms: Sequence[Number], shares: Array, queue: FirstTokenQueue, of: Sequence[float]
) -> list[Number]:
    """The smallest t that at most ``1 - share`` of the turns exceed, for each share.

    ``own_ms``: what a turn of each class takes without a wait; made to ascend. Between the classes k and k + 1
    ``P(T > t) = P(class > k) + busy * exp(-t/mean) * sum_{j<=k} share_j * exp(own_j/mean)``: t by class, of which the
    least is the percentile.
    """
    own_ms = list(accumulate(own_ms, np.maximum))
    above = 1.0 - np.cumsum(shares)
    last = own_ms[-1]
    grown: list[Number] = []
    total: Number = 0.0
    for own, share in zip(own_ms, shares.tolist(), strict=True):
        # relative to the longest, so that no power overflows
        total = total + share * np.exp(np.maximum((own - last) / queue.mean_ms, -500.0))
        grown.append(total)
    found: list[Number] = []
    for share in of:
        best: Number = np.inf
        for own, beyond, sum_ in zip(own_ms, above.tolist(), grown, strict=True):
            left = 1.0 - share - beyond
            if left > 1e-12:
                at = last + queue.mean_ms * np.log(queue.busy * sum_ / left)
                best = np.minimum(best, np.maximum(own, at))
        found.append(best)
    return found
