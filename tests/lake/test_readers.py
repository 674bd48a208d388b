"""Other programs read a release: Polars, DuckDB and PyArrow, over the files and through the views."""

import io
import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import polars as pl
import pyarrow.dataset
import pyarrow.parquet
import pytest

from pipelines.lake.parts import SMALL_FILE_ROWS, encode
from pipelines.lake.release import begin_release
from pipelines.lake.views import STORAGE_VERSION, glob_escaped, quote_text
from schemas.errors import UserError
from tests.lake.factory import FIELDS, KEYS, publish_number, seen_by_database, seen_by_query, write_partitioned

TRICKY = [
    "trueish", "t", "f", "y", "yes", "no", "on", "off", "nil", "na", "n-a", "nan-1", "infinit", "inf-1", "e5",
    "x1e5", "today", "now", "yesterday", "tomorrow", "jan", "january-1-2020", "mon", "bc", "a", "u0-1", "b-2020-01-01",
    "null-1", "default", "h100-sxm",
]  # fmt: skip


def rows_of(sql: str) -> list[tuple[object, ...]]:
    """The rows that plain DuckDB gives."""
    with duckdb.connect() as connection:
        return connection.execute(sql).fetchall()


def one_partition(lake: Path, slug: str) -> Path:
    frame = pl.DataFrame({"x": [1, 2], "hardware": slug, "hardware_name": "H?=1/2 3.10", "model": slug})
    with begin_release(lake) as writer:
        write_partitioned(writer, "agent_points", frame, by=KEYS)
        return writer.publish(**FIELDS).path / "agent_points"


@pytest.mark.parametrize("slug", TRICKY)
def test_a_lone_partition_value_is_text_to_every_reader(lake: Path, slug: str) -> None:
    """Readers guess the type of a partition column from its values: worst when there is one value only."""
    folder = one_partition(lake, slug)
    sql = f"SELECT typeof(hardware), typeof(model), hardware, count(*) FROM read_parquet('{folder}/**/*.parquet'"
    for options in ("", ", hive_partitioning = true"):
        assert rows_of(f"{sql}{options}) GROUP BY ALL") == [("VARCHAR", "VARCHAR", slug, 2)]
    for frame in (
        pl.scan_parquet(folder).collect(),
        pl.scan_parquet(folder, hive_partitioning=True).collect(),
        pl.read_parquet(f"{folder}/**/*.parquet", hive_partitioning=True),
    ):
        assert frame.schema["hardware"] == frame.schema["model"] == pl.String
        assert frame["hardware"].to_list() == [slug, slug]
    table = pyarrow.dataset.dataset(folder, partitioning="hive").to_table()
    assert table.schema.field("hardware").type == pyarrow.string()
    assert pyarrow.parquet.read_table(folder).column("model").to_pylist() == [slug, slug]


def test_counts_and_rows_are_equal_for_all_readers(lake: Path) -> None:
    frame = pl.DataFrame(
        {
            "hardware": [slug for slug in TRICKY for _ in range(3)],
            "model": ["kimi", "llama", "kimi"] * len(TRICKY),
            "model_name": ["Kimi-K2.5", "Llama 3.1?", None] * len(TRICKY),
            "x": pl.int_range(3 * len(TRICKY), eager=True),
        }
    )
    with begin_release(lake) as writer:
        write_partitioned(writer, "agent_points", frame, by=KEYS)
        folder = writer.publish(**FIELDS).path / "agent_points"
    expected = frame.sort("x")
    by_polars = pl.scan_parquet(folder, hive_partitioning=True).select(frame.columns).sort("x").collect()
    assert by_polars.equals(expected)
    columns = ", ".join(frame.columns)
    by_duckdb = rows_of(
        f"SELECT {columns} FROM read_parquet('{folder}/**/*.parquet', hive_partitioning = true) ORDER BY x"
    )
    assert by_duckdb == expected.rows()
    with duckdb.connect(str(lake / "agent_pareto.duckdb"), read_only=True) as connection:
        assert connection.execute("FROM agent_points ORDER BY x").fetchall() == expected.rows()


