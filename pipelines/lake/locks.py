"""Who may publish, and whose unfinished work is whose.

Two locks, both ``flock`` on a file, so that the kernel frees them when their process dies, however it dies:

- ``publish_lock``: one process at a time changes what a lake's readers see. Held for a moment.
- ``StagingOwner``: held by a builder for as long as its staging folder is in use. Both its making and its end
  happen under the publish lock, so whoever holds that lock sees no half-made staging folder.
"""

import fcntl
import getpass
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol, TypeVar

from pipelines.lake.layout import Lake
from schemas.errors import UserError

Taken = TypeVar("Taken")

OWNER_FILE = "owner.lock"
FOREIGN_IDLE_S = 7 * 24 * 3600.0
"""A staging folder of another host, whose locks cannot be seen from here, is dead after so long without change."""


@contextmanager
def publish_lock(lake: Lake, wait_s: float = 120.0) -> Iterator[None]:
    """Be the only publisher of the lake. Raises ``UserError`` when another one does not end within ``wait_s``."""
    deadline = time.monotonic() + wait_s
    with lake.publish_lock.open("a") as file:
        while not _try_lock(file):
            if time.monotonic() > deadline:
                raise UserError(
                    f"Another process has been publishing to {lake.root} for {wait_s:.0f} s; "
                    "wait until it has ended, or stop it, and try again."
                )
            time.sleep(0.02)
        yield


def taken_in_time(
    take: Callable[[], Taken | None],
    held: Callable[[], str],
    wait_s: float,
    poll_s: float,
    on_wait: Callable[[str], None],
) -> Taken:
    """The lock of a lake's builder, as ``take`` gives it once it is free; asks anew every ``poll_s``.

    ``held`` says in words who holds it: to ``on_wait``, once, and after ``wait_s`` in a ``UserError``.
    """
    deadline = time.monotonic() + wait_s
    told = False
    while (taken := take()) is None:
        sentence = held()
        if time.monotonic() >= deadline:
            raise UserError(f"{sentence}. Wait until that build has ended, or stop it, and try again.")
        if not told:
            on_wait(f"{sentence}; waiting up to {wait_s:.0f} s for its end")
            told = True
        time.sleep(poll_s)
    return taken


class Builder(Protocol):
    """Who builds a lake: holds its lock, and has a number greater than that of every builder before."""

    @property
    def number(self) -> int: ...

    def check(self) -> None:
        """Raises ``UserError`` where another builder has taken the lock over."""


class StagingOwner:
    """Marks a staging folder as in use by this process, until ``release`` or the end of the process."""

    def __init__(self, staging: Path) -> None:
        self._path = staging / OWNER_FILE
        self._file: IO[str] | None = self._path.open("x", encoding="utf-8")
        owner = {
            "host": socket.gethostname(),
            "boot_id": boot_id(),
            "pid": os.getpid(),
            "since": time.time(),
        }
        json.dump(owner, self._file)
        self._file.flush()
        if not _try_lock(self._file):  # pragma: no cover - a new file that somebody else has locked
            raise UserError(f"{self._path} is locked by another process.")

    def release(self) -> None:
        """Take the mark away. Call it under the publish lock; calling it twice does nothing."""
        if self._file is not None:
            self._path.unlink(missing_ok=True)
            self._file.close()
            self._file = None


def is_dead(staging: Path, now: float) -> bool:
    """Whether the owner of a staging folder is certainly gone. Call it under the publish lock.

    On the owner's own host, or in another container on it, its lock tells; after a restart of that host no
    process of before is left. Of another host nothing can be seen: such a folder counts as dead when nothing
    in it has changed for ``FOREIGN_IDLE_S``.
    """
    path = staging / OWNER_FILE
    try:
        with path.open("r+", encoding="utf-8") as file:
            if not _try_lock(file):
                return False
            try:
                owner = json.load(file)
            except ValueError:
                return True  # killed before its first write: unlocked, and nobody is making it now
            if owner.get("host") == socket.gethostname() or owner.get("boot_id") == boot_id() is not None:
                return True
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return now - _last_change(staging) > FOREIGN_IDLE_S


def _try_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def boot_id() -> str | None:
    """What the kernel calls this start of the machine; None where it does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None


def _last_change(folder: Path) -> float:
    paths = (Path(base, name) for base, _, names in os.walk(folder) for name in [".", *names])
    return max((os.lstat(path).st_mtime for path in paths), default=0.0)


def user_name() -> str:
    """Who runs this process, for others to read; the number where the user has no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
