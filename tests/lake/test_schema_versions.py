"""Releases of several schema versions, read together and compared: a column that is added takes none away."""

import re
from pathlib import Path

import duckdb
import polars as pl
import pytest

from pipelines.lake.diff import diff_releases
from pipelines.lake.reader import current_release, list_releases
from pipelines.lake.release import begin_release
from schemas.tables import TABLES
from tests.lake.factory import FIELDS, write_partitioned
from tests.lake.test_diff import point, rows_of, source

OPERATION = Path(__file__).parents[2] / "docs" / "operation.md"
NEW_COLUMN = "usd_per_task"


def publish(lake: Path, version: str, points: list[dict[str, object]], without: tuple[str, ...] = ()) -> str:
    """A release whose tables of points lack some columns, as those of an earlier schema version do."""
    with begin_release(lake) as writer:
        for table in ("agent_points", "agent_frontier"):
            rows = rows_of(table, points).drop(without)
            write_partitioned(writer, table, rows, by=TABLES[table].partitions)
        writer.write_table("sources", sources(), folder=True)
        return writer.publish(**{**FIELDS, "schema_version": version}).id


def sources() -> pl.DataFrame:
    schema = {field.name: field.dtype for field in TABLES["sources"].fields}
    return pl.DataFrame([source("a.csv", 10)], schema=schema)


@pytest.fixture
def releases(lake: Path) -> tuple[str, str]:
    old = publish(lake, "1.0", [point(1), point(2)], without=(NEW_COLUMN, "cp"))
    new = publish(lake, "1.1", [point(1, 101.0, usd_per_task=0.5, cp=1), point(2, cp=1), point(4, cp=1)])
    (lake / "releases" / ".staging-0123" / "agent_frontier" / "hardware=x").mkdir(parents=True)
    return old, new


def test_releases_say_their_schema_version(lake: Path, releases: tuple[str, str]) -> None:
    said = {release.id: release.manifest["schema_version"] for release in list_releases(lake)}
    assert said == dict(zip(releases, ("1.0", "1.1"), strict=True))
    assert NEW_COLUMN not in pl.read_parquet_schema(
        next(lake.glob(f"releases/{releases[0]}/agent_points/**/*.parquet"))
    )


def test_the_documented_statement_reads_all_releases_together(lake: Path, releases: tuple[str, str]) -> None:
    (statement,) = re.findall(r"```sql\n(.*?union_by_name.*?)```", OPERATION.read_text(encoding="utf-8"), re.DOTALL)
    with duckdb.connect(":memory:") as connection:
        everything = connection.sql(statement.replace("'lake/", f"'{lake}/"))
        columns = everything.columns
        rows = connection.sql(
            f"SELECT release, hardware, count(*), count({NEW_COLUMN}), count(cp) FROM everything "
            "GROUP BY ALL ORDER BY ALL"
        ).fetchall()
    assert rows == [(releases[0], "h100-sxm", 2, 0, 0), (releases[1], "h100-sxm", 3, 1, 3)]
    assert set(columns) == {*TABLES["agent_frontier"].field_names, "filename", "release"}


def test_polars_reads_all_releases_together(lake: Path, releases: tuple[str, str]) -> None:
    frames = [
        pl.scan_parquet(f"{release.path}/agent_frontier/**/*.parquet", hive_partitioning=True)
        for release in list_releases(lake)
    ]
    together = pl.concat(frames, how="diagonal").collect()
    assert together[NEW_COLUMN].to_list().count(None) == 4
    assert together.height == 5


def test_releases_are_compared_by_what_both_have(lake: Path, releases: tuple[str, str]) -> None:
    diff = diff_releases(lake, *releases)
    assert [(table.gained, table.lost, table.moved) for table in diff.tables] == [(1, 0, 1)] * 2
    back = diff_releases(lake, *reversed(releases))
    assert [(table.gained, table.lost, table.moved) for table in back.tables] == [(0, 1, 1)] * 2
    assert current_release(lake).id == releases[1]
