"""JSON and JSON-lines from a file's bytes: plain values, with the faults of each line named.

Stricter than Python's reader: a key given twice is an error, and what is no finite number (``NaN``,
``Infinity``, ``1e999``) stays the text that it was, so that nobody calculates with it.
"""

import json
import math
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from transforms.sources.rows import FileRejectedError
from transforms.sources.text import decode_text

#: One document is held in memory whole, at several times its size.
MAX_BYTES: Final = 256 * 2**20
#: Objects and lists of a file; each takes more memory than the two letters of an empty one.
MAX_OBJECTS: Final = 5_000_000
MAX_RECORDS: Final = 1_000_000
MAX_DEPTH: Final = 64
MAX_DIGITS: Final = 400


@dataclass(frozen=True)
class Document:
    """One record of a file: its value, or the text of a line that is no JSON and what is wrong with it."""

    line: int
    value: object
    text: str = ""
    fault: str | None = None


@dataclass(frozen=True)
class JsonFile:
    """The records of a file, at least one; ``lines`` tells JSON-lines from a single document."""

    documents: tuple[Document, ...]
    lines: bool

    @property
    def first(self) -> Mapping[str, object]:
        """The first record that is an object; empty where there is none."""
        return next((doc.value for doc in self.documents if isinstance(doc.value, dict)), {})


def looks_like_json(content: bytes) -> bool:
    """Whether the text begins as JSON objects and lists do."""
    head = content[:4096]
    encoding = "utf-16" if head[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return head.decode(encoding, errors="ignore").lstrip()[:1] in ("{", "[")


def read_json(content: bytes) -> JsonFile:
    """The records of a JSON or JSON-lines file. Raises ``FileRejectedError``.

    A list at the top is a file of several records. In JSON-lines a line that is no JSON is a record
    with a fault; in a single document it rejects the file.
    """
    outcome = _read(content)
    if isinstance(outcome, str):
        raise FileRejectedError(outcome)
    return outcome


def first_record(content: bytes) -> Mapping[str, object]:
    """The first object of a JSON file; empty where the file is no JSON."""
    if not looks_like_json(content):
        return {}
    outcome = _read(content)
    return {} if isinstance(outcome, str) else outcome.first


class _Last(threading.local):
    """The last file that a thread has read: each format asks for it in turn."""

    content: bytes | None = None
    outcome: JsonFile | str = ""


_LAST = _Last()


def let_go_of_last() -> None:
    """Frees what the thread keeps of the file that it read last."""
    _LAST.content, _LAST.outcome = None, ""


def _read(content: bytes) -> JsonFile | str:
    """The file, or why it is rejected."""
    if _LAST.content is not content:
        _LAST.content, _LAST.outcome = content, _read_anew(content)
    return _LAST.outcome


def _read_anew(content: bytes) -> JsonFile | str:
    if len(content) > MAX_BYTES:
        return f"the JSON file has {len(content):,} bytes, more than {MAX_BYTES:,}; leave out the single requests"
    try:
        text = decode_text(content)
    except FileRejectedError as rejected:
        return str(rejected)
    if not text.strip():
        return "the file is empty"
    if text.count("{") + text.count("[") > MAX_OBJECTS:
        return f"the JSON file holds more than {MAX_OBJECTS:,} objects and lists; leave out the single requests"
    head = len(text) - len(text.lstrip())
    end = text.find("\n", head)
    number = text.count("\n", 0, head) + 1
    rest = text[end:] if end >= 0 else ""
    if rest.strip():
        first = _parse(text[head:end], number)
        if first.fault is None and isinstance(first.value, dict):
            if rest.count("\n") > MAX_RECORDS:
                return f"the file has more than {MAX_RECORDS:,} lines; split it"
            others = (_parse(line, at) for at, line in enumerate(rest.split("\n"), number) if line.strip())
            return JsonFile((first, *others), lines=True)
    whole = _parse(text, 1)
    if whole.fault is not None:
        return whole.fault
    if isinstance(whole.value, list):
        if not whole.value:
            return "the file holds an empty list"
        if len(whole.value) > MAX_RECORDS:
            return f"the file holds a list of {len(whole.value):,} records, more than {MAX_RECORDS:,}; split it"
        return JsonFile(tuple(Document(1, value) for value in whole.value), lines=False)
    return JsonFile((whole,), lines=False)


def _parse(text: str, line: int) -> Document:
    """The value of this text, which begins at this line of the file."""
    bare = text.strip()
    try:
        value = _DECODER.decode(bare)
        _check_depth(value)
    except json.JSONDecodeError as error:
        before = len(text) - len(text.lstrip())
        at = line + text.count("\n", 0, before + error.pos)
        cut = error.pos >= len(bare) or error.msg.startswith("Unterminated")
        fault = f"line {at} is not valid JSON: {error.msg}" + ("; the text is cut off" if cut else "")
    except _RefusedError as refused:
        fault = f"line {line} is refused: {refused}" if "\n" not in bare else str(refused)
    except RecursionError:
        fault = f"values are nested more than {MAX_DEPTH} deep"
    else:
        return Document(line, value)
    return Document(line, None, text, fault)


class _RefusedError(Exception):
    """What JSON allows and this reader does not."""


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise _RefusedError(f"the key {twice[:100]!r} is given twice in one object")
    return found


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise _RefusedError(f"a number has more than {MAX_DIGITS} digits")
    return int(text)


def _real(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_real, parse_int=_integer, parse_constant=lambda name: name
)


def _check_depth(value: object) -> None:
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        below: list[object] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(child for child in item.values() if isinstance(child, dict | list))
            elif isinstance(item, list):
                below.extend(child for child in item if isinstance(child, dict | list))
        if not below:
            return
        level = below
    raise _RefusedError(f"values are nested more than {MAX_DEPTH} deep")
