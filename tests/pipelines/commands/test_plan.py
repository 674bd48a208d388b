"""`agent-pareto plan` on a small real lake."""

import csv
import io
import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from pipelines.cli import app
from pipelines.commands.plan import legend
from schemas.errors import UserError
from schemas.options import BuildOptions
from tests.pipelines.builds import CANDIDATES, build

ARGS = ("--model", "llama-3.1-8b", "--scenario", "code-agent")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plan") / "lake"
    tables = tuple(CANDIDATES / f"{gpu}_sxm__llama-3.1-8b__isl4000_osl1000__agg.csv.gz" for gpu in ("h100", "h200"))
    build(BuildOptions(tables=tables, scenarios=("code-agent",), synthesize=False, out=folder))
    return folder


def run(lake: Path, *args: str) -> Result:
    return CliRunner().invoke(app, ["plan", *ARGS, "--lake", str(lake), *args])


def test_the_plan_reaches_the_rows_of_the_lake(lake: Path) -> None:
    """Every hardware of the lake, fewest GPUs first; JSON and CSV say the same."""
    result = run(lake, "--sessions", "500", "--max-turn-latency", "2", "--format", "json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert {row["hardware"] for row in rows} == {"h100-sxm", "h200-sxm"}
    assert [row["gpus"] for row in rows] == sorted(row["gpus"] for row in rows)
    for row in rows:
        assert row["turn_latency_ms"] <= 2_000
        assert row["gpus"] == row["replicas"] * row["gpus_per_replica"]
        assert row["sessions_per_replica"] == -(-500 // row["replicas"])
    table = csv.DictReader(
        io.StringIO(run(lake, "--sessions", "500", "--max-turn-latency", "2", "--format", "csv").stdout)
    )
    assert [int(row["gpus"]) for row in table] == [row["gpus"] for row in rows]


def test_names_and_the_table(lake: Path) -> None:
    result = run(lake, "--sessions", "40", "--hardware", "H100 SXM", "--hardware", "h200")
    assert result.exit_code == 0, result.output
    assert "h100-sxm" in result.stdout
    assert "one_replica" in result.stdout
    only = json.loads(run(lake, "--sessions", "40", "--hardware", "h200", "--format", "json").stdout)
    assert [row["hardware"] for row in only] == ["h200-sxm"]
    assert run(lake, "--sessions", "40", "--weight-dtype", only[0]["weight_dtype"], "--format", "json").exit_code == 0


def test_the_legend_explains_what_the_table_has(lake: Path) -> None:
    """Its limits and no others; roofline rows are marked where they stand beside rows by tables."""
    said = run(lake, "--sessions", "40", "--hardware", "h200").stdout
    assert "  one_replica: a single replica does; there are no fewer" in said
    assert "KV used: sessions over those that memory can serve;" in said
    assert "cache_hit_rate" not in said
    by_table = {"binding_limit": "cache_hit_rate", "transfer_method": "transfer"}
    by_roofline = {"binding_limit": "kv_memory", "transfer_method": "roofline"}
    assert "  cache_hit_rate: the cache's hit rate falls between this row of the table" in legend([by_table])
    assert "one_replica" not in legend([by_table])
    assert "do not rank" not in legend([by_table]) + legend([by_roofline])
    assert legend([by_table, by_roofline]).splitlines()[-1].startswith("~ roofline: what peak rates allow; do not rank")


def test_the_nearest_values_do(lake: Path) -> None:
    """Where nothing is fast enough the options named are enough, for the hardware that named them."""
    limits = ("--max-turn-latency", "0.1", "--max-task-time", "4.5", "--min-tokens-per-s-per-user", "1000")
    result = run(lake, "--sessions", "50", *limits, "--format", "json")
    assert result.exit_code == 1
    for row in json.loads(result.stdout):
        assert row["feasible"] is False
        assert row["reason"].startswith("Its fastest configuration takes ")
        named = row["reason"].partition("turn; ")[2].removesuffix(" would do.").split()
        assert named[::2] == list(limits[::2])
        again = run(lake, "--sessions", "50", "--hardware", row["hardware"], *named, "--format", "json")
        assert again.exit_code == 0, again.output


def test_what_is_wrong_is_said(lake: Path, tmp_path: Path) -> None:
    for args, sentence in (
        (("--hardware", "h300"), "The lake has no hardware 'h300'. Did you mean 'h100-sxm' or 'h200-sxm'?"),
        (("--hardware", "b200"), "The lake has no hardware 'b200'. It has: h100-sxm, h200-sxm."),
        (("--weight-dtype", "fp4"), "The lake has no point of llama-3-1-8b with weights in fp4 on h100-sxm, h200-sxm."),
        (("--max-turn-latency", "nan"), "--max-turn-latency nan: must be a finite number above 0."),
        (("--min-tokens-per-s-per-user", "0"), "must be a finite number above 0."),
    ):
        error = run(lake, "--sessions", "5", *args).exception
        assert isinstance(error, UserError)
        assert sentence.partition(" Did you")[0] in str(error)
    assert isinstance(run(tmp_path, "--sessions", "5").exception, UserError)
    assert run(lake, "--sessions", "0").exit_code == 2


def test_a_release_of_another_version(lake: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "lake"
    shutil.copytree(lake, copy)
    (path,) = copy.glob("releases/*/models.parquet")
    models = pl.read_parquet(path)
    path.unlink()
    models.drop("definition").write_parquet(path)
    error = run(copy, "--sessions", "5").exception
    assert isinstance(error, UserError)
    assert "Run `agent-pareto build` on the lake again." in str(error)
