"""The data dictionary as a page, made from the tables and the dictionary of fields."""

import polars as pl

from schemas.fields import Field
from schemas.frames import conform
from schemas.glossary import glossary_table
from schemas.table import Table
from schemas.tables import SCHEMA_VERSION, TABLES

_TYPES = {pl.String(): "VARCHAR", pl.Int64(): "BIGINT", pl.Float64(): "DOUBLE", pl.Boolean(): "BOOLEAN"}


def render_dictionary() -> str:
    """The page in Markdown: every table with every column, its unit, type, meaning and source; then the glossary."""
    head = (
        "# Data dictionary\n\n"
        f"Schema version {SCHEMA_VERSION}. Types are those of DuckDB. NULL stands only in columns that say so. "
        "Words and symbols are explained in the [glossary](#glossary) at the end.\n"
    )
    words = f"\n# Glossary\n\n{glossary_table()}"
    return head + "".join(_table_section(table) for table in TABLES.values()) + words


def dictionary_table() -> pl.DataFrame:
    """The page as the table ``data_dictionary``."""
    rows = [
        {
            "table_name": table.name,
            "column_name": field.name,
            "data_type": _TYPES[field.dtype],
            "unit": field.unit,
            "nullable": field.nullable,
            "description": _meaning(field),
            "origin": field.source,
        }
        for table in TABLES.values()
        for field in table.fields
    ]
    return conform(pl.DataFrame(rows), "data_dictionary")


def column_comments(table_name: str) -> dict[str, str]:
    """Column -> what to write beside it in a database."""
    table = TABLES[table_name]
    return {field.name: _comment(field, table.references.get(field.name)) for field in table.fields}


def _comment(field: Field, refers_to: str | None) -> str:
    unit = "" if field.unit == "-" else f" [{field.unit}]"
    key = "" if refers_to is None else f"; key of {refers_to}"
    return f"{field.description}{unit} ({field.source}){key}"


def _meaning(field: Field) -> str:
    allowed = f" One of: {', '.join(field.allowed)}." if field.allowed else ""
    return f"{field.description}.{allowed}"


def _table_section(table: Table) -> str:
    partitions = f" Partitions: {', '.join(table.partitions)}." if table.partitions else ""
    lines = [
        f"\n## {table.name}\n",
        f"{table.description} Key: {', '.join(table.key)}.{partitions}\n",
        "| column | type | unit | NULL | meaning | source |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {field.name} | {_TYPES[field.dtype]} | {field.unit} | {'yes' if field.nullable else 'no'} "
        f"| {_meaning(field)} | {field.source} |"
        for field in table.fields
    ]
    return "\n".join(lines) + "\n"
