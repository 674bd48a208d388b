"""Canaries: what is wrong in a frame is found for certain, in every column of every table.

Each check here has a bad value in the last of several rows, in all columns at once: a column whose check is skipped
is missing from the failures.
"""

import math
from collections.abc import Mapping

import polars as pl
import pytest

from schemas.fields import Field
from schemas.frames import FrameError, conform, empty_frame, in_columns_of, is_right, schema_of, validate
from schemas.tables import TABLES

ROWS = 3


def good_value(field: Field, row: int) -> object:
    """A value that the field allows, another one in each row where it can be."""
    if field.dtype == pl.Boolean():
        return row % 2 == 0
    if field.dtype == pl.String():
        return field.allowed[row % len(field.allowed)] if field.allowed else f"text-{row}"
    low = field.above if field.above is not None else field.at_least
    value: float = (0.0 if low is None else low) + (0.25 if field.at_most is not None else 1.0) * (row + 1)
    return value if field.dtype.is_float() else int(value)


def good_frame(table: str) -> pl.DataFrame:
    columns: dict[str, list[object]] = {}
    for field in TABLES[table].fields:
        columns[field.name] = [good_value(field, row) for row in range(ROWS)]
    schema = {field.name: field.dtype for field in TABLES[table].fields}
    return pl.DataFrame(columns, schema=schema, strict=False)


def with_last(frame: pl.DataFrame, bad: Mapping[str, object]) -> pl.DataFrame:
    """The frame with other values in its last row."""
    last = pl.int_range(pl.len()) == ROWS - 1
    return frame.with_columns(
        pl.when(last).then(pl.lit(value, frame.schema[name])).otherwise(pl.col(name)).alias(name)
        for name, value in bad.items()
    )


def failing_columns(frame: pl.DataFrame, table: str) -> set[str]:
    """Columns that the schema finds fault with; none if the frame passes."""
    import pandera.polars as pa

    try:
        schema_of(table).validate(frame, lazy=True)
    except pa.errors.SchemaErrors as error:
        assert not is_right(frame, table)
        return set(error.failure_cases["column"].to_list())
    assert is_right(frame, table)
    return set()


@pytest.mark.parametrize("table", TABLES)
class TestEveryTable:
    def test_a_good_frame_passes_unchanged(self, table: str) -> None:
        frame = good_frame(table)
        assert validate(frame, table).equals(frame)

    def test_no_rows_pass(self, table: str) -> None:
        frame = conform(pl.DataFrame(schema=empty_frame(table).schema), table)
        assert frame.height == 0
        assert frame.schema == empty_frame(table).schema

    def test_null_everywhere_it_may_be(self, table: str) -> None:
        nullable = {field.name: None for field in TABLES[table].fields if field.nullable}
        validate(with_last(good_frame(table), nullable), table)

    def test_null_elsewhere(self, table: str) -> None:
        needed = {field.name: None for field in TABLES[table].fields if not field.nullable}
        assert failing_columns(with_last(good_frame(table), needed), table) == set(needed)

    @pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
    def test_not_finite(self, table: str, bad: float) -> None:
        """NaN is no NULL: it is refused where NULL may stand, too; infinity is above every bound."""
        reals = {field.name: bad for field in TABLES[table].fields if field.dtype.is_float()}
        assert failing_columns(with_last(good_frame(table), dict(reals)), table) == set(reals)

    def test_beyond_the_bounds(self, table: str) -> None:
        for bound in ("above", "at_least", "at_most"):
            limits = {field.name: getattr(field, bound) for field in TABLES[table].fields}
            step = {"above": 0, "at_least": -1, "at_most": 1}[bound]
            bad: dict[str, object] = {name: limit + step for name, limit in limits.items() if limit is not None}
            assert failing_columns(with_last(good_frame(table), bad), table) == set(bad)

    def test_out_of_vocabulary(self, table: str) -> None:
        words: dict[str, object] = {field.name: "BF16" for field in TABLES[table].fields if field.allowed is not None}
        assert failing_columns(with_last(good_frame(table), words), table) == set(words)

    def test_a_key_twice(self, table: str) -> None:
        frame = good_frame(table)
        key = TABLES[table].key
        twice = with_last(frame, {name: frame[name][0] for name in key})
        with pytest.raises(FrameError, match=table):
            validate(twice, table)


class TestShape:
    TABLE = "quarantine"

    def test_a_column_too_few_or_too_many(self) -> None:
        frame = good_frame(self.TABLE)
        for wrong in (frame.drop("raw"), frame.with_columns(other=1), frame.select(reversed(frame.columns))):
            with pytest.raises(FrameError, match=self.TABLE):
                validate(wrong, self.TABLE)

    def test_another_type(self) -> None:
        with pytest.raises(FrameError, match="source_row"):
            validate(good_frame(self.TABLE).with_columns(pl.col("source_row").cast(pl.Float64)), self.TABLE)

    def test_a_lazy_frame_is_refused(self) -> None:
        """Pandera skips every value check on one and says nothing."""
        with pytest.raises(TypeError, match="collected"):
            validate(good_frame(self.TABLE).lazy(), self.TABLE)  # type: ignore[arg-type]

    def test_the_message_names_table_column_and_value(self) -> None:
        frame = with_last(good_frame("agent_points"), {"ttft_ms": math.nan, "serving_mode": "hybrid"})
        with pytest.raises(FrameError) as caught:
            validate(frame, "agent_points")
        for word in ("agent_points", "ttft_ms", "NaN or infinite", "serving_mode", "hybrid"):
            assert word in str(caught.value)

    def test_columns_are_put_in_order_and_cast(self) -> None:
        frame = good_frame(self.TABLE)
        narrower = frame.with_columns(pl.col("source_row").cast(pl.Int32), other=1)
        mixed = narrower.select(reversed(narrower.columns))
        assert conform(mixed, self.TABLE).equals(frame)

    def test_what_cannot_be_cast_or_is_not_there(self) -> None:
        frame = good_frame(self.TABLE)
        with pytest.raises(FrameError, match=self.TABLE):
            in_columns_of(frame.with_columns(source_row=pl.lit("one")), self.TABLE)
        with pytest.raises(FrameError, match=self.TABLE):
            in_columns_of(frame.drop("raw"), self.TABLE)
