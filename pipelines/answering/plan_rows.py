"""A planner's question to a published lake: the rows of its answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from pipelines.answering.asked_scenario import points_at
from pipelines.answering.plan_words import configuration_in_words, others_in_words, reason_in_words
from pipelines.answering.release_contents import ReleaseContents
from schemas.catalogue import HardwareCatalogue
from schemas.errors import UserError
from schemas.scenarios import Scenario
from schemas.suggest import did_you_mean
from transforms.agent_points.judgement.cost import mean_per_gpu, usd_per_gpu_hour
from transforms.agent_points.rows.columns import TURN_FIGURES
from transforms.frontier import measured_load
from transforms.planning.answers import COLUMNS, WATTS
from transforms.planning.curves import Curves
from transforms.planning.limits import Limits, Loop, needed_columns
from transforms.planning.question import KIND, Question, add_kind, answer, plans_of
from transforms.planning.routed import among_own_replicas

#: Columns of an answer's rows, as JSON and CSV have them.
ROW_COLUMNS = (*COLUMNS, KIND, "configuration", "reason", "others")
_MODE = "serving_mode"
#: Columns of agent points without which there is no plan.
_NEEDED = (
    "point_id", _MODE, "gpus_per_replica", "weight_dtype", "batch_per_rank", "interpolated", "sessions",
    "serving_requests_per_s", "cache_hit_rate", "max_sessions", "feasible", "infeasible_reason", "binding_limit",
    "transfer_method", *TURN_FIGURES,
)  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """What is asked of each model: the question, its limits, and what the answer may be made of.

    ``only``: column -> the value that points must have. ``hardware``: names; empty for all that have the model.
    """

    question: Question
    limits: Limits
    hardware: Sequence[str]
    only: Mapping[str, str]


def plan_rows(
    contents: ReleaseContents, catalogue: HardwareCatalogue, model: str, scenario: Scenario, asked: Asked
) -> list[dict[str, Any]]:
    """A row for each hardware that has the model, its table's rows and its roofline apart; the best first.

    ``reason`` says why there is no plan, ``others`` what the other serving modes need or what stops them.
    """
    group = ("hardware", KIND)
    loop = Loop(scenario.turns, scenario.think_time_s, scenario.output_tokens_per_turn)

    def curves_of(points: pl.DataFrame) -> Curves:
        return Curves.of_points(points, asked.limits, loop, contents.options.closed_loop)

    def points_of(scenario: Scenario, point_ids: pl.Series | None = None) -> pl.DataFrame:
        return _points(contents, catalogue, model, scenario, asked, point_ids)

    if scenario.routing == "random":
        points = _routed_points(points_of, curves_of, scenario, asked.question, [*group, _MODE])
    else:
        points = points_of(scenario)
    curves = curves_of(points)
    plans = plans_of(curves, asked.question)
    rows = answer(curves, asked.question, group, plans).to_dicts()
    by_mode = answer(curves, asked.question, (*group, _MODE), plans, with_band=False).to_dicts()
    for row in rows:
        words = (curves, asked.question)
        row["configuration"] = configuration_in_words(row) if row["feasible"] else None
        row["reason"] = None if row["feasible"] else reason_in_words(row, *words)
        others = [
            other
            for other in by_mode
            if all(other[name] == row[name] for name in group) and other[_MODE] != row[_MODE] and row["feasible"]
        ]
        row["others"] = "; ".join(others_in_words(other, *words) for other in others) or None
    return rows


def _routed_points(
    points_of: Callable[..., pl.DataFrame],
    curves_of: Callable[[pl.DataFrame], Curves],
    scenario: Scenario,
    question: Question,
    by: list[str],
) -> pl.DataFrame:
    """Points of random routing, among the replicas of their plan: those that the GPUs hold, or that it comes to."""
    if question.gpus is not None:
        asked = {"replicas": None, "gpus": question.gpus, "sessions": scenario.sessions or question.gpus}
        return points_of(scenario.model_copy(update=asked))

    def points_among(replicas: int, point_ids: pl.Series | None) -> pl.DataFrame:
        return curves_of(points_of(scenario.model_copy(update={"replicas": replicas}), point_ids)).points

    return among_own_replicas(points_among, lambda points: question.solve(curves_of(points)), by)


def _points(
    contents: ReleaseContents,
    catalogue: HardwareCatalogue,
    model: str,
    scenario: Scenario,
    asked: Asked,
    point_ids: pl.Series | None = None,
) -> pl.DataFrame:
    """The agent points that the answer may be made of, at the prices of the catalogue.

    Loads beyond the highest measured are none of them, as they are on no frontier.
    """
    only = asked.only.get("weight_dtype")
    points = points_at(contents, asked.hardware, model, scenario, only, _NEEDED, point_ids)
    if "unmeasured_load" in points.columns:
        points = points.filter(measured_load())
    for column, value in asked.only.items():
        points = _only(points, column, value, model)
    for column in needed_columns(asked.limits):
        if column not in points.columns or points[column].is_null().all():
            raise UserError(_lacks(column, asked.limits, points))
    watts = {gpu.slug: gpu.tdp_w for gpu in catalogue if gpu.tdp_w is not None}
    return add_kind(points).with_columns(
        usd_per_gpu_hour(catalogue).alias("usd_per_gpu_hour"), mean_per_gpu(watts).alias(WATTS)
    )


def _only(points: pl.DataFrame, column: str, value: str, model: str) -> pl.DataFrame:
    chosen = points.filter(pl.col(column) == value)
    if not chosen.is_empty() or points.is_empty():
        return chosen
    there = [str(known) for known in points[column].drop_nulls().unique().sort()]
    words = {"serving_mode": "mode", "backend": "engine", "kv_dtype": "KV type", "weight_dtype": "weights"}[column]
    raise UserError(
        f"The lake has no point of {model} with {words} {value!r}.{did_you_mean(value, there)} "
        f"It has: {', '.join(there)}."
    )


def _lacks(column: str, limits: Limits, points: pl.DataFrame) -> str:
    """What the release does not have, and at which percentiles it has the same figure."""
    ends = ("p50", "p90", "p95", "p99")
    others = {at: column.replace(limits.at, at) for at in ends if at != limits.at}
    known = [at for at, name in others.items() if name in points.columns and points[name].is_not_null().any()]
    instead = " or ".join(f"--at {at}" for at in ["mean", *known])
    return f"This release has no {column}: ask {instead}, or build the lake again with this version of the program."
