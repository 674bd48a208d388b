"""What a user calls something in a lake, and what the lake calls it."""

from collections.abc import Collection

from schemas.errors import UserError
from schemas.suggest import did_you_mean


def slug_in_lake(slugs: Collection[str], name: str, meant: str | None, kind: str) -> str:
    """The slug of those in the lake that a name stands for: itself, or ``meant``, what a catalogue's alias means.

    Raises ``UserError`` with the nearest ones where the lake has neither.
    """
    for slug in (name, meant):
        if slug is not None and slug in slugs:
            return slug
    raise UserError(
        f"The lake has no {kind} {name!r}.{did_you_mean(name, sorted(slugs))} It has: {', '.join(sorted(slugs))}."
    )
