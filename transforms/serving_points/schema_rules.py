"""Rules made from a table's schema: a row that the table would refuse goes to quarantine before it gets there."""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

import polars as pl

from schemas.fields import Field
from schemas.tables import TABLES
from transforms.serving_points.rules import Rule
from transforms.sources.rows import count_rule

#: No figure of a real row is larger, and products of a few stay finite.
LARGEST: Final = 1e18
LARGEST_COUNT: Final = 10**12


@cache
def schema_rules(table_name: str, without: Sequence[str] = ()) -> tuple[Rule, ...]:
    """What a table's schema demands of each column: given, finite, within its range, whole, a known word.

    The detail names the column. ``without`` are columns that the program makes itself, after the rules are tried.
    """
    fields = (field for field in TABLES[table_name].fields if field.name not in without)
    return tuple(rule for field in fields for rule in _field_rules(field))


def _field_rules(field: Field) -> Iterator[Rule]:
    name, value = field.name, pl.col(field.name)
    if not field.nullable:
        yield Rule("missing_value", value.is_null(), pl.lit(f"{name} is not given"))
    if field.dtype.is_numeric():
        yield Rule("out_of_range", ~(value.abs() <= LARGEST), pl.format(f"{name} is {{}}, too large", name))
    if field.above is not None:
        yield Rule("out_of_range", value <= field.above, pl.format(f"{name} is {{}}, not above {field.above:g}", name))
    elif field.at_least is not None:
        yield Rule("out_of_range", value < field.at_least, pl.format(f"{name} is {{}}, below {field.at_least:g}", name))
    if field.at_most is not None:
        yield Rule("out_of_range", value > field.at_most, pl.format(f"{name} is {{}}, above {field.at_most:g}", name))
    if field.dtype == pl.Int64():
        yield count_rule(name, LARGEST_COUNT)
    if field.allowed is not None:
        detail = pl.format(f"{name} is {{}}, not one of {', '.join(field.allowed)}", name)
        yield Rule("unknown_value", ~value.is_in(field.allowed), detail)
