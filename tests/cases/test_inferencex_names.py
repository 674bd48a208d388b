"""Case 05: InferenceX results in seconds, runner names, a unit slip, and a rerun under another model path."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipelines.reading.catalogues import load_hardware, load_models
from pipelines.reading.faults import faults_in_words
from pipelines.reading.inputs import FoundFile
from pipelines.reading.read_inputs import Inputs, read_inputs


def row(hw: str, conc: int, per_gpu: float, ttft: float, tpot: float, **changed: Any) -> dict[str, Any]:
    """A result row; intvty is 1/tpot, so that its p99 is the slow tail."""
    return {
        "hw": hw, "conc": conc, "image": "example/serve:1", "model": "meta-llama/Llama-3.3-70B-Instruct",
        "infmax_model_prefix": "llama70b", "framework": "vllm", "precision": "fp8", "spec_decoding": "none",
        "disagg": False, "recipe_fingerprint": "", "isl": 1024, "osl": 1024, "is_multinode": False, "tp": 8, "pp": 1,
        "dcp_size": 1, "pcp_size": 1, "ep": 1, "dp_attention": "false", "tput_per_gpu": per_gpu,
        "output_tput_per_gpu": per_gpu / 2, "input_tput_per_gpu": per_gpu / 2, "mean_ttft": ttft, "p99_ttft": 3 * ttft,
        "mean_tpot": tpot, "p99_tpot": 1.5 * tpot, "std_tpot": 0.1 * tpot, "mean_intvty": 1 / tpot,
        "p99_intvty": 1 / (1.5 * tpot), "std_intvty": 1 / (0.1 * tpot), "mean_e2el": ttft + 1023 * tpot,
        **changed,
    }  # fmt: skip


RUN_1001 = [
    row("h200-nv", 16, 190.0, 0.4, 0.02),
    row("h200-dgxc-slurm", 32, 300.0, 0.6, 0.025),
    row("h200-nv", 64, 600.0, 0.9, 20.0, mean_intvty=50.0, p99_intvty=33.333, std_intvty=0.5),
    row("h200-acme", 16, 190.0, 0.4, 0.02),
]
RUN_1007 = [
    row("H200-nv_3", 16, 200.0, 0.38, 0.019, model="nvidia/Llama-3.3-70B-Instruct-FP8",
        infmax_model_prefix="llama70b-fp8"),
    row("b200-nv", 16, 400.0, 0.2, 0.01, model="nvidia/Llama-3.3-70B-Instruct-FP4", precision="nvfp4"),
    row("mi355x-amds", 16, 320.0, 0.2, 0.0125, model="amd/Llama-3.3-70B-Instruct-MXFP4-Preview", precision="mxfp4"),
]  # fmt: skip
RUNS = {"run_1001": ("2026-03-01", RUN_1001), "run_1007": ("2026-03-07", RUN_1007)}


def read(folder: Path, *runs: str) -> Inputs:
    found = []
    for run in runs:
        day, rows = RUNS[run]
        (folder / run).mkdir(exist_ok=True)
        (folder / run / "agg.json").write_text(json.dumps(rows))
        (folder / run / "source.yaml").write_text(f"run: {run}\nmeasured_at: {day}\n")
        found.append(FoundFile(folder / run / "agg.json", f"{run}/agg.json"))
    return read_inputs(found, load_hardware(), load_models())


def test_the_rows_here_are_those_of_the_case(shared: Path) -> None:
    for run, (_, rows) in RUNS.items():
        text = (shared / "cases/05-inferencex-units-names-duplicates" / run / "agg.json").read_text()
        for given, made in zip(json.loads(text), rows, strict=True):
            assert given.keys() == made.keys()
            for name, value in given.items():
                assert made[name] == (pytest.approx(value) if isinstance(value, float) else value), (run, name)


@pytest.mark.parametrize("order", [("run_1001", "run_1007"), ("run_1007", "run_1001")])
def test_seven_rows_in_any_order(order: tuple[str, ...], tmp_path: Path) -> None:
    inputs = read(tmp_path, *order)
    current = inputs.serving_points.sort("hardware", "concurrency_reported")
    assert current.select("hardware", "concurrency_reported").rows() == [
        ("b200", 16.0), ("h200-sxm", 16.0), ("h200-sxm", 32.0), ("mi355x", 16.0),
    ]  # fmt: skip
    by_path = {account.path: account for account in inputs.accounts}
    old, new = by_path["run_1001/agg.json"], by_path["run_1007/agg.json"]
    assert (old.rows_read, old.rows_accepted, old.rows_superseded, old.rows_quarantined) == (4, 1, 1, 2)
    assert (new.rows_read, new.rows_accepted, new.rows_superseded, new.rows_quarantined) == (3, 3, 0, 0)
    assert old.quarantined == {"unknown_hardware": 1, "tpot_does_not_fit_speed": 1}
    faults = inputs.quarantine.select("source_row", "reason").sort("source_row").rows()
    assert faults == [(3, "tpot_does_not_fit_speed"), (4, "unknown_hardware")]


def test_the_newer_run_wins(tmp_path: Path) -> None:
    point = read(tmp_path, "run_1007", "run_1001").serving_points.filter(
        pl.col("hardware") == "h200-sxm", pl.col("concurrency_reported") == 16
    )
    (found,) = point.rows(named=True)
    assert (found["hardware_name"], found["model"]) == ("H200-nv_3", "llama-3-3-70b")
    assert (found["ttft_ms"], found["tpot_ms"], found["gpus_per_replica"]) == (380.0, 19.0, 8)
    assert 2 * 8 * found["output_tokens_per_s_per_gpu"] == pytest.approx(1600)


def test_units_lengths_and_formats(tmp_path: Path) -> None:
    points = read(tmp_path, "run_1001").serving_points
    assert points["ttft_ms"].to_list() == [400.0, 600.0]
    assert points["tpot_ms"].to_list() == [20.0, 25.0]
    assert points["request_latency_ms"].to_list() == pytest.approx([20_860.0, 26_175.0])
    assert points["tokens_per_s_per_user"].to_list() == pytest.approx([50.0, 40.0])
    assert set(points["osl_tokens"]) == {1024.0}
    newer = read(tmp_path, "run_1007").serving_points
    assert newer.select("weight_dtype", "precision_name").rows() == [
        ("fp8", "fp8"), ("nvfp4", "nvfp4"), ("mxfp4", "mxfp4"),
    ]  # fmt: skip


def test_the_unknown_runner_is_named(tmp_path: Path) -> None:
    words = faults_in_words(read(tmp_path, "run_1001"))
    assert "run_1001/agg.json row 4: Unknown hardware 'h200-acme'" in words
