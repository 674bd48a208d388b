"""The closed loop solved by halving: what the closed form between two rows must agree with."""

from collections.abc import Callable

import numpy as np

from schemas.arrays import Array
from schemas.options import ClosedLoop
from transforms.equations.closed_loop import activity_fraction, sessions_that_fill

#: 2^-52 of the range is below the rounding of a number.
HALVINGS = 52


def solve_in_flight(
    latency_s: Callable[[Array], Array],
    sessions_per_station: Array,
    think_time_s: float,
    lowest: Array,
    highest: Array,
    closed_loop: ClosedLoop = "arrival",
) -> Array:
    """``b`` with ``b = 1 + (c - 1) * rho(b)`` (article: ``b = c * rho(b)``) between ``lowest`` and ``highest``.

    Where no sign changes there, the nearer end. ``latency_s`` maps an array of b to the turn latencies R.
    """
    low, high = lowest.astype(np.float64), highest.astype(np.float64)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        rho = activity_fraction(latency_s(middle), think_time_s)
        too_many = sessions_that_fill(middle, rho, 1.0, closed_loop) > sessions_per_station
        high, low = np.where(too_many, middle, high), np.where(too_many, low, middle)
    return (low + high) / 2
