"""Faults of real builds: killed anywhere, disks that are full or read-only, files that change, clocks that go back."""

import ast
import multiprocessing
import os
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import duckdb
import pytest

from pipelines.building import build_inputs, incremental
from pipelines.lake import layout
from pipelines.lake.query import open_lake
from pipelines.lake.reader import current_release, list_releases
from pipelines.lake.retention import prune
from pipelines.reading.inputs import open_file
from schemas.errors import UserError
from schemas.options import BuildOptions
from tests.lake.factory import poll, publish_number
from tests.pipelines.builds import build, release_content, write_small_table, write_small_tables
from tests.pipelines.faults import build_and_die, build_often

#: How many of the moments of one kind a build is killed at, spread evenly; 0: all of them.
MOMENTS_OF_A_KIND = int(os.environ.get("AGENT_PARETO_KILLS_OF_A_KIND", "2"))
VERSIONS = (10, 12)


@pytest.fixture(scope="module")
def children() -> ForkServerContext:
    """Child processes that start fast."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.pipelines.faults", "tests.lake.factory"])
    return context


@pytest.fixture(autouse=True)
def fixed_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the children."""
    monkeypatch.setattr(incremental, "code_sha256", lambda: "the code")


@pytest.fixture
def options(tmp_path: Path) -> BuildOptions:
    tables = write_small_tables(tmp_path / "tables", rows=VERSIONS[0])
    return BuildOptions(tables=(tables,), scenarios=("code-agent",), out=tmp_path / "lake")


def write_version(options: BuildOptions, rows: int) -> None:
    write_small_table(options.tables[0], "h100-qwen.csv", rows)


def run_child(children: ForkServerContext, target: Callable[..., Any], *args: Any) -> int:
    process = children.Process(target=target, args=args)
    process.start()
    process.join(120)
    assert process.exitcode is not None, "the child hangs"
    return process.exitcode


def chosen(moments: list[str]) -> list[tuple[str, int]]:
    """The moments to die at: of each kind the first, the last and some between."""
    picked = []
    for name, calls in Counter(moments).items():
        count = min(calls, MOMENTS_OF_A_KIND or calls)
        picked += [(name, round(i * (calls - 1) / max(count - 1, 1))) for i in range(count)]
    return picked


@pytest.mark.slow
def test_killed_at_every_stage_nothing_is_lost_or_mixed(
    options: BuildOptions, tmp_path: Path, children: ForkServerContext
) -> None:
    given = options.model_dump(mode="json")
    contents = []
    for rows in VERSIONS:
        write_version(options, rows)
        build(options.model_copy(update={"out": tmp_path / f"of-{rows}"}))
        contents.append(release_content(tmp_path / f"of-{rows}"))
    assert contents[0] != contents[1]
    counts = [rows_in_database(tmp_path / f"of-{rows}") for rows in VERSIONS]
    write_version(options, VERSIONS[0])
    build(options)
    write_version(options, VERSIONS[1])
    shutil.copytree(options.out, tmp_path / "copy")
    copy = {**given, "out": str(tmp_path / "copy")}
    assert run_child(children, build_and_die, copy, None, tmp_path / "moments") == 0
    moments = (tmp_path / "moments").read_text().splitlines()
    shows, kills = 0, 0
    for name, number in chosen(moments):
        write_version(options, VERSIONS[1 - shows])
        code = run_child(children, build_and_die, given, (name, number))
        # an earlier kill leaves more or less to tidy up, so that the last call of a kind may not come
        assert code == -signal.SIGKILL or (code == 0 and number > 0), name
        kills += code == -signal.SIGKILL
        content = release_content(options.out)
        assert content in contents, f"a mix after a kill at {name} {number}"
        assert code == 0 or content == contents[shows] or not before_publication(name), name
        assert rows_in_database(options.out) in counts
        shows = contents.index(content)
    assert kills >= 0.9 * len(chosen(moments))
    print(f"{kills} injected kills at {len(set(moments))} kinds of {len(moments)} moments")
    write_version(options, VERSIONS[1 - shows])
    build(options)
    assert release_content(options.out) == contents[1 - shows]
    assert rows_in_database(options.out) == counts[1 - shows]
    assert_no_leftovers(options.out)


