"""How the time varies that other sessions add to a turn: two amounts a row, in ms.

Of ``n`` other sessions at a station each is in a turn of its own with chance ``rho`` while a turn is served, and then
adds its prefill and its share of the decode steps. A sum over a finite population: it does not vary where nobody
pauses and all turns are alike. A turn that is held up meets more of the others, which stretches the sum.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from transforms.numbers import Number
from transforms.spread.draws import lattice, normal_scores
from transforms.spread.forms import Nodes

#: A station spends at most so much of its time on prefills; more is the rounding of a saturated one.
BUSIEST: Final = 0.95
_ROUNDING: Final = 1e-6
#: Nodes that a quantity's own nodes are multiplied to, so that waits are told apart on each of them.
_NODES: Final = 2048


@dataclass(frozen=True)
class WorkMoments:
    """Means of ``tokens^i * flops^j`` over turns, FLOPs in units of ``unit`` so that no power overflows."""

    unit: float
    first: tuple[float, float]
    second: tuple[float, float, float]
    third: tuple[float, float, float, float]

    @classmethod
    def of(cls, turns: Nodes) -> "WorkMoments":
        """Of nodes with new tokens and FLOPs of attention in their second and third column."""
        tokens, flops, weights = turns.values[:, 1], turns.values[:, 2], turns.weights
        unit = float(weights @ flops) or 1.0
        flops = flops / unit

        def mean(of_tokens: int, of_flops: int) -> float:
            return float(weights @ (tokens**of_tokens * flops**of_flops))

        return cls(
            unit, (mean(1, 0), mean(0, 1)), (mean(2, 0), mean(1, 1), mean(0, 2)),
            (mean(3, 0), mean(2, 1), mean(1, 2), mean(0, 3)),
        )  # fmt: skip

    def of_prefill(self, per_token: Number, per_flop: Number) -> tuple[Number, Number, Number]:
        """Mean, mean square and mean cube of ``per_token * tokens + per_flop * flops``."""
        token, flop = per_token, per_flop * self.unit
        square_of_token, square_of_flop = token * token, flop * flop
        (x, y), (xx, xy, yy), (xxx, xxy, xyy, yyy) = self.first, self.second, self.third
        mean = token * x + flop * y
        square = square_of_token * xx + 2.0 * (token * flop) * xy + square_of_flop * yy
        cube = square_of_token * (token * xxx + 3.0 * flop * xxy) + square_of_flop * (3.0 * token * xyy + flop * yyy)
        return mean, square, cube


@dataclass(frozen=True)
class StationLoad:
    """Prefills of others at a station: how many arrive in a ms, and mean, square and cube of what one takes, in ms.

    ``rho``: the share of its time that a session is in a turn; ``prefill_share``: of the station's time.
    """

    arrivals_per_ms: Number
    rho: Number
    prefill_ms: tuple[Number, Number, Number]
    prefill_share: Number

    @property
    def share_that_decodes(self) -> Number:
        """Of a mean output token's time, what is left when prefills are taken out; a quarter at least."""
        return np.maximum(1.0 - self.prefill_share, 0.25)

    @property
    def stretch(self) -> Number:
        """A turn that is held up meets more of the others; not those who are in a turn already."""
        return 1.0 / (1.0 - self.prefill_share * (1.0 - self.rho))


def scaled_to_load(prefill_ms: tuple[Number, Number, Number], arrivals_per_ms: Number, rho: Number) -> StationLoad:
    """The load of these prefills; shorter ones where they would take more than all of the station's time, as those of
    rows do whose time to first token holds a queue."""
    mean, square, cube = prefill_ms
    share = arrivals_per_ms * mean
    factor = BUSIEST / np.maximum(share, BUSIEST)
    scaled = (factor * mean, factor * factor * square, factor * factor * factor * cube)
    return StationLoad(arrivals_per_ms, rho, scaled, np.minimum(share, BUSIEST))


def waits(others: Number, load: StationLoad, decode_ms: Number) -> tuple[Number, Number]:
    """What the wait varies by: the deviations of an exponential part and of a normal one, independent of each other.

    They have the variance and, as far as an exponential part can, the third cumulant of the sum. ``others``: sessions
    beside the turn's own; ``decode_ms``: what a session adds to the decode steps of another's turn.
    """
    m1, m2, m3 = load.prefill_ms
    rho, d = load.rho, decode_ms
    cubed = m3 + d * (3.0 * m2 + d * (3.0 * m1 + d))
    exponential, normal = _parts_of_sum(others, rho, (m1 + d, m2 + d * (2.0 * m1 + d), cubed))
    return load.stretch * exponential, load.stretch * normal


