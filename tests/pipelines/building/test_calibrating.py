"""Builds of measured rows: engines are fitted, taken from a file, kept in the release, or left out."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from pipelines.answering.release_contents import ReleaseContents
from pipelines.cli import app
from pipelines.lake.reader import current_release
from schemas.errors import UserError
from schemas.options import BuildOptions
from tests.agentic.made_runs import write_runs
from tests.calibration.test_command import write_load_tests
from tests.pipelines.builds import build


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six load tests, and the engines that ``calibrate`` makes of them."""
    folder = tmp_path_factory.mktemp("calibrating")
    write_load_tests(folder / "runs", (1_000, 500), (6_000, 500))
    done = CliRunner().invoke(
        app, ["calibrate", "--tables", str(folder / "runs"), "--out", str(folder / "engines.yaml")]
    )
    assert done.exit_code == 0, done.output
    return folder


def options(folder: Path, name: str, **changed: object) -> BuildOptions:
    return BuildOptions.model_validate(
        {"tables": (folder / "runs",), "scenarios": ("code-agent",), "out": folder / name, **changed}
    )


def points_of(lake: Path) -> pl.DataFrame:
    return pl.read_parquet(current_release(lake).path / "agent_points/**/*.parquet", hive_partitioning=True)


def test_a_build_fits_engines_and_keeps_them(folder: Path) -> None:
    build(options(folder, "fitted"))
    points = points_of(folder / "fitted")
    assert points["transfer_method"].unique().to_list() == ["calibrated"]
    assert (points["turn_latency_ms_low"] < points["turn_latency_ms"]).all()
    (engine,) = ReleaseContents(current_release(folder / "fitted")).engines.engines
    assert engine.rows_used == 6
    write_runs(folder / "agent-runs", 4)
    by_lake, by_file, by_none = (
        evaluated(folder / "agent-runs", *options)
        for options in (("--lake", folder / "fitted"), ("--engines", folder / "engines.yaml"), ())
    )
    assert by_lake["calibrated"]
    assert by_lake["predicted"] == pytest.approx(by_file["predicted"])
    assert not by_none["calibrated"]
    assert by_lake["predicted"]["turn_latency_low_s"] > 1.05 * by_none["predicted"]["turn_latency_low_s"]


def evaluated(runs: Path, *options: object) -> dict[str, Any]:
    """The one run beside its prediction."""
    command = ["evaluate", "--runs", str(runs), *map(str, options), "--format", "json"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    (run,) = json.loads(done.stdout)["runs"]
    found: dict[str, Any] = run
    return found


def test_engines_of_a_file_are_those_that_the_build_would_fit(folder: Path) -> None:
    build(options(folder, "given", engines=folder / "engines.yaml", calibrate=False))
    build(options(folder, "fitted-too"))
    given, fitted = (points_of(folder / name).sort("point_id") for name in ("given", "fitted-too"))
    assert given["turn_latency_ms"].to_list() == pytest.approx(fitted["turn_latency_ms"].to_list(), rel=1e-9)


def test_without_engines_rows_are_carried_by_ratio(folder: Path) -> None:
    build(options(folder, "ratio", calibrate=False))
    points = points_of(folder / "ratio")
    assert points["transfer_method"].unique().to_list() == ["ratio"]
    assert points["turn_latency_ms_low"].null_count() == points.height


def test_engines_of_other_deployments_are_said(folder: Path) -> None:
    other = folder / "other.yaml"
    other.write_text((folder / "engines.yaml").read_text().replace("hardware: h200-sxm", "hardware: b200"))
    with pytest.raises(UserError, match=r"No engine of .*other\.yaml is of a deployment of these tables"):
        build(options(folder, "nothing", engines=other))


def test_an_engine_that_cannot_be_is_refused(folder: Path) -> None:
    text = (folder / "engines.yaml").read_text()
    absurd = folder / "absurd.yaml"
    absurd.write_text(
        "\n".join("    step_s: 1000000000.0" if "  step_s:" in line else line for line in text.splitlines())
    )
    with pytest.raises(UserError, match="step_s of 1e\\+09"):
        build(options(folder, "nothing", engines=absurd))
