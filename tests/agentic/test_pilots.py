"""Measured agent runs beside their prediction; one of them as a pilot mends the engine."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from tests.agentic.made_runs import write_runs
from transforms.agentic.runs import pause_s


def evaluated(*arguments: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["evaluate", *arguments, "--format", "json"])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    write_runs(folder, 1, 4, 8, 12, 16)
    return folder


def test_every_run_stands_beside_its_prediction(runs: Path) -> None:
    found = evaluated("--runs", str(runs))
    assert [run["sessions"] for run in found["runs"]] == [1, 4, 8, 12, 16]
    for run in found["runs"]:
        assert run["predicted"]["turn_latency_low_s"] < run["predicted"]["turn_latency_s"]
        assert run["predicted"]["turn_latency_s"] < run["predicted"]["turn_latency_high_s"]
        assert not run["beyond_wall"]
    assert found["errors"]["before"]["runs"] == 5
    assert found["errors"]["beyond"] == {
        "runs": 0, "output_tokens_per_s_per_gpu": None, "turn_latency_s": None, "cache_hit_rate": None,
    }  # fmt: skip


def test_runs_and_prediction_are_drawn(runs: Path, tmp_path: Path) -> None:
    """One mark a run in each of the two panels, no URL in it that would be fetched."""
    picture = tmp_path / "runs.svg"
    evaluated("--runs", str(runs / "run_008.json"), "--svg", str(picture))
    text = picture.read_text()
    assert text.count('aria-roledescription="point"') == 2
    assert "mean turn latency, s" in text
    assert "llama-3-1-70b (fp8) on h200-sxm, vllm, TP4" in text
    refused = CliRunner().invoke(app, ["evaluate", "--tables", "x", "--reference", "y", "--svg", str(picture)])
    assert refused.exit_code == 2


def test_one_pilot_mends_the_others(runs: Path, tmp_path: Path) -> None:
    engines = tmp_path / "engines.yaml"
    (tmp_path / "pilot").mkdir()
    (tmp_path / "pilot" / "run_008.json").write_bytes((runs / "run_008.json").read_bytes())
    done = CliRunner().invoke(
        app, ["calibrate", "--pilot", str(tmp_path / "pilot"), "--out", str(engines), "--format", "json"]
    )
    assert done.exit_code == 0, done.output
    (engine,) = json.loads(done.stdout)["deployments"]
    assert engine["pilots"] == ["run_008.json row 1"]
    before = evaluated("--runs", str(runs))["errors"]["before"]
    after = evaluated("--runs", str(runs), "--engines", str(engines))
    assert [run["is_pilot"] for run in after["runs"]] == [False, False, True, False, False]
    assert after["errors"]["before"]["runs"] == 4
    assert after["errors"]["before"]["turn_latency_s"] < 0.08 < before["turn_latency_s"]
    assert after["errors"]["before"]["output_tokens_per_s_per_gpu"] < 0.05


def test_the_table_names_what_was_assumed(runs: Path) -> None:
    done = CliRunner().invoke(app, ["evaluate", "--runs", str(runs)])
    assert done.exit_code == 0, done.output
    assert "llama-3-1-70b (fp8) on h200-sxm, vllm, TP4: expected of such engines" in done.stdout
    assert "assumed: KV in bf16, weights in fp8" in done.stdout
    assert "5 whole runs before memory is full" in done.stdout


def test_a_stalled_run_does_not_count(runs: Path, tmp_path: Path) -> None:
    for path in runs.iterdir():
        run = json.loads(path.read_text())
        if run["conc"] == 12:  # half of the turns are missing
            half = run["num_requests_total"] // 2
            run |= {"num_requests_total": half, "num_requests_successful": half}
            run |= {name: run[name] / 2 for name in ("input_tput_tps", "output_tput_tps", "total_tput_tps")}
        (tmp_path / path.name).write_text(json.dumps(run))
    found = evaluated("--runs", str(tmp_path))
    assert [run["is_whole"] for run in found["runs"]] == [True, True, True, False, True]
    done = CliRunner().invoke(app, ["calibrate", "--pilot", str(tmp_path), "--format", "json"])
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert [(row["source_file"], row["reason"]) for row in said["refused_pilots"]] == [("run_012.json", "not_whole")]
    assert len(said["deployments"][0]["pilots"]) == 4


def test_the_pause_is_read_from_the_run() -> None:
    """8 sessions took 316 turns of 20 s in 1,800 s and were amid another: 45 s for each, 25 s of it a pause."""
    row: dict[str, Any] = {
        "sessions": 8.0,
        "duration_s": 1_800.0,
        "requests_successful": 316.0,
        "turn_latency_ms": 20_000.0,
    }
    row["pause_s"] = None
    assert pause_s(row) == pytest.approx(25.0)
    assert pause_s(row | {"pause_s": 12.0}) == 12.0


@pytest.mark.parametrize(
    "arguments",
    [
        ["evaluate"],
        ["evaluate", "--runs", "x", "--tables", "y"],
        ["evaluate", "--tables", "y", "--engines", "z"],
        ["evaluate", "--tables", "y", "--reference", "x", "--lake", "z"],
        ["evaluate", "--runs", "x", "--engines", "y", "--lake", "z"],
    ],
)
def test_wrong_use_is_said(arguments: list[str]) -> None:
    assert CliRunner().invoke(app, arguments).exit_code == 2


def test_runs_that_cannot_be_replayed_are_named(runs: Path, tmp_path: Path) -> None:
    run = json.loads((runs / "run_004.json").read_text())
    (tmp_path / "good.json").write_text(json.dumps(run))
    (tmp_path / "no_latency.json").write_text(json.dumps(run | {"mean_e2el": None, "conc": 6}))
    done = CliRunner().invoke(app, ["evaluate", "--runs", str(tmp_path), "--format", "json"])
    assert done.exit_code == 0, done.output
    assert [each["source_file"] for each in json.loads(done.stdout)["runs"]] == ["good.json"]
    assert "no_latency.json" in done.stderr


def test_a_log_of_turns_is_a_pilot_too(runs: Path, tmp_path: Path) -> None:
    """Eight sessions of the run above as a load generator logs their turns: the engine comes out nearly alike."""
    run = json.loads((runs / "run_008.json").read_text())
    latency, pause = run["mean_e2el"], 12.0
    lines = ["session,start_s,latency_s,ttft_s,input_tokens,output_tokens,cached_tokens"]
    turns = round(1_800.0 / (latency + pause))
    for session in range(8):
        for turn in range(turns):
            start = session + turn * (latency + pause)
            cached = 60_000 * run["server_gpu_cache_hit_rate"]
            lines.append(f"s{session},{start},{latency},{run['mean_ttft']},60000,600,{cached}")
    (tmp_path / "turns.csv").write_text("\n".join(lines))
    facts = "hardware: h200\nmodel: llama-3.1-70b\nweight_dtype: fp8\nkv_dtype: bf16\nbackend: vllm\ntp: 4\n"
    (tmp_path / "source.yaml").write_text(facts)
    parameters = []
    for pilot in (tmp_path, runs / "run_008.json"):
        done = CliRunner().invoke(app, ["calibrate", "--pilot", str(pilot), "--format", "json"])
        assert done.exit_code == 0, done.output
        (engine,) = json.loads(done.stdout)["deployments"]
        parameters.append(engine["parameters"])
    by_log, by_summary = parameters
    assert by_log["attention_fraction"] == pytest.approx(by_summary["attention_fraction"], rel=0.15)
    assert by_log["step_s"] == pytest.approx(by_summary["step_s"], rel=0.15)
