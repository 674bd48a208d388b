"""Between releases: what was gained, lost and moved; a lake that was moved."""

import json
import shutil
from pathlib import Path

import duckdb
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from pipelines.cli import app
from pipelines.lake.diff import LostRows, TableDiff, diff_releases
from pipelines.lake.reader import current_release
from pipelines.lake.release import begin_release
from pipelines.lake.retention import relink
from schemas.errors import UserError
from schemas.frames import empty_frame
from schemas.tables import TABLES
from tests.lake.factory import FIELDS, publish_number, seen_by_database, seen_by_query, write_partitioned


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def rows_of(table: str, rows: list[dict[str, object]]) -> pl.DataFrame:
    """Rows of a table from the columns that matter here."""
    given = {"hardware": "h100-sxm", "model": "qwen3-32b", "scenario": "code-agent"}
    return pl.DataFrame([{**given, **row} for row in rows], schema=empty_frame(table).schema)


def publish(
    lake: Path, points: list[dict[str, object]], sources: list[dict[str, object]], partitions: object = None
) -> str:
    """A release of agent points, all of them on the frontier, and sources."""
    with begin_release(lake) as writer:
        for table in ("agent_points", "agent_frontier"):
            write_partitioned(writer, table, rows_of(table, points), by=TABLES[table].partitions)
        columns = empty_frame("sources").schema
        writer.write_table("sources", pl.DataFrame(sources, schema=columns), folder=True)
        extra = {} if partitions is None else {"partitions": partitions}
        return writer.publish(**FIELDS, extra=extra).id


def point(tp: int, latency: float = 100.0, **other: object) -> dict[str, object]:
    return {"point_id": f"{tp}-{latency}", "tp": tp, "turn_latency_ms": latency, "turns_per_s_per_gpu": 1.0, **other}


def source(path: str, read: int, quarantined: int = 0, **other: object) -> dict[str, object]:
    return {"path": path, "sha256": f"of {path}", "tool": "vllm", "rows_read": read, "rows_quarantined": quarantined,
            **other}  # fmt: skip


SOURCES = [source("a.csv", 10)]


def test_points_gained_lost_and_moved(lake: Path) -> None:
    first = publish(lake, [point(1), point(2), point(4), point(8)], SOURCES)
    # 1 is as before (another version, another id), 2 has moved, 4 has moved within rounding, 8 is lost
    again = [
        point(1, tool_version="2", point_id="x"), point(2, 101.0), point(4, 100.0 * (1 + 1e-12)), point(16), point(32)
    ]  # fmt: skip
    second = publish(lake, again, SOURCES)
    diff = diff_releases(lake, first, second)
    assert diff.tables == [TableDiff(name, 4, 5, 2, 1, 1) for name in ("agent_points", "agent_frontier")]
    back = diff_releases(lake, second, first)
    assert back.tables[0] == TableDiff("agent_points", 5, 4, 1, 2, 1)
    assert diff.lost_rows == back.lost_rows == []


def test_rows_that_are_alike_are_counted_one_by_one(lake: Path) -> None:
    first = publish(lake, [point(1), point(1)], SOURCES)
    second = publish(lake, [point(1)], SOURCES)
    assert diff_releases(lake, first, second).tables[0] == TableDiff("agent_points", 2, 1, 0, 1, 0)


def test_a_figure_that_is_gone_has_moved(lake: Path) -> None:
    first = publish(lake, [point(1)], SOURCES)
    second = publish(lake, [point(1, turns_per_s_per_gpu=None)], SOURCES)
    assert diff_releases(lake, first, second).tables[0] == TableDiff("agent_points", 1, 1, 0, 0, 1)


def test_only_partitions_of_other_inputs_are_read(lake: Path) -> None:
    key = "h100-sxm/qwen3-32b/code-agent"
    first = publish(lake, [point(1), point(2, hardware="b200")], SOURCES, {key: "x", "b200/qwen3-32b/code-agent": "y"})
    second = publish(lake, [point(4)], SOURCES, {key: "x"})  # it says that the partition is the same: believed
    diff = diff_releases(lake, first, second)
    assert diff.partitions_changed == 1
    assert diff.tables[0] == TableDiff("agent_points", 2, 1, 0, 1, 0)


@pytest.mark.parametrize(
    ("now", "alarm"),
    [
        ([source("a.csv", 10)], []),
        ([source("a.csv", 12)], []),
        ([source("a.csv", 9)], [LostRows("a.csv", "vllm", 10, 9)]),
        ([source("a.csv", 10, quarantined=4)], [LostRows("a.csv", "vllm", 10, 6)]),
        ([source("b.csv", 50)], [LostRows("a.csv", "vllm", 10, 0)]),
        ([source("renamed.csv", 10, sha256="of a.csv")], []),
        ([], [LostRows("a.csv", "vllm", 10, 0)]),
    ],
)
def test_a_source_that_loses_rows_is_an_alarm(lake: Path, now: list[dict[str, object]], alarm: list[LostRows]) -> None:
    first = publish(lake, [point(1)], SOURCES)
    second = publish(lake, [point(1)], now)
    assert diff_releases(lake, first, second).lost_rows == alarm
    result = run("releases", "diff", first, second, "--lake", lake)
    assert result.exit_code == (1 if alarm else 0)
    assert ("ALARM: a.csv (vllm) gives" in result.stderr) == bool(alarm)


