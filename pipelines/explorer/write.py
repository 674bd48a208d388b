"""Writes the explorer's site into a folder, in one step: a reader finds the old page or the new one."""

import json
import os
import shutil
import tempfile
from pathlib import Path

from pipelines.explorer.site import INDEX, Site
from pipelines.progress import progress
from schemas.errors import UserError

WRITING = "Writing the explorer"


def write_site(site: Site, out: Path) -> tuple[int, int]:
    """Writes every file of the site into ``out``; gives their number and bytes.

    An explorer that is there already is replaced; anything else is left alone, and ``UserError`` says so.
    """
    out = out.expanduser().resolve()
    if out.exists() and not _is_replaceable(out):
        raise UserError(f"{out} is not an explorer and not an empty folder: name another folder with --out.")
    paths = site.paths()
    progress().start(WRITING, len(paths))
    size = 0
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
        try:
            for path, content in site.files():
                target = aside / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
                size += len(content)
                progress().advance(WRITING)
            aside.chmod(0o755)
            _put_in_place(aside, out)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    except OSError as error:
        raise UserError(f"{out} cannot be written: {error.strerror or error}.") from error
    return len(paths), size


def _is_replaceable(out: Path) -> bool:
    if not out.is_dir():
        return False
    if not any(out.iterdir()):
        return True
    try:
        return "release" in json.loads((out / INDEX).read_text(encoding="utf-8")) and (out / "js" / "main.js").is_file()
    except (OSError, ValueError):
        return False


def _put_in_place(aside: Path, out: Path) -> None:
    if out.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{out.name}-old-", dir=out.parent))
        os.rename(out, old / "old")
        os.rename(aside, out)
        shutil.rmtree(old, ignore_errors=True)
    else:
        os.rename(aside, out)
