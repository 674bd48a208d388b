"""The scenarios of a mix on the replicas that they share: their own latencies, and who is there how long.

All share the engine's steps; turns of a scenario differ from the mean turn in prefill and output (model.md 5.3).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from schemas.mixes import task_shares, turn_shares
from schemas.models import ModelSpec
from schemas.scenarios import Scenario
from schemas.tables import TABLES
from transforms.agent_points.carriers.workload import agent_workload
from transforms.agent_points.rows.columns import PREFILL_SLOPES
from transforms.agent_points.rows.rows import Rows
from transforms.equations import closed_loop as loop
from transforms.numbers import Number


@dataclass(frozen=True)
class Member:
    """A scenario of a mix: its shares of the tasks and of the turns that begin, and the private columns of rows."""

    scenario: Scenario
    task_share: float
    turn_share: float
    latency: str  #: mean latency of its turns, ms
    session_share: str  #: of the sessions that are there at a moment


def members(scenario: Scenario) -> list[Member]:
    """The scenarios of a mix; the scenario itself where it is none."""
    if scenario.mix is None:
        return [Member(scenario, 1.0, 1.0, "turn_latency_ms", "")]
    shares = zip(scenario.mix, task_shares(scenario.mix), turn_shares(scenario.mix), strict=True)
    return [
        Member(part.scenario, of_tasks, of_turns, f"_latency_of_{number}_ms", f"_session_share_of_{number}")
        for number, (part, of_tasks, of_turns) in enumerate(shares)
    ]


def add_mix(rows: Rows, scenario: Scenario, spec: ModelSpec, *, aggregated: bool) -> Rows:
    """Adds the latency and the share of the sessions of each scenario of a mix; needs ``PREFILL_SLOPES``.

    A scenario's sessions are there in proportion to its turns and to what a turn and its pause take.
    """
    if scenario.mix is None:
        return rows
    seen = agent_workload(scenario, spec.attention, prefill_sees_output=aggregated)
    per_token, per_flop = (rows[name] for name in PREFILL_SLOPES)
    figures: dict[str, Number] = {}
    there = []
    for member in members(scenario):
        own = agent_workload(member.scenario, spec.attention, prefill_sees_output=aggregated)
        latency_ms = (
            rows["turn_latency_ms"]
            + per_token * (own.mean.new_tokens - seen.mean.new_tokens)
            + per_flop * (own.mean.attention_flops - seen.mean.attention_flops)
            + rows["tpot_ms"] * (own.output_tokens - seen.output_tokens)
        )
        # a turn takes its own tokens at least
        latency_ms = np.maximum(latency_ms, rows["tpot_ms"] * own.output_tokens)
        figures[member.latency] = latency_ms
        there.append(member.turn_share * (latency_ms / 1e3 + member.scenario.think_time_s))
    everyone = sum(there)
    for member, share in zip(members(scenario), there, strict=True):
        figures[member.session_share] = share / everyone
    return rows.with_figures(figures)


def mean_over_sessions(rows: Rows, scenario: Scenario, values: Sequence[Number]) -> Number:
    """Mean over the sessions that are there at a moment of a value of each of ``members``."""
    if scenario.mix is None:
        return values[0]
    shares = (rows[member.session_share] for member in members(scenario))
    return sum(share * value for share, value in zip(shares, values, strict=True))


def mix_components(agent_points: pl.DataFrame, scenario: Scenario) -> pl.DataFrame:
    """The table ``mix_components``: each agent point of a mix by its scenarios; empty where the scenario is none."""
    table = TABLES["mix_components"]
    if scenario.mix is None or agent_points.is_empty():
        return pl.DataFrame(schema={field.name: field.dtype for field in table.fields})
    frames = []
    for member in members(scenario):
        own = member.scenario
        latency_s = pl.col(member.latency) / 1e3
        frames.append(
            agent_points.with_columns(
                component=pl.lit(own.slug),
                component_name=pl.lit(own.name),
                task_share_fraction=pl.lit(member.task_share),
                turn_share_fraction=pl.lit(member.turn_share),
                session_share_fraction=pl.col(member.session_share),
                turn_latency_ms=pl.col(member.latency),
                task_time_s=loop.task_time_s(own.turns, latency_s, own.think_time_s),
                e2e_tokens_per_s_per_user=own.output_tokens_per_turn / latency_s,
                tasks_per_hour_per_gpu=pl.col("tasks_per_hour_per_gpu") * member.task_share,
            ).select(pl.col(field.name).cast(field.dtype) for field in table.fields)
        )
    return pl.concat(frames)
