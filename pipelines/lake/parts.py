"""Parts: the files of a partition, written whole, told by their hash, and linked from one release into the next.

A part needs no open release: a worker in another process, or on another machine that sees the same folder,
writes it into the staging folder and gives back the account, which ``ReleaseWriter.adopt`` takes.
"""

import hashlib
import io
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq

from pipelines.lake.checks import check_name, check_partition_value, check_values
from pipelines.lake.layout import damaged
from pipelines.lake.places import readable

#: Rows of one partition that lie together are worth a slice if they are so many on average.
ROWS_OF_A_RUN = 100
ROW_GROUP_ROWS = 122_880
"""DuckDB's own unit of parallel reading."""
#: A file of fewer rows is mostly footer and page headers: some hundred columns of some ten rows.
SMALL_FILE_ROWS = 10_000


@dataclass(frozen=True)
class Part:
    """One file of a release, its ``path`` relative to that. ``ValueError`` for one that leads out of the table."""

    table: str
    path: str
    rows: int
    bytes: int
    sha256: str

    def __post_init__(self) -> None:
        check_name(self.table)
        if not self.path.startswith(f"{self.table}/") or ".." in self.path.split("/"):
            raise ValueError(f"{self.path!r} is no file of table {self.table}")

    @property
    def folder(self) -> str:
        """The partition, as it stands in the paths of all its tables: ``hardware=…/model=…``."""
        return self.path.removeprefix(f"{self.table}/").rpartition("/")[0]


class DamagedPartError(Exception):
    """A file of a release is gone, or is not what was written."""


def encode(frame: pl.DataFrame) -> memoryview:
    """The frame as the bytes of a Parquet file.

    A small one has no statistics, which could spare a reader nothing, nor a second schema; its measures are split
    by bytes, which compress better so, instead of into dictionaries. That halves it: of 151 columns of 24 operating
    points 60 kB become 29 kB. A large one is written by Polars, in half the time.
    """
    buffer = io.BytesIO()
    if frame.height >= SMALL_FILE_ROWS:
        frame.write_parquet(
            buffer, compression="zstd", compression_level=1, statistics=True, row_group_size=ROW_GROUP_ROWS
        )
        return buffer.getbuffer()
    measures = [name for name, kind in frame.schema.items() if kind.is_float()]
    pq.write_table(
        frame.to_arrow(compat_level=pl.CompatLevel.oldest()),
        buffer,
        compression="zstd",
        compression_level=1,
        use_dictionary=[name for name in frame.columns if name not in measures],
        use_byte_stream_split=measures,
        write_statistics=False,
        store_schema=False,
    )
    return buffer.getbuffer()


def write_parts(release: Path, table: str, frame: pl.DataFrame, by: Sequence[str]) -> list[Part]:
    """Write one file for each combination of values of the columns ``by``, ``TABLE/KEY=VALUE/…/part-0.parquet``.

    A file is there whole or not at all, so that a worker may do again what a dead one has begun. Raises
    ``UserError`` for values that are no slugs, ``ValueError`` for NaN and infinities.
    """
    check_name(table)
    for key in by:
        check_name(key)
    check_values(table, frame)
    parts = []
    for values, rows in _divided(frame, by).items():
        keys = {key: str(value) for key, value in zip(by, values, strict=True)}
        parts.append(_write(release, table, keys, rows))
    return parts


def _divided(frame: pl.DataFrame, by: Sequence[str]) -> dict[tuple[object, ...], pl.DataFrame]:
    """The rows of each combination of values. Where they lie together they are not copied."""
    runs = frame.select(pl.struct(by).rle().alias("run")).unnest("run")
    if runs.height > frame.height // ROWS_OF_A_RUN:
        return frame.partition_by(by, as_dict=True, maintain_order=True)
    slices: dict[tuple[object, ...], list[pl.DataFrame]] = {}
    for end, length, value in zip(runs["len"].cum_sum(), runs["len"], runs["value"], strict=True):
        slices.setdefault(tuple(value.values()), []).append(frame[end - length : end])
    return {values: pl.concat(rows) for values, rows in slices.items()}


def _write(release: Path, table: str, keys: Mapping[str, str], rows: pl.DataFrame) -> Part:
    for key, value in keys.items():
        check_partition_value(key, value)
    folder = Path(table, *(f"{key}={value}" for key, value in keys.items()))
    content = encode(rows.drop(list(keys)))
    path = folder / "part-0.parquet"
    (release / folder).mkdir(parents=True, exist_ok=True)
    aside = (release / path).with_suffix(".aside")
    aside.write_bytes(content)
    os.replace(aside, release / path)
    return Part(table, path.as_posix(), rows.height, len(content), hashlib.sha256(content).hexdigest())


def read_file(path: Path) -> pl.DataFrame:
    """One Parquet file of a release. Raises ``UserError`` where it is gone or damaged."""
    try:
        return pl.read_parquet(readable(path), glob=False, hive_partitioning=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise damaged(path, f"cannot be read ({' '.join(str(error).split())[:200]})") from error


def link_part(part: Part, source: Path, target: Path) -> None:
    """Put a part of the release ``source`` into the release ``target``: the same file where the file system can.

    Raises ``DamagedPartError`` unless its content is what was written.
    """
    try:
        content = (source / part.path).read_bytes()
    except OSError as error:
        raise DamagedPartError(f"{source / part.path}: {error.strerror or error}") from error
    if hashlib.sha256(content).hexdigest() != part.sha256:
        raise DamagedPartError(f"{source / part.path} is not what was written")
    place = target / part.path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    try:
        os.link(source / part.path, place)
    except OSError:  # no hard links here, or too many of this file
        shutil.copyfile(source / part.path, place)
