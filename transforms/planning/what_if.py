"""A scenario with some of its quantities changed, and what its best points become."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from schemas.scenarios import Scenario

#: The figures that are compared, by the name of their column.
FIGURES: Final = (
    "tasks_per_hour_per_gpu", "turn_latency_ms", "task_time_s", "e2e_tokens_per_s_per_user", "sessions_per_gpu",
    "kv_utilization_fraction",
)  # fmt: skip
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


def changed_scenario(scenario: Scenario, changes: Mapping[str, object]) -> Scenario:
    """The scenario with other quantities (fields of a scenario file). Raises ``ValidationError``.

    Distributions keep their form and are scaled to a new mean. The new tokens of turn 1 follow the prompt where they
    are all of it, and the new tokens of later turns where they are the same; they are never more than the changed
    prompt has beside the shared prefix.
    """
    entry = scenario.model_dump(exclude_none=True)
    if scenario.first_turn_new_tokens == scenario.initial_prompt_tokens - scenario.shared_prefix_tokens:
        del entry["first_turn_new_tokens"]
    else:
        if scenario.first_turn_new_tokens == scenario.new_tokens_per_turn and "new_tokens_per_turn" in changes:
            entry["first_turn_new_tokens"] = changes["new_tokens_per_turn"]
        entry["first_turn_new_tokens"] = _at_most_the_prompt(entry, changes)
    if "cache_hit_rate" in changes:
        del entry["cache"]
    if changes.get("routing") == "sticky":
        entry.pop("replicas", None)
    return Scenario.model_validate({**entry, **changes})


def _at_most_the_prompt(entry: Mapping[str, Any], changes: Mapping[str, object]) -> object:
    """The entry's new tokens of turn 1, cut to a changed prompt that is one; what is no number is left to be told."""
    given, prompt = entry["first_turn_new_tokens"], changes.get("initial_prompt_tokens", entry["initial_prompt_tokens"])
    if not (isinstance(given, int | float) and isinstance(prompt, int | float)):
        return given
    most = prompt - entry.get("shared_prefix_tokens", 0.0)
    return most if math.isfinite(given) and 0 < most < given else given


def follows(scenario: Scenario, changes: Mapping[str, object]) -> str | None:
    """Why ``first_turn_new_tokens`` changes, which no option changes; None if it is the same."""
    before, after = scenario, changed_scenario(scenario, changes)
    if before.first_turn_new_tokens == after.first_turn_new_tokens:
        return None
    if before.first_turn_new_tokens == before.initial_prompt_tokens - before.shared_prefix_tokens:
        return "all of the first prompt"
    if after.first_turn_new_tokens == after.new_tokens_per_turn:
        return "as in later turns"
    return "cut to the first prompt"


def best_points(agent_points: pl.DataFrame, operating_points: pl.DataFrame, turns: float) -> dict[tuple[str, str], Any]:
    """The best points of each hardware by (hardware, kind of point); a text, the reason, where none is feasible.

    The kinds: the most tasks an hour per GPU, the shortest turns, and the operating point that completes most turns on
    the scenario's GPUs, whose tasks and sessions per GPU count all of these.
    """
    c = pl.col
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
