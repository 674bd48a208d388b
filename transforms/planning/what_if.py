"""The best points of a lake before and after a change, and what of them the change moved."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from transforms.configurations import CONFIGURATION
from transforms.frontier import measured_load

#: The figures that are compared, by the name of their column.
FIGURES: Final = (
    "tasks_per_hour_per_gpu", "turn_latency_ms", "task_time_s", "e2e_tokens_per_s_per_user", "sessions_per_gpu",
    "kv_utilization_fraction",
)  # fmt: skip
#: What a replica's answer is made of: a turn at the lightest load, what more sessions add to it at the load of most
#: tasks, and the sessions that memory holds.
PARTS: Final = ("service_ms", "queue_ms", "memory_sessions_per_gpu")
#: A part has changed that is off by more than this.
_SAME: Final = 0.005
_CURVE: Final = (*CONFIGURATION, "context_requests_per_step")
#: Those that points have where their GPUs have a price.
MONEY: Final = ("usd_per_task", "usd_per_million_output_tokens")
#: Those of the operating point alone.
OPERATING_FIGURES: Final = ("gpus", "replicas", "sessions_wanted", "sessions_admitted", "tasks_per_hour")
_CONFIGURATION: Final = (
    "serving_mode", "tp", "pp", "dp", "moe_ep", "prefill_workers", "prefill_tp", "prefill_pp", "prefill_dp",
    "prefill_moe_ep", "decode_workers", "decode_tp", "decode_pp", "decode_dp", "decode_moe_ep", "weight_dtype",
    "backend", "database_mode", "slower_than_roofline",
)  # fmt: skip
POINTS: Final = ("most_tasks", "shortest_turns", "operating_point")


@dataclass(frozen=True)
class Comparison:
    """One point of one hardware, before and after; None where no configuration is feasible, with the reason."""

    hardware: str
    point: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    reason_before: str | None = None
    reason_after: str | None = None


@dataclass(frozen=True)
class MovedParts:
    """``PARTS`` of one replica before and after, and which of them moved. ``replica``: its configuration."""

    hardware: str
    replica: dict[str, Any]
    before: dict[str, float]
    after: dict[str, float]
    moved: tuple[str, ...]


def best_points(agent_points: pl.DataFrame, operating_points: pl.DataFrame, turns: float) -> dict[tuple[str, str], Any]:
    """The best points of each hardware by (hardware, kind of point); a text, the reason, where none is feasible.

    The kinds: the most tasks an hour per GPU, the shortest turns, and the operating point that completes most turns on
    the scenario's GPUs, whose tasks and sessions per GPU count all of these. Of loads that were measured, as on
    frontiers.
    """
    c = pl.col
    agent_points = agent_points.filter(measured_load())
    tasks_per_hour = 3600.0 * c("cluster_turns_per_s") / turns
    operating = operating_points.with_columns(
        tasks_per_hour=tasks_per_hour,
        tasks_per_hour_per_gpu=tasks_per_hour / c("gpus"),
        sessions_per_gpu=c("sessions_admitted") / c("gpus"),
    )
    kinds = {
        "most_tasks": (agent_points, ["tasks_per_hour_per_gpu", "turn_latency_ms"], [True, False]),
        "shortest_turns": (agent_points, ["turn_latency_ms", "tasks_per_hour_per_gpu"], [False, True]),
        "operating_point": (operating, ["tasks_per_hour", "turn_latency_ms"], [True, False]),
    }
    found: dict[tuple[str, str], Any] = {}
    for kind, (points, by, descending) in kinds.items():
        figures = (*FIGURES, *OPERATING_FIGURES) if kind == "operating_point" else FIGURES
        for (hardware,), of_hardware in points.group_by("hardware", maintain_order=True):
            feasible = of_hardware.filter("feasible").sort([*by, "point_id"], descending=[*descending, False])
            if feasible.is_empty():
                reasons = of_hardware["infeasible_reason"].drop_nulls().mode().sort()
                found[str(hardware), kind] = str(reasons.first())
            else:
                wanted = feasible.select(*figures, *MONEY, *_CONFIGURATION, "binding_limit")
                found[str(hardware), kind] = wanted.row(0, named=True)
    return found


def moved_parts(before: pl.DataFrame, after: pl.DataFrame) -> list[MovedParts]:
    """What agent points before and after a change say of one replica of each hardware: the best before the change.

    So the replica is the same on both sides, and only what the change itself does to it is seen. The best is the one
    of most tasks an hour; hardware on which none is feasible on both sides is left out.
    """
    sides = before.pipe(_parts_of_curves).join(
        after.pipe(_parts_of_curves), on=_CURVE, suffix="_after", nulls_equal=True
    )
    best = sides.sort("tasks_per_hour_per_gpu", *_CURVE, descending=[True, *(False for _ in _CURVE)])
    found = []
    for row in best.unique("hardware", keep="first", maintain_order=True).sort("hardware").to_dicts():
        old, new = {name: row[name] for name in PARTS}, {name: row[f"{name}_after"] for name in PARTS}
        # times against the turn latency before, memory against itself
        turn_ms = old["service_ms"] + old["queue_ms"]
        whole = {"service_ms": turn_ms, "queue_ms": turn_ms, "memory_sessions_per_gpu": old["memory_sessions_per_gpu"]}
        moved = tuple(name for name in PARTS if abs(new[name] - old[name]) > _SAME * whole[name])
        found.append(MovedParts(row["hardware"], row, old, new, moved))
    return found


def _parts_of_curves(points: pl.DataFrame) -> pl.DataFrame:
    """``PARTS`` of each curve that has a feasible point, at the feasible point of most tasks."""
    c = pl.col
    points = points.filter(measured_load())
    lightest = points.group_by(_CURVE).agg(service_ms=c("turn_latency_ms").sort_by("sessions").first())
    best = points.filter("feasible").sort("tasks_per_hour_per_gpu", "turn_latency_ms", descending=[True, False])
    best = best.unique(_CURVE, keep="first", maintain_order=True)
    return best.join(lightest, on=_CURVE, nulls_equal=True).select(
        *dict.fromkeys((*_CURVE, *_CONFIGURATION)),
        "tasks_per_hour_per_gpu",
        "service_ms",
        queue_ms=c("turn_latency_ms") - c("service_ms"),
        memory_sessions_per_gpu=c("max_sessions") / c("gpus_per_replica"),
    )


def compare(before: Mapping[tuple[str, str], Any], after: Mapping[tuple[str, str], Any]) -> list[Comparison]:
    """The points of both sides, by hardware."""
    comparisons = []
    for hardware, point in sorted({*before, *after}, key=lambda key: (key[0], POINTS.index(key[1]))):
        sides = [side.get((hardware, point)) for side in (before, after)]
        rows = [side if isinstance(side, dict) else None for side in sides]
        reasons = [side if isinstance(side, str) else None for side in sides]
        comparisons.append(Comparison(hardware, point, rows[0], rows[1], reasons[0], reasons[1]))
    return comparisons


def change_percent(before: float | None, after: float | None) -> float | None:
    """By how much a figure has changed; None where there is nothing to compare with."""
    return None if before is None or after is None or before == 0 else 100.0 * (after / before - 1.0)
