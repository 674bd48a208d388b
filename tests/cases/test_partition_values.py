"""Case 10: model names that break partition folders. Seventeen names in, seventeen names out."""

import csv
import json
from pathlib import Path

import duckdb
import polars as pl
import pytest
from typer.testing import CliRunner

from pipelines.commands.models import app
from schemas.slugs import is_slug
from tests.cases.builds import build, current
from tests.transforms.factory import aic_row, csv_text

NAMES = (
    "meta-llama/Llama-3.1-70B", "0123", "4567", "3.1", "3.10", "1e5", "true", "2024-01-01", "NULL", "nan", "a=b",
    "50%25off", "org/model?rev=2", "org/model#q4", "Qwen3 32B", "__HIVE_DEFAULT_PARTITION__", "..",
)  # fmt: skip
#: Names that the shipped catalogue has already.
KNOWN = ("meta-llama/Llama-3.1-70B", "Qwen3 32B")
#: The case's small model.
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 14336,
    "vocab_size": 128256, "tie_word_embeddings": False, "max_position_embeddings": 131072, "torch_dtype": "bfloat16",
}  # fmt: skip


def rows() -> list[dict[str, str]]:
    return [
        aic_row(model=name, isl=1000, osl=201, bs=8, ttft=200.0, tpot=10.0, request_latency=2200.0, **{
            "seq/s": 3.636, "seq/s/gpu": 0.909, "tokens/s": 727.273, "tokens/s/gpu": 181.818, "tokens/s/user": 100.0,
        })
        for name in NAMES
    ]  # fmt: skip


def add_models(folder: Path, names: tuple[str, ...]) -> Path:
    """A catalogue of one's own with these names, made by the command."""
    (folder / "config.json").write_text(json.dumps(CONFIG))
    catalogue = folder / "models.yaml"
    for name in names:
        made = CliRunner().invoke(
            app, ["add", str(folder / "config.json"), "--name", name, "--catalogue", str(catalogue)]
        )
        assert made.exit_code == 0, made.output
    return catalogue


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("names")
    catalogue = add_models(folder, tuple(name for name in NAMES if name not in KNOWN))
    (folder / "tables").mkdir()
    (folder / "tables" / "pareto.csv").write_text(csv_text(rows()))
    build(folder / "lake", folder / "tables", catalogue)
    return folder / "lake"


def test_the_rows_here_are_those_of_the_case(shared: Path) -> None:
    with (shared / "cases/10-partition-values/pareto.csv").open() as file:
        given = list(csv.DictReader(file))
    same = ("model", "isl", "osl", "bs", "ttft", "tpot", "request_latency", "tokens/s", "system", "tp")
    assert [[row[name] for name in same] for row in given] == [[row[name] for name in same] for row in rows()]


def test_every_name_comes_back_through_the_view(lake: Path) -> None:
    points = current(lake, "serving_points")
    assert sorted(points["model_name"]) == sorted(NAMES)
    assert points["model"].n_unique() == len(NAMES)
    assert all(is_slug(slug) for slug in points["model"])


def test_every_name_comes_back_through_polars_and_duckdb(lake: Path) -> None:
    """By the folders alone, without telling the readers a type."""
    for table in ("serving_points", "agent_points"):
        (files,) = lake.glob(f"releases/*/{table}")
        glob = str(files / "**/*.parquet")
        frame = pl.scan_parquet(glob, hive_partitioning=True)
        with duckdb.connect() as connection:
            counted: pl.DataFrame = connection.sql(f"from read_parquet('{glob}', hive_partitioning=true)").pl()
        by_polars = frame.collect()
        for found in (by_polars, counted):
            assert found["model"].dtype == found["model_name"].dtype == pl.String
            assert set(found["model_name"]) == set(NAMES)
            per_name = found.group_by("model_name").len()["len"].unique().to_list()
            assert len(per_name) == 1  # every name as many rows: none lost, none merged
        for name in NAMES:
            one = frame.filter(pl.col("model_name") == name).select("model").collect()["model"].unique()
            assert one.len() == 1


def test_nothing_leaves_the_lake(lake: Path) -> None:
    assert sorted(path.name for path in lake.parent.iterdir()) == ["config.json", "lake", "models.yaml", "tables"]
    (points,) = lake.glob("releases/*/serving_points/hardware=h200-sxm")
    assert len(list(points.iterdir())) == len(NAMES)
