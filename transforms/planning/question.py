"""A planner's question, asked either way: GPUs for sessions or tasks, sessions for GPUs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from transforms.planning.answers import best_of_each, in_order, with_figures
from transforms.planning.curves import Curves
from transforms.planning.error_band import add_band
from transforms.planning.fewest_gpus import fewest_for_sessions, fewest_for_tasks
from transforms.planning.most_sessions import most_on_gpus
from transforms.planning.without_plan import why_not

#: Rows of a table and of a roofline are never ranked against each other.
KIND = "kind"


@dataclass(frozen=True)
class Question:
    """One of three: GPUs for ``sessions``, GPUs for ``tasks_per_hour``, or the most sessions on ``gpus``."""

    sessions: int | None = None
    tasks_per_hour: float | None = None
    gpus: int | None = None

    @property
    def sought(self) -> Literal["gpus", "sessions"]:
        """The figure that is asked for."""
        return "gpus" if self.gpus is None else "sessions"

    def solve(self, curves: Curves) -> pl.DataFrame:
        """The plan of each curve that has one."""
        if self.sessions is not None:
            return fewest_for_sessions(curves, self.sessions)
        if self.tasks_per_hour is not None:
            return fewest_for_tasks(curves, self.tasks_per_hour)
        assert self.gpus is not None
        return most_on_gpus(curves, self.gpus)


def add_kind(points: pl.DataFrame) -> pl.DataFrame:
    """Agent points with ``kind``: ``table`` or ``roofline``."""
    is_roofline = pl.col("transfer_method") == "roofline"
    return points.with_columns(pl.when(is_roofline).then(pl.lit("roofline")).otherwise(pl.lit("table")).alias(KIND))


def plans_of(curves: Curves, question: Question) -> pl.DataFrame:
    """The plan of each curve that has one, with figures."""
    return with_figures(question.solve(curves), curves, one_replica_is_least=question.sought == "gpus")


def answer(
    curves: Curves,
    question: Question,
    by: Sequence[str] = ("hardware",),
    plans: pl.DataFrame | None = None,
    *,
    with_band: bool = True,
) -> pl.DataFrame:
    """One row for each group (columns ``by``) of the curves, the best first, those without a plan last and with why.

    Of configurations that need equally many GPUs, or hold equally many sessions, the one with the shortest turns
    counts. Figures are of the fuller replicas but for ``tasks_per_hour`` and money (all of them). ``binding_limit`` is
    what stops each replica from taking more sessions; ``headroom_sessions`` are those that the same GPUs can take
    beyond ``sessions``. ``low`` and ``high``: the GPUs or sessions sought if turns take as much less or more time as
    the figures err. ``plans``: those of ``plans_of``, where they are known.
    """
    most = question.sought == "sessions"
    best = best_of_each(plans_of(curves, question) if plans is None else plans, by, most_sessions=most)
    best = best.with_columns(feasible=pl.lit(True))
    if with_band:
        best = add_band(best, curves, question.solve, question.sought)
    unanswered = curves.points.join(best, on=list(by), how="anti")
    without = _why_not(unanswered, curves, question, by)
    without = without.with_columns(sessions=pl.lit(question.sessions, pl.Int64))
    return in_order(pl.concat([best, without], how="diagonal_relaxed"), most_sessions=most)


def _why_not(unanswered: pl.DataFrame, curves: Curves, question: Question, by: Sequence[str]) -> pl.DataFrame:
    """``why_not`` of groups without a plan: of the replicas that the GPUs hold, where they hold any of the group."""

    def of(points: pl.DataFrame) -> pl.DataFrame:
        return why_not(Curves(points, curves.limits, curves.scenario, curves.closed_loop), by)

    if question.gpus is None:
        return of(unanswered)
    small = unanswered.filter(pl.col("gpus_per_replica") <= question.gpus)
    too_large = of(unanswered.join(small, on=list(by), how="anti"))
    too_large = too_large.with_columns(infeasible_reason=pl.lit("replica_larger_than_gpus"))
    return pl.concat([of(small), too_large], how="diagonal_relaxed")
