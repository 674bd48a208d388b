"""`agent-pareto evaluate` and the release that carries its errors."""

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.reading.evaluations import load_evaluation
from schemas.errors import UserError
from tests.transforms.evaluation.test_errors import TABLES

STANDARD, REFERENCE = str(TABLES / "standard"), str(TABLES / "reference")


def test_json_and_saved_table_say_the_same(tmp_path: Path) -> None:
    saved = tmp_path / "new" / "errors.parquet"
    result = CliRunner().invoke(
        app,
        ["evaluate", "--tables", STANDARD, "--reference", REFERENCE, "--reference", STANDARD, "--format", "json",
         "--save", str(saved)],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    rows = {name: sum(pl.read_csv(file).height for file in (TABLES / name).glob("*.csv"))
            for name in ("standard", "reference")}  # fmt: skip
    assert said["reference_points"] == rows["reference"]
    assert said["same_workload"] == rows["standard"]
    assert said["compared_points"] + said["without_partner"] == rows["reference"]
    assert load_evaluation(saved).to_dicts() == said["errors"]
    whole = {row["figure"]: row for row in said["errors"] if row["grouped_by"] == "all"}
    assert set(whole) == {"turn_latency", "ttft", "tpot", "throughput"}
    assert {row["group"] for row in said["errors"] if row["grouped_by"] == "backend"} == {"trtllm", "vllm"}


def test_tables_for_people() -> None:
    result = CliRunner().invoke(app, ["evaluate", "--tables", STANDARD, "--reference", REFERENCE])
    assert result.exit_code == 0, result.output
    for text in ("Over all points", "By batch of a rank", "isl 14000, cached 13400, osl 150", "have none"):
        assert text in result.stdout
    ranges = [result.stdout.index(f" {name} ") for name in ("2-4", "5-16", "17-64")]
    assert ranges == sorted(ranges)


def test_tables_that_share_nothing_are_refused() -> None:
    result = CliRunner().invoke(app, ["evaluate", "--tables", STANDARD, "--reference", STANDARD])
    assert isinstance(result.exception, UserError)
    assert "partner" in str(result.exception)


def test_another_file_is_no_evaluation(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        load_evaluation(tmp_path / "none.parquet")
    pl.DataFrame({"figure": ["ttft"]}).write_parquet(tmp_path / "other.parquet")
    with pytest.raises(UserError, match="is not what"):
        load_evaluation(tmp_path / "other.parquet")
