"""What a user calls something in a lake, and what the lake calls it."""

from collections.abc import Collection

from schemas.errors import UserError
from schemas.suggest import did_you_mean, nearest_few

#: So many names are listed in a message; of more only the nearest.
FEW = 8


def slug_in_lake(slugs: Collection[str], name: str, meant: str | None, kind: str) -> str:
    """The slug of those in the lake that a name stands for: itself, or ``meant``, what a catalogue's alias means.

    Raises ``UserError`` with the nearest ones where the lake has neither.
    """
    for slug in (name, meant):
        if slug is not None and slug in slugs:
            return slug
    there = sorted(slugs)
    if len(there) <= FEW:
        raise UserError(f"The lake has no {kind} {name!r}.{did_you_mean(name, there)} It has: {', '.join(there)}.")
    near = nearest_few(name, there) or there[:3]
    raise UserError(
        f"The lake has no {kind} {name!r}. Nearest of {len(there)}: {', '.join(near)}; all of them: "
        f'agent-pareto query "select distinct {kind} from agent_points".'
    )
