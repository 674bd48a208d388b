"""Pandera schemas of the tables, made from the dictionary of fields, and the check at a stage's door."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

import polars as pl

from schemas.fields import Field
from schemas.tables import TABLES

if TYPE_CHECKING:  # importing Pandera takes a third of a second, and only a frame that is not right needs it
    import pandera.polars as pa
    from pandera.api.polars.types import PolarsData


class FrameError(Exception):
    """A frame that breaks its schema: a fault of the program, never of the input."""


@cache
def schema_of(table_name: str) -> pa.DataFrameSchema:
    """The Pandera schema of a table: types, ranges, vocabularies, finite numbers, a unique key."""
    import pandera.polars as pa

    table = TABLES[table_name]
    return pa.DataFrameSchema(
        columns={field.name: _column(field) for field in table.fields},
        strict=True,
        ordered=True,
        unique=list(table.key),
        name=table.name,
        description=table.description,
    )


def empty_frame(table_name: str) -> pl.DataFrame:
    """A frame of the table with no row."""
    return pl.DataFrame(schema={field.name: field.dtype for field in TABLES[table_name].fields})


def in_columns_of(frame: pl.DataFrame, table_name: str) -> pl.DataFrame:
    """The frame with the table's columns in the table's order and types, not validated.

    Columns of the frame that the table does not have are left out. Raises ``FrameError``.
    """
    table = TABLES[table_name]
    given = frame.schema
    others = [field for field in table.fields if given.get(field.name) != field.dtype]
    try:
        if others:
            frame = frame.with_columns(pl.col(field.name).cast(field.dtype) for field in others)
        return frame[list(table.field_names)]
    except pl.exceptions.PolarsError as error:
        raise FrameError(f"{table_name}: {error}") from error


def conform(frame: pl.DataFrame, table_name: str) -> pl.DataFrame:
    """``in_columns_of``, then ``validate``. Give it many rows at once: each call costs some milliseconds."""
    return validate(in_columns_of(frame, table_name), table_name)


def validate(frame: pl.DataFrame, table_name: str) -> pl.DataFrame:
    """The frame itself if every value of it is right. Raises ``FrameError`` with the first failures.

    Takes a collected frame: on a LazyFrame Pandera looks at the types alone and says nothing.
    """
    if not isinstance(frame, pl.DataFrame):
        raise TypeError("only a collected frame can be validated")
    if is_right(frame, table_name):
        return frame
    import pandera.polars as pa

    try:
        schema_of(table_name).validate(frame, lazy=True)
    except (pa.errors.SchemaErrors, pa.errors.SchemaError) as error:
        raise FrameError(f"{table_name}: {_first_failures(error)}") from error
    return frame


def is_right(frame: pl.DataFrame, table_name: str) -> bool:
    """Whether a frame passes ``schema_of``, told by a few aggregates: what is wrong in it only Pandera says."""
    table = TABLES[table_name]
    if frame.schema != empty_frame(table_name).schema:
        return False
    if frame.is_empty():
        return True
    rules = [rule for field in table.fields for rule in _rules(field)]
    key = (
        pl.struct(table.key).n_unique() == pl.len() if len(table.key) > 1 else pl.col(table.key).n_unique() == pl.len()
    )
    held = frame.lazy().select(rule.alias(str(number)) for number, rule in enumerate([*rules, key])).collect()
    return all(held.row(0))


def _rules(field: Field) -> Iterator[pl.Expr]:
    """What holds in a whole column, each one boolean; aggregates leave NULL out."""
    column = pl.col(field.name)
    if not field.nullable:
        yield column.null_count() == 0
    if field.dtype.is_float():
        yield column.is_finite().all()
    if field.above is not None:
        yield (column.min() > field.above).fill_null(True)
    elif field.at_least is not None:
        yield (column.min() >= field.at_least).fill_null(True)
    if field.at_most is not None:
        yield (column.max() <= field.at_most).fill_null(True)
    if field.allowed is not None:
        yield column.is_in(field.allowed).all()


def _column(field: Field) -> pa.Column:
    import pandera.polars as pa

    checks: list[pa.Check] = []
    if field.dtype.is_float():
        checks.append(pa.Check(_is_finite, name="is_finite", error="is NaN or infinite"))
    if field.above is not None:
        checks.append(pa.Check.gt(field.above))
    elif field.at_least is not None:
        checks.append(pa.Check.ge(field.at_least))
    if field.at_most is not None:
        checks.append(pa.Check.le(field.at_most))
    if field.allowed is not None:
        checks.append(pa.Check.isin(field.allowed))
    return pa.Column(
        field.dtype,
        checks=checks,
        nullable=field.nullable,
        description=field.description,
        metadata={"unit": field.unit, "source": field.source},
    )


def _is_finite(data: PolarsData) -> pl.LazyFrame:
    return data.lazyframe.select(pl.col(data.key or "*").is_finite())


def _first_failures(error: Exception) -> str:
    cases = getattr(error, "failure_cases", None)
    if isinstance(cases, pl.DataFrame):
        shown = cases.select("column", "check", "failure_case").unique(maintain_order=True).head(5)
        return "; ".join(f"{column}: {check} ({value})" for column, check, value in shown.iter_rows())
    return str(error)
