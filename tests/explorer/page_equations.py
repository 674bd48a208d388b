"""The equations of the explorer's page once more in Python, to try the page against: single turns of a task, and an
agent point at another pause, hit rate or number of sessions, from its published columns alone.

The load of a row stays: ``b`` requests in flight at each station. What changes is how many sessions these belong to
(another pause) and how long a turn takes (another hit rate). Arguments are the columns of ``agent_points``; all of
them may be floats, NumPy arrays or Polars expressions. Latencies in seconds, rates per second, of one replica.

What is exact, against carrying the serving points anew:

- Another pause: every figure here, ``max_sessions`` too, on every row that is not ``interpolated``. Interpolated rows
  are points of the KV wall, which moves: drop them and put them anew with ``curve.sessions_at_wall``.
- Another number of sessions: the operating point of Step 7, with ``curve.in_flight_between`` two rows of a curve and
  ``figures_of_sessions``.
- Another hit rate: exact at 0, 1 and the published rate. Between them the latency and the time per request are taken
  as linear. They bend where a mixed step meets its floor, where a step's time is not linear in its tokens, and where
  the other pool of a disaggregated replica becomes the slower one. On shipped tables at hit rates of 0.3 to 0.9
  (``test_page_equations.py``): mean error 0.0 to 2.3 % by table and scenario, single rows of small
  models up to 33 % too slow, at most 8 % too fast; roofline points exact.

TTFT and TPOT one by one, and the first and last turn, do not follow from these columns at another hit rate.
"""

import numpy as np

from schemas.arrays import Array
from schemas.options import ClosedLoop
from transforms.equations import closed_loop as loop
from transforms.numbers import Number, if_else, largest

#: Keeps a division by the distance of two hit rates finite where they are the same.
TINY = 1e-12


def latency_at_hit_rate(
    hit_rate: Number, published_hit_rate: Number, latency: Number, all_hits: Number, all_misses: Number
) -> Number:
    """The turn latency R (any unit) at another hit rate: linear from all misses (0) through the published point to
    all hits (1)."""
    above = all_hits + (latency - all_hits) * (1.0 - hit_rate) / largest(1.0 - published_hit_rate, TINY)
    below = all_misses + (latency - all_misses) * hit_rate / largest(published_hit_rate, TINY)
    at_published = if_else(hit_rate == published_hit_rate, latency, below)
    return if_else(hit_rate > published_hit_rate, above, at_published)


def rate_at_hit_rate(
    hit_rate: Number, published_hit_rate: Number, requests_per_s: Number, all_hits: Number, all_misses: Number
) -> Number:
    """``serving_requests_per_s`` at another hit rate: the time per request goes as the latency does."""
    return 1.0 / latency_at_hit_rate(
        hit_rate, published_hit_rate, 1.0 / requests_per_s, 1.0 / all_hits, 1.0 / all_misses
    )


def session_figures(
    serving_requests_per_s: Number,
    turn_latency_s: Number,
    think_time_s: Number,
    turns: Number,
    output_tokens_per_turn: Number,
    stations: Number,
    gpus_per_replica: Number,
    closed_loop: ClosedLoop = "arrival",
) -> dict[str, Number]:
    """What follows from the row's load and its turn latency, under the names of the columns (Steps 1-3, 8 and 9).

    ``stations``: ``dp``, or ``decode_workers * decode_dp`` of a disaggregated replica.
    """
    rho = loop.activity_fraction(turn_latency_s, think_time_s)
    in_flight = loop.in_flight_per_station(serving_requests_per_s, turn_latency_s, stations)
    sessions = loop.sessions_that_fill(in_flight, rho, stations, closed_loop)
    step9 = loop.tasks_per_s_step9(serving_requests_per_s, turns, rho) / gpus_per_replica
    return {
        "serving_requests_per_s": serving_requests_per_s,
        "tasks_per_s_per_gpu_step9": step9,
        **figures_of_sessions(sessions, turn_latency_s, think_time_s, turns, output_tokens_per_turn, gpus_per_replica),
    }


def figures_of_sessions(
    sessions: Number,
    turn_latency_s: Number,
    think_time_s: Number,
    turns: Number,
    output_tokens_per_turn: Number,
    gpus_per_replica: Number,
) -> dict[str, Number]:
    """What follows from a number of sessions and their turn latency, under the names of the columns."""
    rho = loop.activity_fraction(turn_latency_s, think_time_s)
    turns_per_s = loop.turns_per_s(sessions, turn_latency_s, think_time_s)
    per_gpu = turns_per_s / gpus_per_replica
    return {
        "sessions": sessions,
        "activity_fraction": rho,
        "in_flight_requests": sessions * rho,
        "turn_latency_ms": turn_latency_s * 1e3,
        "task_time_s": loop.task_time_s(turns, turn_latency_s, think_time_s),
        "turns_per_s": turns_per_s,
        "turns_per_s_per_gpu": per_gpu,
        "tasks_per_s_per_gpu": per_gpu / turns,
        "tasks_per_hour_per_gpu": 3600.0 * per_gpu / turns,
        "output_tokens_per_s_per_gpu": per_gpu * output_tokens_per_turn,
        "e2e_tokens_per_s_per_user": output_tokens_per_turn / turn_latency_s,
        "sessions_per_gpu": sessions / gpus_per_replica,
    }


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
