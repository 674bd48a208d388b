"""Slugs: names that are safe as folder names, partition values and keys."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, StringConstraints

SLUG_PATTERN: Final = r"^[a-z][a-z0-9-]{0,79}$"
#: Words that Polars or DuckDB take for a boolean, a number or a date where they are the only value in
#: folder names.
WORDS_READ_AS_VALUES: Final = frozenset({"true", "false", "null", "none", "nan", "inf", "infinity", "epoch"})


def is_slug(text: str) -> bool:
    """Whether the text is a slug: lower-case letters, digits and ``-``, beginning with a letter."""
    return re.fullmatch(SLUG_PATTERN, text) is not None


def _is_no_value(slug: str) -> str:
    if slug in WORDS_READ_AS_VALUES:
        raise ValueError(f"{slug!r} would be read as a value, not as text: choose another slug; the name may stay")
    return slug


Slug = Annotated[str, StringConstraints(pattern=SLUG_PATTERN), AfterValidator(_is_no_value)]

#: Between the GPU that prefills and the one that decodes, in the slug of a replica that has both.
PAIR: Final = "-and-"
