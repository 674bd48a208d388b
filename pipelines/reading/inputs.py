"""Finds the input files and reads them, each by itself: bytes in, rows of the common shape out."""

import gzip
import hashlib
import io
import os
import stat
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pipelines.reading.folders import (
    NO_RESULTS,
    TABLE_SUFFIXES,
    PassedOver,
    has_table_suffix,
    is_lake,
    passed_over_in_words,
    walk,
)
from pipelines.reading.given_paths import check_tables
from pipelines.reading.sidecars import sidecar_of
from schemas.errors import UserError
from schemas.sidecar import SIDECAR_NAME
from transforms.sources.formats import holds_results
from transforms.sources.rows import FileRejectedError, InputFile

#: Read beside a table as they are, for the format that knows them; ``source.yaml`` is parsed for all.
SIDECARS: Final = ("exp_config.yaml",)
MAX_FILE_BYTES: Final = 512 * 2**20
MAX_SIDECAR_BYTES: Final = 2**20
#: A file whose ending is no table's is read to see what it holds up to this size.
MAX_SNIFFED_BYTES: Final = 32 * 2**20
_GZIP: Final = b"\x1f\x8b"
_LEADS_OUT: Final = "a link that leads out of the folder of tables"


@dataclass(frozen=True)
class FoundFile:
    """An input file: where it is, and how it is called in messages and in the lake.

    ``refused`` says why there is no such file, of one that was asked for. ``root`` is the folder, free of links, in
    which the file was found: what is read beside the file lies in it too. None for a file that was named itself.
    ``as_run``: whoever asked for it said that it is a run of agents.
    """

    path: Path
    shown: str
    refused: str | None = None
    root: Path | None = None
    as_run: bool = False


@dataclass(frozen=True)
class Search:
    """The files to read, in the order of their names, and what else the folders hold."""

    files: list[FoundFile]
    passed_over: list[PassedOver]


def find_files(paths: Sequence[Path], *, as_runs: bool = False) -> list[FoundFile]:
    """The files to read of ``search``; with ``as_runs`` logs of turns are runs of agents, whatever is beside them."""
    return [replace(file, as_run=as_runs) for file in search(paths).files]


def search(paths: Sequence[Path]) -> Search:
    """The files of the paths; folders are searched recursively.

    A file reached by two paths counts once. In a folder a file is read that its ending says to be a table, and any
    other that holds results of a known form. Links are followed only where they stay inside the folder; the others
    are refused. The files of a lake are never inputs.
    Raises ``UserError`` for a path that is not there, a lake, or a folder without tables.
    """
    found: dict[Path, FoundFile] = {}
    passed: list[PassedOver] = []
    check_tables(paths)
    for path in paths:
        if not path.is_dir():
            found.setdefault(path.resolve(), FoundFile(path, _in_text(path.name)))
            continue
        if is_lake(path):
            raise UserError(f"{path} is a lake, which holds no inputs; name a table file or a folder of tables.")
        files, others = _files_under(path)
        passed += others
        if not files:
            words = passed_over_in_words(others)
            raise UserError(
                f"{path} holds no table ({', '.join(TABLE_SUFFIXES)}, each also gzipped as .gz)."
                f"{' ' if words else ''}{words}"
            )
        for file in files:
            found.setdefault(file.path.resolve(), file)
    return Search(with_distinct_names(list(found.values())), passed)


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
    content = _unpacked(packed) if packed.startswith(_GZIP) else packed
    return InputFile(found.shown, content, hashlib.sha256(packed).hexdigest(), beside, sidecar, found.as_run)


def unpacked_bytes(found: FoundFile) -> int:
    """The size of the file's content, as a gzip file says itself; nothing of one that cannot be read.

    A gzip file may say less than it holds.
    """
    try:
        about = found.path.stat()
        if not stat.S_ISREG(about.st_mode) or about.st_size < len(_GZIP) + 4:
            return about.st_size
        with found.path.open("rb") as content:
            if content.read(len(_GZIP)) != _GZIP:
                return about.st_size
            content.seek(-4, os.SEEK_END)
            return int.from_bytes(content.read(4), "little")
    except (OSError, ValueError):
        return 0


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


def _files_under(folder: Path) -> tuple[list[FoundFile], list[PassedOver]]:
    root = folder.resolve()
    found: list[FoundFile] = []
    passed: list[PassedOver] = []
    for path in walk(folder):
        if isinstance(path, PassedOver):
            passed.append(replace(path, path=_in_text(path.path)))
            continue
        shown = _in_text(path.relative_to(folder).as_posix())
        leads_out = not path.resolve().is_relative_to(root)
        if has_table_suffix(path):
            refused = f"{_LEADS_OUT}; name the file itself to have it read" if leads_out else None
            found.append(FoundFile(path, shown, refused, root))
        elif leads_out:
            passed.append(PassedOver(shown, _LEADS_OUT))
        elif _has_results(path):
            found.append(FoundFile(path, shown, None, root))
        else:
            passed.append(PassedOver(shown, NO_RESULTS))
    return sorted(found, key=lambda file: file.path), sorted(passed, key=lambda item: item.path)


def _has_results(path: Path) -> bool:
    """Whether a file of any ending holds results of a known form; a very large one is not looked into."""
    try:
        if path.stat().st_size > MAX_SNIFFED_BYTES:
            return False
        packed = path.read_bytes()
        return holds_results(_unpacked(packed) if packed.startswith(_GZIP) else packed)
    except (OSError, FileRejectedError):
        return False


def _in_text(name: str) -> str:
    """A file's name as text that any table takes: bytes of it that are not UTF-8 as ``\\xff``."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def with_distinct_names(files: Sequence[FoundFile]) -> list[FoundFile]:
    """Files of one shown name from several folders are told apart by their paths as given."""
    names = Counter(file.shown for file in files)
    return [file if names[file.shown] == 1 else replace(file, shown=_in_text(file.path.as_posix())) for file in files]
