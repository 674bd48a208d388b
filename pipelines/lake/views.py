"""DuckDB views over the files of one release."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.lake.tables import Column, Table, read_tables

if TYPE_CHECKING:
    import duckdb

STORAGE_VERSION = "v1.0.0"
"""The oldest storage that holds column comments: DuckDB 1.0 and later open the file."""


def quote_name(name: str) -> str:
    """An SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    """An SQL string."""
    return "'" + text.replace("'", "''") + "'"


def glob_escaped(path: Path) -> str:
    """A path as a DuckDB file pattern that means this path only."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in str(path))


def scan_sql(release: Path, files: str, partitioned_by: Sequence[str], columns: Iterable[str]) -> str:
    """A SELECT over the Parquet files of one table, partition values as text, columns in the given order."""
    options = ""
    if partitioned_by:
        types = ", ".join(f"{quote_text(name)}: VARCHAR" for name in partitioned_by)
        options = f", hive_partitioning = true, hive_types = {{{types}}}"
    pattern = quote_text(f"{glob_escaped(release)}/{files}")
    return f"SELECT {', '.join(map(quote_name, columns))} FROM read_parquet({pattern}{options})"


def create_views(
    connection: duckdb.DuckDBPyConnection, release: Path, tables: Iterable[Table], schema: str = ""
) -> None:
    """One view for each table, in the named schema (``""`` the default one). The files must be there."""
    for table in tables:
        names = [column.name for column in table.columns]
        scan = scan_sql(release, table.files, table.partitioned_by, names)
        connection.execute(f"CREATE VIEW {_view(table, schema)} AS {scan}")


def comment_views(connection: duckdb.DuckDBPyConnection, tables: Iterable[Table], schema: str = "") -> None:
    """Put the descriptions of tables and columns on their views, as DuckDB comments."""
    for table in tables:
        view = _view(table, schema)
        if table.comment:
            connection.execute(f"COMMENT ON VIEW {view} IS {quote_text(table.comment)}")
        for column in table.columns:
            if column.comment:
                target = f"{view}.{quote_name(column.name)}"
                connection.execute(f"COMMENT ON COLUMN {target} IS {quote_text(column.comment)}")


def build_database(path: Path, release: Path) -> None:
    """Make a new DuckDB file of views with absolute paths over a release, views and columns commented."""
    import duckdb

    connection = duckdb.connect(":memory:")
    try:
        connection.execute(f"ATTACH {quote_text(str(path))} AS lake (STORAGE_VERSION {quote_text(STORAGE_VERSION)})")
        connection.execute("BEGIN")
        tables = read_tables(release)
        create_views(connection, release, tables, schema="lake")
        comment_views(connection, tables, schema="lake")
        connection.execute("COMMIT")
        connection.execute("DETACH lake")
    finally:
        connection.close()


def shows_release(path: Path, release: Path) -> bool:
    """Whether a DuckDB file can be read and has exactly the views of this release, at the place where it is
    now.
    """
    import duckdb

    folder = glob_escaped(release) + "/"
    try:
        connection = duckdb.connect(str(path), read_only=True)
    except duckdb.Error:
        return False
    try:
        rows = connection.execute("SELECT view_name, sql FROM duckdb_views() WHERE NOT internal").fetchall()
    except duckdb.Error:
        return False
    finally:
        connection.close()
    wanted = {table.name for table in read_tables(release)}
    return {name for name, _ in rows} == wanted and all(folder.replace("'", "''") in sql for _, sql in rows)


def count_rows_and_columns(
    connection: duckdb.DuckDBPyConnection,
    release: Path,
    files: str,
    partitioned_by: Sequence[str],
    columns: Sequence[str],
) -> tuple[int, list[Column]]:
    """Rows of a table as an independent reader counts them, and its columns with their DuckDB types."""
    scan = scan_sql(release, files, partitioned_by, columns)
    described = connection.execute(f"DESCRIBE {scan}").fetchall()
    row = connection.execute(f"SELECT count(*) FROM ({scan})").fetchone()
    assert row is not None
    return int(row[0]), [Column(name, type_) for name, type_, *_ in described]


def _view(table: Table, schema: str) -> str:
    return f"{quote_name(schema)}.{quote_name(table.name)}" if schema else quote_name(table.name)