def test_diff_as_json_and_as_a_table(lake: Path) -> None:
    first = publish(lake, [point(1)], SOURCES)
    second = publish(lake, [point(1), point(2)], SOURCES)
    content = json.loads(run("releases", "diff", first, second, "--lake", lake, "--format", "json").stdout)
    assert content["tables"][1] == {
        "table": "agent_frontier", "rows_before": 1, "rows_after": 2, "gained": 1, "lost": 0, "moved": 0,
    }  # fmt: skip
    shown = run("releases", "diff", first, second, "--lake", lake).stdout
    assert ["agent_frontier", "1", "2", "1", "0", "0"] in [line.split() for line in shown.splitlines()]


def test_where_by_how_much_and_because_of_what(lake: Path) -> None:
    """One file changed, of which H100 is read; an option too. B200's points are the same and are not named."""
    serving = {"source_file": "a.csv"}

    def release(latency: float, best: float, sha256: str, context: str) -> str:
        with begin_release(lake) as writer:
            points = [
                point(1, latency, tasks_per_hour_per_gpu=best, feasible=True),
                point(1, 100.0, tasks_per_hour_per_gpu=5.0, feasible=True, hardware="b200"),
            ]
            for table in ("agent_points", "agent_frontier"):
                write_partitioned(writer, table, rows_of(table, points), by=TABLES[table].partitions)
            given = {"hardware": "h100-sxm", "model": "qwen3-32b", **serving}
            rows = pl.DataFrame([given], schema=empty_frame("serving_points").schema)
            write_partitioned(writer, "serving_points", rows, by=TABLES["serving_points"].partitions)
            columns = empty_frame("sources").schema
            writer.write_table("sources", pl.DataFrame(SOURCES, schema=columns), folder=True)
            fields = {**FIELDS, "config": {"kv_context": context}, "inputs": [{"path": "a.csv", "sha256": sha256}]}
            return writer.publish(**fields, extra={"code": {"x.py": "1"}}).id

    first, second = release(100.0, 40.0, "a", "mean"), release(110.0, 36.0, "b", "p95")
    diff = diff_releases(lake, first, second)
    assert diff.causes == ["file a.csv: changed", "option kv_context: mean > p95"]
    (group,) = diff.groups
    assert (group.hardware, group.model, group.scenario, group.moved) == ("h100-sxm", "qwen3-32b", "code-agent", 1)
    assert group.turn_latency_change == pytest.approx(0.1)
    assert (group.best_before, group.best_after) == (40.0, 36.0)
    assert group.best_change == pytest.approx(-0.1)
    assert group.because == ["a.csv", "--kv-context"]
    shown = run("releases", "diff", first, second, "--lake", lake).stdout
    assert "40 > 36" in shown
    assert "-10  a.csv, --kv-context" in shown
    narrow = CliRunner().invoke(app, ["releases", "diff", first, second, "--lake", str(lake)], env={"COLUMNS": "80"})
    assert max(map(len, narrow.stdout.splitlines())) <= 80
    assert (
        run("releases", "diff", first, second, "--lake", lake, "--format", "csv")
        .stdout.splitlines()[1]
        .startswith("h100-sxm,qwen3-32b,code-agent,0,0,1,")
    )


def test_diff_with_a_release_that_is_not_there(lake: Path) -> None:
    first = publish(lake, [point(1)], SOURCES)
    with pytest.raises(UserError, match="has no complete release"):
        diff_releases(lake, first, "20200101T000000.000000Z")
    with pytest.raises(UserError, match="is not a release ID"):
        diff_releases(lake, "../x", first)


def test_a_moved_lake_is_relinked(lake: Path, tmp_path: Path) -> None:
    publish_number(lake, 1)
    publish_number(lake, 2)
    moved = tmp_path / "elsewhere"
    shutil.move(lake, moved)
    assert seen_by_query(moved) == 2
    with pytest.raises(duckdb.Error):
        seen_by_database(moved)
    result = run("releases", "relink", "--lake", moved)
    assert result.stdout == f"{moved} shows release {current_release(moved).id}.\n"
    assert seen_by_database(moved) == 2


def test_a_copy_shows_its_own_files_once_it_is_relinked(lake: Path, tmp_path: Path) -> None:
    publish_number(lake, 1)
    shutil.copytree(lake, tmp_path / "copy")
    relink(tmp_path / "copy")
    publish_number(lake, 2)
    shutil.rmtree(lake)
    assert seen_by_database(tmp_path / "copy") == seen_by_query(tmp_path / "copy") == 1


def test_relink_where_there_is_no_lake(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no lake"):
        relink(tmp_path)
