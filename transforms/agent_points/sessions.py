"""The closed loop: how many sessions the replica's requests in flight belong to (MODEL 5.4 and 5.5)."""

import polars as pl

from schemas.scenarios import Scenario
from transforms.equations import closed_loop as loop


def stations() -> pl.Expr:
    """Stations at which requests meet: attention ranks, of the decode pool where there is one."""
    return pl.coalesce("dp", pl.col("decode_workers") * pl.col("decode_dp"))


def close_loop(points: pl.DataFrame, scenario: Scenario, closed_loop: loop.ClosedLoop) -> pl.DataFrame:
    """Adds ``sessions`` to rows that have turn figures and ``serving_requests_per_s``."""
    latency_s = pl.col("turn_latency_ms") / 1e3
    in_flight = loop.in_flight_per_station(pl.col("serving_requests_per_s"), latency_s, stations())
    rho = loop.activity_fraction(latency_s, scenario.think_time_s)
    return points.with_columns(sessions=loop.sessions_that_fill(in_flight, rho, stations(), closed_loop))


def add_session_figures(points: pl.DataFrame, scenario: Scenario) -> pl.DataFrame:
    """All figures that follow from ``sessions`` and the turn figures (Steps 1-3, 8 and 9)."""
    c = pl.col
    latency_s = c("turn_latency_ms") / 1e3
    think_s = scenario.think_time_s
    points = points.with_columns(
        activity_fraction=loop.activity_fraction(latency_s, think_s),
        turns_per_s=loop.turns_per_s(c("sessions"), latency_s, think_s),
        task_time_s=loop.task_time_s(scenario.turns, latency_s, think_s),
    )
    per_gpu = c("turns_per_s") / c("gpus_per_replica")
    return points.with_columns(
        in_flight_requests=c("sessions") * c("activity_fraction"),
        turns_per_s_per_gpu=per_gpu,
        tasks_per_s_per_gpu=per_gpu / scenario.turns,
        tasks_per_hour_per_gpu=3600 * per_gpu / scenario.turns,
        tasks_per_s_per_gpu_step9=loop.tasks_per_s_step9(
            c("serving_requests_per_s"), scenario.turns, c("activity_fraction")
        )
        / c("gpus_per_replica"),
        output_tokens_per_s_per_gpu=per_gpu * scenario.output_tokens_per_turn,
        decode_tokens_per_s_per_user=pl.when(c("tpot_ms") > 0).then(1e3 / c("tpot_ms")),
        e2e_tokens_per_s_per_user=scenario.output_tokens_per_turn / latency_s,
        sessions_per_gpu=c("sessions") / c("gpus_per_replica"),
    )
