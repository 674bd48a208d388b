"""Go back to an earlier release, and delete old ones without pulling them from under a reader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.lake import layout
from pipelines.lake.durable import disk_failures_explained
from pipelines.lake.layout import Lake
from pipelines.lake.locks import publish_lock
from pipelines.lake.publish import mend_database, remove_release, switch_to, tidy
from pipelines.lake.reader import Release, current_release, find_release, list_releases
from schemas.errors import UserError

if TYPE_CHECKING:
    from pipelines.object_store.lock import RemoteLock

GRACE = timedelta(hours=1)
"""How long after it has ceased to be current a release is left to those who still read it."""


@dataclass(frozen=True)
class Pruned:
    """What ``prune`` did: releases deleted, and those due but left because a reader may hold them."""

    deleted: list[str]
    left_for_readers: list[str]


def rollback(lake_path: Path, release_id: str, on_wait: Callable[[str], None] = lambda sentence: None) -> Release:
    """Make an existing release the current one, for ``query``, for the DuckDB file and for whoever reads
    ``current.json``.

    Nothing is deleted: rolling forward again is a rollback to the later ID. On an object store the builder's lock is
    taken for it; ``on_wait`` is told, once, where that is another's.
    """
    lake = _existing(lake_path)
    if lake.remote:
        from pipelines.object_store.retention import roll_back

        return roll_back(lake, release_id, on_wait)
    with disk_failures_explained(lake.root), publish_lock(lake):
        release = find_release(lake_path, release_id)
        switch_to(lake, release)
    return release


def relink(lake_path: Path) -> Release:
    """Make the DuckDB file of a lake that was moved or copied show its current release where that is now.

    Its views name files by absolute paths. Also finishes or undoes what dead processes have left.
    """
    lake = _existing(lake_path)
    if lake.remote:
        raise UserError(f"{lake.root} has no DuckDB file to relink: query it with `query --lake {lake.root}`.")
    with disk_failures_explained(lake.root), publish_lock(lake):
        tidy(lake)
        release = current_release(lake_path)
        mend_database(lake)
        return release


def prune(
    lake_path: Path,
    keep: int,
    grace: timedelta = GRACE,
    lock: RemoteLock | None = None,
    on_wait: Callable[[str], None] = lambda sentence: None,
) -> Pruned:
    """Delete all but the newest ``keep`` releases.

    Never deleted are the current release, wherever it stands, and one that has been current within ``grace``:
    a dashboard that opened it then may still be reading. A grace of zero is for when nobody reads. On an object store
    that is done under the builder's ``lock``, which is taken where the caller has none.
    """
    if keep < 1:
        raise UserError("prune keeps at least one release: give --keep 1 or more.")
    lake = _existing(lake_path)
    if lake.remote:
        from pipelines.object_store.retention import delete_releases, held
        from pipelines.object_store.retention import tidy as tidy_store

        with held(lake, lock, on_wait) as mine:
            tidy_store(lake, mine)
            pruned = _due(lake, keep, grace)
            delete_releases(lake, pruned.deleted, mine)
        return pruned
    with disk_failures_explained(lake.root), publish_lock(lake):
        tidy(lake)
        pruned = _due(lake, keep, grace)
        for release_id in pruned.deleted:
            remove_release(lake, lake.release(release_id))
    return pruned


def _due(lake: Lake, keep: int, grace: timedelta) -> Pruned:
    """Which releases are to be deleted, and which are left to readers for a while."""
    due = Pruned([], [])
    current = current_release(lake.root)  # with no current release it is not known what readers use
    said = layout.read_json_file(lake.current).get("current_until")
    until = said if isinstance(said, dict) else {}
    for release in list_releases(lake.root)[:-keep]:
        if release.id == current.id:
            continue
        still_read = grace and layout.utc_now() - _last_use(release, until.get(release.id)) < grace
        (due.left_for_readers if still_read else due.deleted).append(release.id)
    return due


def _last_use(release: Release, current_until: object) -> datetime:
    """When the release ceased to be current, or where nothing says so was made: that is in its ID."""
    try:
        moment = datetime.fromisoformat(current_until if isinstance(current_until, str) else "")
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    except ValueError:
        return datetime.strptime(release.id, layout.RELEASE_ID_FORMAT).replace(tzinfo=UTC)


def _existing(lake_path: Path) -> Lake:
    lake = Lake.at(lake_path)
    if not lake.releases.is_dir():
        raise UserError(f"There is no lake at {lake_path}.")
    return lake
