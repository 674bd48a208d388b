"""Files that survive a crash: flushed to the disk, and replaced in one step; and what to say where they cannot be."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from schemas.errors import UserError


def sync_path(path: Path) -> None:
    """Flush one file, or the entries of one folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(root: Path) -> None:
    """Flush every file under a folder, then every folder, the root last.

    A file with a second name is one of an earlier release, and has been flushed with that.
    """
    for folder, _, names in os.walk(root, topdown=False):
        for name in names:
            path = Path(folder, name)
            if os.stat(path).st_nlink == 1:
                sync_path(path)
        sync_path(Path(folder))


def write_json_file(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object and flush it; the folder's entry is the caller's to flush. NaN is an error."""
    write_text(path, json_text(content))


def json_text(content: Mapping[str, Any]) -> str:
    """A JSON object for people to read too. NaN is an error; bytes of a path that are no UTF-8 are escaped."""
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return text.encode("utf-8", "backslashreplace").decode()


def write_text(path: Path, text: str) -> None:
    """Write a text and flush it; the folder's entry is the caller's to flush."""
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def replace_file(aside: Path, final: Path) -> None:
    """Put a flushed file in the place of another in one step, for good when this returns."""
    os.replace(aside, final)
    sync_path(final.parent)


@contextmanager
def disk_failures_explained(lake: Path) -> Iterator[None]:
    """Turn what the operating system refuses while a lake is being written into a sentence for the user."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(
            f"The lake {lake} cannot be written: {reason} ({error.filename or lake}). What was published before is "
            "unchanged; make room or give write access, then try again."
        ) from error
