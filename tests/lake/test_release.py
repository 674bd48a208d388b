"""What a release holds, and what may not go into it."""

import json
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.lake import layout
from pipelines.lake.layout import RELEASE_ID_PATTERN, Lake, next_release_id
from pipelines.lake.reader import current_release, find_release, list_releases
from pipelines.lake.release import ReleaseWriter, begin_release
from schemas.errors import UserError
from tests.lake.factory import FIELDS, KEYS, points, publish_number, write_partitioned

FRAME = pl.DataFrame({"hardware": ["b200"], "model": ["kimi"], "x": [1.5]})


def files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_files_of_a_release(lake: Path) -> None:
    release = publish_number(lake, 2)
    assert release.path == lake / "releases" / release.id
    parts = ("hardware=h100-sxm/model=llama", "hardware=h100-sxm/model=kimi", "hardware=b200/model=kimi")
    assert files_in(release.path) == {
        "manifest.json",
        "tables.json",
        "SHA256SUMS",
        "DATA_DICTIONARY.md",
        "hardware.parquet",
        *(f"{table}/{part}/part-0.parquet" for table in ("agent_points", "agent_frontier") for part in parts),
    }
    assert json.loads((lake / "current.json").read_text())["release"] == release.id


def test_manifest(lake: Path) -> None:
    first = publish_number(lake, 1)
    second = publish_number(lake, 2)
    manifest = json.loads((second.path / "manifest.json").read_text())
    assert manifest == second.manifest
    assert manifest["id"] == second.id
    assert manifest["previous"] == first.id
    assert first.manifest["previous"] is None
    assert {key: manifest[key] for key in FIELDS} == FIELDS
    created = datetime.fromisoformat(manifest["created_at"])
    assert created.utcoffset() == timedelta(0)
    assert created.strftime("%Y%m%dT%H%M%S.%fZ") == second.id
    assert manifest["tables"]["agent_points"]["rows"] == 4
    assert manifest["tables"]["agent_points"]["files"] == 3
    on_disk = sum(path.stat().st_size for path in (second.path / "agent_points").rglob("*.parquet"))
    assert manifest["tables"]["agent_points"]["bytes"] == on_disk


def test_the_manifest_is_json_without_nan(lake: Path) -> None:
    with begin_release(lake) as writer:
        writer.write_table("hardware", FRAME)
        with pytest.raises(ValueError, match="JSON compliant"):
            writer.publish(**{**FIELDS, "config": {"reserve_fraction": float("nan")}})
    assert list_releases(lake) == []


def test_several_files_of_one_folder(lake: Path) -> None:
    with begin_release(lake) as writer:
        for _ in range(2):
            writer.write_table("quarantine", pl.DataFrame({"reason": ["unknown_gpu"]}), folder=True)
        release = writer.publish(**FIELDS)
    assert files_in(release.path) >= {
        "quarantine/part-0.parquet",
        "quarantine/part-1.parquet",
    }
    assert release.manifest["tables"]["quarantine"] == {
        "rows": 2,
        "files": 2,
        "bytes": sum(path.stat().st_size for path in (release.path / "quarantine").iterdir()),
    }


@pytest.mark.parametrize(
    "value",
    [
        "..", ".", "/etc", "a/b", "a\\b", "a\0b", "", "A", "3.1", "1a", "a b", "a?", "a=b", "a%2fb", "a\n", "é",
        "a" * 81, "__HIVE_DEFAULT_PARTITION__",
        "true", "false", "null", "none", "nan", "inf", "infinity", "epoch",
    ],
)  # fmt: skip
def test_partition_values_that_are_refused(lake: Path, value: str) -> None:
    with begin_release(lake) as writer:
        with pytest.raises(UserError, match="hardware"):
            write_partitioned(writer, "serving_points", FRAME.with_columns(hardware=pl.lit(value)), by=KEYS)
        assert files_in(writer.staging) == {"owner.lock"}
    assert {path.name for path in lake.parent.iterdir()} == {"lake"}


def test_a_null_partition_value_is_refused(lake: Path) -> None:
    frame = FRAME.with_columns(hardware=pl.lit(None, pl.String))
    with begin_release(lake) as writer, pytest.raises(UserError, match="'None' cannot be a partition value"):
        write_partitioned(writer, "agent_points", frame, by=KEYS)


