"""The DuckDB file of one release: views over its files, and small tables with rows of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.lake.layout import repair
from pipelines.lake.tables import Column, PublishedTable, read_published_tables
from schemas.errors import UserError

if TYPE_CHECKING:
    import duckdb

STORAGE_VERSION = "v1.0.0"
"""The oldest storage that holds column comments: clients of DuckDB 1.4 open the file, which 2.0's own they do not."""
BLOCK_BYTES = 16_384
"""The smallest: a table of a few rows then takes no megabyte."""


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
    pattern = quote_text(f"{glob_escaped(release)}/{files}")
    if not partitioned_by:
        names = ", ".join(map(quote_name, columns))
        return f"SELECT {names} FROM read_parquet({pattern}, hive_partitioning = false)"
    if "=" not in str(release):
        types = ", ".join(f"{quote_text(name)}: VARCHAR" for name in partitioned_by)
        names = ", ".join(map(quote_name, columns))
        return f"SELECT {names} FROM read_parquet({pattern}, hive_partitioning = true, hive_types = {{{types}}})"
    # DuckDB would take the lake's own folders for partitions too, and believe the outermost of a name
    folders = "/".join(f"{name}=([^/]*)" for name in partitioned_by)
    values = [
        f"regexp_extract(filename, {quote_text(f'/{folders}/[^/]*$')}, {partitioned_by.index(name) + 1}) AS "
        f"{quote_name(name)}" if name in partitioned_by else quote_name(name)
        for name in columns
    ]  # fmt: skip
    return f"SELECT {', '.join(values)} FROM read_parquet({pattern}, hive_partitioning = false, filename = true)"


def create_views(
    connection: duckdb.DuckDBPyConnection, release: Path, tables: Iterable[PublishedTable], schema: str = ""
) -> None:
    """One view for each table, in the named schema (``""`` the default one). The files must be there."""
    for table in tables:
        connection.execute(f"CREATE VIEW {_named(table, schema)} AS {_scan(table, release)}")


def store_tables(
    connection: duckdb.DuckDBPyConnection, release: Path, tables: Sequence[PublishedTable], schema: str
) -> None:
    """Fill one table for each of these, primary keys declared."""
    for table in tables:
        rules = [f"{quote_name(column.name)} {column.type}" for column in table.columns]
        if table.stored:
            rules.append(f"PRIMARY KEY ({', '.join(map(quote_name, table.stored))})")
        connection.execute(f"CREATE TABLE {_named(table, schema)} ({', '.join(rules)})")
        connection.execute(f"INSERT INTO {_named(table, schema)} {_scan(table, release)}")


def comment_tables(
    connection: duckdb.DuckDBPyConnection, tables: Iterable[PublishedTable], schema: str = "", kind: str = "VIEW"
) -> None:
    """Put the descriptions of tables and columns on their views, or with ``TABLE`` tables, as DuckDB comments."""
    for table in tables:
        name = _named(table, schema)
        if table.comment:
            connection.execute(f"COMMENT ON {kind} {name} IS {quote_text(table.comment)}")
        for column in table.columns:
            if column.comment:
                target = f"{name}.{quote_name(column.name)}"
                connection.execute(f"COMMENT ON COLUMN {target} IS {quote_text(column.comment)}")


def build_database(path: Path, release: Path) -> None:
    """Make a new DuckDB file of a release: views with absolute paths, tables, comments on them and their columns.

    Raises ``UserError`` where the disk takes no more, or files of the release cannot be read.
    """
    import duckdb

    tables = read_published_tables(release)
    connection = duckdb.connect(":memory:")
    try:
        options = f"STORAGE_VERSION {quote_text(STORAGE_VERSION)}, BLOCK_SIZE {BLOCK_BYTES}"
        connection.execute(f"ATTACH {quote_text(str(path))} AS lake ({options})")
        connection.execute("BEGIN")
        views, stored = ([table for table in tables if (table.stored is not None) == held] for held in (False, True))
        create_views(connection, release, views, schema="lake")
        comment_tables(connection, views, schema="lake")
        store_tables(connection, release, stored, schema="lake")
        comment_tables(connection, stored, schema="lake", kind="TABLE")
        connection.execute("COMMIT")
        connection.execute("DETACH lake")
    except duckdb.Error as error:
        said = " ".join(str(error).partition("LINE 1:")[0].split()).rstrip(".")
        if ".parquet" in said:
            raise UserError(
                f"The tables of release {release.name} cannot be read: {said}. {repair(release)}"
            ) from error
        raise UserError(
            f"The DuckDB file of the lake {path.parent} cannot be written: {said}. What was published before is "
            "unchanged; make room or give write access, then try again."
        ) from error
    finally:
        connection.close()


def shows_release(path: Path, release: Path) -> bool:
    """Whether a DuckDB file can be read and has exactly the views and tables of this release, the views at the
    place where it is now. The file is written at once: where its views are of a release, so are the rows it holds.
    """
    import duckdb

    folder = glob_escaped(release) + "/"
    try:
        connection = duckdb.connect(str(path), read_only=True)
    except duckdb.Error:
        return False
    try:
        views = connection.execute("SELECT view_name, sql FROM duckdb_views() WHERE NOT internal").fetchall()
        held = connection.execute("SELECT table_name FROM duckdb_tables() WHERE NOT internal").fetchall()
    except duckdb.Error:
        return False
    finally:
        connection.close()
    tables = read_published_tables(release)
    there = {name for name, _ in views} == {table.name for table in tables if table.stored is None}
    there = there and {name for (name,) in held} == {table.name for table in tables if table.stored is not None}
    return there and all(folder.replace("'", "''") in sql for _, sql in views)


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


def _scan(table: PublishedTable, release: Path) -> str:
    return scan_sql(release, table.files, table.partitioned_by, [column.name for column in table.columns])


def _named(table: PublishedTable, schema: str) -> str:
    return f"{quote_name(schema)}.{quote_name(table.name)}" if schema else quote_name(table.name)
