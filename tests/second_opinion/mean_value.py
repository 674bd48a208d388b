"""The closed-loop figures of the product (model.md 5.4) on a curve, for the same arguments as the exact solution."""

import numpy as np

from schemas.options import ClosedLoop
from tests.second_opinion.curve import Curve
from tests.second_opinion.product_form import Figures
from tests.transforms.equations.bisection import solve_in_flight
from transforms.equations.closed_loop import turns_per_s


def solve(curve: Curve, sessions: float, think_time_s: float, closed_loop: ClosedLoop = "arrival") -> Figures:
    """R at the requests in flight that the sessions keep, and X = C / (R + Z)."""
    share = np.array([sessions / curve.stations])
    in_flight = solve_in_flight(curve.latency_at, share, think_time_s, np.zeros(1), np.maximum(share, 1.0), closed_loop)
    latency_s = float(curve.latency_at(in_flight)[0])
    return Figures(float(turns_per_s(sessions, latency_s, think_time_s)), latency_s)
