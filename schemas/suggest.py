"""The nearest known name, for messages only: nothing is ever resolved to it."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that looks most like this one, upper and lower case alike; None if none is near.

    Of spellings that differ in case only, the first.
    """
    by_folded: dict[str, str] = {}
    for candidate in known:
        by_folded.setdefault(candidate.casefold(), candidate)
    close = get_close_matches(name.casefold(), by_folded, n=1)
    return by_folded[close[0]] if close else None


def nearest_few(name: str, known: Iterable[str], at_most: int = 3) -> list[str]:
    """The known names that look most like this one, the most alike first, upper and lower case alike."""
    by_folded = {candidate.casefold(): candidate for candidate in known}
    return [by_folded[close] for close in get_close_matches(name.casefold(), by_folded, n=at_most)]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``" Did you mean 'x'?"``, with its leading blank; empty if no known name is near."""
    candidate = nearest(name, known)
    return f" Did you mean {candidate!r}?" if candidate is not None else ""
