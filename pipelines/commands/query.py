"""`agent-pareto query`: SQL over the newest release."""

import os
import sys
from typing import TYPE_CHECKING, Annotated, Literal, TextIO

import typer

from pipelines.commands.shared_options import DEFAULT_LAKE, LakeOption
from pipelines.terminal import terminal_columns

if TYPE_CHECKING:
    from pipelines.lake.query import LakeQuery

DEFAULT_MAX_ROWS = 40


def query_command(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One SELECT, or DESCRIBE, SHOW TABLES, SUMMARIZE.")],
    lake: LakeOption = DEFAULT_LAKE,
    output_format: Annotated[
        Literal["table", "csv", "json"],
        typer.Option("--format", help="csv and json give every row, and every digit."),
    ] = "table",
    max_rows: Annotated[
        int, typer.Option("--max-rows", min=0, help="Rows that a table shows; 0 for all.")
    ] = DEFAULT_MAX_ROWS,
    memory_gb: Annotated[
        float | None,
        typer.Option(
            "--memory",
            metavar="GB",
            min=0.05,
            help="Memory that the query may use; without, half of the machine's. More goes to temporary files.",
        ),
    ] = None,
) -> None:
    """Run SQL over the newest release of a lake, read-only.

    The tables of the release are there under their names; `SHOW TABLES` lists them and `DESCRIBE
    agent_frontier` the columns of one. Nothing outside the release can be read: no file, no network, no
    extension.
    """
    from pipelines.lake.query import open_lake

    try:
        with open_lake(lake, memory_gb) as connection:
            _write(sys.stdout, connection, sql, output_format, max_rows)
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader, `head` say, has all it wanted. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write(out: TextIO, lake: "LakeQuery", sql: str, output_format: str, max_rows: int) -> None:
    from pipelines.lake.formats import write_csv, write_json, write_table

    result = lake.query(sql)
    if output_format == "table":
        total = write_table(out, result.columns, result.rows(), max_rows, terminal_columns())
        if total is None:
            total = lake.count(sql)
            of = "more" if total is None else f"{total:,}"
            out.write(f"{max_rows:,} of {of} rows shown; --max-rows 0 shows all.\n")
        else:
            out.write(f"{total:,} {'row' if total == 1 else 'rows'}\n")
        return
    if hasattr(out, "reconfigure"):
        out.reconfigure(encoding="utf-8", newline="")
    write = write_csv if output_format == "csv" else write_json
    write(out, result.columns, result.rows())
