"""A release down from an object store, and a new one up, so that no reader there ever sees part of one.

Up: the files of the release, its ``manifest.json`` after all others, and ``current.json`` last, which is the moment of
publication. Objects are never changed once they are there, but for ``current.json`` and the lock. Files that are as in
the release before are copied inside the store.
"""

import json
import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from pipelines.lake.layout import MANIFEST, Lake
from pipelines.lake.objects import remove_stored_release, store_failures_explained
from pipelines.lake.places import file_system, key_of
from pipelines.lake.reader import Release, current_id
from pipelines.lake.retention import relink
from pipelines.object_store.lock import RemoteLock
from pipelines.object_store.pointer import point_to
from pipelines.progress import progress
from schemas.errors import UserError

COPYING = "Copying to the object store"
FETCHING = "Fetching the release before from the object store"
REQUESTS_AT_ONCE = 16


def fetch_current(remote: Lake, local: Lake) -> None:
    """Makes the folder ``local`` a lake with the current release of ``remote`` and nothing else.

    Files that are there already are not fetched again: a release never changes.
    """
    file_system(remote.root).invalidate_cache()
    with store_failures_explained(remote):
        release_id = current_id(remote)
        if release_id is None:
            shutil.rmtree(local.root, ignore_errors=True)
            return
        if current_id(local) == release_id and release_id in local.release_ids():
            return
        shutil.rmtree(local.root, ignore_errors=True)
        source, target = remote.release(release_id), local.release(release_id)
        names = _names(source)
        target.mkdir(parents=True)
        progress().start(FETCHING, len(names))
        _each(names, lambda name: _fetch(source, target, name))
    local.current.write_text(json.dumps({"release": release_id}), encoding="utf-8")
    relink(local.root)


def publish_copy(release: Release, before: Release | None, remote: Lake, lock: RemoteLock) -> None:
    """Puts a release of a local lake in place as the current one of ``remote``.

    ``before``: the release that the remote lake has as its current one, as it lies in the same local lake.
    Raises ``UserError`` where another build has taken the lock over: before the manifest is written, by which a folder
    is a release, and in one step with the pointer, by which it is the current one.
    """
    store = file_system(remote.root)
    with store_failures_explained(remote):
        known = remote.release_ids()
        if known and release.id <= known[-1]:
            raise UserError(
                f"The clock of this machine is behind release {known[-1]} of {remote.root}: set it right and build "
                "again. Nothing was published there."
            )
        target = remote.release(release.id)
        names = sorted(path.relative_to(release.path).as_posix() for path in release.path.rglob("*") if path.is_file())
        names.remove(MANIFEST)
        progress().start(COPYING, len(names))

        def copy(name: str) -> None:
            if before is not None and _is_same_file(release.path / name, before.path / name):
                store.cp_file(key_of(remote.release(before.id) / name), key_of(target / name))
            else:
                store.put_file(str(release.path / name), key_of(target / name))
            progress().advance(COPYING)

        try:
            _each(names, copy)
            lock.check()
            store.put_file(str(release.path / MANIFEST), key_of(target / MANIFEST))
            store.invalidate_cache()
            point_to(remote, release.id, lock)
        except BaseException:
            with suppress(UserError, OSError):  # where the store is away the next build removes it
                if current_id(remote) != release.id:
                    remove_stored_release(remote, release.id)
            raise


def _names(release: Path) -> list[str]:
    """All files of a release on a store, relative to it."""
    prefix = key_of(release).rstrip("/") + "/"
    return [key.removeprefix(prefix) for key in file_system(release).find(key_of(release))]


def _fetch(source: Path, target: Path, name: str) -> None:
    place = target / name
    place.parent.mkdir(parents=True, exist_ok=True)
    file_system(source).get_file(key_of(source / name), str(place))
    progress().advance(FETCHING)


def _is_same_file(one: Path, other: Path) -> bool:
    """Whether a file has been carried over: the same one under two names, or of the same content."""
    if not other.is_file() or one.stat().st_size != other.stat().st_size:
        return False
    return one.samefile(other) or one.read_bytes() == other.read_bytes()


def _each(names: Iterable[str], work: Callable[[str], None]) -> None:
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        for _ in pool.map(work, names):
            pass
