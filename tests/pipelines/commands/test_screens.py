"""What the main commands print at 80, 120 and 200 columns: no line is longer, and tables look as they are kept here.

The kept screens are of points worked by hand, so that they change with the layout alone; ``RENEW_SCREENS=1`` writes
them anew.
"""

import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from pipelines.answering.plan_table import print_plans
from pipelines.answering.plan_words import configuration_in_words
from pipelines.answering.what_if_table import print_comparisons
from pipelines.cli import app
from schemas.options import BuildOptions
from tests.pipelines.builds import CANDIDATES, build
from tests.transforms.planning.curves import BY_HAND, curve
from transforms.planning.curves import Curves
from transforms.planning.limits import Limits, Loop
from transforms.planning.question import Question, add_kind, answer
from transforms.planning.what_if import Comparison, MovedParts

SCREENS = Path(__file__).parent / "screens"
WIDTHS = (80, 120, 200)
LLAMA = ("--model", "llama-3.1-8b", "--scenario", "code-agent")
COMMANDS = {
    "plan": ("plan", *LLAMA, "--sessions", "500", "--max-turn-latency", "2", "--price", "h100=2.5"),
    "plan_gpus": ("plan", *LLAMA, "--gpus", "16", "--at", "p95"),
    "plan_none": ("plan", *LLAMA, "--sessions", "50", "--max-turn-latency", "0.1"),
    "what_if": ("what-if", *LLAMA, "--think-time-s", "10", "--price", "h100=2.5"),
    "frontier": ("frontier", *LLAMA, "--hardware", "h100"),
    "frontier_top": ("frontier", *LLAMA, "--hardware", "h100", "--top", "3"),
    "query": ("query", "select hardware, model, scenario, sessions, turn_latency_ms from agent_frontier limit 3"),
    "query_wide": ("query", "select * from agent_frontier limit 1"),
    "releases": ("releases", "list"),
    "hardware": ("hardware", "list"),
    "models": ("models", "list"),
    "model": ("models", "show", "deepseek-v3"),
    "scenarios": ("scenarios", "list"),
    "unknown": ("plan", "--model", "lama", "--scenario", "code-agent", "--sessions", "5"),
}
WITH_LAKE = ("plan", "what-if", "frontier", "query", "releases")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("screens") / "lake"
    tables = tuple(CANDIDATES / f"{gpu}_sxm__llama-3.1-8b__isl4000_osl1000__agg.csv.gz" for gpu in ("h100", "h200"))
    build(BuildOptions(tables=tables, scenarios=("code-agent",), synthesize=False, out=folder))
    return folder


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", COMMANDS)
def test_no_line_is_longer_than_the_terminal(lake: Path, name: str, width: int) -> None:
    command = COMMANDS[name]
    where = ("--lake", str(lake)) if command[0] in WITH_LAKE else ()
    result = CliRunner().invoke(app, [*command, *where], env={"COLUMNS": str(width)})
    assert max((len(line) for line in result.stdout.splitlines()), default=0) <= width, result.stdout


def plan_rows() -> list[dict[str, Any]]:
    """20 sessions on two GPUs, one of them by the roofline."""
    roofline = curve([(b, r / 2) for b, r in BY_HAND], 30, hardware="b200", transfer_method="roofline")
    points = pl.concat([curve(BY_HAND, 8), roofline])
    points = add_kind(points).with_columns(usd_per_gpu_hour=pl.lit(2.5), _watts_per_gpu=pl.lit(700.0))
    curves = Curves.of_points(points, Limits(max_turn_latency_s=4.0), Loop(4.0, 2.0, 30.0))
    rows = answer(curves, Question(sessions=20), ("hardware", "kind")).to_dicts()
    for row in rows:
        row |= {"configuration": configuration_in_words(row), "others": None, "reason": None}
    return rows


def comparisons() -> tuple[list[Comparison], list[MovedParts]]:
    """Longer pauses of one GPU."""
    figures = {
        "tasks_per_hour_per_gpu": 636.2, "turn_latency_ms": 11_300.0, "task_time_s": 94.8,
        "e2e_tokens_per_s_per_user": 11.3, "sessions_per_gpu": 16.8, "kv_utilization_fraction": 1.0,
        "usd_per_task": 0.0055, "usd_per_million_output_tokens": 5.37, "serving_mode": "agg", "tp": 4, "pp": 1, "dp": 1,
        "moe_ep": 1, "weight_dtype": "bf16", "backend": "trtllm", "binding_limit": "kv_memory",
    }  # fmt: skip
    after = figures | {"tasks_per_hour_per_gpu": 515.0, "turn_latency_ms": 6_940.0, "sessions_per_gpu": 19.4, "tp": 8}
    parts = {"service_ms": 1_810.0, "queue_ms": 9_540.0, "memory_sessions_per_gpu": 16.8}
    moved = MovedParts("h200-sxm", figures, parts, parts | {"queue_ms": 3_460.0}, ("queue_ms",))
    most, shortest = ("h200-sxm", "most_tasks", figures, after), ("h200-sxm", "shortest_turns", figures, None)
    return [Comparison(*most), Comparison(*shortest)], [moved]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["plan", "what_if"])
def test_screens(name: str, width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    if name == "plan":
        print_plans(plan_rows(), Question(sessions=20), "mean")
    else:
        print_comparisons(*comparisons())
    printed = capsys.readouterr().out
    path = SCREENS / f"{name}_{width}.txt"
    if os.environ.get("RENEW_SCREENS"):
        path.write_text(printed, encoding="utf-8")
    assert printed == path.read_text(encoding="utf-8")
    assert max(map(len, printed.splitlines())) <= width
