"""Between two neighbouring rows of a configuration's curve: a given number of sessions, and the KV wall.

On floats, NumPy arrays or Polars expressions. Latencies in seconds unless said otherwise.
"""

from transforms.equations.closed_loop import ClosedLoop
from transforms.numbers import Number, maximum, minimum, sqrt, where

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
    """``b`` at which ``c`` sessions share a station, between two neighbouring rows of a curve (Step 7, MODEL 5.7).

    R is linear in b there, ``R = a + m*b``, so that ``b = 1 + (c - 1)*rho(b)`` is the quadratic
    ``m*b^2 + (a + Z - c*m)*b - (c*a + Z) = 0`` (article: ``b = c*rho(b)``, without the last ``+ Z``). The caller
    sees to it that the solution lies between the rows: their sessions, by ``session_figures``, enclose c.
    Below one session a station ``b = c``.
    """
    span = in_flight_1 - in_flight_0
    slope = (latency_1_s - latency_0_s) / where(span == 0.0, 1.0, span)
    at_zero = latency_0_s - slope * in_flight_0
    linear = at_zero + think_time_s - sessions_per_station * slope
    alone = think_time_s if closed_loop == "arrival" else 0.0
    constant = sessions_per_station * at_zero + alone
    root = sqrt(maximum(linear * linear + 4.0 * slope * constant, 0.0))
    # the same root in two forms; each is free of cancellation where it is used
    solved = where(
        linear >= 0.0,
        2.0 * constant / where(linear >= 0.0, maximum(linear + root, TINY), 1.0),
        (root - linear) / (2.0 * where(slope == 0.0, 1.0, slope)),
    )
    if closed_loop == "article":
        return solved
    return where(sessions_per_station < 1.0, sessions_per_station, solved)


def latency_between(
    in_flight: Number, in_flight_0: Number, latency_0: Number, in_flight_1: Number, latency_1: Number
) -> Number:
    """R on the line through two rows of a curve; any unit."""
    span = in_flight_1 - in_flight_0
    share = where(span == 0.0, 0.0, (in_flight - in_flight_0) / where(span == 0.0, 1.0, span))
    return latency_0 + share * (latency_1 - latency_0)


def sessions_at_wall(
    sessions_0: Number,
    latency_0_s: Number,
    sessions_1: Number,
    latency_1_s: Number,
    think_time_s: Number,
    parked_limit: Number,
    in_flight_limit: Number,
) -> Number:
    """Sessions at which a curve meets memory between two rows (MODEL 5.6); R is linear in the sessions there.

    Two limits, the first met counts: ``parked_limit`` sessions whose KV is kept, and ``in_flight_limit`` requests
    whose KV lies on the GPUs that decode, where ``C*R/(R + Z)`` is a quadratic in C. Either may be infinite, as
    a float or in an array.
    """
    slope = (latency_1_s - latency_0_s) / (sessions_1 - sessions_0)
    at_zero = latency_0_s - slope * sessions_0
    # never more than the second row: infinite limits become large ones that both are beyond
    slots = minimum(in_flight_limit, 2.0 * sessions_1)
    half = (at_zero - slope * slots) / 2.0
    constant = slots * (at_zero + think_time_s)
    distance = sqrt(maximum(half * half + slope * constant, 0.0))
    # the same root in two forms; each is free of cancellation where it is used
    root = where(
        half >= 0.0,
        constant / where(half >= 0.0, maximum(half + distance, TINY), 1.0),
        (distance - half) / where(slope == 0.0, 1.0, slope),
    )
    return minimum(parked_limit, root, sessions_1)