def before_publication(moment: str) -> bool:
    """Whether a build that dies at this moment has certainly not published."""
    return not moment.startswith("os.") and moment not in ("reached:replace_database", "reached:done")


def rows_in_database(lake: Path) -> tuple[Any, ...]:
    """What the DuckDB file shows, by the views alone."""
    with duckdb.connect(str(lake / "agent_pareto.duckdb"), read_only=True) as connection:
        sql = "SELECT count(*), round(sum(sessions), 6) FROM agent_points"
        return (*connection.execute(sql).fetchall()[0], connection.execute("SELECT count(*) FROM sources").fetchall())


def assert_no_leftovers(lake: Path) -> None:
    assert {path.name for path in lake.iterdir()} == {
        "releases", "agent_pareto.duckdb", "current.json", ".publish.lock"
    }  # fmt: skip
    releases = list((lake / "releases").iterdir())
    assert [path.name for path in releases if path.name.startswith(".")] == []
    assert [path for folder in releases for path in folder.rglob("*.aside")] == []


def test_two_builders_at_once(options: BuildOptions, children: ForkServerContext) -> None:
    build(options)
    content = release_content(options.out)
    given = options.model_dump(mode="json")
    builders = [children.Process(target=build_often, args=(given, 2)) for _ in range(2)]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join(120)
    assert [builder.exitcode for builder in builders] == [0, 0]
    releases = list_releases(options.out)
    assert len(releases) == 5
    assert [release.manifest["previous"] for release in releases] == [None, *(r.id for r in releases[:-1])]
    assert release_content(options.out) == content


@pytest.mark.slow
def test_a_reader_polls_through_50_publishes(tmp_path: Path, children: ForkServerContext) -> None:
    lake, stop, report = tmp_path / "lake", tmp_path / "stop", tmp_path / "report"
    publish_number(lake, 1)
    reader = children.Process(target=poll, args=(lake, stop, report))
    reader.start()
    for number in range(2, 52):
        publish_number(lake, number)
    stop.touch()
    reader.join(60)
    reads, torn, seen = ast.literal_eval(report.read_text(encoding="utf-8"))
    print(f"{reads} reads over 50 publishes, {len(torn)} torn")
    assert torn == []
    assert reads > 50
    for numbers in seen.values():
        assert numbers == sorted(numbers)
        assert len(set(numbers)) > 5
        assert numbers[-1] == 51


