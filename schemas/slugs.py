"""Slugs: names that are safe as folder names, partition values and keys."""

import re
from typing import Annotated

from pydantic import StringConstraints

SLUG_PATTERN = r"^[a-z][a-z0-9-]{0,79}$"
Slug = Annotated[str, StringConstraints(pattern=SLUG_PATTERN)]


def is_slug(text: str) -> bool:
    """Whether the text is a slug: lower-case letters, digits and ``-``, beginning with a letter."""
    return re.fullmatch(SLUG_PATTERN, text) is not None
