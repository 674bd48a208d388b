"""`agent-pareto what-if`: as a build at the changed scenario would have it."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pydantic import ValidationError
from typer.testing import CliRunner, Result

from pipelines.answering.release_contents import open_contents
from pipelines.answering.what_if_words import changes_in_words
from pipelines.cli import app
from pipelines.reading.catalogues import load_hardware
from schemas.errors import UserError
from schemas.options import BuildOptions
from schemas.scenarios import Scenario
from tests.pipelines.builds import build, write_small_tables
from tests.transforms.factory import article_scenario
from transforms.planning.changes import Circumstances, changed_scenario
from transforms.planning.what_if import change_percent

#: The code agent with a pause of 10 s, half of its hits, another prompt and output, as a file of its own.
CHANGED = """
scenarios:
  - {slug: changed, turns: 6, think_time_s: 10, initial_prompt_tokens: 9000, new_tokens_per_turn: 700,
     output_tokens_per_turn: 200, first_turn_new_tokens: 700, cache_hit_rate: 0.4, sessions: 24, gpus: 16}
"""
OPTIONS = (
    "--think-time-s", "10", "--cache-hit-rate", "0.4", "--turns", "6", "--initial-prompt-tokens", "9000",
    "--new-tokens-per-turn", "700", "--output-tokens-per-turn", "200", "--sessions", "24", "--gpus", "16",
)  # fmt: skip


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two GPUs and two models at the code agent and at the changed one; some options of its own."""
    folder = tmp_path_factory.mktemp("what-if")
    file = folder / "changed.yaml"
    file.write_text(CHANGED)
    tables = (write_small_tables(folder / "tables", rows=500),)
    build(
        BuildOptions(
            tables=tables, scenarios=("code-agent", str(file)), synthesize=False, kv_context="p95", out=folder / "lake"
        )
    )
    file.unlink()
    return folder / "lake"


def run(lake: Path, *args: str, model: str = "Qwen3-32B", scenario: str = "code-agent") -> Result:
    return CliRunner().invoke(app, ["what-if", "--model", model, "--scenario", scenario, "--lake", str(lake), *args])


def records(lake: Path, *args: str, code: int = 0) -> dict[tuple[str, str, str], dict[str, Any]]:
    result = run(lake, *args, "--format", "json")
    assert result.exit_code == code, result.output
    return {(row["hardware"], row["point"], row["figure"]): row for row in json.loads(result.stdout)}


def test_before_and_after_are_what_a_build_publishes(lake: Path) -> None:
    found = records(lake, *OPTIONS)
    contents = open_contents(lake)
    assert {hardware for hardware, _, _ in found} == {"h100-sxm", "h200-sxm"}
    compared = 0
    for side, slug, turns in (("before", "code-agent", 8), ("after", "changed", 6)):
        for hardware in ("h100-sxm", "h200-sxm"):
            agents = contents.read("agent_points", [hardware], "qwen3-32b", slug).filter("feasible")
            best = agents.sort("tasks_per_hour_per_gpu", descending=True).row(0, named=True)
            fastest = agents.sort("turn_latency_ms").row(0, named=True)
            operating = contents.read("operating_points", [hardware], "qwen3-32b", slug).filter("feasible")
            if operating.is_empty():
                assert found[hardware, "operating_point", "infeasible_reason"][side] is not None
                continue
            fixed = operating.sort("cluster_turns_per_s", descending=True).row(0, named=True)
            tasks_per_hour = fixed["cluster_turns_per_s"] * 3600 / turns
            expected = {
                ("most_tasks", "tasks_per_hour_per_gpu"): best["tasks_per_hour_per_gpu"],
                ("most_tasks", "sessions_per_gpu"): best["sessions_per_gpu"],
                ("most_tasks", "binding_limit"): best["binding_limit"],
                ("shortest_turns", "turn_latency_ms"): fastest["turn_latency_ms"],
                ("operating_point", "turn_latency_ms"): fixed["turn_latency_ms"],
                ("operating_point", "tasks_per_hour"): tasks_per_hour,
                ("operating_point", "tasks_per_hour_per_gpu"): tasks_per_hour / fixed["gpus"],
                ("operating_point", "sessions_admitted"): fixed["sessions_admitted"],
            }  # fmt: skip
            for (point, figure), value in expected.items():
                shown = found[hardware, point, figure][side]
                assert shown == (pytest.approx(value, rel=1e-9) if isinstance(value, float) else value), figure
                compared += 1
    assert compared >= 24


