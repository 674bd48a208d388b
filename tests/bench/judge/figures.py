"""Recorded outcomes of the judge beside what is published: errors of each setting, and their means by zone."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import polars as pl

from tests.bench.judge.prediction import predicted
from tests.bench.judge.settings import Setting

#: Outcomes in the tests, each with its setting, seed and version of vLLM.
RECORDED: Final = Path(__file__).parents[2] / "judge" / "outcomes.csv"
#: Times per output token of some of them, which were run again for it.
RECORDED_TPOT: Final = RECORDED.with_name("output_tokens.csv")
SHARES: Final = ("p50", "p90", "p95", "p99")
#: Loads, as shares of the memory that the mean contexts of all sessions take.
NEAR: Final = 0.7
WALL: Final = 1.0
#: Means of the absolute errors that are asked for, by figure: before the wall, near it, beyond.
TARGETS: Final[Mapping[str, tuple[float | None, float | None, float | None]]] = {
    "throughput": (0.05, 0.10, 0.10),
    "mean latency": (0.06, 0.15, 0.12),
    "hit rate": (0.03, 0.08, 0.05),
    "throughput, more than two standard errors": (None, 0.10, 0.10),
    "mean latency, more than two standard errors": (None, 0.15, 0.12),
    "turn p50": (None, None, None),
    "turn p90": (0.10, 0.20, None),
    "turn p95": (0.10, 0.20, None),
    "turn p99": (0.15, 0.30, None),
    "ttft p50": (None, None, None),
    "ttft p90": (0.20, 0.20, None),
    "ttft p95": (None, None, None),
    "ttft p99": (None, None, None),
    "tpot p50": (None, None, None),
    "tpot p90": (None, None, None),
    "tpot p95": (None, None, None),
    "tpot p99": (None, None, None),
    "task p50": (None, None, None),
    "task p90": (None, None, None),
    "task p95": (None, None, None),
    "task p99": (None, None, None),
    "turn p90 without waits": (None, None, None),
    "turn p99 without waits": (None, None, None),
}
ZONES: Final = ("before", "near", "beyond")
#: What the settings are told apart by: pauses that are all alike keep sessions in step for good.
KINDS: Final = ("varied pauses, spread starts", "varied pauses, simultaneous starts", "constant pauses")
#: Of settings that ran with several seeds: what is left of an error when two standard errors of theirs are taken off.
_BEYOND_ERRORS: Final = ", more than two standard errors"
_OF_SETTING: Final = tuple(Setting.__dataclass_fields__)


def recorded_outcomes(path: Path = RECORDED) -> pl.DataFrame:
    """One row a setting: the setting's own fields, and the judge's figures."""
    outcomes = pl.read_csv(path, infer_schema_length=None, schema_overrides={"hit_rate_stated": pl.Float64})
    return outcomes.join(pl.read_csv(RECORDED_TPOT), on="name", how="left")


def setting_of(row: Mapping[str, Any]) -> Setting:
    """The setting of a recorded row."""
    own = {name: row["hit_rate_stated" if name == "hit_rate" else name] for name in _OF_SETTING}
    return Setting(**own)


def errors_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Relative errors of what is published of the row's setting (hit rates: differences), its zone and its kind.

    Sessions that the memory does not admit wait outside of an operating point: that wait, which its throughput tells,
    is added to its latencies.
    """
    setting = setting_of(row)
    point = predicted(setting)
    turns_per_s = point["cluster_turns_per_s"]
    latency_s = setting.sessions / turns_per_s - setting.pause_s
    admitted = point["sessions_admitted"] >= setting.sessions - 1e-6
    wait_s = 0.0 if admitted else max(latency_s - point["turn_latency_ms"] / 1e3, 0.0)
    found = {
        "throughput": turns_per_s / row["turns_per_s"] - 1,
        "mean latency": latency_s / row["turn_latency_s"] - 1,
        "hit rate": point["cache_hit_rate"] - row["hit_rate"],
    }
    for figure, name in (("throughput", "turns_per_s"), ("mean latency", "turn_latency_s")):
        error = row.get(f"{name}_error")
        if error is not None:
            found[f"{figure}{_BEYOND_ERRORS}"] = max(abs(found[figure]) - 2.0 * error / row[name], 0.0)
    for share in SHARES:
        turn, ttft = (point[f"{name}_{share}_ms"] / 1e3 + wait_s for name in ("turn_latency", "ttft"))
        found[f"turn {share}"] = turn / row[f"turn_latency_{share}_s"] - 1
        found[f"ttft {share}"] = ttft / row[f"ttft_{share}_s"] - 1
        if row.get(f"tpot_{share}_s") is not None:
            found[f"tpot {share}"] = point[f"tpot_{share}_ms"] / 1e3 / row[f"tpot_{share}_s"] - 1
        task = row.get(f"task_time_{share}_s")
        if task is not None:
            found[f"task {share}"] = (point[f"task_time_{share}_s"] + wait_s * setting.scenario.turns) / task - 1
    for share in ("p90", "p99"):
        without = row[f"without_waits_turn_latency_{share}_s"]
        if without is not None:
            found[f"turn {share} without waits"] = (without + wait_s) / row[f"turn_latency_{share}_s"] - 1
    return {"name": setting.name, "zone": zone_of(setting), "kind": kind_of(setting), **found}


def zone_of(setting: Setting) -> str:
    """Where a setting lies. Stated caches lose what they are said to lose: they know no wall."""
    if setting.cache != "lru" or setting.load < NEAR:
        return "before"
    return "near" if setting.load <= WALL else "beyond"


def kind_of(setting: Setting) -> str:
    if setting.pauses == "constant":
        return KINDS[2]
    return KINDS[0] if setting.start == "spread" else KINDS[1]


def error_table(errors: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Mean absolute error of each figure by zone and kind; ``settings`` is how many."""
    frame = pl.DataFrame(list(errors), infer_schema_length=None)
    figures = [name for name in TARGETS if name in frame.columns]
    return frame.group_by("kind", "zone").agg(pl.len().alias("settings"), pl.col(figures).abs().mean())


def lines_of(table: pl.DataFrame) -> list[str]:
    """The table as text, with what is asked for; a figure that misses it has a star."""
    rows = {(row["kind"], row["zone"]): row for row in table.iter_rows(named=True)}
    lines = []
    for kind in KINDS:
        there = [zone for zone in ZONES if (kind, zone) in rows]
        lines.append(f"{kind}: " + ", ".join(f"{rows[kind, zone]['settings']} {zone}" for zone in there))
        for figure, targets in TARGETS.items():
            shown = []
            for zone, target in zip(ZONES, targets, strict=True):
                value = rows.get((kind, zone), {}).get(figure)
                if value is None:
                    shown.append(f"{'-':>17}")
                    continue
                is_share = figure != "hit rate"
                text = f"{value:.1%}" if is_share else f"{value:.3f}"
                asked = "" if target is None else (f" of {target:.0%}" if is_share else f" of {target:g}")
                star = "*" if target is not None and value > target else " "
                shown.append(f"{text + asked:>16}{star}")
            lines.append(f"  {_short(figure):24}" + "".join(shown))
    return lines


def _short(figure: str) -> str:
    return figure.replace(_BEYOND_ERRORS, " - 2 se")


def outcomes_of(path: Path) -> list[dict[str, Any]]:
    """Lines of ``virtual_clock``."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
