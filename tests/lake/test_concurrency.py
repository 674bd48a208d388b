"""Readers and builders at the same time."""

import ast
import json
import os
import socket
import time
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from pipelines.lake import publish
from pipelines.lake.layout import Lake
from pipelines.lake.locks import publish_lock
from pipelines.lake.reader import current_release, list_releases
from pipelines.lake.release import begin_release
from schemas.errors import UserError
from tests.lake.factory import (
    FIELDS,
    poll,
    publish_many,
    publish_number,
    seen_by_database,
    seen_by_query,
    whole_number,
    write_release,
)


@pytest.mark.slow
def test_a_polling_reader_sees_whole_releases_only_and_never_an_older_one(
    lake: Path, tmp_path: Path, children: ForkServerContext
) -> None:
    publish_number(lake, 1)
    stop, report = tmp_path / "stop", tmp_path / "report"
    reader = children.Process(target=poll, args=(lake, stop, report))
    reader.start()
    for number in range(2, 16):
        publish_number(lake, number)
    stop.touch()
    reader.join(60)
    assert reader.exitcode == 0
    reads, torn, seen = ast.literal_eval(report.read_text(encoding="utf-8"))
    print(f"{reads} reads over 14 publishes, {len(torn)} torn")
    assert torn == []
    assert reads >= 12
    for numbers in seen.values():
        assert numbers == sorted(numbers)
        assert numbers[-1] == 15
    assert len(set(seen["query"])) > 2  # it did read while releases changed


def test_two_publishers_at_once(lake: Path, children: ForkServerContext) -> None:
    builders = [children.Process(target=publish_many, args=(lake, numbers)) for numbers in ([1, 2, 3, 4], [5, 6, 7, 8])]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join(60)
    assert [builder.exitcode for builder in builders] == [0, 0]
    releases = list_releases(lake)
    assert sorted(whole_number(release.path) for release in releases) == [1, 2, 3, 4, 5, 6, 7, 8]
    # Each release names the one that was current before it: nobody published over another's head.
    assert [release.manifest["previous"] for release in releases] == [None, *(r.id for r in releases[:-1])]
    assert current_release(lake) == releases[-1]
    assert seen_by_query(lake) == seen_by_database(lake) == whole_number(releases[-1].path)


def test_a_build_that_is_under_way_is_left_alone(lake: Path) -> None:
    with begin_release(lake) as slow:
        write_release(slow, 1)
        quick = publish_number(lake, 2)
        assert slow.staging.is_dir()
        late = slow.publish(**FIELDS)
    assert late.id > quick.id
    assert late.manifest["previous"] == quick.id
    assert seen_by_query(lake) == seen_by_database(lake) == 1


def test_a_publisher_waits_for_the_other_and_says_so_in_the_end(lake: Path) -> None:
    publish_number(lake, 1)
    with (
        publish_lock(Lake.at(lake)),
        pytest.raises(UserError, match=r"has been publishing to .* wait until it has ended"),
        publish_lock(Lake.at(lake), wait_s=0.05),
    ):
        pass
    publish_number(lake, 2)


def staging_of(lake: Path, owner: dict[str, object] | None, age_s: float = 0.0) -> Path:
    """A staging folder as a build elsewhere leaves it, last changed ``age_s`` ago."""
    staging = lake / "releases" / ".staging-0123"
    (staging / "agent_points").mkdir(parents=True)
    if owner is not None:
        (staging / "owner.lock").write_text(json.dumps(owner))
    for path in [*staging.rglob("*"), staging]:
        os.utime(path, times=(time.time() - age_s,) * 2)
    return staging


DAY_S = 24 * 3600
THIS_HOST = {"host": socket.gethostname(), "boot_id": "before the restart", "pid": 1}
OTHER_HOST = {"host": "some-other-host", "boot_id": "its own", "pid": 1}


@pytest.mark.parametrize(
    ("owner", "age_s", "removed"),
    [
        (None, 0, True),  # between taking the mark away and the rename: only a dead process stops there
        (THIS_HOST, 0, True),
        (OTHER_HOST, 0, False),
        (OTHER_HOST, 6 * DAY_S, False),
        (OTHER_HOST, 8 * DAY_S, True),
    ],
)
def test_staging_folders_of_others(lake: Path, owner: dict[str, object] | None, age_s: float, removed: bool) -> None:
    publish_number(lake, 1)
    staging = staging_of(lake, owner, age_s)
    with begin_release(lake):
        assert staging.exists() != removed


def test_a_staging_folder_of_another_container_on_this_machine_is_judged_by_its_lock(lake: Path) -> None:
    boot_id = Path("/proc/sys/kernel/random/boot_id")
    if not boot_id.exists():
        pytest.skip("this system has no boot ID")
    publish_number(lake, 1)
    staging = staging_of(lake, {"host": "some-container", "boot_id": boot_id.read_text().strip(), "pid": 1})
    with begin_release(lake):
        assert not staging.exists()


def test_a_build_that_dies_in_its_first_moment(lake: Path) -> None:
    publish_number(lake, 1)
    staging = staging_of(lake, {})
    (staging / "owner.lock").write_text("")
    with begin_release(lake):
        assert not staging.exists()


def test_half_deleted_releases_and_half_written_files_are_removed(lake: Path) -> None:
    release = publish_number(lake, 1)
    (lake / "releases" / ".deleting-20000101T000000.000000Z" / "agent_points").mkdir(parents=True)
    (lake / ".aside-current.json").write_text("{")
    (lake / ".aside-agent_pareto.duckdb.wal").write_text("x")
    (lake / "notes.txt").write_text("mine")
    with publish_lock(Lake.at(lake)):
        publish.tidy(Lake.at(lake))
    assert [path.name for path in (lake / "releases").iterdir()] == [release.id]
    assert sorted(path.name for path in lake.iterdir()) == [
        ".publish.lock",
        "agent_pareto.duckdb",
        "current.json",
        "notes.txt",
        "releases",
    ]