def test_columns_keep_their_order_and_types_in_the_view(lake: Path) -> None:
    frame = pl.DataFrame(
        {
            "point_id": ["a"],
            "hardware": ["b200"],
            "tp": [8],
            "model": ["kimi"],
            "feasible": [True],
            "x": [0.5],
        }
    )
    with begin_release(lake) as writer:
        write_partitioned(writer, "agent_points", frame, by=KEYS)
        write_partitioned(writer, "agent_frontier", frame.clear(), by=KEYS)
        writer.publish(**FIELDS)
    expected = [
        ("point_id", "VARCHAR"), ("hardware", "VARCHAR"), ("tp", "BIGINT"), ("model", "VARCHAR"),
        ("feasible", "BOOLEAN"), ("x", "DOUBLE"),
    ]  # fmt: skip
    with duckdb.connect(str(lake / "agent_pareto.duckdb"), read_only=True) as connection:
        for view in ("agent_points", "agent_frontier"):
            assert [row[:2] for row in connection.execute(f"DESCRIBE {view}").fetchall()] == expected


def test_a_table_without_rows_is_readable_with_all_columns(lake: Path) -> None:
    frame = pl.DataFrame({"hardware": ["b200"], "model": ["kimi"], "x": [0.5]}).clear()
    with begin_release(lake) as writer:
        write_partitioned(writer, "agent_points", frame, by=KEYS)
        write_partitioned(writer, "serving_points", frame, by=KEYS)
        writer.write_table("quarantine", frame, folder=True)
        writer.write_table("models", frame)
        release = writer.publish(**FIELDS)
    for table in ("agent_points", "serving_points", "quarantine"):
        folder = release.path / table
        assert [path.name for path in folder.iterdir()] == ["part-0.parquet"]
        assert pl.scan_parquet(folder, hive_partitioning=True).collect().equals(frame)
        assert pyarrow.parquet.read_table(folder).column_names == frame.columns
        sql = f"SELECT hardware, model, x FROM read_parquet('{folder}/**/*.parquet', hive_partitioning = true)"
        assert rows_of(sql) == []
        assert release.manifest["tables"][table]["rows"] == 0
    with duckdb.connect(str(lake / "agent_pareto.duckdb"), read_only=True) as connection:
        for table in ("agent_points", "serving_points", "quarantine", "models"):
            described = connection.execute(f"DESCRIBE {table}").fetchall()
            assert [row[:2] for row in described] == [
                ("hardware", "VARCHAR"),
                ("model", "VARCHAR"),
                ("x", "DOUBLE"),
            ]
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchall() == [(0,)]


def test_comments_are_in_the_database(lake: Path) -> None:
    with begin_release(lake) as writer:
        write_partitioned(
            writer, "agent_points", pl.DataFrame({"hardware": ["b200"], "ttft_ms": [1.0]}), by=["hardware"]
        )
        writer.publish(
            **FIELDS,
            table_comments={"agent_points": "Serving points carried over to a scenario"},
            column_comments={"agent_points": {"ttft_ms": "Time to the first token; it's a mean", "hardware": "Slug"}},
        )
    with duckdb.connect(str(lake / "agent_pareto.duckdb"), read_only=True) as connection:
        columns = connection.execute("SELECT column_name, comment FROM duckdb_columns() WHERE NOT internal").fetchall()
        views = connection.execute("SELECT view_name, comment FROM duckdb_views() WHERE NOT internal").fetchall()
    assert columns == [("hardware", "Slug"), ("ttft_ms", "Time to the first token; it's a mean")]
    assert views == [("agent_points", "Serving points carried over to a scenario")]


def test_the_database_has_the_old_storage_version(lake: Path) -> None:
    """A file of version 1.0.0 is one that DuckDB 1.0 and later open; the default of 2.0 is not."""
    publish_number(lake, 1)
    assert STORAGE_VERSION == "v1.0.0"
    with duckdb.connect(str(lake / "agent_pareto.duckdb"), read_only=True) as connection:
        tags = connection.execute("SELECT tags FROM duckdb_databases() WHERE NOT internal").fetchall()
    assert tags[0][0]["storage_version"].startswith("v1.0.0")


READ_ELSEWHERE = """
import duckdb, sys
with duckdb.connect(sys.argv[1], read_only=True) as connection:
    print(connection.execute("SELECT count(*) FROM agent_points").fetchone()[0])
"""


def test_a_relative_lake_is_readable_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    publish_number(Path("lake"), 5)
    command = [sys.executable, "-c", READ_ELSEWHERE, "../here/lake/agent_pareto.duckdb"]
    result = subprocess.run(command, cwd=tmp_path / "elsewhere", capture_output=True, text=True, check=True)
    assert result.stdout == "7\n"


@pytest.mark.parametrize("name", ["it's a [lake] {of} *", "läke ☃", "a%20b=c;#", "releases"])
def test_lakes_in_folders_with_awkward_names(tmp_path: Path, name: str) -> None:
    lake = tmp_path / name / "lake"
    for number in (1, 2):
        publish_number(lake, number)
        assert seen_by_query(lake) == seen_by_database(lake) == number


