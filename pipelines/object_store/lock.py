"""One builder of a lake on an object store at a time: an object that changes hands by conditional writes.

``build.lock`` says who holds it, counts up while the holder lives, and is marked as free when it is given back. It is
only ever written on the condition that it is as it was read, so two that want it cannot both have it, and a holder
that has lost it cannot take it back. It counts as free

- when it is marked so, or is no holder's writing: an object is there whole or not at all;
- when a process that waits has not seen it change for ``EXPIRES_S``. Whoever then takes it over writes its own number
  into ``current.json`` too, so that what the holder before may still send there is refused.

Of a store that heeds no conditions no lock can be had. There a builder refuses to work beside another, and nobody
takes a lock over.
"""

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pipelines.lake.layout import CURRENT, Lake
from pipelines.lake.locks import taken_in_time, user_name
from pipelines.lake.objects import store_failures_explained
from pipelines.object_store.conditional import Stored, has_conditions, overwrite, read_object, write_if_unchanged
from schemas.errors import UserError

LOCK_OBJECT = "build.lock"
EXPIRES_S = 120.0
HEARTBEAT_S = 15.0
POLL_S = 2.0
#: Without conditions: how long a builder waits for another one's lock to come over its own.
SETTLE_S = 3.0


class RemoteLock:
    """A held lock. Use ``hold_remote``."""

    def __init__(self, path: Path, owner: dict[str, Any], stored: Stored, conditional: bool) -> None:
        self.number = int(owner["number"])
        self.conditional = conditional
        self._path, self._owner, self._stored = path, owner, stored
        self._lost = False
        self._writing = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="remote-builder-lock", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raises ``UserError`` where the lock has expired and another build has taken it."""
        if not self._lost and read_object(self._path).json().get("token") == self._owner["token"]:
            return
        self._lost = True
        raise UserError(
            f"This build showed no sign of life for {EXPIRES_S:.0f} s, and another one has taken over "
            f"{self._path.parent}. This one has published nothing."
        )

    def renew(self) -> None:
        """Write a sign of life, unless the lock is another's by now."""
        with self._writing:
            if not self._lost:
                self._owner = self._owner | {"beats": self._owner["beats"] + 1}
                self._write(self._owner)

    def release(self) -> None:
        """Give the lock back, if it is still this build's."""
        self._ended.set()
        self._thread.join()
        with self._writing, suppress(OSError):  # the store is away: the lock expires
            if not self._lost:
                self._write({"free": True, "number": self.number})

    def _write(self, content: dict[str, Any]) -> None:
        if not self.conditional:
            if read_object(self._path).json().get("token") == self._owner["token"]:
                self._stored = overwrite(self._path, content)
            return
        stored = write_if_unchanged(self._path, content, self._stored)
        if stored is None:
            self._lost = True
        else:
            self._stored = stored

    def _beat(self) -> None:
        while not self._ended.wait(HEARTBEAT_S):
            with suppress(OSError):  # the store is away: the lock expires if it stays so
                self.renew()


@contextmanager
def hold_remote(
    root: Path, wait_s: float, on_wait: Callable[[str], None] = lambda sentence: None
) -> Iterator[RemoteLock]:
    """Be the only builder of the lake at ``root``, which ``places.remote_path`` gave.

    Waits up to ``wait_s`` for another build, and says so by ``on_wait``, once; then raises ``UserError`` that names
    who holds the lock. A lock without a sign of life for ``EXPIRES_S`` is taken over.
    """
    path = root / LOCK_OBJECT
    with store_failures_explained(Lake(root)):
        conditional = has_conditions(root)
        seen = _Watch()
        if not conditional:
            on_wait(f"{root} heeds no conditional writes: builders cannot exclude each other there, run one at a time")
        lock = taken_in_time(
            lambda: _take(path, seen) if conditional else _take_without_conditions(path, seen),
            lambda: f"The lake {root} is being built {seen.in_words()}{'' if conditional else _by_hand(path)}",
            wait_s if conditional else 0.0,
            POLL_S,
            on_wait,
        )
    try:
        yield lock
    finally:
        lock.release()


class _Watch:
    """What a waiting process sees of the holder, and for how long that has not changed, by a clock that never jumps."""

    def __init__(self) -> None:
        self.stored = Stored()
        self._changed = time.monotonic()

    def see(self, stored: Stored) -> None:
        if stored != self.stored:
            self.stored, self._changed = stored, time.monotonic()

    @property
    def held(self) -> bool:
        return isinstance(self.stored.json().get("token"), str)

    @property
    def expired(self) -> bool:
        return time.monotonic() - self._changed > EXPIRES_S

    @property
    def number(self) -> int:
        number = self.stored.json().get("number")
        return number if isinstance(number, int) and not isinstance(number, bool) else 0

    def in_words(self) -> str:
        owner = self.stored.json()
        return f"by process {owner.get('pid')} of {owner.get('user')} on {owner.get('host')}"


def _take(path: Path, seen: _Watch) -> RemoteLock | None:
    """The lock, if it is free now."""
    seen.see(read_object(path))
    taken_over = seen.held
    if taken_over and not seen.expired:
        return None
    pointer = path.parent / CURRENT
    owner = _owner(max(seen.number, _number(read_object(pointer))) + 1)
    stored = write_if_unchanged(path, owner, seen.stored)
    if stored is None:  # somebody else was quicker, or the holder has come back to life
        return None
    if taken_over:
        _claim(pointer, owner["number"])
    return RemoteLock(path, owner, stored, conditional=True)


def _claim(pointer: Path, number: int) -> None:
    """Marks the pointer with the number of a builder that has taken a lock over."""
    while _number(seen := read_object(pointer)) < number:
        if write_if_unchanged(pointer, {"release": None, **seen.json(), "builder": number}, seen) is not None:
            return


def _take_without_conditions(path: Path, seen: _Watch) -> RemoteLock | None:
    """The lock where nobody has one; None too where another builder's came over this one's."""
    seen.see(read_object(path))
    if seen.held:
        return None
    owner = _owner(max(seen.number, _number(read_object(path.parent / CURRENT))) + 1)
    overwrite(path, owner)
    time.sleep(SETTLE_S)
    seen.see(read_object(path))
    if seen.stored.json().get("token") != owner["token"]:
        return None
    return RemoteLock(path, owner, seen.stored, conditional=False)


def _by_hand(path: Path) -> str:
    return (
        ". The store heeds no conditional writes, so nobody takes a lock over there: if that build is dead, delete "
        f"{path}"
    )


def _owner(number: int) -> dict[str, Any]:
    return {
        "token": uuid.uuid4().hex, "user": user_name(), "host": socket.gethostname(), "pid": os.getpid(),
        "number": number, "beats": 0,
    }  # fmt: skip


def _number(pointer: Stored) -> int:
    number = pointer.json().get("builder")
    return number if isinstance(number, int) and not isinstance(number, bool) else 0
