"""Rollback, pruning and tidying of a lake on an object store; all under the lock of its builder."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext

from pipelines.lake.layout import MANIFEST, RELEASE_ID_PATTERN, Lake, damaged
from pipelines.lake.objects import remove_stored_release, store_failures_explained
from pipelines.lake.places import file_system, key_of
from pipelines.lake.reader import Release, find_release
from pipelines.lake.verify import missing_files
from pipelines.object_store.conditional import read_object
from pipelines.object_store.lock import EXPIRES_S, RemoteLock, hold_remote
from pipelines.object_store.pointer import being_deleted, mark_for_deletion, point_to

#: Long enough to take over the lock of a builder that has died.
WAIT_S = EXPIRES_S + 30.0


def held(lake: Lake, lock: RemoteLock | None, on_wait: Callable[[str], None]) -> AbstractContextManager[RemoteLock]:
    """The lock that the caller has, or else the lake's."""
    return nullcontext(lock) if lock is not None else hold_remote(lake.root, WAIT_S, on_wait)


def roll_back(lake: Lake, release_id: str, on_wait: Callable[[str], None]) -> Release:
    """Makes an existing release the current one."""
    with store_failures_explained(lake), held(lake, None, on_wait) as lock:
        release = find_release(lake.root, release_id)
        if missing := missing_files(release):
            raise damaged(release.path / missing[0], "is not there")
        point_to(lake, release.id, lock)
    return release


def delete_releases(lake: Lake, release_ids: list[str], lock: RemoteLock) -> None:
    """Deletes releases, none of which is the current one. One that is killed here is finished by ``tidy``."""
    if release_ids:
        mark_for_deletion(lake, release_ids, lock)
        for release_id in release_ids:
            lock.check()
            remove_stored_release(lake, release_id)
        mark_for_deletion(lake, [], lock)


def tidy(lake: Lake, lock: RemoteLock) -> list[str]:
    """Removes what killed builders have left: releases without a manifest, begun deletions and unfinished uploads.

    The IDs of what was removed.
    """
    store = file_system(lake.root)
    with store_failures_explained(lake):
        store.invalidate_cache()
        left = [name for name in _folders(lake) if not store.exists(key_of(lake.release(name) / MANIFEST))]
        begun = being_deleted(read_object(lake.current))
        for release_id in dict.fromkeys([*left, *begun]):
            lock.check()
            remove_stored_release(lake, release_id)
        if begun:
            mark_for_deletion(lake, [], lock)
        _abort_uploads(lake)
    return [*left, *begun]


def _folders(lake: Lake) -> Iterable[str]:
    store = file_system(lake.root)
    if not store.exists(key_of(lake.releases)):
        return []
    names = (key.rstrip("/").rpartition("/")[2] for key in store.ls(key_of(lake.releases), detail=False, refresh=True))
    return sorted(name for name in names if RELEASE_ID_PATTERN.fullmatch(name))


def _abort_uploads(lake: Lake) -> None:
    """Large files are sent in parts, which a store keeps, unseen and paid for, until they are put together."""
    store = file_system(lake.root)
    bucket, _, prefix = key_of(lake.releases).partition("/")
    found = store.call_s3("list_multipart_uploads", Bucket=bucket, Prefix=prefix.rstrip("/") + "/")
    for upload in found.get("Uploads") or ():
        store.call_s3("abort_multipart_upload", Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
