"""SQL over one release of a lake: it can read the release's tables and nothing else, and change nothing.

The views are made in memory from the release that ``current.json`` names, so the DuckDB file of the lake is
not opened (a lake may be on a read-only disk or have been moved), and a query sees one release from its
beginning to its end. Imports neither Polars nor Arrow.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.lake.interruptible import close, interruptible
from pipelines.lake.layout import repair
from pipelines.lake.places import register_store
from pipelines.lake.reader import Release, current_release
from pipelines.lake.spilling import spill_folder
from pipelines.lake.sql_guard import TABLES_ONLY, check_select
from pipelines.lake.tables import PublishedTable, read_published_tables
from pipelines.lake.views import comment_tables, create_views, glob_escaped, quote_text
from pipelines.runners.machine import memory_bytes
from schemas.errors import UserError

if TYPE_CHECKING:
    import duckdb
    import polars as pl

BATCH_ROWS = 10_000
#: Share of the machine's memory that a query may use before it writes to temporary files.
MEMORY_SHARE = 0.5


@dataclass(frozen=True)
class QueryResult:
    """Rows not fetched yet, which can be taken once. ``types`` are DuckDB's names, as ``DOUBLE``."""

    columns: list[str]
    types: list[str]
    _cursor: duckdb.DuckDBPyConnection

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The rows as Python values, read in batches."""
        while batch := _explained_fetch(self._cursor):
            yield from batch


class LakeQuery:
    """SQL over ``release``; made by ``open_lake``."""

    def __init__(
        self, release: Release, connection: duckdb.DuckDBPyConnection, tables: Sequence[PublishedTable]
    ) -> None:
        self.release = release
        self.tables = [table.name for table in tables]
        self._uncommented = list(tables)
        self._connection = connection

    def query(self, sql: str, parameters: Sequence[object] = ()) -> QueryResult:
        """Run one SELECT (``pipelines.lake.sql_guard`` says what is one), with values for its ``?``.

        Raises ``UserError`` with a sentence about what is wrong with the SQL.
        """
        import duckdb

        cursor = self._checked(sql)
        try:
            interruptible(cursor, lambda: cursor.execute(sql, list(parameters)))
        except duckdb.Error as error:
            raise UserError(explain(str(error), self.tables)) from None
        description = cursor.description or []
        return QueryResult([item[0] for item in description], [str(item[1]) for item in description], cursor)

    def frame(self, sql: str, parameters: Sequence[object] = ()) -> pl.DataFrame:
        """The rows of one SELECT, as for ``query``, as a Polars frame."""
        import duckdb
        import polars as pl

        cursor = self._checked(sql)
        try:
            return interruptible(cursor, lambda: pl.DataFrame(cursor.sql(sql, params=list(parameters))))
        except duckdb.Error as error:
            raise UserError(explain(str(error), self.tables)) from None

    def count(self, sql: str, parameters: Sequence[object] = ()) -> int | None:
        """The number of rows that one SELECT gives, without fetching them; None if DuckDB cannot say it."""
        import duckdb

        cursor = self._checked(sql)
        try:
            # Written anew from its parsed form, the SQL has no comment or `;` that would break the brackets.
            parsed = "SELECT json_deserialize_sql(json_serialize_sql(?::VARCHAR))"
            (select,) = cursor.execute(parsed, [sql]).fetchall()[0]
            counting = f"SELECT count(*) FROM ({select})"
            ((rows,),) = interruptible(cursor, lambda: cursor.execute(counting, list(parameters)).fetchall())
            return int(rows)
        except duckdb.Error:
            return None

    def _checked(self, sql: str) -> duckdb.DuckDBPyConnection:
        """A connection of its own, same tables and same locks, for a statement that only reads."""
        check_select(self._connection, sql)
        if self._uncommented and "comment" in sql.lower():
            # Only who asks for the descriptions of columns pays the 50 ms that setting them takes.
            comment_tables(self._connection, self._uncommented)
            self._uncommented.clear()
        return self._connection.cursor()


@contextmanager
def open_lake(lake_path: Path, memory_gb: float | None = None) -> Iterator[LakeQuery]:
    """Query the current release of a lake, in ``memory_gb`` of memory or a share of the machine's.

    What does not fit goes to a folder of temporary files that is removed. Raises ``UserError`` where there is no
    release.
    """
    import duckdb

    memory = memory_bytes() * MEMORY_SHARE if memory_gb is None else memory_gb * 1e9
    release = current_release(lake_path)
    with spill_folder() as spill:
        connection = duckdb.connect(":memory:")
        try:
            register_store(connection, release.path)
            tables = read_published_tables(release.path)
            try:
                create_views(connection, release.path, tables)
            except duckdb.Error as error:
                said = explain(str(error), [])
                raise UserError(f"Release {release.id} cannot be read: {said} {repair(release.path)}") from error
            # Patterns are compared as they are written, so a folder with glob characters needs both spellings.
            folders = ", ".join(quote_text(text) for text in (str(release.path), glob_escaped(release.path)))
            for setting in (
                "TimeZone = 'UTC'",
                "python_enable_replacements = false",
                "autoinstall_known_extensions = false",
                "autoload_known_extensions = false",
                f"memory_limit = '{memory / 1e6:.0f}MB'",
                f"temp_directory = {quote_text('' if spill is None else str(spill))}",
                f"allowed_directories = [{folders}]",
                "enable_external_access = false",
                "lock_configuration = true",
            ):
                connection.execute(f"SET GLOBAL {setting}")
            yield LakeQuery(release, connection, tables)
        finally:
            close(connection)


def explain(message: str, tables: Sequence[str]) -> str:
    """DuckDB's message in one line, with the nearest tables of the lake where a table is not found."""
    missing = re.search(r"Table with name \"?(.+?)\"? does not exist", message)
    if missing:
        near = difflib.get_close_matches(missing[1].lower(), tables, n=2, cutoff=0.5)
        hint = f"Did you mean {' or '.join(near)}? " if near else ""
        return f"There is no table {missing[1]} in the lake. {hint}There are: {', '.join(tables)}."
    if "file system operations are disabled" in message or message.startswith("Permission Error"):
        return TABLES_ONLY
    if message.startswith("Out of Memory Error"):
        return (
            "The query needs more memory than it may use: give it more (`query --memory GB`) or ask for less at once."
        )
    text = re.split(r"\n\s*LINE \d+:", message)[0]
    text = re.sub(r"^(TransactionContext |Invalid Input |[A-Z]\w+ )?Error: ", "", text)
    text = re.sub(r"\s+", " ", text).strip()
    if tables and re.search(r"/releases/\d{8}T[^/]*/.*\.parquet", text):
        return f"{text}. `agent-pareto releases verify` tells which files are damaged, and what repairs them."
    text, candidates, names = text.partition("found in FROM clause! Candidate bindings: ")
    text += f"found: did you mean {names.replace(', ', ' or ')}?" if candidates else ""
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _explained_fetch(cursor: duckdb.DuckDBPyConnection) -> list[tuple[Any, ...]]:
    import duckdb

    try:
        return interruptible(cursor, lambda: cursor.fetchmany(BATCH_ROWS))
    except duckdb.Error as error:
        raise UserError(explain(str(error), [])) from None
