"""What may stand in a release: names, partition values and cells."""

import re

import polars as pl

from schemas.errors import UserError
from schemas.slugs import WORDS_READ_AS_VALUES, is_slug

NAME_PATTERN = re.compile(r"[a-z][a-z0-9_]{0,62}")


def check_name(name: str) -> None:
    """Raises ``ValueError`` for what cannot name a table or a partition column."""
    if NAME_PATTERN.fullmatch(name) is None:
        raise ValueError(f"{name!r} cannot name a table or a partition column: lower-case letters, digits and _ only")


def check_partition_value(key: str, value: object) -> None:
    """Raises ``UserError`` for a value that is no slug: it would leave its folder, or change on its way."""
    if not isinstance(value, str) or not is_slug(value):
        raise UserError(
            f"{str(value)[:100]!r} cannot be a partition value of {key}: it must be a slug "
            "(lower-case letters, digits and -, beginning with a letter, at most 80)."
        )
    if value in WORDS_READ_AS_VALUES:
        raise UserError(
            f"{value!r} cannot be a slug of {key}: readers of the lake could take it for a number, a date "
            "or a boolean. Choose another slug; the name may stay."
        )


def check_values(table: str, frame: pl.DataFrame) -> None:
    """Raises ``ValueError`` for columns without a type, NaN and infinities."""
    untyped = [name for name, dtype in frame.schema.items() if dtype in (pl.Null, pl.Object)]
    if untyped:
        raise ValueError(f"{table}: columns without a type: {', '.join(untyped)}")
    floats = (name for name, dtype in frame.schema.items() if dtype.is_float())
    wrong = [name for name in floats if not frame[name].is_finite().all()]
    if wrong:
        raise ValueError(f"{table}: NaN or infinity in {', '.join(wrong)}")


def difference(first: pl.Schema, other: pl.Schema) -> str:
    """In words, what the second schema has otherwise."""
    for name in [*first, *other]:
        if first.get(name) != other.get(name):
            return f"column {name} is {other.get(name)}, but {first.get(name)} in what was written first"
    return "the columns stand in another order than in what was written first"
