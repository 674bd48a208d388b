"""Write a release: tables into a staging folder that nobody reads, then ``publish``.

    with begin_release(lake) as release:
        release.write_table("hardware", frame)
        release.adopt("agent_points", schema, by, write_parts(release.staging, "agent_points", frame, by))
        release.publish(config={}, code_version="1", schema_version="1", inputs=[])

Leaving the block without ``publish``, or by an error, removes everything that was written.
"""

import hashlib
import re
import shutil
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from pipelines.lake.checks import check_name, check_values, difference
from pipelines.lake.durable import disk_failures_explained, write_json_file
from pipelines.lake.layout import MANIFEST, STAGING_PREFIX, TABLES, Lake, check_place
from pipelines.lake.locks import Builder, StagingOwner, publish_lock
from pipelines.lake.parts import Part, encode
from pipelines.lake.publish import mend_database, publish_staging, tidy
from pipelines.lake.reader import Release
from pipelines.lake.tables import PublishedTable, commented, narrow_tables
from pipelines.lake.verify import write_checksums
from pipelines.lake.views import count_rows_and_columns
from schemas.errors import UserError

TEXT_FILE_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}\.(md|txt|json|csv)")


@dataclass
class _Written:
    """What has been written of one table: ``schema`` with the partition columns in place, rows and bytes on
    disk.
    """

    schema: pl.Schema
    partitioned_by: tuple[str, ...]
    in_folder: bool
    files: int = 0
    rows: int = 0
    bytes: int = 0
    sha256: dict[str, str] = field(default_factory=dict)

    def new_file(self, table: str) -> Path:
        """The path of the next file, relative to the release."""
        if not self.in_folder and self.files:
            raise ValueError(f"{table}: written twice")
        number = self.files
        self.files += 1
        return Path(table, f"part-{number}.parquet") if self.in_folder else Path(f"{table}.parquet")


