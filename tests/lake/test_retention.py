"""Rollback and prune."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pipelines.lake import layout
from pipelines.lake.reader import Release, current_release, list_releases
from pipelines.lake.retention import prune, rollback
from schemas.errors import UserError
from tests.lake.factory import publish_number, seen_by_database, seen_by_query

START = datetime(2026, 4, 17, 2, 0, 0, tzinfo=UTC)


class Clock:
    """The lake's clock, moved by hand."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(layout, "utc_now", clock)
    return clock


def publish_nightly(lake: Path, clock: Clock, nights: int) -> list[Release]:
    """One release a night; the clock then stands at the moment of the last one."""
    releases = []
    for night in range(nights):
        clock.now = START + timedelta(days=night)
        releases.append(publish_number(lake, night))
    return releases


def ids(lake: Path) -> list[str]:
    return [release.id for release in list_releases(lake)]


def test_rollback_and_forward(lake: Path, clock: Clock) -> None:
    first, second = publish_nightly(lake, clock, 2)
    assert rollback(lake, first.id) == first == current_release(lake)
    assert seen_by_query(lake) == seen_by_database(lake) == 0
    assert ids(lake) == [first.id, second.id]
    rollback(lake, second.id)
    assert seen_by_query(lake) == seen_by_database(lake) == 1
    rollback(lake, first.id)
    third = publish_number(lake, 2)
    assert third.manifest["previous"] == first.id
    assert third.id > second.id


def test_rollback_to_what_is_not_there(lake: Path, tmp_path: Path) -> None:
    publish_number(lake, 1)
    with pytest.raises(UserError, match="no complete release"):
        rollback(lake, "20000101T000000.000000Z")
    with pytest.raises(UserError, match="not a release ID"):
        rollback(lake, "../../etc")
    with pytest.raises(UserError, match="There is no lake"):
        rollback(tmp_path / "none", "20000101T000000.000000Z")
    assert seen_by_query(lake) == seen_by_database(lake) == 1


def test_a_lake_that_cannot_be_written(lake: Path) -> None:
    release = publish_number(lake, 1)
    (lake / ".publish.lock").unlink()
    (lake / ".publish.lock").mkdir()
    with pytest.raises(UserError, match=r"cannot be written: Is a directory"):
        rollback(lake, release.id)
    with pytest.raises(UserError, match=r"cannot be written: Is a directory"):
        prune(lake, keep=1)
    assert seen_by_query(lake) == 1


def test_rollback_mends_a_lost_pointer(lake: Path) -> None:
    release = publish_number(lake, 1)
    (lake / "current.json").unlink()
    with pytest.raises(UserError, match="choose one with `releases rollback ID`"):
        seen_by_query(lake)
    rollback(lake, release.id)
    assert seen_by_query(lake) == 1


def test_prune_keeps_the_newest(lake: Path, clock: Clock) -> None:
    releases = publish_nightly(lake, clock, 5)
    clock.now += timedelta(hours=2)
    pruned = prune(lake, keep=2)
    assert pruned.deleted == [release.id for release in releases[:3]]
    assert pruned.left_for_readers == []
    assert ids(lake) == [release.id for release in releases[3:]]
    assert {path.name for path in (lake / "releases").iterdir()} == set(ids(lake))
    assert seen_by_query(lake) == seen_by_database(lake) == 4
    assert prune(lake, keep=2).deleted == []


def test_prune_leaves_what_was_current_a_moment_ago(lake: Path, clock: Clock) -> None:
    """The release of last night is a day old, but a dashboard may have opened it a minute ago."""
    releases = publish_nightly(lake, clock, 3)
    clock.now += timedelta(minutes=59)
    pruned = prune(lake, keep=1)
    assert pruned.deleted == [releases[0].id]
    assert pruned.left_for_readers == [releases[1].id]
    clock.now += timedelta(minutes=1)
    assert prune(lake, keep=1).deleted == [releases[1].id]


def test_prune_without_grace(lake: Path, clock: Clock) -> None:
    releases = publish_nightly(lake, clock, 3)
    assert prune(lake, keep=1, grace=timedelta(0)).deleted == [release.id for release in releases[:2]]


def test_prune_never_deletes_the_current_release(lake: Path, clock: Clock) -> None:
    releases = publish_nightly(lake, clock, 4)
    rollback(lake, releases[0].id)
    clock.now += timedelta(days=1)
    pruned = prune(lake, keep=1, grace=timedelta(0))
    assert pruned.deleted == [releases[1].id, releases[2].id]
    assert ids(lake) == [releases[0].id, releases[3].id]
    assert seen_by_query(lake) == seen_by_database(lake) == 0


def test_prune_after_the_clock_went_backwards_deletes_nothing_of_the_future(lake: Path, clock: Clock) -> None:
    releases = publish_nightly(lake, clock, 3)
    clock.now = START - timedelta(days=300)
    pruned = prune(lake, keep=1)
    assert pruned.deleted == []
    assert pruned.left_for_readers == [release.id for release in releases[:2]]
    assert prune(lake, keep=1, grace=timedelta(0)).deleted == pruned.left_for_readers


def test_prune_needs_to_know_what_is_current(lake: Path, clock: Clock) -> None:
    releases = publish_nightly(lake, clock, 3)
    (lake / "current.json").unlink()
    with pytest.raises(UserError, match="choose one"):
        prune(lake, keep=1, grace=timedelta(0))
    with pytest.raises(UserError, match="--keep 1 or more"):
        prune(lake, keep=0)
    assert ids(lake) == [release.id for release in releases]


def test_the_pointer_remembers_until_when_each_release_was_current(lake: Path, clock: Clock) -> None:
    first, second, third = publish_nightly(lake, clock, 3)
    pointer = json.loads((lake / "current.json").read_text())
    assert pointer == {
        "release": third.id,
        "since": "2026-04-19T02:00:00+00:00",
        "current_until": {first.id: "2026-04-18T02:00:00+00:00", second.id: "2026-04-19T02:00:00+00:00"},
    }
    clock.now += timedelta(days=1)
    prune(lake, keep=1)
    fourth = publish_number(lake, 4)
    pointer = json.loads((lake / "current.json").read_text())
    assert pointer["current_until"] == {third.id: "2026-04-20T02:00:00+00:00"}
    assert pointer["release"] == fourth.id
