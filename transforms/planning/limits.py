"""What a planner demands: upper bounds on figures of a turn or a task, at the mean or a percentile."""

from dataclasses import dataclass
from typing import Final

import polars as pl

from schemas.options import Statistic

#: A figure on a limit itself must not fall over it by rounding.
TOLERANCE = 1e-9
#: Time per output token of a turn at a percentile, one over the speed that points have.
_PER_TOKEN: Final = "_s_per_token"


@dataclass(frozen=True)
class Loop:
    """What the limits and the closed loop need to know of a scenario (symbols: model.md 2)."""

    turns: float
    think_time_s: float
    output_tokens_per_turn: float


@dataclass(frozen=True)
class Bound:
    """``column`` of an agent point, a straight line in the requests in flight between two rows, is ``most`` or less."""

    name: str
    column: str
    most: float

    def allows(self) -> pl.Expr:
        """Whether a point keeps to it."""
        return pl.col(self.column) <= self.most + abs(self.most) * TOLERANCE


@dataclass(frozen=True)
class Limits:
    """Longest TTFT, turn and task, in seconds, and least output tokens a second, at ``at``; None: no such limit."""

    max_turn_latency_s: float | None = None
    max_task_time_s: float | None = None
    min_tokens_per_s_per_user: float | None = None
    max_ttft_s: float | None = None
    at: Statistic = "mean"

    def bounds(self, scenario: Loop) -> tuple[Bound, ...]:
        """The limits as bounds on columns. Of means, N*(R + Z) and OSL/R are turned round for R.

        A limit that no turn meets gives zero or less.
        """
        mean, at = self.at == "mean", self.at
        bounds = []
        if self.max_turn_latency_s is not None:
            bounds.append(Bound("turn_latency", turn_latency_column(at), 1e3 * self.max_turn_latency_s))
        if self.max_task_time_s is not None:
            longest_turn_s = self.max_task_time_s / scenario.turns - scenario.think_time_s
            bounds.append(
                Bound("task_time", "turn_latency_ms", 1e3 * longest_turn_s)
                if mean
                else Bound("task_time", task_time_column(at), self.max_task_time_s)
            )
        if self.min_tokens_per_s_per_user is not None:
            least = self.min_tokens_per_s_per_user
            bounds.append(
                Bound("tokens_per_s_per_user", "turn_latency_ms", 1e3 * scenario.output_tokens_per_turn / least)
                if mean
                else Bound("tokens_per_s_per_user", f"{_PER_TOKEN}_{at}", 1.0 / least)
            )
        if self.max_ttft_s is not None:
            bounds.append(Bound("ttft", ttft_column(at), 1e3 * self.max_ttft_s))
        return tuple(bounds)

    def as_given(self, bound: Bound, figure: float, scenario: Loop) -> float:
        """The value of a bound's limit, in the unit of its option, that a figure of its column just meets."""
        mean = self.at == "mean"
        if bound.name == "task_time":
            return scenario.turns * (figure / 1e3 + scenario.think_time_s) if mean else figure
        if bound.name == "tokens_per_s_per_user":
            return scenario.output_tokens_per_turn / (figure / 1e3) if mean else 1.0 / figure
        return figure / 1e3


def turn_latency_column(at: Statistic) -> str:
    """The turn latency, in ms, at a statistic."""
    return "turn_latency_ms" if at == "mean" else f"turn_latency_{at}_ms"


def ttft_column(at: Statistic) -> str:
    """The TTFT, in ms, at a statistic."""
    return "ttft_ms" if at == "mean" else f"ttft_{at}_ms"


def task_time_column(at: Statistic) -> str:
    """The task time, in s, at a statistic."""
    return "task_time_s" if at == "mean" else f"task_time_{at}_s"


def speed_column(at: Statistic) -> str:
    """Output tokens of a turn over its latency at a statistic."""
    return "e2e_tokens_per_s_per_user" if at == "mean" else f"e2e_tokens_per_s_per_user_{at}"


def needed_columns(limits: Limits) -> tuple[str, ...]:
    """The columns of agent points that tell what is asked at a percentile: the turn latency, and each limit's."""
    asked = {
        turn_latency_column(limits.at): True,
        task_time_column(limits.at): limits.max_task_time_s is not None,
        speed_column(limits.at): limits.min_tokens_per_s_per_user is not None,
        ttft_column(limits.at): limits.max_ttft_s is not None,
    }
    return tuple(column for column, needed in asked.items() if needed)


def figures_at(at: Statistic, columns: list[str]) -> tuple[str, ...]:
    """The figures at a percentile that are read between rows, of those that the points have; none at the mean."""
    if at == "mean":
        return ()
    named = (turn_latency_column(at), ttft_column(at), task_time_column(at), f"{_PER_TOKEN}_{at}")
    return tuple(name for name in named if name in columns)


def add_time_per_token(points: pl.DataFrame, at: Statistic) -> pl.DataFrame:
    """The points with the time per output token at a percentile, straight between rows where its inverse is not."""
    if at == "mean" or speed_column(at) not in points.columns:
        return points
    return points.with_columns((1.0 / pl.col(speed_column(at))).alias(f"{_PER_TOKEN}_{at}"))
