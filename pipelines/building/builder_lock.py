"""One build of a lake at a time, by a lock that expires.

The holder keeps ``flock`` on the file ``.build.lock`` of the lake, which the kernel frees when it dies, and
counts up in it every few seconds. A lock counts as free when

- nobody holds ``flock`` on it and it is of this machine, or of one that has restarted since: its holder is dead;
- a process that waits has not seen its content change for ``EXPIRES_S``: the holder hangs, is stopped, or died on
  another machine. No clock of another machine counts, nor the time of day of this one, which may jump.

Whoever takes a lock puts a new file in the place of the old one, and takes the next number. A holder that comes
back to life after its lock has expired is stopped by ``check``, and by its number where a later builder has
published: both are looked at under the publish lock, under which alone a lock changes hands.
"""

import fcntl
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipelines.lake.durable import disk_failures_explained
from pipelines.lake.layout import Lake, check_place
from pipelines.lake.locks import boot_id, publish_lock, taken_in_time, user_name
from pipelines.lake.reader import last_builder
from schemas.errors import UserError

EXPIRES_S = 120.0
HEARTBEAT_S = 5.0
POLL_S = 0.2
LOCK_FILE = ".build.lock"


class BuilderLock:
    """A held lock. Use ``hold_lake``."""

    def __init__(self, lake: Lake, descriptor: int, number: int) -> None:
        self.number = number
        self._lake = lake
        self._path = lake.root / LOCK_FILE
        self._descriptor = descriptor
        self._since = time.time()
        self._beats = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="builder-lock", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raises ``UserError`` where the lock has expired and another build has taken it.

        Under the publish lock the answer holds until that is given back.
        """
        if not _is_at(self._descriptor, self._path):
            raise UserError(
                f"This build showed no sign of life for {EXPIRES_S:.0f} s, and another one has taken over "
                f"{self._path.parent}. This one has published nothing."
            )

    def renew(self) -> None:
        """Write a sign of life."""
        self._beats += 1
        os.pwrite(self._descriptor, _signed(self.number, self._since, self._beats), 0)

    def release(self) -> None:
        """Give the lock back."""
        self._ended.set()
        self._thread.join()
        with suppress(UserError, OSError), publish_lock(self._lake):  # else the next build finds it free all the same
            if _is_at(self._descriptor, self._path):
                self._path.unlink()
        os.close(self._descriptor)

    def _beat(self) -> None:
        while not self._ended.wait(HEARTBEAT_S):
            with suppress(OSError):  # a full disk: the lock expires if it stays so
                self.renew()


@contextmanager
def hold_lake(
    lake_path: Path, wait_s: float = 0.0, on_wait: Callable[[str], None] = lambda sentence: None
) -> Iterator[BuilderLock]:
    """Be the only builder of a lake, which is made if need be.

    Waits up to ``wait_s`` for another build, and says so by ``on_wait``, once; then raises ``UserError`` that
    names who holds the lock and since when.
    """
    lake = Lake.at(lake_path)
    check_place(lake)
    with disk_failures_explained(lake.root):
        lake.root.mkdir(parents=True, exist_ok=True)
        seen = _Watch()
        taken = taken_in_time(
            lambda: _take(lake, seen),
            lambda: f"The lake {lake.root} is being built {seen.in_words()}",
            wait_s,
            POLL_S,
            on_wait,
        )
    try:
        yield taken
    finally:
        taken.release()


class _Watch:
    """What a waiting process sees of the holder, and for how long that has not changed, by a clock that never jumps."""

    def __init__(self) -> None:
        self._content = b""
        self._changed = time.monotonic()

    def see(self, content: bytes) -> None:
        if content != self._content:
            self._content, self._changed = content, time.monotonic()

    @property
    def owner(self) -> dict[str, Any]:
        return _owner(self._content)

    @property
    def expired(self) -> bool:
        return time.monotonic() - self._changed > EXPIRES_S

    def in_words(self) -> str:
        owner = self.owner
        if not owner:
            return "by another process"
        return f"by process {owner['pid']} of {owner['user']} on {owner['host']} since {_time_in_words(owner['since'])}"


def _take(lake: Lake, seen: _Watch) -> BuilderLock | None:
    """The lock, if it is free now."""
    path = lake.root / LOCK_FILE
    if not _seems_free(path, seen):
        return None
    with publish_lock(lake):
        if not _seems_free(path, seen):  # somebody was quicker, or the holder has come back to life
            return None
        number = max(seen.owner.get("number", 0), last_builder(lake)) + 1
        aside = lake.aside(path)
        aside.unlink(missing_ok=True)
        descriptor = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            _flock(descriptor)
            os.pwrite(descriptor, _signed(number, time.time(), 0), 0)
            os.replace(aside, path)
        except BaseException:
            os.close(descriptor)
            raise
        return BuilderLock(lake, descriptor, number)


def _signed(number: int, since: float, beats: int) -> bytes:
    """What a holder writes; of one length, so that a reader never sees the end of an older text."""
    owner = {
        "user": user_name(),
        "host": socket.gethostname(),
        "boot_id": boot_id(),
        "pid": os.getpid(),
        "since": since,
        "number": number,
        "beats": beats,
    }
    return json.dumps(owner).ljust(512).encode("ascii") + b"\n"


def _seems_free(path: Path, seen: _Watch) -> bool:
    """Whether the lock may be taken, by what is at the path now."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        seen.see(b"")
        return True
    try:
        seen.see(os.pread(descriptor, 4096, 0))
        if seen.expired:
            return True
        return _flock(descriptor) and (not seen.owner or _is_of_this_machine(seen.owner))
    finally:
        os.close(descriptor)  # gives back what ``_flock`` has just taken


def _owner(content: bytes) -> dict[str, Any]:
    """What the holder has written; empty where that is nothing yet, or no holder's writing."""
    try:
        owner = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    kinds: dict[str, type | tuple[type, ...]] = {"user": str, "host": str, "pid": int, "since": (int, float)}
    if not isinstance(owner, dict) or not all(isinstance(owner.get(name), kind) for name, kind in kinds.items()):
        return {}
    number = owner.get("number")
    return owner | {"number": number if isinstance(number, int) else 0}


def _time_in_words(moment: float) -> str:
    try:
        return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return "an unknown time"


def _flock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether the open file is the one that is at the path now."""
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    mine = os.fstat(descriptor)
    return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)


def _is_of_this_machine(owner: dict[str, Any]) -> bool:
    return bool(owner["host"] == socket.gethostname() or owner.get("boot_id") == boot_id() is not None)
