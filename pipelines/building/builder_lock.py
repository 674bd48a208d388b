"""One build of a lake at a time, by a lock that expires.

The holder keeps ``flock`` on the file ``.build.lock`` of the lake, which the kernel frees when it dies, and
writes a sign of life into it every few seconds. A lock counts as free when

- nobody holds ``flock`` on it and it is of this machine, or of one that has restarted since: its holder is dead;
- its last sign of life is older than ``EXPIRES_S``: the holder hangs, is stopped, or died on another machine.

A holder that comes back to life after its lock has expired finds another file in its place, and ``check``,
which is called before publishing, stops it.
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

from pipelines.lake.durable import explained
from pipelines.lake.layout import Lake
from pipelines.lake.locks import boot_id, publish_lock, taken_in_time, user_name
from schemas.errors import UserError

EXPIRES_S = 120.0
HEARTBEAT_S = 5.0
POLL_S = 0.2
LOCK_FILE = ".build.lock"


class BuilderLock:
    """A held lock. Use ``hold_lake``."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._since = time.time()
        self._ended = threading.Event()
        self.renew()
        self._thread = threading.Thread(target=self._beat, name="builder-lock", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raises ``UserError`` where the lock has expired and another build has taken it."""
        if not _is_at(self._descriptor, self._path):
            raise UserError(
                f"This build showed no sign of life for {EXPIRES_S:.0f} s, and another one has taken over "
                f"{self._path.parent}. This one has published nothing."
            )

    def renew(self) -> None:
        """Write a sign of life."""
        owner = {
            "user": user_name(),
            "host": socket.gethostname(),
            "boot_id": boot_id(),
            "pid": os.getpid(),
            "since": self._since,
            "alive_at": time.time(),
        }
        text = json.dumps(owner).ljust(512) + "\n"  # one length: a reader never sees the end of an older text
        os.pwrite(self._descriptor, text.encode("ascii"), 0)

    def release(self) -> None:
        """Give the lock back."""
        self._ended.set()
        self._thread.join()
        if _is_at(self._descriptor, self._path):
            self._path.unlink(missing_ok=True)
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
    with explained(lake.root):
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
    """What a waiting process sees of the holder. A stopped holder is told by its signs of life not changing, too:
    that does not depend on the clocks of two machines.
    """

    def __init__(self) -> None:
        self.owner: dict[str, Any] = {}
        self._changed = time.monotonic()

    def see(self, owner: dict[str, Any]) -> None:
        if owner != self.owner:
            self.owner, self._changed = owner, time.monotonic()

    @property
    def expired(self) -> bool:
        alive_at = self.owner.get("alive_at")
        by_clock = isinstance(alive_at, float) and time.time() - alive_at > EXPIRES_S
        return by_clock or time.monotonic() - self._changed > EXPIRES_S

    def in_words(self) -> str:
        if not self.owner:
            return "by another process"
        since = datetime.fromtimestamp(self.owner["since"], UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f"by process {self.owner['pid']} of {self.owner['user']} on {self.owner['host']} since {since}"


def _take(lake: Lake, seen: _Watch) -> BuilderLock | None:
    """The lock, if it is free now."""
    path = lake.root / LOCK_FILE
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        seen.see(_owner(descriptor))
        held = not _flock(descriptor)
        if _is_at(descriptor, path):  # else the holder has just given it back
            if not held and (not seen.owner or _is_of_this_machine(seen.owner) or seen.expired):
                os.ftruncate(descriptor, 0)
                lock = BuilderLock(path, descriptor)
                descriptor = -1
                return lock
            if held and seen.expired:
                return _take_over(lake, path, seen)
        return None
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _take_over(lake: Lake, path: Path, seen: _Watch) -> BuilderLock | None:
    """Replace the file of a holder that lives and does not move, unless another has just done so."""
    with publish_lock(lake):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if _owner(descriptor) != seen.owner:
                return None
        finally:
            os.close(descriptor)
        path.unlink()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        if _flock(descriptor):
            return BuilderLock(path, descriptor)
        os.close(descriptor)  # somebody was quicker
        return None


def _owner(descriptor: int) -> dict[str, Any]:
    """What the holder has written; empty where that is nothing yet."""
    try:
        owner = json.loads(os.pread(descriptor, 4096, 0))
    except ValueError:
        return {}
    keys = {"user", "host", "boot_id", "pid", "since", "alive_at"}
    return owner if isinstance(owner, dict) and keys <= set(owner) else {}


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
    return bool(owner["host"] == socket.gethostname() or owner["boot_id"] == boot_id() is not None)
