"""Which session each request of a trace is of, where the trace names none: by its parent, else by shared blocks."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from transforms.traces.formats.values import UnknownTraceError
from transforms.traces.requests import Counts


class BlockRow(NamedTuple):
    """One request with the ids of its KV blocks."""

    start: float | None
    input_tokens: float
    output_tokens: float
    ids: Sequence[int | str]
    name: str | None = None
    parent: str | None = None


#: Session and turn of a request.
Place = tuple[int, int]
#: Where more than this share of the requests end on a template, blocks are too coarse to tell sessions.
_ON_TEMPLATES: Final = 0.5


def sessions_of(rows: Sequence[BlockRow], block_tokens: float, counts: Counts) -> list[Place]:
    """Session and turn of each request, the requests in the order of their times. Raises ``UnknownTraceError``."""
    if any(row.name is not None for row in rows):
        return _by_parents(rows, counts)
    return _by_blocks(rows, block_tokens, counts)


def _by_parents(rows: Sequence[BlockRow], counts: Counts) -> list[Place]:
    """A request goes on with its parent's session; a second child of one parent begins a session of its own."""
    at: dict[str, Place] = {}
    continued: set[str] = set()
    names = {row.name for row in rows}
    places: list[Place] = []
    sessions = 0
    for row in rows:
        parent = at.get(row.parent) if row.parent is not None else None
        if parent is not None and row.parent is not None and row.parent not in continued:
            continued.add(row.parent)
            place = (parent[0], parent[1] + 1)
        else:
            counts["branches"] += parent is not None
            counts["sessions_begun_before"] += row.parent is not None and row.parent not in names
            sessions += 1
            place = (sessions, 0)
        if row.name is not None:
            at[row.name] = place
        places.append(place)
    return places


def _by_blocks(rows: Sequence[BlockRow], block_tokens: float, counts: Counts) -> list[Place]:
    """A request goes on with the one whose full blocks its own input begins with, and is longer than it."""
    templates = _templates(rows, block_tokens)
    ends = [_end(row, block_tokens) for row in rows]
    on_templates = sum(end in templates for end in ends)
    if on_templates > _ON_TEMPLATES * len(rows):
        raise UnknownTraceError(
            f"names no sessions, and {on_templates:,} of {len(rows):,} requests share all of their full blocks with"
            " unlike others: sessions cannot be told apart. Give session_id or parent_chat_id"
        )
    open_ends: dict[object, tuple[Place, float]] = {}  # last full block -> session, turn and input
    places: list[Place] = []
    sessions = 0
    for row, end in zip(rows, ends, strict=True):
        place: Place | None = None
        for block in reversed(row.ids):
            found = open_ends.get(block)
            if found is not None and found[1] < row.input_tokens:
                del open_ends[block]
                place = (found[0][0], found[0][1] + 1)
                break
        if place is None:
            sessions += 1
            counts["sessions_inferred"] += 1
            place = (sessions, 0)
        if end is not None and end not in templates:
            open_ends[end] = (place, row.input_tokens)
        places.append(place)
    return places


def _full(row: BlockRow, block_tokens: float) -> int:
    """How many of a request's blocks are full."""
    return min(int(row.input_tokens // block_tokens), len(row.ids)) if row.input_tokens > 0 else 0


def _end(row: BlockRow, block_tokens: float) -> object:
    full = _full(row, block_tokens)
    return row.ids[full - 1] if full else None


def _templates(rows: Sequence[BlockRow], block_tokens: float) -> set[object]:
    """Last full blocks that are no session's: several full blocks follow them, or inputs that end on them shrink."""
    ends = {_end(row, block_tokens) for row in rows} - {None}
    following: dict[object, object] = {}
    longest: dict[object, float] = {}
    found: set[object] = set()
    for row in rows:
        full = _full(row, block_tokens)
        for block, after in zip(row.ids[: full - 1], row.ids[1:full], strict=False) if full > 1 else ():
            if block in ends and following.setdefault(block, after) != after:
                found.add(block)
        end = row.ids[full - 1] if full else None
        if end is not None:
            if row.input_tokens <= longest.get(end, 0.0):
                found.add(end)
            longest[end] = max(longest.get(end, 0.0), row.input_tokens)
    return found
