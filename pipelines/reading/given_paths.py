"""Paths that a user names, judged before any work is done for them. Imports nothing heavy."""

import os
from collections.abc import Sequence
from pathlib import Path

from schemas.errors import UserError


def check_tables(paths: Sequence[Path]) -> None:
    """Raises ``UserError`` for a path of tables that is not there."""
    for path in paths:
        if not path.exists():
            raise UserError(f"{path} does not exist: name a table file or a folder of tables.")


def check_output_file(option: str, path: Path, suffixes: Sequence[str] = (), example: str = "file") -> None:
    """Raises ``UserError`` where the option cannot write this file: a folder, in none, not writable, another ending.

    ``suffixes``: the endings that it may have, any where there are none. ``example``: a name to suggest.
    """
    if path == Path():  # what an empty text becomes, too
        raise UserError(f"{option}: the path names no file; give one, say {example}.")
    if path.is_dir():
        raise UserError(f"{option} {path}: is a folder; name a file, say {path / example}.")
    if suffixes and path.suffix.lower() not in suffixes:
        raise UserError(f"{option} {path}: the name of its file ends in {' or '.join(suffixes)}; say {example}.")
    if not path.parent.is_dir():
        raise UserError(f"{option} {path}: there is no folder {path.parent}; make it first, or name another.")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UserError(f"{option} {path}: cannot be written; give write access, or name another file.")