def test_changes_in_percent(lake: Path) -> None:
    found = records(lake, "--think-time-s", "0", "--hardware", "H200")
    assert {hardware for hardware, _, _ in found} == {"h200-sxm"}
    # R of a lone session does not depend on its pause; its task does: 8 turns
    shortest = found["h200-sxm", "shortest_turns", "turn_latency_ms"]
    assert shortest["change_percent"] == 0.0
    task = found["h200-sxm", "shortest_turns", "task_time_s"]
    assert task["before"] - task["after"] == pytest.approx(8 * 0.5)
    assert task["change_percent"] == pytest.approx(100 * (task["after"] / task["before"] - 1))
    assert found["h200-sxm", "most_tasks", "tasks_per_hour_per_gpu"]["change_percent"] > 0


def test_table_and_csv(lake: Path) -> None:
    table = run(lake, "--cache-hit-rate", "0.5", "--hardware", "h200")
    assert table.exit_code == 0, table.output
    assert "qwen3-32b at code-agent: cache 0.95 > 0.5" in table.stdout
    text = run(lake, "--cache-hit-rate", "0.5", "--hardware", "h200", "--format", "csv").stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    same = records(lake, "--cache-hit-rate", "0.5", "--hardware", "h200")
    for row in rows:
        after = same[row["hardware"], row["point"], row["figure"]]["after"]
        assert row["after"] == ("" if after is None else str(after))


def test_nothing_feasible_has_a_reason(lake: Path) -> None:
    found = records(lake, "--initial-prompt-tokens", "300000", "--hardware", "h200", code=1)
    assert found["h200-sxm", "most_tasks", "tasks_per_hour_per_gpu"]["after"] is None
    assert found["h200-sxm", "most_tasks", "infeasible_reason"]["after"] == "context_too_long"
    assert run(lake, "--initial-prompt-tokens", "300000").exit_code == 1


def test_the_header_says_what_follows(lake: Path) -> None:
    """The code agent has 500 new tokens in turn 1 as in later ones, of 16,000."""
    longer = run(lake, "--new-tokens-per-turn", "20000", "--turns", "2", "--hardware", "h200").stdout
    assert "first_turn_new_tokens 500.0 > 16,000.0 (cut to the first prompt)" in longer
    shorter = run(lake, "--initial-prompt-tokens", "400", "--hardware", "h200").stdout
    assert "first_turn_new_tokens 500.0 > 400.0 (cut to the first prompt)" in shorter
    both = run(lake, "--new-tokens-per-turn", "700", "--hardware", "h200").stdout
    assert "first_turn_new_tokens 500.0 > 700.0 (as in later turns)" in both


def test_sessions_beyond_what_fits(lake: Path) -> None:
    args = ("--sessions", "100000", "--gpus", "8", "--hardware", "h200")
    admitted = records(lake, *args)["h200-sxm", "operating_point", "sessions_admitted"]["after"]
    assert 0 < admitted < 100_000
    assert f"h200-sxm: after the change {admitted:,.0f} of the 100,000 sessions wanted are admitted" in (
        run(lake, *args).stdout
    )