@pytest.mark.parametrize("name", ["..", "/etc", "a/b", "a\0b", "", "A", "a-b", "a" * 64, "../x", "a\n"])
def test_names_that_are_refused(lake: Path, name: str) -> None:
    with begin_release(lake) as writer:
        with pytest.raises(ValueError, match="cannot name a table"):
            writer.write_table(name, FRAME)
        with pytest.raises(ValueError, match="cannot name a table"):
            write_partitioned(writer, "agent_points", FRAME.rename({"hardware": name}), by=[name])
        with pytest.raises(ValueError, match="cannot be a text file"):
            writer.write_text(name, "")


@pytest.mark.parametrize("name", ["manifest.json", "tables.json", "x.parquet", "../x.md", "owner.lock"])
def test_text_files_that_are_refused(lake: Path, name: str) -> None:
    with begin_release(lake) as writer, pytest.raises(ValueError, match="cannot be a text file"):
        writer.write_text(name, "")


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (FRAME.with_columns(x=pl.lit(1, pl.Int64)), "column x is Int64, but Float64"),
        (FRAME.with_columns(y=1), "column y is Int32, but None"),
        (FRAME.drop("x").with_columns(z=1.5), "column x is None, but Float64"),
        (FRAME.select("x", "hardware", "model"), "another order"),
        (FRAME.with_columns(x=pl.lit(float("nan"))), "NaN or infinity in x"),
        (FRAME.with_columns(x=pl.lit(float("-inf"))), "NaN or infinity in x"),
        (FRAME.with_columns(x=pl.lit(None)), "columns without a type: x"),
        (FRAME.select("hardware", "model"), "no column besides"),
    ],
)
def test_frames_that_are_refused(lake: Path, frame: pl.DataFrame, message: str) -> None:
    with begin_release(lake) as writer:
        write_partitioned(writer, "agent_points", FRAME, by=KEYS)
        with pytest.raises(ValueError, match=message):
            write_partitioned(writer, "agent_points", frame, by=KEYS)
        release = writer.publish(**FIELDS)
    assert release.manifest["tables"]["agent_points"]["rows"] == 1


def test_one_table_is_written_in_one_way(lake: Path) -> None:
    with begin_release(lake) as writer:
        writer.write_table("hardware", FRAME)
        with pytest.raises(ValueError, match="written twice"):
            writer.write_table("hardware", FRAME)
        with pytest.raises(ValueError, match="partitioned by"):
            writer.write_table("hardware", FRAME, folder=True)
        with pytest.raises(ValueError, match=r"partitioned by \(\) before, now by \('model',\)"):
            write_partitioned(writer, "hardware", FRAME, by=("model",))


def test_nothing_is_written_after_publication(lake: Path) -> None:
    with begin_release(lake) as writer:
        writer.write_table("hardware", FRAME)
        writer.publish(**FIELDS)
        with pytest.raises(RuntimeError, match="begin a new one"):
            writer.write_table("models", FRAME)
        with pytest.raises(RuntimeError, match="begin a new one"):
            writer.write_text("X.md", "")
        with pytest.raises(RuntimeError, match="begin a new one"):
            writer.publish(**FIELDS)


def test_a_comment_on_a_column_that_is_not_there(lake: Path) -> None:
    def publish(writer: ReleaseWriter, comments: dict[str, dict[str, str]]) -> None:
        writer.publish(**FIELDS, column_comments=comments)

    with begin_release(lake) as writer:
        writer.write_table("hardware", FRAME)
        with pytest.raises(ValueError, match="hardware: comments on columns that it does not have: y"):
            publish(writer, {"hardware": {"y": "no such"}})
        publish(writer, {"hardware": {"x": "there"}, "evaluation": {"y": "no such table this time"}})


def test_rows_that_vanish_before_publication_are_noticed(lake: Path) -> None:
    with begin_release(lake) as writer:
        write_partitioned(writer, "agent_points", points(2), by=KEYS)
        (writer.staging / "agent_points/hardware=b200/model=kimi/part-0.parquet").unlink()
        with pytest.raises(UserError, match=r"agent_points has 2 rows .*, but 4 were written"):
            writer.publish(**FIELDS)
    assert list_releases(lake) == []