def behind_prefill_pool(
    wait: tuple[Number, Number], load: StationLoad, others: Number, decode_ms: Number
) -> tuple[Number, Number]:
    """The same where prompts wait for a pool of their own and delay no decode step. ``wait``: as ``FirstTokenQueue``
    has it; it varies as far as sessions pause or prefills differ."""
    busy, wait_ms = wait
    (m1, m2, _), rho = load.prefill_ms, load.rho
    varies = np.minimum(1.0 - rho + 1.0 - m1 * m1 / np.maximum(m2, 1e-12), 1.0)
    varies = np.where(varies > 1e-9, varies, 0.0)
    mean, square = busy * wait_ms, 2.0 * busy * wait_ms * wait_ms
    variance = varies * np.maximum(square - mean * mean, 0.0)
    third = varies * np.maximum(
        6.0 * busy * wait_ms * wait_ms * wait_ms - 3.0 * mean * square + 2.0 * mean * mean * mean, 0.0
    )
    of_decode = decode_deviation(others, rho, decode_ms)
    exponential = np.minimum((0.5 * third) ** (1.0 / 3.0), np.sqrt(variance))
    rest = _beyond_rounding(variance - exponential * exponential, variance)
    return exponential, np.sqrt(rest + of_decode * of_decode)


def decode_deviation(others: Number, rho: Number, decode_ms: Number) -> Number:
    """The deviation of what the contexts of so many others, each there with chance ``rho``, add to decode steps."""
    return np.sqrt(np.maximum(others * rho * (1.0 - rho), 0.0)) * decode_ms


def _parts_of_sum(others: Number, rho: Number, of_one: tuple[Number, Number, Number]) -> tuple[Number, Number]:
    """Of so many that are there with chance ``rho``, each with these moments."""
    one, square, cube = of_one
    chance, of_squares, of_cubes = rho * one, rho * square, rho * cube
    variance = others * _beyond_rounding(of_squares - chance * chance, of_squares)
    third = of_cubes - 3.0 * chance * of_squares + 2.0 * chance * chance * chance
    third = others * _beyond_rounding(third, of_cubes)
    exponential = np.minimum((0.5 * third) ** (1.0 / 3.0), np.sqrt(variance))
    return exponential, np.sqrt(_beyond_rounding(variance - exponential * exponential, variance))


def _beyond_rounding(difference: Number, of: Number) -> Number:
    """A difference that is not the rounding of what it is taken from, of which roots would make something; else 0."""
    return np.where(difference > _ROUNDING * of, difference, 0.0)


def over_turns(exponential: Number, normal: Number, turns: float) -> tuple[Number, Number]:
    """The same of a sum over so many turns, whose waits do not depend on each other."""
    of_sum = turns ** (1.0 / 3.0) * exponential
    variance = turns * (exponential * exponential + normal * normal)
    return of_sum, np.sqrt(_beyond_rounding(variance - of_sum * of_sum, variance))


def with_waits(nodes: Nodes) -> Nodes:
    """The nodes with two more columns: an exponential and a normal score of mean 0 and deviation 1.

    Nodes that are few stand several times, each with other scores.
    """
    # nodes that are alike are one: a mix of a scenario and its twin is the scenario
    values, place = np.unique(nodes.values, axis=0, return_inverse=True)
    of_node = np.bincount(place.ravel(), weights=nodes.weights)
    nodes_of_quantity = len(of_node)
    copies = max(-(-_NODES // nodes_of_quantity), 1)
    count = nodes_of_quantity * copies
    shares = lattice(count, 2)
    # so that the scores of one node's copies, and those of neighbours, lie apart
    apart = (np.arange(count) * _coprime(count)) % count
    scores = np.stack([-np.log1p(-shares[apart, 0]), normal_scores(shares[apart, 1])], axis=1)
    weights = np.repeat(of_node / copies, copies)
    means = weights @ scores
    scores = (scores - means) / np.sqrt(weights @ (scores - means) ** 2)
    return Nodes(np.hstack([np.repeat(values, copies, axis=0), scores]), weights, continuous=True)


def _coprime(count: int) -> int:
    """A stride of about the golden section of the count that meets every place."""
    stride = max(int(0.381966 * count), 1)
    while np.gcd(stride, count) != 1:
        stride += 1
    return stride