def test_the_rule_over_capacity_changes_with_the_cache() -> None:
    fixed, lru = (Scenario.model_validate({**FIELDS, "cache": c}) for c in ({"hit_rate": 0.9}, {"model": "lru"}))

    def said(before: Scenario, after: Scenario, options: BuildOptions) -> str:
        return changes_in_words(before, *(Circumstances(side, options, load_hardware()) for side in (before, after)))

    assert said(lru, fixed, BuildOptions()) == "cache lru > 0.9, sessions over capacity thrash > wait"
    assert said(lru, lru, BuildOptions()) == "nothing differs from the scenario"
    assert said(lru, fixed, BuildOptions(over_capacity="thrash")) == "cache lru > 0.9"


def test_what_moves_is_said_of_one_replica(lake: Path) -> None:
    """Longer pauses leave a turn alone and the memory as they are; host memory holds more sessions."""
    pauses = records(lake, "--think-time-s", "10", "--hardware", "h200")
    for name in ("service_ms", "memory_sessions_per_gpu"):
        part = pauses["h200-sxm", "best_before", name]
        assert part["after"] == pytest.approx(part["before"])
    assert (
        pauses["h200-sxm", "best_before", "queue_ms"]["after"] < pauses["h200-sxm", "best_before", "queue_ms"]["before"]
    )
    assert "the change moves queue." in run(lake, "--think-time-s", "10", "--hardware", "h200").stdout
    host = records(lake, "--host-memory-gb", "1000", "--hardware", "h200")[
        "h200-sxm", "best_before", "memory_sessions_per_gpu"
    ]
    assert host["after"] > host["before"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--parked-kv", "decode"), "parked_kv prefill > decode"),
        (("--idle-kv", "dropped"), "idle_kv resident > dropped"),
        (("--host-memory-gb", "100"), "idle_kv resident > offloaded, host_memory_bytes_per_gpu 0 GB > 100 GB"),
        (("--host-memory-gb", "100", "--host-link-gb-per-s", "25"), "host link > 25 GB/s"),
        (("--over-capacity", "thrash"), "sessions over capacity wait > thrash"),
        (("--kv-context", "peak"), "kv_context p95 > peak"),
        (("--kv-dtype", "bf16"), "KV in bf16 alone"),
        (("--cache", "lru"), "cache 0.95 > lru, sessions over capacity wait > thrash"),
        (("--cache", "lru", "--host-memory-gb", "100"), "cache 0.95 > lru, 100 GB host"),
        (("--cache", "ttl", "--kept-s", "60"), "cache 0.95 > ttl 60 s"),
    ],
)
def test_each_change_is_carried_and_said(lake: Path, args: tuple[str, ...], said: str) -> None:
    result = run(lake, *args, "--hardware", "h200")
    assert result.exit_code == 0, result.output
    assert said in result.stdout.splitlines()[0]


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ((), "Nothing is changed"),
        (("--cache-hit-rate", "1.5"), "--cache-hit-rate: "),
        (("--think-time-s", "nan"), "--think-time-s: "),
        (("--turns", "0"), "--turns: "),
        (("--new-tokens-per-turn", "0"), "--new-tokens-per-turn: "),
        (("--sessions", "0"), "--sessions: "),
        (("--cache", "ttl"), "--cache ttl and --kept-s go together"),
        (("--cache", "lru", "--cache-hit-rate", "0.5"), "--cache-hit-rate states the hits that --cache would find"),
        (("--kv-dtype", "nvfp4"), "The lake has no point of qwen3-32b with KV in nvfp4. It has: bf16."),
        (("--idle-kv", "offloaded"), "--idle-kv offloaded and --host-memory-gb go together"),
        (("--think-time-s", "1", "--hardware", "b200"), "The lake has no hardware 'b200'."),
    ],
)
def test_what_is_wrong_is_said(lake: Path, args: tuple[str, ...], sentence: str) -> None:
    error = run(lake, *args).exception
    assert isinstance(error, UserError)
    assert str(error).startswith(sentence)


