"""The scenarios of a mix on the replicas that they share: their own latencies, and who is there how long.

All share the engine's steps; turns of a scenario differ from the mean turn in prefill and output (model.md 5.3).
"""

from collections.abc import Sequence

import numpy as np
import polars as pl

from schemas.scenarios import Scenario
from schemas.tables import TABLES
from transforms.agent_points.agent import Agent, Member, members_of
from transforms.agent_points.rows.columns import PREFILL_SLOPES
from transforms.agent_points.rows.rows import Rows
from transforms.equations import closed_loop as loop
from transforms.numbers import Number


def add_mix(rows: Rows, agent: Agent) -> Rows:
    """Adds the latency and the share of the sessions of each scenario of a mix; needs ``PREFILL_SLOPES``.

    A scenario's sessions are there in proportion to its turns and to what a turn and its pause take.
    """
    if not agent.is_mix:
        return rows
    seen = agent.workload
    per_token, per_flop = (rows[name] for name in PREFILL_SLOPES)
    figures: dict[str, Number] = {}
    there = []
    for member, workload in zip(agent.members, agent.workloads, strict=True):
        latency_ms = (
            rows["turn_latency_ms"]
            + per_token * (workload.mean.new_tokens - seen.mean.new_tokens)
            + per_flop * (workload.mean.attention_flops - seen.mean.attention_flops)
            + rows["tpot_ms"] * (workload.output_tokens - seen.output_tokens)
        )
        # a turn takes its own tokens at least
        latency_ms = np.maximum(latency_ms, rows["tpot_ms"] * workload.output_tokens)
        figures[member.latency] = latency_ms
        there.append(member.turn_share * (latency_ms / 1e3 + member.scenario.think_time_s))
    everyone = sum(there)
    for member, share in zip(agent.members, there, strict=True):
        figures[member.session_share] = share / everyone
    return rows.with_figures(figures)


def mean_over_sessions(rows: Rows, members: Sequence[Member], values: Sequence[Number]) -> Number:
    """Mean over the sessions that are there at a moment of a value of each of ``members``."""
    if len(members) == 1:
        return values[0]
    shares = (rows[member.session_share] for member in members)
    return sum(share * value for share, value in zip(shares, values, strict=True))


def mix_components(agent_points: pl.DataFrame, scenario: Scenario) -> pl.DataFrame:
    """The table ``mix_components``: each agent point of a mix by its scenarios; empty where the scenario is none."""
    table = TABLES["mix_components"]
    if scenario.mix is None or agent_points.is_empty():
        return pl.DataFrame(schema={field.name: field.dtype for field in table.fields})
    frames = []
    for member in members_of(scenario):
        scenario_of_mix = member.scenario
        latency_s = pl.col(member.latency) / 1e3
        frames.append(
            agent_points.with_columns(
                component=pl.lit(scenario_of_mix.slug),
                component_name=pl.lit(scenario_of_mix.name),
                task_share_fraction=pl.lit(member.task_share),
                turn_share_fraction=pl.lit(member.turn_share),
                session_share_fraction=pl.col(member.session_share),
                turn_latency_ms=pl.col(member.latency),
                task_time_s=loop.task_time_s(scenario_of_mix.turns, latency_s, scenario_of_mix.think_time_s),
                e2e_tokens_per_s_per_user=scenario_of_mix.output_tokens_per_turn / latency_s,
                tasks_per_hour_per_gpu=pl.col("tasks_per_hour_per_gpu") * member.task_share,
            ).select(pl.col(field.name).cast(field.dtype) for field in table.fields)
        )
    return pl.concat(frames)
