"""`agent-pareto calibrate` from a folder of load tests to a file of engines."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.reading.engines import engines_as_text, load_engines
from schemas.errors import UserError
from tests.calibration.made import facts_of, grid, measured, parameters

SIDECAR = """\
run: made
measured_at: 2026-03-01
hardware: h200-sxm
weight_dtype: fp8
kv_dtype: bf16
attention_dtype: bf16
backend: vllm
tp: 4
"""


def write_load_tests(folder: Path, *workloads: tuple[float, float], loads: tuple[float, ...] = (1, 8, 32)) -> None:
    """Results of ``vllm bench serve`` as an engine of known parameters would give them, and what they do not say."""
    load = grid(*workloads, loads=loads)
    figures = measured(facts_of(), parameters(prefill_fraction=0.15), load)
    folder.mkdir(exist_ok=True)
    (folder / "source.yaml").write_text(SIDECAR)
    for at in range(len(figures)):
        isl, osl, slots = (float(each[at]) for each in (load.input_tokens, load.output_tokens, load.in_flight))
        latency, prompts = float(figures.latency_s[at]), 100
        rate = slots / latency
        run = {
            "date": "20260301-120000", "model_id": "meta-llama/Llama-3.1-70B-Instruct", "num_prompts": prompts,
            "request_rate": "inf", "max_concurrency": slots, "duration": prompts / rate, "completed": prompts,
            "total_input_tokens": int(isl * prompts), "total_output_tokens": int(osl * prompts),
            "request_throughput": rate, "output_throughput": rate * osl,
            "mean_ttft_ms": 1e3 * float(figures.ttft_s[at]), "mean_tpot_ms": 1e3 * float(figures.tpot_s[at]),
            "mean_e2el_ms": 1e3 * latency,
        }  # fmt: skip
        (folder / f"{at}.json").write_text(json.dumps(run))


def test_load_tests_become_an_engine(tmp_path: Path) -> None:
    write_load_tests(tmp_path / "runs", (1_000, 500), (6_000, 500))
    out = tmp_path / "engines.yaml"
    done = CliRunner().invoke(
        app, ["calibrate", "--tables", str(tmp_path / "runs"), "--out", str(out), "--format", "json"]
    )
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.stdout)["deployments"]
    assert (found["hardware"], found["model"], found["backend"], found["tp"]) == (
        "h200-sxm",
        "llama-3-1-70b",
        "vllm",
        4,
    )
    assert found["rows_used"] == 6
    assert found["refused"] == []
    assert found["leave_one_out"]["turn_latency"] < 0.1
    assert len(found["next_tests"]) == 3
    assert all(test.startswith("vllm bench serve --model ") for test in found["next_tests"])
    engines = load_engines(out)
    assert engines.engines[0].parameters == pytest.approx(found["parameters"])
    out.write_text(engines_as_text(engines.engines))
    assert load_engines(out) == engines


def test_the_tables_say_what_the_parameters_mean(tmp_path: Path) -> None:
    write_load_tests(tmp_path / "runs", (1_000, 500))
    done = CliRunner().invoke(app, ["calibrate", "--tables", str(tmp_path / "runs"), "--kv-tokens", "500000"])
    assert done.exit_code == 0, done.output
    assert "llama-3-1-70b (fp8, KV bf16) on h200-sxm, vllm, TP4 DP1" in done.stdout
    assert "of peak bandwidth" in done.stdout
    assert "cannot tell: attention at long contexts: the longest context measured has 1,250 tokens" in done.stdout


def test_one_row_is_not_enough(tmp_path: Path) -> None:
    write_load_tests(tmp_path / "runs", (1_000, 500), loads=(8,))
    done = CliRunner().invoke(app, ["calibrate", "--tables", str(tmp_path / "runs")])
    assert done.exit_code == 1
    assert "1 usable row, two are needed" in done.stdout


def test_the_reason_of_a_refused_row_fits_any_terminal(tmp_path: Path) -> None:
    write_load_tests(tmp_path / "runs", (1_000, 500))
    first = tmp_path / "runs" / "0.json"
    run = json.loads(first.read_text())
    for name in ("duration", "mean_ttft_ms", "mean_tpot_ms", "mean_e2el_ms"):
        run[name] *= 3
    for name in ("request_throughput", "output_throughput"):
        run[name] /= 3
    (tmp_path / "runs" / "again.json").write_text(json.dumps(run))
    done = CliRunner().invoke(app, ["calibrate", "--tables", str(tmp_path / "runs")], env={"COLUMNS": "60"})
    said = " ".join(done.stdout.split())
    assert "refused: 0.json row 1: contradicts_other_rows: runs of 1 requests in flight of one workload take" in said
    assert "tell them apart by what differed" in said


def test_more_than_the_peak_is_said(tmp_path: Path) -> None:
    """Rows four times as fast, as of other GPUs than source.yaml names."""
    command = ["calibrate", "--tables", str(tmp_path / "runs"), "--format", "json"]
    write_load_tests(tmp_path / "runs", (1_000, 500), (6_000, 500))
    (found,) = json.loads(CliRunner().invoke(app, command).stdout)["deployments"]
    assert found["cannot_be"] == []
    for path in (tmp_path / "runs").glob("*.json"):
        run = json.loads(path.read_text())
        for name in ("duration", "mean_ttft_ms", "mean_tpot_ms", "mean_e2el_ms"):
            run[name] /= 4
        for name in ("request_throughput", "output_throughput"):
            run[name] *= 4
        path.write_text(json.dumps(run))
    (found,) = json.loads(CliRunner().invoke(app, command).stdout)["deployments"]
    said = " ".join(found["cannot_be"])
    assert "of peak bandwidth: are hardware, precisions, shape and drafts of these rows what was measured?" in said


def test_a_file_that_is_none_of_engines_is_named(tmp_path: Path) -> None:
    (tmp_path / "engines.yaml").write_text("engines: [{parameters: {}}]")
    with pytest.raises(UserError, match="is no file of engines"):
        load_engines(tmp_path / "engines.yaml")


def test_a_covariance_that_is_none_is_refused(tmp_path: Path) -> None:
    write_load_tests(tmp_path / "runs", (1_000, 500))
    out = tmp_path / "engines.yaml"
    CliRunner().invoke(app, ["calibrate", "--tables", str(tmp_path / "runs"), "--out", str(out)])
    (engine,) = load_engines(out).engines
    rows = engine.covariance
    for wrong, sentence in (
        (rows[:-1], "must have 10 rows of 10 numbers"),
        (((-50.0, *rows[0][1:]), *rows[1:]), "must have no number below 0 on its diagonal"),
    ):
        out.write_text(engines_as_text([engine.model_copy(update={"covariance": wrong})]))
        with pytest.raises(UserError, match=sentence):
            load_engines(out)
