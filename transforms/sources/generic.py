"""A table of one's own: CSV or Parquet, read by the ``columns`` of ``source.yaml`` (field, column, unit).

The user's word decides that a table is one: ``format: generic`` goes before every other format. A row
is a run, or a modelled point; figures and concurrency are of ``replicas`` replicas (one if not said).
"""

from collections.abc import Iterator, Mapping
from typing import Final

import polars as pl
import pyarrow
import pyarrow.compute
import pyarrow.parquet

from schemas.sidecar import Column, Sidecar
from schemas.suggest import did_you_mean
from transforms.serving_points.rules import Rule, flag_rows
from transforms.sources.csv_table import ADDED, MAX_COLUMNS, open_csv
from transforms.sources.measured import RUN_SCHEMA, as_serving_rows
from transforms.sources.rows import SLICE_BYTES, FileRejectedError, InputFile, Reading
from transforms.sources.text import header_of, listed, refuse_patterns

NAME: Final = "generic"
MAX_PARQUET_ROWS: Final = 5_000_000
MAX_PARQUET_BYTES: Final = 512 * 2**20

_PARQUET: Final = b"PAR1"
#: Bytes of a cell with what is made of it while its row is read, over those that it is stored in.
_CELL_BYTES: Final = 16


def recognises(file: InputFile) -> bool:
    """What ``source.yaml`` says so of."""
    return file.sidecar is not None and file.sidecar.format == NAME


def is_parquet(content: bytes) -> bool:
    """Whether the file begins as Parquet does."""
    return content.startswith(_PARQUET)


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
    """By PyArrow: Polars' own reader does not come back from some damaged files."""
    rows = 0
    try:
        names = _checked_names(file)
        for columns in _unpacked(file.content, names, slice_bytes):
            # without the metadata of its fields, which Polars would read too
            table = pl.DataFrame({name: pl.Series(name, columns[name]) for name in names})
            yield _accounted(table, rows)
            rows += table.height
    except (pyarrow.ArrowException, pl.exceptions.PolarsError, OSError, ValueError, MemoryError) as error:
        raise FileRejectedError(f"the Parquet file is damaged: {_first_line(error)}") from error


def _accounted(table: pl.DataFrame, rows_before: int) -> pl.DataFrame:
    texts = [name for name, dtype in table.schema.items() if not dtype.is_numeric()]
    first = rows_before + 1
    return table.with_columns(pl.col(name).cast(pl.String) for name in texts).with_columns(
        source_row=pl.int_range(first, first + pl.len(), dtype=pl.Int64),
        raw=pl.struct(table.columns).struct.json_encode(),
        reason=pl.lit(None, pl.String),
        detail=pl.lit(None, pl.String),
    )


def _checked_names(file: InputFile) -> list[str]:
    """The columns that are read."""
    parquet = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(file.content))
    schema, rows = parquet.schema_arrow, parquet.metadata.num_rows
    if len(schema.names) > MAX_COLUMNS:
        raise FileRejectedError(f"the table has {len(schema.names):,} columns, more than {MAX_COLUMNS:,}")
    _check_columns(file, schema.names)
    names = [column.column for column in _mapped(file).values()]
    refuse_patterns(names)
    for name in names:
        _check_type(name, schema.field(name).type)
    if rows > MAX_PARQUET_ROWS:
        raise FileRejectedError(f"the table has {rows:,} rows, more than {MAX_PARQUET_ROWS:,}; split it")
    return names


def _unpacked(content: bytes, names: list[str], slice_bytes: int) -> Iterator[pyarrow.Table]:
    """The columns, some rows at a time. A few bytes of Parquet may stand for any number of cells: raises
    ``FileRejectedError`` before they are unpacked where they would be too many.
    """
    parquet = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(content), read_dictionary=names)
    groups = (parquet.metadata.row_group(number) for number in range(parquet.num_row_groups))
    _check_size(sum(column.total_uncompressed_size for group in groups for column in _columns_of(group, names)))
    unpacked = 0
    most = max(1, slice_bytes // (_CELL_BYTES * max(len(names), 1)))
    # texts as they are stored: each once, and numbers for cells
    for batch in parquet.iter_batches(most, columns=names, use_threads=False):
        size = sum(map(_bytes_unpacked, batch.columns))
        unpacked += size
        _check_size(unpacked)
        rows = max(1, most * slice_bytes // max(size, slice_bytes))  # fewer where their texts are long
        for begin in range(0, batch.num_rows, rows):
            yield pyarrow.table([_plain(column) for column in batch.slice(begin, rows).columns], names=names)


def _check_size(unpacked: int) -> None:
    if unpacked > MAX_PARQUET_BYTES:
        raise FileRejectedError(f"the table unpacks to more than {MAX_PARQUET_BYTES:,} bytes; split it")


def _plain(cells: pyarrow.Array) -> pyarrow.Array:
    return cells.dictionary_decode() if pyarrow.types.is_dictionary(cells.type) else cells


def _columns_of(group: pyarrow.parquet.RowGroupMetaData, names: list[str]) -> list[pyarrow.parquet.ColumnChunkMetaData]:
    columns = (group.column(number) for number in range(group.num_columns))
    return [column for column in columns if column.path_in_schema in names]


def _bytes_unpacked(cells: pyarrow.Array) -> int:
    """Bytes of the cells as a table holds them."""
    if not pyarrow.types.is_dictionary(cells.type) or pyarrow.types.is_primitive(cells.type.value_type):
        return int(cells.nbytes)
    lengths = pyarrow.compute.binary_length(cells.dictionary).take(cells.indices)
    return int(pyarrow.compute.sum(lengths).as_py() or 0)


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


def _check_type(name: str, dtype: pyarrow.DataType) -> None:
    kinds = pyarrow.types
    stored = dtype.value_type if kinds.is_dictionary(dtype) else dtype
    numbers = (kinds.is_integer, kinds.is_floating, kinds.is_decimal, kinds.is_null)
    texts = (kinds.is_string, kinds.is_large_string, kinds.is_string_view)
    if not any(is_kind(stored) for is_kind in (*numbers, *texts)):
        raise FileRejectedError(f"column {name!r} is of type {dtype}, neither numbers nor text")


def _mapped(file: InputFile) -> Mapping[str, Column]:
    sidecar: Sidecar | None = file.sidecar
    return sidecar.mapped if sidecar else {}


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
