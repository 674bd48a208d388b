"""Best points before and after a change as a table for reading, and what the change moved."""

from collections.abc import Sequence
from typing import Any, Final

from pipelines.answering.shapes import shape_of
from pipelines.answering.what_if_words import moved_in_words
from pipelines.terminal import print_table, print_text
from transforms.planning.what_if import FIGURES, MONEY, Comparison, MovedParts, change_percent

_HEADERS: Final = {
    "tasks_per_hour_per_gpu": "tasks/h\nper GPU", "turn_latency_ms": "turn\ns", "task_time_s": "task\ns",
    "e2e_tokens_per_s_per_user": "tokens/s\nper user", "sessions_per_gpu": "sessions\nper GPU",
    "kv_utilization_fraction": "KV\nused, %", "usd_per_task": "USD\na task",
    "usd_per_million_output_tokens": "USD per M\ntokens out",
}  # fmt: skip
#: How easily a column goes where the terminal is narrow, least important highest; others stay.
_IMPORTANCE: Final = {
    "usd_per_task": 1, "replica": 2, "limit": 3, "weights": 4, "sessions_per_gpu": 5, "kv_utilization_fraction": 6,
    "usd_per_million_output_tokens": 7, "task_time_s": 8, "e2e_tokens_per_s_per_user": 9,
}  # fmt: skip
_TITLES: Final = {"most_tasks": "most tasks", "shortest_turns": "shortest turns", "operating_point": "operating point"}
_SCALE: Final = {"turn_latency_ms": 1e-3, "kv_utilization_fraction": 100.0}


def compared_figures(comparisons: Sequence[Comparison]) -> tuple[str, ...]:
    """The figures that are compared: with money where GPUs have a price."""
    sides = [side for comparison in comparisons for side in (comparison.before, comparison.after) if side is not None]
    return (*FIGURES, *(name for name in MONEY if any(side[name] is not None for side in sides)))


def of_side(side: dict[str, Any] | None, name: str) -> Any:
    """A figure of one side; None where nothing is feasible."""
    return None if side is None else side[name]


def print_comparisons(comparisons: Sequence[Comparison], parts: Sequence[MovedParts]) -> None:
    """A row for each hardware and point, then what the change moved, and sessions that are not admitted."""
    figures = compared_figures(comparisons)
    names = ("hardware", "", *figures, "replica", "weights", "limit")
    rows = []
    last = None
    for comparison in comparisons:
        rows.append(["" if comparison.hardware == last else comparison.hardware, *_cells(comparison, figures)])
        last = comparison.hardware
    print_table(
        [_HEADERS.get(name, name) for name in names],
        rows,
        caption="Before > after (change). most tasks, shortest turns: of all feasible points.",
        importance=[_IMPORTANCE.get(name, 0) for name in names],
    )
    if parts:
        print_text("One replica, the best before the change:")
    for each in parts:
        print_text(f"  {moved_in_words(each)}")
    for comparison in comparisons:
        for when, side in (("before", comparison.before), ("after", comparison.after)):
            if comparison.point == "operating_point" and side is not None:
                wanted, admitted = side["sessions_wanted"], side["sessions_admitted"]
                if admitted < wanted:
                    print_text(
                        f"{comparison.hardware}: {when} the change {_number(admitted, '')} of the "
                        f"{_number(wanted, '')} sessions wanted are admitted at the operating point; the others wait.",
                        columns=None,
                    )


def _cells(comparison: Comparison, figures: Sequence[str]) -> list[str]:
    before, after = comparison.before, comparison.after
    cells = [_TITLES[comparison.point]]
    for name in figures:
        old, new = of_side(before, name), of_side(after, name)
        percent = change_percent(old, new)
        change = "" if percent is None else f" ({percent:+.0f} %)"
        shown = (_number(old, name), _number(new, name))
        cells.append(shown[0] if shown[0] == shown[1] else f"{shown[0]} > {shown[1]}{change}")
    for text in (shape_of, lambda side: str(side["weight_dtype"])):
        old_text, new_text = ("-" if side is None else text(side) for side in (before, after))
        cells.append(old_text if old_text == new_text else f"{old_text} > {new_text}")
    limits = [
        reason or ("-" if side is None else str(side["binding_limit"]))
        for side, reason in ((before, comparison.reason_before), (after, comparison.reason_after))
    ]
    cells.append(limits[0] if limits[0] == limits[1] else " > ".join(limits))
    return cells


def _number(value: float | None, name: str) -> str:
    if value is None:
        return "-"
    scaled = value * _SCALE.get(name, 1.0)
    return f"{scaled:,.0f}" if abs(scaled) >= 100 else f"{scaled:.3g}"
