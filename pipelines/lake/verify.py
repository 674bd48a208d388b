"""Whether the files of a release are what was written: a byte that has changed on a disk may read as another number.

``SHA256SUMS`` has a line for each file of the release but two, as ``sha256sum`` writes and checks them. The hash of
that file stands in ``manifest.json``, which is written last and holds its own hash, taken with zeros in its place.
"""

import hashlib
import os
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.lake.durable import json_text, write_text
from pipelines.lake.layout import CHECKSUMS, MANIFEST, TABLES, damaged
from pipelines.lake.places import file_system, is_remote, key_of
from pipelines.lake.reader import Release, current_release, find_release
from schemas.errors import UserError

THREADS = 8
#: Files up to this size are hashed before an unchanged release is taken for whole; of larger ones the size counts.
SMALL_BYTES = 2**20
_LINE = re.compile(r"([0-9a-f]{64})  (?!/)(.+)")
_OWN_HASH = re.compile(rb'"manifest_sha256": "([0-9a-f]{64})"')
_ZEROS = "0" * 64


@dataclass(frozen=True)
class Verified:
    """The release looked at, how many files it has, and those that are gone or not what was written.

    ``foreign`` files were not written with the release; ``unhashed`` ones were by a version that kept no hash of them.
    """

    release_id: str
    files: int
    damaged: tuple[str, ...]
    foreign: tuple[str, ...] = ()
    unhashed: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        return not self.damaged and not self.foreign


def write_checksums(release: Path, sha256: Mapping[str, str]) -> None:
    """Writes the hashes of files, by their paths in the release."""
    lines = (f"{value}  {path}\n" for path, value in sorted(sha256.items()))
    write_text(release / CHECKSUMS, "".join(lines))


def write_manifest(release: Path, content: Mapping[str, Any]) -> None:
    """Writes the manifest, with the hash of the checksums and its own."""
    checksums = hashlib.sha256((release / CHECKSUMS).read_bytes()).hexdigest()
    text = json_text({**content, "checksums_sha256": checksums, "manifest_sha256": _ZEROS})
    own = f'"manifest_sha256": "{hashlib.sha256(text.encode()).hexdigest()}"'
    before, _, after = text.rpartition(f'"manifest_sha256": "{_ZEROS}"')
    write_text(release / MANIFEST, before + own + after)


def verify_release(lake_path: Path, release_id: str | None = None) -> Verified:
    """Reads every file of a release, without an ID the current one.

    Raises ``UserError`` where the release is not there, or its hashes cannot be read.
    """
    release = current_release(lake_path) if release_id is None else find_release(lake_path, release_id)
    listed = _listed(release.path)
    found = _sizes(release.path)
    with ThreadPoolExecutor(THREADS) as threads:
        same = threads.map(lambda path: _sha256(release.path / path) == listed[path], listed)
        wrong = [path for path, is_same in zip(listed, same, strict=True) if not is_same]
    others = sorted(set(found) - set(listed) - {CHECKSUMS, MANIFEST})
    if TABLES not in listed:  # of a version that hashed Parquet files only
        foreign = [path for path in others if path.endswith(".parquet")]
        unhashed = [path for path in others if path not in foreign] + [CHECKSUMS, MANIFEST]
        return Verified(release.id, len(listed), tuple(wrong), tuple(foreign), tuple(sorted(unhashed)))
    wrong += _damaged_heads(release.path)
    return Verified(release.id, len(listed) + 2, tuple(sorted(wrong)), tuple(others))


def missing_files(release: Release) -> list[str]:
    """The files of a release that are not there. Raises ``UserError`` where nothing says which there were."""
    return sorted(set(_listed(release.path)) - set(_sizes(release.path)))


def is_trusted(release: Release, name: str) -> bool:
    """Whether the manifest, the checksums and one small file of a release are what was written."""
    try:
        listed = _listed(release.path)
        same = _sha256(release.path / name) == listed.get(name)
    except UserError:
        return False
    return same and not _damaged_heads(release.path)


def seems_whole(release: Release, parts: Mapping[str, int]) -> bool:
    """Whether nothing of a release is missing, added or changed, as far as sizes and the hashes of small files tell.

    ``parts`` are the sizes of the files of its partitions, whose content is not read.
    """
    try:
        listed, found = _listed(release.path), _sizes(release.path)
        tables = {name: int(table["bytes"]) for name, table in release.manifest["tables"].items()}
    except (UserError, OSError, KeyError, TypeError, ValueError, AttributeError):
        return False
    if set(found) != {*listed, CHECKSUMS, MANIFEST} or _damaged_heads(release.path):
        return False
    if any(found.get(path) != size for path, size in parts.items()):
        return False
    sizes = dict.fromkeys(tables, 0)
    for path, size in found.items():
        if path.endswith(".parquet"):
            table = path.partition("/")[0].removesuffix(".parquet")
            sizes[table] = sizes.get(table, 0) + size
    small = (path for path in listed if path not in parts and found[path] <= SMALL_BYTES)
    return sizes == tables and all(_sha256(release.path / path) == listed[path] for path in small)


def _listed(release: Path) -> dict[str, str]:
    """The hashes in ``SHA256SUMS``, by path. Raises ``UserError`` where it is gone or says something else."""
    path = release / CHECKSUMS
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise damaged(path, "cannot be read: it cannot be told what was written") from None
    found = [_LINE.fullmatch(line) for line in text.splitlines()]
    files = {match[2]: match[1] for match in found if match is not None and ".." not in match[2].split("/")}
    if not files or len(files) != len(found):
        raise damaged(path, "is damaged: it cannot be told what was written")
    return files


def _damaged_heads(release: Path) -> list[str]:
    """Of the checksums and the manifest those that are not what was written."""
    try:
        content = (release / MANIFEST).read_bytes()
        checksums = hashlib.sha256((release / CHECKSUMS).read_bytes()).hexdigest()
    except OSError:
        return [MANIFEST]
    own = _OWN_HASH.search(content)
    with_zeros = _OWN_HASH.sub(f'"manifest_sha256": "{_ZEROS}"'.encode(), content)
    if own is None or hashlib.sha256(with_zeros).hexdigest() != own[1].decode():
        return [MANIFEST]
    return [] if f'"checksums_sha256": "{checksums}"'.encode() in content else [CHECKSUMS]


def _sha256(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def _sizes(release: Path) -> dict[str, int]:
    """The size of every file in the folder of a release, by its path in it."""
    if is_remote(release):
        prefix = key_of(release).rstrip("/") + "/"
        found = file_system(release).find(key_of(release), detail=True)
        return {key.removeprefix(prefix): int(entry["size"]) for key, entry in found.items()}
    sizes = {}
    for folder, _, names in os.walk(release):
        for name in names:
            path = Path(folder, name)
            sizes[path.relative_to(release).as_posix()] = os.lstat(path).st_size
    return sizes
