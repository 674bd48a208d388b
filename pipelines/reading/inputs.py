"""Finds the input files and reads them, each by itself: bytes in, rows of the common shape out."""

import gzip
import hashlib
import io
import os
import stat
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pipelines.reading.given_paths import check_tables
from pipelines.reading.sidecars import sidecar_of
from schemas.errors import UserError
from schemas.sidecar import SIDECAR_NAME
from transforms.sources.rows import FileRejectedError, InputFile

#: Files of these endings in a folder are taken for tables; a file that is named itself is always read.
TABLE_SUFFIXES: Final = (".csv", ".json", ".jsonl", ".parquet")
#: Read beside a table as they are, for the format that knows them; ``source.yaml`` is parsed for all.
SIDECARS: Final = ("exp_config.yaml",)
MAX_FILE_BYTES: Final = 512 * 2**20
MAX_SIDECAR_BYTES: Final = 2**20
_LEADS_OUT: Final = "a link that leads out of the folder of tables"


@dataclass(frozen=True)
class FoundFile:
    """An input file: where it is, and how it is called in messages and in the lake.

    ``refused`` says why there is no such file, of one that was asked for. ``root`` is the folder, free of links, in
    which the file was found: what is read beside the file lies in it too. None for a file that was named itself.
    """

    path: Path
    shown: str
    refused: str | None = None
    root: Path | None = None


def find_files(paths: Sequence[Path]) -> list[FoundFile]:
    """The files of the paths, in the order of their names; folders are searched recursively.

    A file reached by two paths counts once. Links are followed only where they stay inside the folder; the others are
    refused.
    Raises ``UserError`` for a path that is not there or a folder without tables.
    """
    found: dict[Path, FoundFile] = {}
    check_tables(paths)
    for path in paths:
        files = list(_files_under(path)) if path.is_dir() else [FoundFile(path, _in_text(path.name))]
        if not files:
            raise UserError(f"{path} holds no table ({', '.join(TABLE_SUFFIXES)}, each also gzipped as .gz).")
        for file in files:
            found.setdefault(file.path.resolve(), file)
    return with_distinct_names(list(found.values()))


def open_file(found: FoundFile) -> InputFile:
    """The file's bytes, unpacked, with its sidecars. Raises ``FileRejectedError`` where it or they cannot be read."""
    if found.refused is not None:
        raise FileRejectedError(found.refused)
    try:
        before = found.path.stat()
        if not stat.S_ISREG(before.st_mode):
            raise FileRejectedError("not a file with an end but a pipe, a folder or a device; save the table to a file")
        size = before.st_size
        if size > MAX_FILE_BYTES:
            raise FileRejectedError(f"the file has {size:,} bytes, more than {MAX_FILE_BYTES:,}; split it")
        packed = found.path.read_bytes()
        after = found.path.stat()
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns) or len(packed) != size:
            raise FileRejectedError("the file changed while it was read; build again when it is complete")
        _check_links_beside(found)
        beside = _read_beside(found.path)
        sidecar = sidecar_of(found.path)
    except OSError as error:
        raise FileRejectedError(f"the file cannot be read: {error.strerror or error}") from error
    except UserError as error:
        raise FileRejectedError(str(error)) from error
    content = _unpacked(packed) if packed.startswith(b"\x1f\x8b") else packed
    return InputFile(found.shown, content, hashlib.sha256(packed).hexdigest(), beside, sidecar)


def _names_beside(path: Path) -> tuple[str, ...]:
    """Files of the folder that a format may read too: of one name, or the JSON of a CSV of the same name."""
    return (*SIDECARS, f"{path.stem}.json") if path.suffix == ".csv" else SIDECARS


def _check_links_beside(found: FoundFile) -> None:
    if found.root is None:
        return
    for name in (SIDECAR_NAME, *_names_beside(found.path)):
        if not (found.path.parent / name).resolve().is_relative_to(found.root):
            raise FileRejectedError(f"{name} beside it is {_LEADS_OUT}")


def _read_beside(path: Path) -> dict[str, bytes]:
    beside = {}
    for name in _names_beside(path):
        file = path.parent / name
        if not file.is_file():
            continue
        if (size := file.stat().st_size) <= MAX_SIDECAR_BYTES:
            beside[name] = file.read_bytes()
        elif name in SIDECARS:  # what it says changes the rows; a large twin only leaves facts unsaid
            raise FileRejectedError(f"{name} beside it has {size:,} bytes, more than {MAX_SIDECAR_BYTES:,}")
    return beside


def _unpacked(packed: bytes) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise FileRejectedError(f"the gzip file is damaged: {error}") from error
    if len(content) > MAX_FILE_BYTES:
        raise FileRejectedError(f"the file unpacks to more than {MAX_FILE_BYTES:,} bytes; split it")
    return content


def _files_under(folder: Path) -> Iterator[FoundFile]:
    root = folder.resolve()
    for path in sorted(folder.rglob("*")):
        name = path.name.removesuffix(".gz")
        if name.startswith(".") or not name.endswith(TABLE_SUFFIXES) or not path.is_file():
            continue
        refused = None if path.resolve().is_relative_to(root) else f"{_LEADS_OUT}; name the file itself to have it read"
        yield FoundFile(path, _in_text(path.relative_to(folder).as_posix()), refused, root)


def _in_text(name: str) -> str:
    """A file's name as text that any table takes: bytes of it that are not UTF-8 as ``\\xff``."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def with_distinct_names(files: Sequence[FoundFile]) -> list[FoundFile]:
    """Files of one shown name from several folders are told apart by their paths as given."""
    names = [file.shown for file in files]
    return [
        file if names.count(file.shown) == 1 else replace(file, shown=_in_text(file.path.as_posix())) for file in files
    ]
