"""Texts that an agent point may carry, as codes: the place of a text in its column's vocabulary. Code 0 is NULL."""

from typing import Final

from schemas.fields import FIELDS

LABELLED: Final = ("infeasible_reason", "binding_limit", "transfer_method", "kv_room_source")
#: Column -> its texts.
LABELS: Final[dict[str, tuple[str | None, ...]]] = {name: (None, *(FIELDS[name].allowed or ())) for name in LABELLED}


def code(column: str, text: str | None) -> int:
    """The code of a text of that column."""
    return LABELS[column].index(text)
