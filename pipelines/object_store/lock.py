"""One build of a lake on an object store at a time: an object that only one can create, and that expires."""

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pipelines.lake.locks import taken_in_time, user_name
from pipelines.lake.places import file_system, key_of
from schemas.errors import UserError

LOCK_OBJECT = "build.lock"
EXPIRES_S = 300.0
HEARTBEAT_S = 30.0
POLL_S = 2.0


class RemoteLock:
    """A held lock. Use ``hold_remote``."""

    def __init__(self, store: Any, key: str, owner: dict[str, Any]) -> None:
        self._store, self._key, self._owner = store, key, owner
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="remote-builder-lock", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raises ``UserError`` where the lock has expired and another build has taken it."""
        if _owner(self._store, self._key).get("token") != self._owner["token"]:
            raise UserError(
                f"This build showed no sign of life for {EXPIRES_S:.0f} s, and another one has taken over "
                f"{self._key}. This one has published nothing."
            )

    def release(self) -> None:
        """Give the lock back, if it is still this build's."""
        self._ended.set()
        self._thread.join()
        if _owner(self._store, self._key).get("token") == self._owner["token"]:
            self._store.rm_file(self._key)

    def _beat(self) -> None:
        while not self._ended.wait(HEARTBEAT_S):
            with suppress(OSError, UserError):  # the store is away: the lock expires if it stays so
                self.check()
                self._store.pipe_file(self._key, _text(self._owner | {"alive_at": time.time()}))


@contextmanager
def hold_remote(root: Path, wait_s: float, on_wait: Callable[[str], None]) -> Iterator[RemoteLock]:
    """Be the only builder of the lake at ``root``, which ``places.remote_path`` gave.

    Waits up to ``wait_s`` for another build, and says so by ``on_wait``, once; then raises ``UserError`` that names
    who holds the lock. A lock without a sign of life for ``EXPIRES_S`` is taken over.
    """
    store, key = file_system(root), key_of(root / LOCK_OBJECT)
    owner = {
        "token": uuid.uuid4().hex, "user": user_name(), "host": socket.gethostname(), "pid": os.getpid(),
        "alive_at": time.time(),
    }  # fmt: skip
    holder: dict[str, Any] = {}

    def take() -> RemoteLock | None:
        while not _create(store, key, owner):
            holder.clear()
            holder.update(_owner(store, key))
            if not holder or time.time() - float(holder.get("alive_at", 0.0)) <= EXPIRES_S:
                return None
            with suppress(FileNotFoundError):  # somebody else was quicker
                store.rm_file(key)
        return RemoteLock(store, key, owner)

    def held() -> str:
        by = f"by process {holder.get('pid')} of {holder.get('user')} on {holder.get('host')}"
        return f"The lake {root} is being built {by}"

    lock = taken_in_time(take, held, wait_s, POLL_S, on_wait)
    try:
        yield lock
    finally:
        lock.release()


def _create(store: Any, key: str, owner: dict[str, Any]) -> bool:
    try:
        store.pipe_file(key, _text(owner | {"alive_at": time.time()}), mode="create")
    except FileExistsError:
        return False
    return True


def _owner(store: Any, key: str) -> dict[str, Any]:
    store.invalidate_cache()
    try:
        owner = json.loads(store.cat_file(key))
    except (FileNotFoundError, ValueError):
        return {}
    return owner if isinstance(owner, dict) else {}


def _text(owner: dict[str, Any]) -> bytes:
    return json.dumps(owner).encode()