def test_a_folder_that_duckdb_cannot_open_a_database_in(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"may not have a \? in it"):
        publish_number(tmp_path / "lake?", 1)
    assert list(tmp_path.iterdir()) == []


def test_a_lake_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    publish_number(tmp_path / "link", 3)
    (tmp_path / "link").unlink()
    assert seen_by_query(tmp_path / "real") == seen_by_database(tmp_path / "real") == 3


def test_a_moved_lake_is_queried_at_once_and_its_database_is_put_right_by_the_next_build(
    tmp_path: Path,
) -> None:
    publish_number(tmp_path / "old", 1)
    shutil.move(tmp_path / "old", tmp_path / "new")
    assert seen_by_query(tmp_path / "new") == 1
    with pytest.raises(duckdb.IOException):
        seen_by_database(tmp_path / "new")
    with begin_release(tmp_path / "new"):
        pass
    assert seen_by_database(tmp_path / "new") == 1


@pytest.mark.parametrize("damage", ["missing", "no database", "a foreign log"])
def test_a_damaged_database_is_put_right_by_the_next_build(lake: Path, damage: str) -> None:
    publish_number(lake, 1)
    database = lake / "agent_pareto.duckdb"
    if damage == "missing":
        database.unlink()
    elif damage == "no database":
        database.write_bytes(b"not a database" * 1000)
    else:
        (lake / "agent_pareto.duckdb.wal").write_bytes(b"not a log" * 1000)
    with begin_release(lake):
        pass
    assert seen_by_database(lake) == 1
    publish_number(lake, 2)
    assert seen_by_database(lake) == 2


def test_a_database_that_somebody_holds_open_is_replaced(lake: Path) -> None:
    publish_number(lake, 1)
    holder = subprocess.Popen(
        [sys.executable, "-c", "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print(1, flush=True); input()",
         str(lake / "agent_pareto.duckdb")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert holder.stdout is not None
    assert holder.stdout.readline() == "1\n"
    publish_number(lake, 2)
    holder.communicate("\n")
    assert seen_by_database(lake) == seen_by_query(lake) == 2


def test_tables_json_describes_the_files(lake: Path) -> None:
    release = publish_number(lake, 1)
    tables = json.loads((release.path / "tables.json").read_text())
    assert tables["agent_points"]["files"] == "agent_points/*/*/*.parquet"
    assert tables["agent_points"]["partitioned_by"] == ["hardware", "model"]
    assert [(c["name"], c["type"]) for c in tables["agent_points"]["columns"]] == [
        ("number", "INTEGER"),
        ("hardware", "VARCHAR"),
        ("model", "VARCHAR"),
        ("x", "DOUBLE"),
    ]
    assert tables["hardware"]["files"] == "hardware.parquet"


def test_glob_escaping() -> None:
    assert glob_escaped(Path("/a[1]/b*?")) == "/a[[]1]/b[*][?]"
    assert quote_text("it's") == "'it''s'"


@pytest.mark.parametrize("rows", [0, 3, SMALL_FILE_ROWS - 1, SMALL_FILE_ROWS])
def test_small_and_large_files_give_back_values_and_types(rows: int) -> None:
    frame = pl.DataFrame(
        {
            "measure": pl.int_range(rows, eager=True) / 3,
            "none": pl.Series([None] * rows, dtype=pl.Float64),
            "text": pl.int_range(rows, eager=True).cast(pl.String),
            "flag": pl.Series([row % 2 == 0 for row in range(rows)], dtype=pl.Boolean),
            "count": pl.Series(range(rows), dtype=pl.Int32),
            "at": pl.Series([datetime(2026, 1, 1, tzinfo=UTC)] * rows, dtype=pl.Datetime("us", "UTC")),
            "shares": pl.Series([[0.25, 0.75]] * rows, dtype=pl.List(pl.Float64)),
        }
    )
    content = io.BytesIO(encode(frame))
    read = pl.read_parquet(content)
    assert read.schema == frame.schema
    assert read.equals(frame)


def test_a_small_file_is_half_as_large_as_one_with_statistics_and_dictionaries() -> None:
    frame = pl.DataFrame({f"measure_{n}_ms": pl.int_range(24, eager=True) / (n + 3) for n in range(100)})
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd")
    assert len(encode(frame)) < 0.6 * len(buffer.getvalue())
