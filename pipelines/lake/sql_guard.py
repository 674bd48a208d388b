"""Lets one SELECT through, and nothing that could write, configure or read by another door.

DuckDB's ``enable_external_access = false`` with ``allowed_directories`` keeps a query to the files of the
release, but not from writing there: ``COPY … TO`` an allowed folder is allowed, also as a common table
expression, where the statement as a whole is a SELECT (``WITH x AS (COPY … TO …) SELECT …``, new in DuckDB
2). So the statement is parsed by DuckDB itself and its tree is searched for anything but query nodes and
known table functions.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from schemas.errors import UserError

if TYPE_CHECKING:
    import duckdb

QUERY_NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
"""The kinds of query that only read. DuckDB names every kind ``…_NODE``, those of CTEs that write too."""

TABLE_FUNCTIONS = frozenset(
    {
        "range", "generate_series", "unnest", "repeat", "repeat_row", "histogram", "histogram_values",
        "json_each", "json_tree", "summary", "duckdb_columns", "duckdb_functions", "duckdb_keywords",
        "duckdb_tables", "duckdb_types", "duckdb_views", "pragma_table_info", "pragma_version",
    }
)  # fmt: skip
"""Table functions that open no file and run no text as SQL."""

TABLES_ONLY = "A query reads the tables of the lake only: no other files, no network, no extensions."
ONE_SELECT = (
    "`query` runs one statement that reads: SELECT, FROM, WITH, VALUES, DESCRIBE, SHOW or SUMMARIZE "
    "(PIVOT with its IN list, inside a FROM)."
)


def check_select(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Raise ``UserError`` unless the text is one statement that only reads. The connection only parses it."""
    rows = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()
    try:
        tree = json.loads(rows[0][0])
    except RecursionError:
        raise UserError("The SQL is nested too deeply.") from None
    if tree.get("error", True):
        message = str(tree.get("error_message", ""))
        if tree.get("error_type") == "parser":
            raise UserError(f"The SQL cannot be parsed: {message}.")
        raise UserError(ONE_SELECT)
    if len(tree["statements"]) != 1:
        raise UserError(f"{ONE_SELECT} There are {len(tree['statements'])}.")
    _check_tree(tree["statements"])


def _check_tree(tree: Any) -> None:
    todo = [tree]
    while todo:
        item = todo.pop()
        if isinstance(item, list):
            todo.extend(item)
        elif isinstance(item, dict):
            kind = item.get("type")
            if isinstance(kind, str) and kind.endswith("_NODE") and kind not in QUERY_NODES:
                raise UserError(f"{ONE_SELECT} {kind.split('_')[0]} is not allowed in it.")
            if "/" in str(item.get("table_name", "")):
                raise UserError(TABLES_ONLY)  # a file; DuckDB itself would let the folder of temporary files be read
            if kind == "TABLE_FUNCTION":
                name = str((item.get("function") or {}).get("function_name", "")).lower()
                if name not in TABLE_FUNCTIONS:
                    raise UserError(f"The table function {name} is not allowed: a query reads the lake's tables only.")
            todo.extend(item.values())
