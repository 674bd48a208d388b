"""``current.json`` of a lake on an object store: written by who holds the lock, on the condition that it is as read."""

from typing import Any

from pipelines.lake.layout import RELEASE_ID_PATTERN, Lake
from pipelines.lake.places import file_system
from pipelines.lake.publish import pointer_to
from pipelines.object_store.conditional import Stored, overwrite, read_object, write_if_unchanged
from pipelines.object_store.lock import RemoteLock
from schemas.errors import UserError

#: Releases that are being deleted: no rollback may choose them, and the next build deletes what is left of them.
DELETING = "deleting"


def point_to(lake: Lake, release_id: str, lock: RemoteLock) -> None:
    """Makes a release the current one. Raises ``UserError`` where the lock is lost or another has written meanwhile."""
    seen = _seen(lake, lock)
    if release_id in being_deleted(seen):
        raise UserError(f"Release {release_id} of {lake.root} is being deleted: choose another.")
    file_system(lake.root).invalidate_cache()
    content = pointer_to(lake, release_id, lock)
    _write(lake, content | {name: seen.json()[name] for name in (DELETING,) if name in seen.json()}, seen, lock)


def mark_for_deletion(lake: Lake, release_ids: list[str], lock: RemoteLock) -> None:
    """Says which releases are being deleted, and which is current meanwhile: no other can become it then unseen."""
    seen = _seen(lake, lock)
    content = {name: value for name, value in seen.json().items() if name != DELETING}
    if release_ids or DELETING in seen.json():
        begun = {DELETING: release_ids} if release_ids else {}
        _write(lake, {**content, "builder": lock.number, **begun}, seen, lock)


def being_deleted(pointer: Stored) -> list[str]:
    """The IDs of releases whose deletion has begun."""
    found = pointer.json().get(DELETING)
    ids = [name for name in found if isinstance(name, str)] if isinstance(found, list) else []
    return [name for name in ids if RELEASE_ID_PATTERN.fullmatch(name) and name != pointer.json().get("release")]


def _seen(lake: Lake, lock: RemoteLock) -> Stored:
    lock.check()
    return read_object(lake.current)


def _write(lake: Lake, content: dict[str, Any], seen: Stored, lock: RemoteLock) -> None:
    number = seen.json().get("builder")
    later = isinstance(number, int) and number > lock.number
    if later or (lock.conditional and write_if_unchanged(lake.current, content, seen) is None):
        raise UserError(
            f"Another builder has taken over {lake.root} since this one, number {lock.number}, began: what it wrote "
            "stays. This one has published nothing; run it again."
        )
    if not lock.conditional:
        overwrite(lake.current, content)
