"""`agent-pareto plan` where turns go to any replica: the number of replicas and the hit rate agree."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from typer.testing import CliRunner

from pipelines.answering.asked_scenario import points_at
from pipelines.answering.release_contents import open_contents
from pipelines.cli import app
from schemas.options import BuildOptions
from schemas.scenarios import Scenario
from tests.pipelines.builds import CANDIDATES, build
from transforms.planning.curves import Curves
from transforms.planning.fewest_gpus import fewest_for_sessions
from transforms.planning.limits import Limits, Loop

FIELDS = {
    "turns": 12, "think_time_s": 5, "initial_prompt_tokens": 8000, "new_tokens_per_turn": 500,
    "output_tokens_per_turn": 128, "cache_hit_rate": 0.98,
}  # fmt: skip
LATENCY_S = 2.5


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("routed") / "lake"
    tables = (CANDIDATES / "h100_sxm__llama-3.1-8b__isl4000_osl1000__agg.csv.gz",)
    build(BuildOptions(tables=tables, scenarios=("code-agent",), synthesize=False, out=folder))
    return folder


def file_of(folder: Path, **changes: object) -> Path:
    path = folder / f"{len(list(folder.iterdir()))}.yaml"
    path.write_text(yaml.safe_dump({"scenarios": [{"slug": "agents", **FIELDS, **changes}]}))
    return path


def plan(lake: Path, scenario: Path, *args: str) -> dict[str, Any]:
    arguments = ["plan", "--model", "llama-3.1-8b", "--scenario", str(scenario), "--lake", str(lake)]
    limits = ["--max-turn-latency", str(LATENCY_S), "--format", "json"]
    result = CliRunner().invoke(app, [*arguments, *limits, *args])
    assert result.exit_code == 0, result.output
    (row,) = json.loads(result.stdout)
    return row  # type: ignore[no-any-return]


def fewest_by_trying(lake: Path, sessions: int, most: int) -> int:
    """GPUs of the smallest plan that has as many replicas as its hit rates are of, every number up to most tried."""
    contents, best = open_contents(lake), 10**9
    for replicas in range(1, most + 1):
        scenario = Scenario.model_validate({"slug": "agents", **FIELDS, "routing": "random", "replicas": replicas})
        points = points_at(contents, (), "llama-3-1-8b", scenario, None, ("point_id",))
        curves = Curves.of_points(points, Limits(max_turn_latency_s=LATENCY_S), Loop(12, 5, 128))
        plans = fewest_for_sessions(curves, sessions).filter(pl.col("replicas") <= replicas)
        if not plans.is_empty():
            best = min(best, replicas * int(plans["gpus_per_replica"].min()))  # type: ignore[arg-type]
    return best


def test_replicas_and_hit_rates_agree(lake: Path, tmp_path: Path) -> None:
    sticky, routed = file_of(tmp_path), file_of(tmp_path, routing="random", replicas=3)
    one, several = plan(lake, sticky, "--sessions", "450"), plan(lake, routed, "--sessions", "450")
    assert several["gpus"] > one["gpus"]
    assert several["turn_latency_s"] <= LATENCY_S
    assert several["gpus"] <= 24  # more than 24 replicas are more GPUs
    assert several["gpus"] == fewest_by_trying(lake, 450, 24)


def test_sessions_on_gpus(lake: Path, tmp_path: Path) -> None:
    """On 16 GPUs the hit rates are those of the replicas that fit them, whatever number the scenario has."""
    three, thirty = (file_of(tmp_path, routing="random", replicas=number) for number in (3, 30))
    row = plan(lake, three, "--gpus", "16")
    assert row == plan(lake, thirty, "--gpus", "16")
    assert row["replicas"] == 16 // row["gpus_per_replica"]
    assert 0 < row["sessions"] < plan(lake, file_of(tmp_path), "--gpus", "16")["sessions"]


def test_tasks_an_hour(lake: Path, tmp_path: Path) -> None:
    routed = file_of(tmp_path, routing="random", replicas=3)
    row = plan(lake, routed, "--tasks-per-hour", "30000")
    assert row["tasks_per_hour"] >= 30000 * (1 - 1e-9)
    assert row["gpus"] > plan(lake, file_of(tmp_path), "--tasks-per-hour", "30000")["gpus"]


def test_the_launch_says_where_turns_go(lake: Path, tmp_path: Path) -> None:
    routed = file_of(tmp_path, routing="random", replicas=3)
    arguments = ["plan", "--model", "llama-3.1-8b", "--scenario", str(routed), "--lake", str(lake)]
    result = CliRunner().invoke(app, [*arguments, "--sessions", "450", "--emit", "dynamo"])
    assert "a load balancer that sends each turn to any of them" in result.stdout
    assert "--router-mode random" in result.stdout