class TestChangedScenario:
    """Other quantities in place of the scenario's own."""

    def test_new_tokens_of_the_first_turn(self) -> None:
        """The article's scenarios have n1 = dL; others prefill the whole prompt; others neither."""
        article = article_scenario("code-agent")
        assert changed_scenario(article, {"new_tokens_per_turn": 700.0}).first_turn_new_tokens == 700
        assert changed_scenario(article, {"initial_prompt_tokens": 9_000.0}).first_turn_new_tokens == 500
        whole = Scenario.model_validate({**FIELDS, "shared_prefix_tokens": 100})
        assert whole.first_turn_new_tokens == 900
        assert changed_scenario(whole, {"initial_prompt_tokens": 2_000}).first_turn_new_tokens == 1_900
        neither = Scenario.model_validate({**FIELDS, "first_turn_new_tokens": 300})
        changed = changed_scenario(neither, {"initial_prompt_tokens": 2_000, "new_tokens_per_turn": 7})
        assert changed.first_turn_new_tokens == 300

    def test_never_more_than_the_prompt(self) -> None:
        article = article_scenario("code-agent")
        prompt = article.initial_prompt_tokens
        assert changed_scenario(article, {"new_tokens_per_turn": 2 * prompt}).first_turn_new_tokens == prompt
        assert changed_scenario(article, {"initial_prompt_tokens": 400.0}).first_turn_new_tokens == 400
        neither = Scenario.model_validate({**FIELDS, "first_turn_new_tokens": 300, "shared_prefix_tokens": 100})
        assert changed_scenario(neither, {"initial_prompt_tokens": 350}).first_turn_new_tokens == 250
        for wrong in (float("nan"), 0.0, -5.0):
            with pytest.raises(ValidationError):
                changed_scenario(neither, {"initial_prompt_tokens": wrong})

    def test_a_fixed_hit_rate_takes_the_place_of_a_cache_model(self) -> None:
        timed = Scenario.model_validate({**FIELDS, "cache": {"model": "ttl", "kept_s": 60}})
        assert changed_scenario(timed, {"cache_hit_rate": 0.3}).cache_hit_rate == 0.3
        assert changed_scenario(timed, {"think_time_s": 9}).cache == timed.cache

    def test_a_distribution_is_scaled_to_the_new_mean(self) -> None:
        varied = Scenario.model_validate({**FIELDS, "think_time_s": {"values": [1, 3]}})
        changed = changed_scenario(varied, {"think_time_s": 8.0})
        assert changed.think_time_s == 8.0
        assert changed.distributions == varied.distributions

    def test_no_change(self) -> None:
        assert changed_scenario(article_scenario(), {}) == article_scenario()


FIELDS = {
    "slug": "a", "turns": 4, "think_time_s": 2, "initial_prompt_tokens": 1_000, "new_tokens_per_turn": 50,
    "output_tokens_per_turn": 20, "cache": {"hit_rate": 0.9},
}  # fmt: skip


def test_percent() -> None:
    assert change_percent(4.0, 5.0) == 25.0
    assert change_percent(0.0, 5.0) is None
    assert change_percent(None, 5.0) is None


def test_definitions_give_the_catalogues_back(lake: Path) -> None:
    """A release is read without the files that it was built from: entry by entry the same, and its options."""
    from pipelines.reading.catalogues import load_models

    contents = open_contents(lake)
    assert contents.hardware.entries == load_hardware().entries
    assert contents.models.entries == load_models().entries
    assert contents.scenarios["code-agent"] == article_scenario()
    assert contents.scenarios["changed"].gpus == 16
    assert contents.options.kv_context == "p95"
    points = contents.read("serving_points", ["h200-sxm"], "qwen3-32b")
    assert points["hardware"].unique().to_list() == ["h200-sxm"]
    assert contents.read("agent_points", ["b200"], "qwen3-32b", "changed").is_empty()
    assert isinstance(points, pl.DataFrame)
