"""Where a lake may lie: folders whose names mean something to DuckDB or Polars; and input files of any name."""

import os
from pathlib import Path

import duckdb
import pytest

from pipelines.lake.query import open_lake
from pipelines.lake.verify import verify_release
from schemas.errors import UserError
from schemas.options import BuildOptions
from tests.pipelines.builds import build, write_small_table

ROWS = "SELECT DISTINCT hardware, model, tp FROM serving_points ORDER BY ALL"
RIGHT = [("h200-sxm", "qwen3-32b", 2)]


def small(tables: Path, out: Path) -> BuildOptions:
    tables.mkdir(parents=True, exist_ok=True)
    write_small_table(tables, "h200-qwen.csv", 4)
    return BuildOptions(tables=(tables,), scenarios=("code-agent",), out=out)


@pytest.mark.parametrize("folder", ["a[b]c", "a=b", "hardware=zzz/model=y", "tp=99", "x{1,2}", "a'b", "a*b"])
def test_a_lake_in_such_a_folder_is_as_any_other(tmp_path: Path, folder: str) -> None:
    """A parent folder ``hardware=zzz`` is no partition of the lake."""
    options = small(tmp_path / "tables", tmp_path / folder / "lake")
    build(options)
    assert build(options).release is None
    with open_lake(options.out) as lake:
        assert list(lake.query(ROWS).rows()) == RIGHT
    with duckdb.connect(str(options.out / "agent_pareto.duckdb"), read_only=True) as connection:
        assert connection.execute(ROWS).fetchall() == RIGHT
    assert verify_release(options.out).whole


@pytest.mark.parametrize(
    ("folder", "why"),
    [
        ("a\\b", r"may not have a \\ in it"),
        ("a?b", r"may not have a \? in it"),
        (os.fsdecode(b"a\xff"), "must be UTF-8"),
    ],
)
def test_a_folder_that_no_lake_can_lie_in_is_told(tmp_path: Path, folder: str, why: str) -> None:
    options = small(tmp_path / "tables", tmp_path / folder / "lake")
    with pytest.raises(UserError, match=f"{why}.*Choose another with --out"):
        build(options)
    assert not options.out.exists()
    moved = options.out.parent
    build(options.model_copy(update={"out": tmp_path / "lake"}))
    (tmp_path / "lake").rename(moved)
    with pytest.raises(UserError, match=f"{why}.*move a lake that is there"), open_lake(moved) as lake:
        lake.query("SELECT 1")


def test_an_input_file_whose_name_is_no_utf8_is_read(tmp_path: Path) -> None:
    tables = tmp_path / os.fsdecode(b"tables-\xfe")
    options = small(tmp_path / "tables", tmp_path / "lake").model_copy(update={"tables": (tables,)})
    (tmp_path / "tables").rename(tables)
    (tables / "h200-qwen.csv").rename(tables / os.fsdecode(b"h200-\xff.csv"))
    build(options)
    assert build(options).release is None
    with open_lake(options.out) as lake:
        assert list(lake.query("SELECT path, rows_accepted FROM sources").rows()) == [("h200-\\xff.csv", 4)]
