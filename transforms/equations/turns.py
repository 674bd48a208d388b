"""Single turns of a task from a few of them (Steps 4 and 5): what a turn adds is its own prefill.

On arrays of one entry a turn; the page of the explorer mirrors these functions.
"""

import numpy as np

from schemas.arrays import Array


def ms_per_flop(second: float, last: float, flops_second: float, flops_last: float) -> float:
    """Time that one more FLOP of attention takes, from two hits of as many new tokens; 0 where their work is alike."""
    return 0.0 if flops_last == flops_second else (last - second) / (flops_last - flops_second)


def hit_differences(evaluated: tuple[float, float, float], flops: Array) -> Array:
    """How much longer each turn takes than the mean turn when it hits, in ms.

    ``evaluated``: the same of the first, second and last turn. From the second turn on all have as many new tokens,
    and differ by the FLOPs of attention to a longer context.
    """
    first, second, last = evaluated
    place = min(1, len(flops) - 1)
    found = second + ms_per_flop(second, last, flops[place], flops[-1]) * (flops - flops[place])
    found[0] = first
    return np.asarray(found)


def miss_differences(
    evaluated: tuple[float, float, float], places: tuple[int, int, int], new: Array, flops: Array, ms_a_flop: float
) -> Array:
    """The same when it misses: attention by its FLOPs, the rest linear in the new tokens between the turns evaluated.

    ``places`` of the turns evaluated, from 0; ``ms_a_flop`` from ``ms_per_flop`` of hits.
    """
    at = list(places)
    rest = np.array(evaluated) - ms_a_flop * flops[at]
    return np.asarray(np.interp(new, new[at], rest) + ms_a_flop * flops)
