"""Put a finished staging folder in place as the newest release, so that a crash at any moment harms nobody.

The steps, in this order, from the third under the publish lock:

1. ``sync_files``: flush every staged file and folder.
2. ``check_tables``: count the staged rows with DuckDB, which did not write them, and write ``tables.json``.
3. ``write_manifest``: ``manifest.json``, the last file of the release, flushed.
4. ``rename``: the staging folder becomes ``releases/ID`` in one step.
5. ``build_database``: the views over the new release, in a file beside the live one, flushed.
6. ``write_current``: ``current.json`` is replaced in one step. This is the moment of publication.
7. ``replace_database``: ``agent_pareto.duckdb`` is replaced in one step.

A crash before 4 leaves a staging folder, which no reader looks at and the next build removes. Between 4 and 6
it leaves a complete release that nothing points to: it is listed, can be rolled forward to, and is pruned
like any other. Between 6 and 7 ``current.json`` names the new release and the DuckDB file still shows the one
before it: both are complete, neither changes, and the next build puts the file right before it does anything
else. So whoever reads sees one whole release, and never an older one after a newer one. An error, as opposed
to a crash, before 6 takes the new release away again.
"""

import os
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipelines.lake import layout
from pipelines.lake.durable import replace_file, sync_path, sync_tree, write_json_file
from pipelines.lake.layout import ASIDE_PREFIX, DELETING_PREFIX, STAGING_PREFIX, Lake
from pipelines.lake.locks import Builder, is_dead, publish_lock
from pipelines.lake.reader import Release, current_id, last_builder
from pipelines.lake.verify import write_manifest
from pipelines.lake.views import build_database, shows_release
from schemas.errors import UserError

STEPS = (
    "sync_files",
    "check_tables",
    "write_manifest",
    "rename",
    "build_database",
    "write_current",
    "replace_database",
    "done",
)


def reached(step: str) -> None:
    """Called before each of ``STEPS`` and once after the last; the crash tests put a killer here."""


def publish_staging(
    lake: Lake,
    staging: Path,
    manifest: Mapping[str, Any],
    write_tables: Callable[[Path], None],
    release_owner: Callable[[], None],
    builder: Builder | None = None,
) -> Release:
    """Take the steps above; waits for the publish lock when the slow part, 1 and 2, is done.

    ``manifest`` is what the caller knows; ID, time and previous release are added here. ``write_tables`` does step 2
    and ``release_owner`` takes the owner's mark out of the staging folder. Raises ``UserError`` where the ``builder``
    has lost its lock, or a later one has published: that is asked under the publish lock, under which a lock changes
    hands, so asking and publishing are one step.
    """
    reached("sync_files")
    sync_tree(staging)
    reached("check_tables")
    write_tables(staging)
    with publish_lock(lake):
        check_builder(lake, builder)
        release_owner()
        reached("write_manifest")
        now = layout.utc_now().astimezone(UTC)
        release = _named_release(lake, now)
        content = {"id": release.id, "created_at": now.isoformat(), "previous": _pointed_at(lake), **manifest}
        write_manifest(staging, content)
        sync_path(staging)
        reached("rename")
        os.rename(staging, release.path)
        try:
            sync_path(lake.releases)
            switch_to(lake, release, builder)
        except BaseException as error:
            if _pointed_at(lake) != release.id:
                remove_release(lake, release.path)
            elif isinstance(error, OSError):
                raise UserError(
                    f"Release {release.id} is published, but {lake.database} could not be replaced "
                    f"({error.strerror}): it still shows the release before. The next build puts it right."
                ) from error
            raise
        reached("done")
    return release


def check_builder(lake: Lake, builder: Builder | None) -> None:
    """Raises ``UserError`` where the builder may not publish any more. The caller holds the publish lock."""
    if builder is None:
        return
    builder.check()
    if (last := last_builder(lake)) > builder.number:
        raise UserError(
            f"Builder {last} of {lake.root} has published since this one, number {builder.number}, began: its release "
            "stays. This build has published nothing; run it again."
        )


