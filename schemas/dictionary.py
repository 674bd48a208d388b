"""The data dictionary as a page, made from the tables and the dictionary of fields."""

import polars as pl

from schemas.fields import Field
from schemas.tables import SCHEMA_VERSION, TABLES, Table

_TYPES = {pl.String(): "VARCHAR", pl.Int64(): "BIGINT", pl.Float64(): "DOUBLE", pl.Boolean(): "BOOLEAN"}


def render_dictionary() -> str:
    """The page in Markdown: every table with every column, its unit, type, meaning and source."""
    head = (
        "# Data dictionary\n\n"
        f"Schema version {SCHEMA_VERSION}. Types are those of DuckDB. NULL stands only in columns that say so.\n"
    )
    return head + "".join(_table_section(table) for table in TABLES.values())


def column_comments(table_name: str) -> dict[str, str]:
    """Column -> what to write beside it in a database."""
    return {field.name: _comment(field) for field in TABLES[table_name].fields}


def _comment(field: Field) -> str:
    unit = "" if field.unit == "-" else f" [{field.unit}]"
    return f"{field.description}{unit} ({field.source})"


def _table_section(table: Table) -> str:
    partitions = f" Partitions: {', '.join(table.partitions)}." if table.partitions else ""
    lines = [
        f"\n## {table.name}\n",
        f"{table.description} Key: {', '.join(table.key)}.{partitions}\n",
        "| column | type | unit | NULL | meaning | source |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for field in table.fields:
        allowed = f" One of: {', '.join(field.allowed)}." if field.allowed else ""
        lines.append(
            f"| {field.name} | {_TYPES[field.dtype]} | {field.unit} | {'yes' if field.nullable else 'no'} "
            f"| {field.description}.{allowed} | {field.source} |"
        )
    return "\n".join(lines) + "\n"
