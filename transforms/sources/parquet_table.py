"""A Parquet file's columns in slices of whole rows, by PyArrow: Polars' own reader does not come back from some
damaged files."""

from collections.abc import Callable, Iterator
from typing import Final

import polars as pl
import pyarrow
import pyarrow.compute
import pyarrow.parquet

from transforms.sources.csv_table import MAX_COLUMNS
from transforms.sources.rows import SLICE_BYTES, FileRejectedError
from transforms.sources.text import refuse_patterns

MAX_PARQUET_ROWS: Final = 5_000_000
MAX_PARQUET_BYTES: Final = 512 * 2**20

_PARQUET: Final = b"PAR1"
#: Bytes of a cell with what is made of it while its row is read, over those that it is stored in.
_CELL_BYTES: Final = 16


def is_parquet(content: bytes) -> bool:
    """Whether the file begins as Parquet does."""
    return content.startswith(_PARQUET)


def parquet_columns(content: bytes) -> list[str]:
    """The names of the file's columns; none where it is damaged, which is left to ``parquet_slices``."""
    try:
        return list(pyarrow.parquet.read_schema(pyarrow.BufferReader(content)).names)
    except (pyarrow.ArrowException, OSError, ValueError, MemoryError):
        return []


def parquet_slices(
    content: bytes, chosen: Callable[[list[str]], list[str]], slice_bytes: int = SLICE_BYTES
) -> Iterator[pl.DataFrame]:
    """The columns that ``chosen`` takes of the file's names, with ``source_row``, ``raw``, ``reason`` and ``detail``.

    Numbers stay numbers, all else becomes text. Raises ``FileRejectedError`` for a file that is damaged or too large.
    """
    rows = 0
    try:
        names = _checked_names(content, chosen)
        for columns in _unpacked(content, names, slice_bytes):
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


def _checked_names(content: bytes, chosen: Callable[[list[str]], list[str]]) -> list[str]:
    """The columns that are read."""
    parquet = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(content))
    schema, rows = parquet.schema_arrow, parquet.metadata.num_rows
    if len(schema.names) > MAX_COLUMNS:
        raise FileRejectedError(f"the table has {len(schema.names):,} columns, more than {MAX_COLUMNS:,}")
    names = chosen(list(schema.names))
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


def _check_type(name: str, dtype: pyarrow.DataType) -> None:
    kinds = pyarrow.types
    stored = dtype.value_type if kinds.is_dictionary(dtype) else dtype
    numbers = (kinds.is_integer, kinds.is_floating, kinds.is_decimal, kinds.is_null)
    texts = (kinds.is_string, kinds.is_large_string, kinds.is_string_view)
    if not any(is_kind(stored) for is_kind in (*numbers, *texts)):
        raise FileRejectedError(f"column {name!r} is of type {dtype}, neither numbers nor text")


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
