"""Whether the files of a release are what was written: a byte that has changed on a disk may read as another number.

``SHA256SUMS`` in the release has a line a Parquet file, as ``sha256sum`` writes and checks them.
"""

import hashlib
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pipelines.lake.durable import write_text
from pipelines.lake.layout import CHECKSUMS
from pipelines.lake.reader import current_release, find_release
from schemas.errors import UserError

THREADS = 8
_LINE = re.compile(r"([0-9a-f]{64})  (?!/)(.+)")


@dataclass(frozen=True)
class Verified:
    """The release looked at, how many files it has, and those that are gone or not what was written."""

    release_id: str
    files: int
    damaged: tuple[str, ...]


def write_checksums(release: Path, sha256: Mapping[str, str]) -> None:
    """Writes the hashes of files, by their paths in the release."""
    lines = (f"{value}  {path}\n" for path, value in sorted(sha256.items()))
    write_text(release / CHECKSUMS, "".join(lines))


def verify_release(lake_path: Path, release_id: str | None = None) -> Verified:
    """Reads every Parquet file of a release, without an ID the current one.

    Raises ``UserError`` where the release is not there, or is of a version that kept no hashes.
    """
    release = current_release(lake_path) if release_id is None else find_release(lake_path, release_id)
    try:
        text = (release.path / CHECKSUMS).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise UserError(
            f"Release {release.id} has no readable {CHECKSUMS}: it cannot be told what was written."
        ) from None
    found = [_LINE.fullmatch(line) for line in text.splitlines()]
    files = [(match[2], match[1]) for match in found if match is not None and ".." not in match[2].split("/")]
    if not files or len(files) != len(found):
        raise UserError(f"{CHECKSUMS} of release {release.id} is damaged: it cannot be told what was written.")

    def is_damaged(file: tuple[str, str]) -> bool:
        try:
            return hashlib.sha256((release.path / file[0]).read_bytes()).hexdigest() != file[1]
        except OSError:
            return True

    with ThreadPoolExecutor(THREADS) as threads:
        damaged = [path for (path, _), wrong in zip(files, threads.map(is_damaged, files), strict=True) if wrong]
    return Verified(release.id, len(files), tuple(damaged))
