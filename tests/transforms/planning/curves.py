"""Agent points of small curves that are made up, as a lake would publish them."""

from collections.abc import Sequence

import polars as pl

from schemas.tables import TABLES
from transforms.equations import closed_loop as loop

#: (requests in flight, turn latency in seconds) of a curve worked by hand in the tests; Z = 2 s.
BY_HAND = ((1.0, 1.0), (3.0, 2.0), (5.0, 4.0), (9.0, 8.0))
PAUSE_S = 2.0


def curve(
    rows: Sequence[tuple[float, float]],
    max_sessions: float,
    gpus: int = 2,
    hardware: str = "h100-sxm",
    pause_s: float = PAUSE_S,
    **columns: object,
) -> pl.DataFrame:
    """One aggregated configuration of one rank; the batch of a row is its requests in flight."""
    points = []
    for number, (in_flight, latency_s) in enumerate(rows):
        rho = latency_s / (latency_s + pause_s)
        sessions = float(loop.sessions_that_fill(in_flight, rho, 1))
        over = sessions > max_sessions
        points.append(
            {
                "point_id": f"{hardware}-{gpus}-{number}", "hardware": hardware, "model": "m", "scenario": "s",
                "source": "aiconfigurator", "serving_mode": "agg", "tp": gpus, "pp": 1, "dp": 1, "moe_tp": 1,
                "moe_ep": 1, "gpus_per_replica": gpus, "weight_dtype": "bf16", "kv_dtype": "bf16",
                "backend": "trtllm", "batch_per_rank": in_flight, "interpolated": False, "sessions": sessions,
                "serving_requests_per_s": in_flight / latency_s, "turn_latency_ms": 1e3 * latency_s,
                "first_turn_latency_ms": 1e3 * latency_s, "last_turn_latency_ms": 1e3 * latency_s,
                "ttft_ms": 100.0, "tpot_ms": 10.0, "max_sessions": max_sessions,
                "max_parked_sessions": max_sessions, "feasible": not over,
                "infeasible_reason": "kv_capacity" if over else None, "binding_limit": "kv_memory",
                "transfer_method": "transfer", "expected_error_fraction": 0.02, "extrapolated": False, **columns,
            }
        )  # fmt: skip
    schema = {field.name: field.dtype for field in TABLES["agent_points"].fields}
    return pl.DataFrame(points, schema=schema)