class ReleaseWriter:
    """Writes the tables of one release. Its methods may be called from several threads.

    Frames have been validated by the caller. All frames of one table have the same columns, order and types
    (else ``ValueError``); NaN, infinities and columns without a type are refused (``ValueError``), as they
    would be published.
    """

    def __init__(self, lake: Lake, staging: Path, owner: StagingOwner, builder: Builder | None = None) -> None:
        self.lake = lake
        self.staging = staging
        self.published: Release | None = None
        self._owner = owner
        self._builder = builder
        self._tables: dict[str, _Written] = {}
        self._texts: dict[str, str] = {}
        self._lock = threading.Lock()

    def write_table(self, table: str, frame: pl.DataFrame, *, folder: bool = False) -> None:
        """Write ``TABLE.parquet``, once; with ``folder`` the next ``TABLE/part-N.parquet``."""
        self._register(table, frame, (), in_folder=folder)
        self._write(table, frame)

    def adopt(self, table: str, schema: pl.Schema, by: Sequence[str], parts: Iterable[Part]) -> None:
        """Take in the parts of one table that ``write_parts`` or ``link_part`` have put into ``staging``.

        ``schema`` is that of the table, partition columns in place.
        """
        self._register(table, schema.to_frame(), tuple(by), in_folder=True)
        with self._lock:
            written = self._tables[table]
            for part in parts:
                written.files += 1
                written.rows += part.rows
                written.bytes += part.bytes
                written.sha256[part.path] = part.sha256

    def rows(self, table: str) -> int:
        """Rows of a table so far."""
        return self._tables[table].rows if table in self._tables else 0

    def write_text(self, name: str, text: str) -> None:
        """Write a text file such as ``DATA_DICTIONARY.md`` beside the tables."""
        self._check_open()
        if TEXT_FILE_PATTERN.fullmatch(name) is None or name in (MANIFEST, TABLES):
            raise ValueError(f"{name!r} cannot be a text file of a release")
        with disk_failures_explained(self.lake.root):
            (self.staging / name).write_text(text, encoding="utf-8")
        self._texts[name] = hashlib.sha256(text.encode()).hexdigest()

    def publish(
        self,
        *,
        config: Mapping[str, Any],
        code_version: str,
        schema_version: str,
        inputs: Sequence[Mapping[str, Any]],
        table_comments: Mapping[str, str] | None = None,
        column_comments: Mapping[str, Mapping[str, str]] | None = None,
        stored: Mapping[str, tuple[str, ...]] | None = None,
        columns_of: Mapping[str, tuple[str, Sequence[str]]] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> Release:
        """Make what was written the newest release, in the steps of ``pipelines.lake.publish``.

        ``config``, ``inputs`` (each with its path and sha256) and ``extra`` go into the manifest as JSON.
        Comments are by table, and by table and column; those of tables that this release does not have are
        left out, one of a column that its table does not have is a ``ValueError``. Tables in ``stored`` are
        held by the DuckDB file itself, under this primary key if any; ``columns_of`` names further views: of a table,
        some of its columns. Raises ``UserError`` when the lake cannot be written.
        """
        self._check_open()
        for name, comments in (column_comments or {}).items():
            unknown = set(comments) - set(self._tables[name].schema) if name in self._tables else set()
            if unknown:
                raise ValueError(f"{name}: comments on columns that it does not have: {', '.join(sorted(unknown))}")
        self._write_empty_tables()
        manifest = {
            **(extra or {}),
            "code_version": code_version,
            "schema_version": schema_version,
            "config": dict(config),
            "inputs": [dict(item) for item in inputs],
            "tables": {
                name: {"rows": written.rows, "bytes": written.bytes, "files": written.files}
                for name, written in sorted(self._tables.items())
            },
        }

        def write_tables(staging: Path) -> None:
            comments = table_comments or {}, column_comments or {}
            tables = self._describe_tables(staging, *comments, stored or {})
            tables += narrow_tables(tables, *comments, columns_of or {})
            write_json_file(staging / TABLES, {table.name: table.to_json() for table in tables})
            written = {path: value for table in self._tables.values() for path, value in table.sha256.items()}
            described = {TABLES: hashlib.sha256((staging / TABLES).read_bytes()).hexdigest()}
            write_checksums(staging, written | self._texts | described)

        with disk_failures_explained(self.lake.root):
            self.published = publish_staging(
                self.lake, self.staging, manifest, write_tables, self._owner.release, self._builder
            )
        return self.published

    def _check_open(self) -> None:
        if self.published is not None or not self.staging.is_dir():
            raise RuntimeError("this release has been published or given up: begin a new one")

    def _register(self, table: str, frame: pl.DataFrame, keys: tuple[str, ...], *, in_folder: bool) -> None:
        """Check a frame, and that it is of one kind with what its table has got so far."""
        self._check_open()
        check_name(table)
        if set(frame.columns) <= set(keys):
            raise ValueError(f"{table}: no column besides those of the partitions")
        check_values(table, frame)
        with self._lock:
            written = self._tables.setdefault(table, _Written(frame.schema, keys, in_folder))
        if list(written.schema.items()) != list(frame.schema.items()):
            raise ValueError(f"{table}: {difference(written.schema, frame.schema)}")
        if (written.partitioned_by, written.in_folder) != (keys, in_folder):
            raise ValueError(f"{table}: partitioned by {written.partitioned_by} before, now by {keys}")

    def _write(self, table: str, frame: pl.DataFrame) -> None:
        with self._lock:
            file = self._tables[table].new_file(table)
        path = self.staging / file
        with disk_failures_explained(self.lake.root):
            path.parent.mkdir(parents=True, exist_ok=True)
            content = encode(frame)
            size = path.write_bytes(content)
        with self._lock:
            self._tables[table].rows += frame.height
            self._tables[table].bytes += size
            self._tables[table].sha256[file.as_posix()] = hashlib.sha256(content).hexdigest()

    def _write_empty_tables(self) -> None:
        """One file without rows for each table that has none, with all columns, as no folder name has any."""
        for name, written in self._tables.items():
            if not written.files:
                written.partitioned_by = ()
                self._write(name, written.schema.to_frame())

    def _describe_tables(
        self,
        staging: Path,
        table_comments: Mapping[str, str],
        column_comments: Mapping[str, Mapping[str, str]],
        stored: Mapping[str, tuple[str, ...]],
    ) -> list[PublishedTable]:
        """The tables as DuckDB reads them. ``UserError`` if it does not find the rows that were written."""
        import duckdb

        tables = []
        connection = duckdb.connect(":memory:")
        try:
            for name, written in sorted(self._tables.items()):
                levels = "/*" * len(written.partitioned_by)
                files = f"{name}{levels}/*.parquet" if written.in_folder else f"{name}.parquet"
                rows, columns = count_rows_and_columns(
                    connection, staging, files, written.partitioned_by, written.schema.names()
                )
                if rows != written.rows:
                    raise UserError(
                        f"Table {name} has {rows} rows in {staging}, but {written.rows} were written: "
                        "something else changes the lake's files. Nothing was published."
                    )
                described = commented(columns, column_comments.get(name, {}))
                comment, keys = table_comments.get(name), stored.get(name)
                tables.append(PublishedTable(name, files, written.partitioned_by, described, comment, keys))
        except duckdb.Error as error:
            raise UserError(
                f"The tables in {staging} cannot be read back ({' '.join(str(error).split())}): nothing was published. "
                "Make room if the disk is full, then build again."
            ) from error
        finally:
            connection.close()
        return tables


@contextmanager
def begin_release(lake_path: Path, builder: Builder | None = None) -> Iterator[ReleaseWriter]:
    """Start a release in a lake, which is made if need be. What dead builds have left there is removed first.

    A ``builder`` publishes only while it holds its lock. Without one several builds may run at once, and the one that
    publishes last is the current one. Raises ``UserError`` when the lake cannot be written.
    """
    lake = Lake.at(lake_path)
    check_place(lake)
    with disk_failures_explained(lake.root):
        lake.releases.mkdir(parents=True, exist_ok=True)
        with publish_lock(lake):
            tidy(lake)
            with suppress(UserError):  # of a damaged release: it is the next one that puts the file right
                mend_database(lake)
            staging = lake.releases / f"{STAGING_PREFIX}{uuid.uuid4().hex[:16]}"
            staging.mkdir()
            owner = StagingOwner(staging)
    writer = ReleaseWriter(lake, staging, owner, builder)
    try:
        yield writer
    finally:
        if writer.published is None:
            shutil.rmtree(staging, ignore_errors=True)
        owner.release()
