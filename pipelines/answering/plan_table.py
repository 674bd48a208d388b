"""A plan as tables for reading: answers by tables first, those by the roofline apart, then what has none."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.answering.plan_words import LIMITS_IN_WORDS, method_in_words
from pipelines.answering.shapes import shape_of
from pipelines.terminal import print_table, print_text
from transforms.planning.question import KIND, Question

Row = Mapping[str, Any]
ROOFLINE = "roofline"
_ROOFLINE_TITLE = "By the roofline: what peak rates allow. Do not rank these against rows by tables."


@dataclass(frozen=True)
class Column:
    """A column: its header, its cell, and how easily it goes where the terminal is narrow (0: never)."""

    header: str
    cell: Callable[[Row], str]
    importance: int = 0


def print_plans(rows: Sequence[Row], question: Question, at: str) -> None:
    """The rows of an answer, with their legend, and what the other serving modes need."""
    feasible = [row for row in rows if row["feasible"]]
    kinds = [kind for kind in ("table", ROOFLINE) if any(row[KIND] == kind for row in feasible)]
    shown: set[str] = set()
    for kind in kinds:
        if kind == ROOFLINE:
            print_text(_ROOFLINE_TITLE)
        of_kind = [row for row in feasible if row[KIND] == kind]
        columns = _columns(of_kind, question, at)
        shown |= set(
            print_table(
                [column.header for column in columns],
                ([column.cell(row) for column in columns] for row in of_kind),
                importance=[column.importance for column in columns],
            )
        )
    if feasible:
        for line in legend(feasible, question, at, shown):
            print_text(line)
    _say_where_figures_are_of_more(feasible)
    several = len({row["model"] for row in rows}) > 1
    names = [f"{row['model']} on {row['hardware']}" if several else row["hardware"] for row in rows]
    if any(row["others"] for row in rows):
        print_text("The other serving mode:")
    for name, row in zip(names, rows, strict=True):
        if row["others"]:
            print_text(f"  {name}, {row['others']}.")
    for name, row in zip(names, rows, strict=True):
        if not row["feasible"]:
            print_text(f"{name}: {row['reason']}")


def _columns(rows: Sequence[Row], question: Question, at: str) -> list[Column]:
    def has(name: str) -> bool:
        return any(row[name] is not None for row in rows)

    when = "" if at == "mean" else f" {at}"
    seeks_gpus = question.sought == "gpus"
    band = Column("low to\nhigh", lambda row: _band(row, question), 1)
    columns = [
        Column("hardware", lambda row: row["hardware"]),
        *([Column("model", lambda row: row["model"])] if len({row["model"] for row in rows}) > 1 else []),
        Column("GPUs", lambda row: f"{row['gpus']:,}"),
        *([band] if seeks_gpus else []),
        *([] if question.sessions is not None else [Column("sessions", lambda row: f"{row['sessions']:,}")]),
        *([] if seeks_gpus else [band]),
        Column("replicas", lambda row: f"{row['replicas']:,}", 4),
        Column("replica", shape_of, 2),
        Column("weights", lambda row: row["weight_dtype"], 3),
        Column("KV", lambda row: row["kv_dtype"], 6),
        Column("engine", lambda row: row["backend"], 5),
        Column("sessions\neach", lambda row: f"{row['sessions_per_replica']:,}", 5),
        Column(f"turn{when}\ns", lambda row: _number(row["turn_latency_s"])),
        *([Column(f"TTFT{when}\ns", lambda row: _number(row["ttft_s"]), 4)] if has("ttft_s") else []),
        Column(f"task{when}\ns", lambda row: _number(row["task_time_s"]), 6),
        Column("tokens/s\nper user", lambda row: _number(row["e2e_tokens_per_s_per_user"]), 7),
        Column("tasks/h", lambda row: _number(row["tasks_per_hour"]), 2),
    ]
    if has("usd_per_month"):
        columns += [
            Column("USD\na month", lambda row: _number(row["usd_per_month"]), 1),
            Column("USD\na task", lambda row: _number(row["usd_per_task"]), 3),
            Column("USD per M\ntokens out", lambda row: _number(row["usd_per_million_output_tokens"]), 6),
        ]
    if has("kwh_per_task"):
        columns.append(Column("Wh\na task", lambda row: _number(_times(row["kwh_per_task"], 1e3)), 8))
    columns += [
        Column("KV\nused", lambda row: _percent(row["kv_utilization_fraction"]), 8),
        Column("limit", lambda row: row["binding_limit"], 2),
        Column("more\nsessions", lambda row: f"{row['headroom_sessions']:,}", 7),
        Column("by", method_in_words, 3),
    ]
    return columns


def _say_where_figures_are_of_more(rows: Iterable[Row]) -> None:
    """The rows whose table does not tell so few sessions within the limits: their figures are of more."""
    for row in rows:
        each, read_at = row["sessions_per_replica"], row["figures_at_sessions"]
        if read_at > each * (1 + 1e-9):
            print_text(
                f"{row['hardware']}: turns are as long as those of {read_at:.4g} sessions a replica, where its table "
                f"begins or first keeps the limits; {each:,} are served no slower."
            )


def legend(rows: Sequence[Row], question: Question, at: str, shown: Collection[str]) -> list[str]:
    """What stands under a table of these plans, a line each, of the columns that are shown."""
    of_all = "; tasks/h of all" if "tasks/h" in shown else ""
    more = " more sessions: what these GPUs can take beyond." if "more\nsessions" in shown else ""
    statistic = "mean" if at == "mean" else f"{at} where a column says so"
    lines = [f"Figures of the fuller replicas, at the {statistic}{of_all}.{more}"]
    ends = [row for row in rows if row["low"] is not None and row["transfer_method"] != "direct"]
    if ends and "low to\nhigh" in shown:
        errors = [row["expected_error_fraction"] for row in ends if row["expected_error_fraction"] is not None]
        mean = f" (mean error {_range([100 * error for error in errors])} %)" if errors else ""
        sought = "GPUs needed" if question.sought == "gpus" else "sessions"
        lines.append(f"low to high: {sought} if turns take as much less or more time as the figures err{mean}.")
    if "Wh\na task" in shown:
        lines.append("Wh a task: GPUs at the most that they draw (TDP), nothing else of the machine.")
    if "USD\na month" in shown:
        lines.append("USD: all these GPUs, 730 hours a month, busy or not.")
    if "KV\nused" in shown:
        lines.append(
            "KV used: sessions over those that memory can serve; only KV that must be in memory counts, which is that "
            "of turns in flight where idle KV may be evicted (lru)."
        )
    if "limit" in shown:
        limits = {row["binding_limit"] for row in rows}
        lines.append("limit: what stops a replica from taking more sessions.")
        lines += [f"  {name}: {text}" for name, text in LIMITS_IN_WORDS.items() if name in limits]
    return lines


def _band(row: Row, question: Question) -> str:
    low, high = row["low"], row["high"]
    if row["transfer_method"] == "direct" or (low is None and high is None):
        return "-"
    if low is None:  # of sessions: at the high end of the latency there are none
        return f"0 to {high:,}"
    if high is None:
        return f"{low:,} or more"
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.1f}", f"{max(values):.1f}"
    return low if low == high else f"{low} to {high}"


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