@contextmanager
def mounted(folder: Path, size: str) -> Iterator[Path]:
    """A small file system in memory; the test is skipped where it cannot be mounted."""
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if made.returncode:
        pytest.skip(f"no file system can be mounted here: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    if shutil.which("mount") is None:
        pytest.skip("no `mount` here")
    with mounted(tmp_path / "disk", "8m") as folder:
        yield folder


def test_a_full_disk_is_said_and_harms_nothing(options: BuildOptions, disk: Path) -> None:
    options = options.model_copy(update={"out": disk / "lake"})
    build(options)
    content, first = release_content(options.out), current_release(options.out).id
    write_version(options, VERSIONS[1])
    failed = 0
    for free in (0, 8, 24, 48, 96, 160, 260):
        filler = disk / "filler"
        with filler.open("wb") as file:
            size = max(shutil.disk_usage(disk).free - free * 1024, 0)
            file.write(bytes(size))
        try:
            build(options, full=True)
        except UserError as error:
            assert "cannot be written: No space left on device" in str(error)  # noqa: PT017 - counted
            assert "What was published before is unchanged" in str(error)  # noqa: PT017
            failed += 1
            assert current_release(options.out).id == first
            assert release_content(options.out) == content
        else:
            break
        finally:
            filler.unlink()
    print(f"{failed} full disks")
    assert failed >= 3
    build(options, full=True)
    assert release_content(options.out) != content
    assert_no_leftovers(options.out)


def test_a_read_only_lake_is_read_and_not_written(options: BuildOptions, disk: Path) -> None:
    options = options.model_copy(update={"out": disk / "lake"})
    build(options)
    content = release_content(options.out)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    write_version(options, VERSIONS[1])
    with pytest.raises(UserError, match=r"cannot be written: Read-only file system .*give write access"):
        build(options)
    with pytest.raises(UserError, match="Read-only file system"):
        prune(options.out, 1)
    assert release_content(options.out) == content
    with open_lake(options.out) as lake:
        ((points,),) = lake.query("SELECT count(*) FROM agent_points").rows()
    assert rows_in_database(options.out)[0] == points > 0


def test_a_file_that_changes_while_it_is_read_is_rejected_alone(
    options: BuildOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    changing = options.tables[0] / "h100-qwen.csv"
    read_bytes = Path.read_bytes

    def read_and_append(path: Path) -> bytes:
        content = read_bytes(path)
        if path.name == changing.name:
            with path.open("ab") as file:
                file.write(content.splitlines(keepends=True)[-1])
        return content

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", read_and_append)
        build(options)
    with open_lake(options.out) as lake:
        rejected = list(
            lake.query("SELECT path, rejected_reason FROM sources WHERE rejected_reason IS NOT NULL").rows()
        )
        assert list(lake.query("SELECT DISTINCT hardware FROM agent_points").rows()) == [("h200-sxm",)]
    assert rejected == [(changing.name, "the file changed while it was read; build again when it is complete")]
    assert build(options).release is not None  # the next build sees the whole file
    with open_lake(options.out) as lake:
        assert next(lake.query("SELECT count(*) FROM sources WHERE rejected_reason IS NOT NULL").rows()) == (0,)
        assert next(lake.query("SELECT count(DISTINCT hardware) FROM agent_points").rows()) == (2,)


def test_a_file_that_changes_between_two_looks_is_looked_at_again(
    options: BuildOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (options.tables[0] / "h100-qwen.csv").read_bytes()
    read = build_inputs.read

    def change_and_read(found: build_inputs.BuildSources, threads: int | None = None) -> build_inputs.Prepared:
        write_version(options, VERSIONS[1])
        return read(found, threads)

    with monkeypatch.context() as patched:
        patched.setattr(build_inputs, "read", change_and_read)
        build(options)
    changed = release_content(options.out)
    (options.tables[0] / "h100-qwen.csv").write_bytes(before)  # as it was when it was hashed
    assert build(options).release is not None
    assert release_content(options.out) != changed


def test_a_corrupt_partition_is_a_sentence_for_its_readers(options: BuildOptions) -> None:
    build(options)
    release = current_release(options.out).path
    victim = sorted((release / "agent_points").rglob("*.parquet"))[0]
    content = victim.read_bytes()
    victim.write_bytes(content[:-4] + b"oops")
    with pytest.raises(UserError, match=r"[A-Za-z]"), open_lake(options.out) as lake:
        list(lake.query("SELECT sum(sessions) FROM agent_points").rows())


@pytest.mark.parametrize("back", [timedelta(seconds=1), timedelta(days=400)])
def test_a_clock_that_goes_back(options: BuildOptions, monkeypatch: pytest.MonkeyPatch, back: timedelta) -> None:
    first = build(options).release
    now = layout.utc_now

    def earlier() -> datetime:
        return now() - back

    monkeypatch.setattr(layout, "utc_now", earlier)
    write_version(options, VERSIONS[1])
    second = build(options)
    assert second.release is not None
    assert [release.id for release in list_releases(options.out)] == [first, second.release]
    assert current_release(options.out).id == second.release
    assert len(second.computed) == 1
    assert build(options).release is None
    assert prune(options.out, 1, timedelta(0)).deleted == [first]


def test_open_file_takes_what_stays_as_it_is(options: BuildOptions) -> None:
    found = build_inputs.find(options).files[0]
    assert open_file(found).content == found.path.read_bytes()
