"""The folder for what a query cannot keep in memory, and what is left of those that were killed."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "agent-pareto-query-"


@contextmanager
def spill_folder() -> Iterator[Path | None]:
    """An empty folder of one's own, removed at the end; None where the folder for temporary files takes none.

    Its user holds ``flock`` on it, which the kernel gives back however the process ends: folders that nobody holds
    are left over, and the next query removes them.
    """
    remove_leftovers()
    try:
        folder, descriptor = _made_and_held()
    except OSError:
        yield None
        return
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def remove_leftovers() -> None:
    """Removes folders of queries that ended without doing so."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            if os.fstat(descriptor).st_uid == os.getuid() and _held(descriptor):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(descriptor)


def _made_and_held() -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue  # another query took it for left over before it was held
        if _held(descriptor) and folder.exists():
            return folder, descriptor
        os.close(descriptor)


def _held(descriptor: int) -> bool:
    """Takes the lock of a folder; False where another process has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