def test_a_lake_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"lake .*file.* cannot be written"), begin_release(tmp_path / "file"):
        pass


FULL_DISK = """
import resource, sys
from pathlib import Path
import polars as pl
from pipelines.lake.release import begin_release
from schemas.errors import UserError
try:
    with begin_release(Path(sys.argv[1])) as writer:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        writer.write_table("hardware", pl.DataFrame({"x": pl.int_range(100_000, eager=True).shuffle(seed=1)}))
except UserError as error:
    print(error)
"""


def test_a_disk_that_takes_no_more(lake: Path) -> None:
    """A limit on the size of files stands for the full disk."""
    command = [sys.executable, "-c", FULL_DISK, str(lake)]
    result = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert result.stderr == ""
    assert re.match(r"The lake .* cannot be written: .*File too large.* try again\.$", result.stdout)
    assert list((lake / "releases").iterdir()) == []


def test_ids_grow_while_the_clock_goes_backwards(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime(2026, 4, 17, 12, 0, 0, 250_000, UTC)
    times = [now, now, now - timedelta(days=400), now + timedelta(seconds=1)]
    ids = []
    for number, time in enumerate(times):
        monkeypatch.setattr(layout, "utc_now", lambda time=time: time)
        ids.append(publish_number(lake, number).id)
    assert ids == [
        "20260417T120000.250000Z",
        "20260417T120000.250001Z",
        "20260417T120000.250002Z",
        "20260417T120001.250000Z",
    ]
    assert [release.manifest["created_at"][:10] for release in list_releases(lake)] == [
        "2026-04-17",
        "2026-04-17",
        "2025-03-13",
        "2026-04-17",
    ]


times = st.datetimes(datetime(1970, 1, 1), datetime(9000, 1, 1), timezones=st.just(UTC))


@given(st.lists(times, min_size=1, max_size=20))
def test_ids_are_unique_and_sorted_whatever_the_clock_does(clock: list[datetime]) -> None:
    ids: list[str] = []
    for now in clock:
        ids.append(next_release_id(ids[::-1], now))
    assert ids == sorted(set(ids))
    assert all(RELEASE_ID_PATTERN.fullmatch(release_id) for release_id in ids)


@given(times, times)
def test_ids_sort_by_time(one: datetime, other: datetime) -> None:
    assert (next_release_id([], one) < next_release_id([], other)) == (one < other)


@pytest.mark.parametrize("text", ["", "..", "../..", "x", "20260417T120000.250000Z/..", "20260417T120000.250000Z\n"])
def test_what_is_not_a_release_id(lake: Path, text: str) -> None:
    publish_number(lake, 1)
    with pytest.raises(UserError, match="is not a release ID"):
        find_release(lake, text)


def test_an_unknown_release_id_names_the_nearest(lake: Path) -> None:
    release = publish_number(lake, 1)
    with pytest.raises(UserError, match=rf"no complete release 20000101T000000\.000000Z; .* {release.id}"):
        find_release(lake, "20000101T000000.000000Z")


def test_folders_that_are_no_releases(lake: Path) -> None:
    release = publish_number(lake, 1)
    releases = lake / "releases"
    (releases / "notes").mkdir()
    (releases / "20990101T000000.000000Z").mkdir()  # no manifest
    (releases / "20990101T000000.000001Z").symlink_to(release.path)
    assert [found.id for found in list_releases(lake)] == [release.id]
    assert publish_number(lake, 2).id > "20990101T000000.000001Z"


def test_where_there_is_no_release(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no lake at .*/none: run `agent-pareto build --out"):
        current_release(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"empty holds no published release: run `agent-pareto build"):
        current_release(tmp_path / "empty")
    assert list_releases(tmp_path / "none") == []


def test_lake_paths_are_absolute_and_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    assert Lake.at(Path("link")).root == tmp_path.resolve() / "real"


def test_extra_fields_do_not_hide_the_manifests_own(lake: Path) -> None:
    fields: dict[str, Any] = {**FIELDS, "extra": {"counts": {"rows_in": 5}, "code_version": "other"}}
    with begin_release(lake) as writer:
        writer.write_table("hardware", FRAME)
        release = writer.publish(**fields)
    assert release.manifest["counts"] == {"rows_in": 5}
    assert release.manifest["code_version"] == "0.1.0"
