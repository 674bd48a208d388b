"""Damaged files of a lake: every command says what is wrong and what repairs it, and that command does."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.lake.query import open_lake
from pipelines.lake.reader import current_release, list_releases
from pipelines.lake.retention import prune, relink, rollback
from pipelines.lake.verify import verify_release
from schemas.errors import UserError
from schemas.options import BuildOptions
from tests.lake.factory import publish_number, seen_by_database, seen_by_query
from tests.pipelines.builds import build, write_small_table

ROOT = Path(__file__).parents[2]
SMALL_FILES = (
    "tables.json",
    "DATA_DICTIONARY.md",
    "partitions.json",
    "SHA256SUMS",
    "manifest.json",
    "hardware.parquet",
)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> BuildOptions:
    """A lake of one release, of one small table."""
    folder = tmp_path_factory.mktemp("pristine")
    (folder / "tables").mkdir()
    write_small_table(folder / "tables", "h200-qwen.csv", 4)
    options = BuildOptions(tables=(folder / "tables",), scenarios=("code-agent",), out=folder / "lake")
    build(options)
    return options


@pytest.fixture
def moved(pristine: BuildOptions, tmp_path: Path) -> BuildOptions:
    """A copy of it: its DuckDB file shows the place where it was."""
    shutil.copytree(pristine.out, tmp_path / "lake")
    return pristine.model_copy(update={"out": tmp_path / "lake"})


@pytest.mark.parametrize(("name", "full"), [*((name, False) for name in SMALL_FILES), ("tables.json", True)])
def test_a_build_notices_a_damaged_small_file_and_heals_a_moved_lake_of_one_release(
    moved: BuildOptions, name: str, full: bool
) -> None:
    path = current_release(moved.out).path / name
    content = path.read_bytes()
    path.write_bytes(content[:20] + bytes([content[20] ^ 1]) + content[21:])  # of the same size
    built = build(moved, full=full)
    assert built.release is not None
    assert verify_release(moved.out).whole
    assert seen_by_rows(moved.out) == 4
    assert build(moved).release is None


def seen_by_rows(lake: Path) -> int:
    with open_lake(lake) as connection:
        return int(next(connection.query("SELECT count(*) FROM serving_points").rows())[0])


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"t": 3}', '{"t": {"files": 1}}', "[" * 5000, None])
def test_every_command_names_the_one_that_repairs_a_damaged_description(lake: Path, content: str | None) -> None:
    publish_number(lake, 1)
    moved = lake.with_name("moved")
    lake.rename(moved)
    path = current_release(moved).path / "tables.json"
    path.unlink()
    if content is not None:
        path.write_text(content)
    words = r"tables\.json .*build --full --out .*moved"
    if content == "{}":  # tables that are none: `verify` tells
        assert verify_release(moved).damaged == ("tables.json",)
    else:
        for work in (lambda: seen_by_query(moved), lambda: relink(moved)):
            with pytest.raises(UserError, match=words):
                work()
    prune(moved, keep=1)
    publish_number(moved, 2)
    assert seen_by_query(moved) == seen_by_database(moved) == 2


def test_one_damaged_manifest_does_not_hide_the_other_releases(lake: Path) -> None:
    first, second = publish_number(lake, 1), publish_number(lake, 2)
    for content in ("", "[]", "{}", '{"tables": 3}', '{"tables": {"x": {}}, "created_at": 1}'):
        (first.path / "manifest.json").write_text(content)
        ran = CliRunner().invoke(app, ["releases", "list", "--lake", str(lake), "--format", "json"])
        assert ran.exit_code == 0, ran.exception
        assert [item["release"] for item in json.loads(ran.stdout)] == [first.id, second.id]
        assert re.search(rf"Warning: .*{first.id}/manifest\.json .* is damaged: `agent-pareto build --full", ran.stderr)
    assert prune(lake, keep=1).left_for_readers == [first.id]
    publish_number(lake, 3)
    assert len(list_releases(lake)) == 3


@pytest.mark.parametrize(
    "content",
    ["", "{", "3", "{}", '{"release": 3}', '{"release": null}', "[" * 5000, '{"release": "../x"}', "\udcff", "folder"],
)
def test_an_odd_pointer_is_a_sentence_and_rollback_writes_it_anew(lake: Path, content: str) -> None:
    release = publish_number(lake, 1)
    pointer = lake / "current.json"
    pointer.unlink()
    pointer.mkdir() if content == "folder" else pointer.write_bytes(content.encode("utf-8", "surrogateescape"))
    for work in (lambda: seen_by_query(lake), lambda: prune(lake, keep=1), lambda: relink(lake)):
        with pytest.raises(UserError, match=r"current\.json .*`agent-pareto releases rollback ID"):
            work()
    ran = CliRunner().invoke(app, ["releases", "list", "--lake", str(lake)])
    assert ran.exit_code == 0
    assert release.id in ran.stdout
    if content == "folder":
        pointer.rmdir()
    rollback(lake, release.id)
    assert seen_by_query(lake) == 1


@pytest.mark.parametrize("until", [3, [], {"20260101T000000.000000Z": 3}, {"20260101T000000.000000Z": "noon"}])
def test_odd_times_in_the_pointer(lake: Path, until: object) -> None:
    publish_number(lake, 1)
    second = publish_number(lake, 2)
    (lake / "current.json").write_text(json.dumps({"release": second.id, "current_until": until, "builder": "x"}))
    assert len(prune(lake, keep=1).left_for_readers) == 1
    publish_number(lake, 3)
    assert seen_by_query(lake) == 3


FULL_DISK = """
import resource, sys
from pathlib import Path
from schemas.errors import UserError
from tests.lake.factory import FIELDS, write_release
from pipelines.lake import publish
from pipelines.lake.release import begin_release
def limit(step):
    if step == "build_database":
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
publish.reached = limit
try:
    with begin_release(Path(sys.argv[1])) as writer:
        write_release(writer, 2)
        writer.publish(**FIELDS)
except UserError as error:
    print(error)
"""


def test_a_disk_that_is_full_when_the_duckdb_file_is_made(lake: Path) -> None:
    """A limit on the size of files stands for the full disk."""
    first = publish_number(lake, 1)
    ran = subprocess.run([sys.executable, "-c", FULL_DISK, str(lake)], cwd=ROOT, capture_output=True, text=True)
    assert ran.stderr == ""
    assert re.match(r"The DuckDB file of the lake .* cannot be written: .* make room .* try again\.$", ran.stdout)
    assert list_releases(lake) == [first]
    assert seen_by_query(lake) == seen_by_database(lake) == 1
    publish_number(lake, 3)
    assert seen_by_query(lake) == seen_by_database(lake) == 3
