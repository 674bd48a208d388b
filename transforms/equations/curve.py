"""Between two neighbouring rows of a configuration's curve: a given number of sessions, and the KV wall.

On floats, NumPy arrays or Polars expressions. Latencies in seconds unless said otherwise. Both questions are one
quadratic, solved in one place.
"""

from schemas.options import ClosedLoop
from transforms.numbers import Number, if_else, largest, smallest, square_root

#: Keeps a denominator that is not used from being zero.
TINY = 1e-300


def in_flight_between(
    sessions_per_station: Number,
    in_flight_0: Number,
    latency_0_s: Number,
    in_flight_1: Number,
    latency_1_s: Number,
    think_time_s: Number,
    closed_loop: ClosedLoop = "arrival",
) -> Number:
    """``b`` at which ``c`` sessions share a station, between two neighbouring rows of a curve (Step 7, model.md 5.7).

    R is linear in b there, ``R = a + m*b``, so that ``b = 1 + (c - 1)*rho(b)`` is the quadratic
    ``m*b^2 + (a + Z - c*m)*b - (c*a + Z) = 0`` (article: ``b = c*rho(b)``, without the last ``+ Z``). The caller
    sees to it that the solution lies between the rows: their own sessions enclose c. Below one session a station
    ``b = c``.

    Two requests in flight take 2 s, six take 4 s, so that ``R = 1 + b/2``; sessions pause for 2 s. Five sessions:
    ``b^2/2 + b/2 - 7 = 0``, b = 3.27, R = 2.64 s, and a session is in flight for 2.64 of 4.64 s.
    """
    slope = (latency_1_s - latency_0_s) / _not_zero(in_flight_1 - in_flight_0)
    at_zero = latency_0_s - slope * in_flight_0
    alone = think_time_s if closed_loop == "arrival" else 0.0
    solved = _positive_root(
        slope, at_zero + think_time_s - sessions_per_station * slope, sessions_per_station * at_zero + alone
    )
    if closed_loop == "article":
        return solved
    return if_else(sessions_per_station < 1.0, sessions_per_station, solved)


def sessions_at_wall(
    sessions_0: Number,
    latency_0_s: Number,
    sessions_1: Number,
    latency_1_s: Number,
    think_time_s: Number,
    parked_limit: Number,
    in_flight_limit: Number,
) -> Number:
    """Sessions at which a curve meets memory between two rows (model.md 5.6); R is linear in the sessions there.

    Two limits, the first met counts: ``parked_limit`` sessions whose KV is kept, and ``in_flight_limit`` requests
    whose KV lies on the GPUs that decode, where ``C*R/(R + Z)`` is a quadratic in C. Either may be infinite, as
    a float or in an array.

    Ten sessions have R = 2 s, thirty 4 s, so that ``R = 1 + C/10``; they pause for 2 s. Memory that parks 17 sessions
    stops them at 17; memory for 6 in flight at ``C^2 + 4*C - 180 = 0``, C = 11.56.
    """
    slope = (latency_1_s - latency_0_s) / (sessions_1 - sessions_0)
    at_zero = latency_0_s - slope * sessions_0
    # never more than the second row: infinite limits become large ones that both are beyond
    slots = smallest(in_flight_limit, 2.0 * sessions_1)
    root = _positive_root(slope, at_zero - slope * slots, slots * (at_zero + think_time_s))
    return smallest(parked_limit, root, sessions_1)


def sessions_that_fit(max_parked_sessions: Number, max_in_flight_requests: Number, rho: Number) -> Number:
    """``max_sessions`` at another rho: sessions in flight take memory of their own where idle KV lies elsewhere.

    A limit that a row does not have is infinite, as a float or in an array, or NULL in a column.
    """
    return smallest(max_parked_sessions, max_in_flight_requests / rho)


def load_of_most_turns(
    in_flight_0: Number, latency_0_s: Number, in_flight_1: Number, latency_1_s: Number, think_time_s: Number
) -> Number:
    """``b`` between two rows at which sessions complete most turns; the row at an end where that is best.

    With ``R = a + m*b`` and C of the arrival theorem ``C/(R + Z) = (b - 1)/R + 1/(R + Z)``, which rises while
    ``((R + Z)/R)^2 > m/(a + m)``: it has a maximum where R alone, ``a + m``, is less than m, at
    ``R = Z/(sqrt(m/(a + m)) - 1)``.

    From (2, 1 s) to (4, 5 s) R = 2*b - 3, which has none: alone it is below zero, and two in flight are best. From
    (2, 3 s) to (10, 19 s) R = 2*b - 1 and Z = 2 s: R = 2/(sqrt(2) - 1) = 4.83 s, b = 2.91.
    """
    slope = (latency_1_s - latency_0_s) / _not_zero(in_flight_1 - in_flight_0)
    at_zero = latency_0_s - slope * in_flight_0
    alone = at_zero + slope
    steepness = square_root(slope / if_else(alone > 0.0, alone, 1.0) * if_else(slope > 0.0, 1.0, 0.0))
    at_most = think_time_s / if_else(steepness > 1.0, steepness - 1.0, TINY)
    inside = (at_most - at_zero) / if_else(slope > 0.0, slope, 1.0)
    falls = (slope > 0.0) & (alone <= 0.0)
    rises = (slope <= 0.0) | (steepness <= 1.0)
    return if_else(falls, in_flight_0, if_else(rises, in_flight_1, largest(in_flight_0, smallest(in_flight_1, inside))))


def share_between(value: Number, low: Number, high: Number) -> Number:
    """How far a value lies from ``low`` to ``high``: 0 at the one, 1 at the other; 0 where both are one."""
    span = if_else(high == low, 1.0, high - low)
    return if_else(high == low, 0.0, (value - low) / span)


def along(low: Number, high: Number, share: Number) -> Number:
    """A figure on the straight line between its values at two rows."""
    return low + share * (high - low)


def _positive_root(square: Number, linear: Number, constant: Number) -> Number:
    """The x above 0 of ``square*x^2 + linear*x - constant = 0``; of a straight line, ``square = 0``, too."""
    root = square_root(largest(linear * linear + 4.0 * square * constant, 0.0))
    # the same root in two forms; each is free of cancellation where it is used
    both = root + abs(linear)
    return if_else(
        linear >= 0.0, 2.0 * constant / largest(both, TINY), both / (2.0 * if_else(square == 0.0, 1.0, square))
    )


def _not_zero(value: Number) -> Number:
    """The value, 1 where it is 0: what is divided by it is not used there."""
    return if_else(value == 0.0, 1.0, value)
