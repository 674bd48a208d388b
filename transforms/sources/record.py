"""One record of a results file: reads its values and remembers the first that cannot be used."""

import json
import math
from collections.abc import Mapping

from schemas.sentences import show


class Record:
    """A nested record, read by paths (``record.number("metrics", "ttft", "avg")``).

    A value that is not there is None; one that is there and cannot be used is None too and becomes
    the record's ``problem``: a reason and a sentence.
    """

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values
        self._read: dict[str, object] = {}
        self.problem: tuple[str, str] | None = None

    def get(self, *path: str) -> object:
        """Whatever stands at this path; None if nothing does."""
        value: object = self._values
        for part in path:
            value = value.get(part) if isinstance(value, Mapping) else None
        if not isinstance(value, Mapping | list):
            self._read[".".join(path)] = value
        return value

    def number(self, *path: str) -> float | None:
        """The finite number at this path."""
        value = self.get(*path)
        if value is None:
            return None
        number = to_number(value)
        if number is None:
            self.flag("not_a_number", f"{'.'.join(path)} is {show(value)}, not a number")
        return number

    def text(self, *path: str) -> str | None:
        """The text at this path; None where it is empty."""
        value = self.get(*path)
        if value is None:
            return None
        if not isinstance(value, str) or not is_storable(value):
            self.flag("not_text", f"{'.'.join(path)} is {show(value)}, not text")
            return None
        return value.strip() or None

    def flag(self, reason: str, detail: str) -> None:
        """Records a problem; the first one stays."""
        if self.problem is None:
            self.problem = (reason, detail)

    def row(self, source_row: int, columns: Mapping[str, object], raw: str | None = None) -> dict[str, object]:
        """The record as a row: its columns, its problem and what was read of it."""
        reason, detail = self.problem or (None, None)
        text = as_json(self._read) if raw is None else raw
        return {"source_row": source_row, "raw": text, "reason": reason, "detail": detail, **columns}

    @property
    def scalars(self) -> str:
        """The record's own values without lists and objects, as JSON."""
        return as_json({key: value for key, value in self._values.items() if not isinstance(value, Mapping | list)})


def to_number(value: object) -> float | None:
    """A finite number as a float; None for anything else, booleans and text that looks like one too."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def ratio(numerator: float | None, denominator: float | None) -> float | None:
    """The quotient; None where a part is missing or it is no finite number."""
    if numerator is None or not denominator:
        return None
    quotient = numerator / denominator
    return quotient if math.isfinite(quotient) else None


def as_json(values: Mapping[str, object]) -> str:
    """JSON text that any column can store."""
    text = json.dumps(values, ensure_ascii=False, default=str)
    return text if is_storable(text) else json.dumps(values, default=str)


def is_storable(text: str) -> bool:
    """Whether the text can be written as UTF-8: JSON can escape half of a character pair, which cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
