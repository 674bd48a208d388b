"""A table of one's own: CSV or Parquet, read by the ``columns`` of ``source.yaml`` (field, column, unit).

The user's word decides that a table is one: ``format: generic`` goes before every other format. A row
is a run, or a modelled point; figures and concurrency are of ``replicas`` replicas (one if not said).
"""

from collections.abc import Iterator, Mapping
from typing import Final

import polars as pl

from schemas.sidecar import Column, Sidecar
from schemas.suggest import did_you_mean
from transforms.serving_points.rules import Rule, flag_rows
from transforms.sources.csv_table import ADDED, open_csv
from transforms.sources.measured import RUN_SCHEMA, as_serving_rows
from transforms.sources.parquet_table import is_parquet, parquet_slices
from transforms.sources.rows import SLICE_BYTES, FileRejectedError, InputFile, Reading
from transforms.sources.text import header_of, listed

NAME: Final = "generic"


def recognises(file: InputFile) -> bool:
    """What ``source.yaml`` says so of."""
    return file.sidecar is not None and file.sidecar.format == NAME


def read(file: InputFile, slice_bytes: int = SLICE_BYTES) -> Iterator[Reading]:
    """The rows of the table, a slice at a time. Raises ``FileRejectedError``."""
    if file.sidecar is None:
        raise FileRejectedError("a table of one's own needs a source.yaml beside it with `format: generic`")
    tool, version = file.sidecar.tool or "generic table", file.sidecar.tool_version
    columns = {field: column.column for field, column in file.sidecar.mapped.items()}
    rows = 0
    for table in (_parquet if is_parquet(file.content) else _csv)(file, slice_bytes):
        rows += table.height
        runs = _as_runs(table, file.sidecar.mapped)
        yield Reading(NAME, tool, version, as_serving_rows(runs, NAME, file.sidecar), columns=columns)
    if not rows:
        raise FileRejectedError("the table has no rows")


def _csv(file: InputFile, slice_bytes: int) -> Iterator[pl.DataFrame]:
    header = header_of(file.content)
    taken = sorted(set(header) & set(ADDED))
    if taken:
        raise FileRejectedError(f"the column name {taken[0]!r} is used for the account of rows; rename the column")
    if header[:1] and header[0][:1] in ("{", "["):
        raise FileRejectedError("a JSON file; a table with `format: generic` is CSV or Parquet")
    table = open_csv(file.content)
    _check_columns(file, table.header)
    for rows in table.slices(slice_bytes):
        yield rows.select(*ADDED, *(column.column for column in _mapped(file).values()))


def _parquet(file: InputFile, slice_bytes: int) -> Iterator[pl.DataFrame]:
    def mapped(names: list[str]) -> list[str]:
        _check_columns(file, names)
        return [column.column for column in _mapped(file).values()]

    return parquet_slices(file.content, mapped, slice_bytes)


def _as_runs(table: pl.DataFrame, mapped: Mapping[str, Column]) -> pl.DataFrame:
    """The table's columns under the names of the fields and in their units."""
    rules, columns = [], {}
    for field, column in mapped.items():
        cell = pl.col(column.column)
        if RUN_SCHEMA[field] == pl.String():
            columns[field] = cell.cast(pl.String).str.strip_chars()
            continue
        number = cell.cast(pl.Float64, strict=False)
        usable = number.is_finite().fill_null(False)
        words = pl.concat_str(pl.lit(f"{column.column} is '"), cell.cast(pl.String), pl.lit("', not a number"))
        rules.append(Rule("not_a_number", cell.is_not_null() & ~usable, words))
        columns[field] = pl.when(usable).then(number) * (1.0 if column.factor is None else column.factor)
    flagged = flag_rows(table, rules)
    return flagged.select(*ADDED, **columns)


def _check_columns(file: InputFile, present: list[str]) -> None:
    """Every column of the mapping must be there, and every other be meant to stay unread."""
    names = [column.column for column in _mapped(file).values()]
    for name in names:
        if name not in present:
            raise FileRejectedError(
                f"source.yaml reads column {name!r}, which the table does not have.{did_you_mean(name, present)}"
                f" Its columns are {listed(present)}"
            )
    other = [name for name in present if name not in names]
    if other and not (file.sidecar and file.sidecar.ignore_other_columns):
        raise FileRejectedError(
            f"source.yaml does not say what column {listed(other)} means: map it under `columns`, or write"
            " `ignore_other_columns: true`"
        )


def _mapped(file: InputFile) -> Mapping[str, Column]:
    sidecar: Sidecar | None = file.sidecar
    return sidecar.mapped if sidecar else {}