def switch_to(lake: Lake, release: Release, builder: Builder | None = None) -> None:
    """Make a complete release the current one (steps 5 to 7). The caller holds the publish lock."""
    reached("build_database")
    database = _build_aside(lake, release)
    reached("write_current")
    current = lake.aside(lake.current)
    write_json_file(current, pointer_to(lake, release.id, builder))
    replace_file(current, lake.current)
    reached("replace_database")
    _replace_database(lake, database)


def tidy(lake: Lake) -> None:
    """Finish or undo what dead processes have left. The caller holds the publish lock.

    Removes staging folders of dead owners, half-written files and half-deleted releases.
    """
    for path in lake.root.glob(f"{ASIDE_PREFIX}*"):
        path.unlink(missing_ok=True)
    for path in lake.releases.glob(f"{DELETING_PREFIX}*"):
        shutil.rmtree(path, ignore_errors=True)
    for path in lake.releases.glob(f"{STAGING_PREFIX}*"):
        if is_dead(path, time.time()):
            shutil.rmtree(path, ignore_errors=True)


def mend_database(lake: Lake) -> None:
    """Makes the DuckDB file show the release that ``current.json`` names, also after the lake has been moved.

    The caller holds the publish lock. Raises ``UserError`` where that release is damaged.
    """
    release_id = _pointed_at(lake)
    if release_id is not None and release_id in lake.release_ids():
        release = Release(release_id, lake.release(release_id))
        if not shows_release(lake.database, release.path):
            _replace_database(lake, _build_aside(lake, release))


def remove_release(lake: Lake, path: Path) -> None:
    """Take a release away in one step, then delete it. The caller holds the publish lock."""
    doomed = lake.releases / f"{DELETING_PREFIX}{path.name}"
    os.rename(path, doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def _pointed_at(lake: Lake) -> str | None:
    """As ``current_id``, but a damaged ``current.json`` counts as none: it is about to be replaced."""
    with suppress(UserError):
        return current_id(lake)
    return None


def _build_aside(lake: Lake, release: Release) -> Path:
    aside = lake.aside(lake.database)
    for stale in lake.root.glob(f"{aside.name}*"):
        stale.unlink()
    build_database(aside, release.path)
    sync_path(aside)
    return aside


def _replace_database(lake: Lake, aside: Path) -> None:
    # A log that somebody's writing connection left beside the old file must not be replayed into the new one.
    with suppress(FileNotFoundError):
        lake.database.with_name(lake.database.name + ".wal").unlink()
    replace_file(aside, lake.database)


def pointer_to(lake: Lake, release_id: str, builder: Builder | None = None) -> dict[str, Any]:
    """What ``current.json`` is to say: the release, since when, until when each other one has been current, and the
    number of the builder that published last.
    """
    now = layout.utc_now().astimezone(UTC).isoformat()
    before: dict[str, Any] = {}
    with suppress(UserError):
        before = layout.read_json_file(lake.current) if lake.current.is_file() else {}
    until = dict(known) if isinstance(known := before.get("current_until"), dict) else {}
    if isinstance(before.get("release"), str):
        until[before["release"]] = now
    kept = set(lake.release_ids()) - {release_id}
    number = last_builder(lake) if builder is None else builder.number
    return {
        "release": release_id,
        "since": now,
        "current_until": {key: until[key] for key in sorted(until) if key in kept},
        **({"builder": number} if number else {}),
    }


def _named_release(lake: Lake, now: datetime) -> Release:
    """The release to come: its ID is greater than that of any folder, complete or not, and of the current one."""
    names = [path.name for path in lake.releases.iterdir()]
    names += [name.removeprefix(DELETING_PREFIX) for name in names]
    taken = [name for name in [*names, _pointed_at(lake) or ""] if layout.RELEASE_ID_PATTERN.fullmatch(name)]
    release_id = layout.next_release_id(taken, now)
    return Release(release_id, lake.release(release_id))
