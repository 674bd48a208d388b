"""The closed loop: how many sessions the replica's requests in flight belong to (model.md 5.4 and 5.5)."""

import numpy as np

from schemas.options import ClosedLoop
from transforms.agent_points.agent import Agent
from transforms.agent_points.rows.lookups import Deployed
from transforms.agent_points.rows.rows import Rows
from transforms.equations import closed_loop as loop


def close_loop(rows: Rows, think_time_s: float, closed_loop: ClosedLoop) -> Rows:
    """Adds ``sessions`` to rows that have turn figures and ``serving_requests_per_s``."""
    latency_s, stations = rows["turn_latency_ms"] / 1e3, Deployed(rows).stations
    in_flight = loop.in_flight_per_station(rows["serving_requests_per_s"], latency_s, stations)
    rho = loop.activity_fraction(latency_s, think_time_s)
    return rows.with_figures(sessions=loop.sessions_that_fill(in_flight, rho, stations, closed_loop))


def add_session_figures(rows: Rows, agent: Agent) -> Rows:
    """All figures that follow from ``sessions`` and the turn figures (Steps 1-3, 8 and 9)."""
    latency_s, think_s, gpus = rows["turn_latency_ms"] / 1e3, agent.think_time_s, rows["gpus_per_replica"]
    sessions, output = rows["sessions"], agent.output_tokens
    rho = loop.activity_fraction(latency_s, think_s)
    turns_per_s = loop.turns_per_s(sessions, latency_s, think_s)
    per_gpu = turns_per_s / gpus
    tasks_per_s_per_gpu = per_gpu / agent.turns
    step9 = loop.tasks_per_s_step9(rows["serving_requests_per_s"], agent.turns, rho)
    tpot = rows["tpot_ms"]
    return rows.with_figures(
        activity_fraction=rho,
        turns_per_s=turns_per_s,
        task_time_s=loop.task_time_s(agent.turns, latency_s, think_s),
        in_flight_requests=sessions * rho,
        turns_per_s_per_gpu=per_gpu,
        tasks_per_s_per_gpu=tasks_per_s_per_gpu,
        tasks_per_hour_per_gpu=3600 * tasks_per_s_per_gpu,
        tasks_per_s_per_gpu_step9=step9 / gpus,
        output_tokens_per_s_per_gpu=per_gpu * output,
        decode_tokens_per_s_per_user=np.where(tpot > 0, 1e3 / tpot, float("nan")),
        e2e_tokens_per_s_per_user=output / latency_s,
        sessions_per_gpu=sessions / gpus,
    )
