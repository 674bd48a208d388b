"""Text from a file's bytes, the first rows of a CSV, and names of columns as they stand in messages."""

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from transforms.sources.rows import FileRejectedError

_ENCODINGS: Final = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
MAX_FIELD_CHARACTERS = 100_000
#: Bytes of a file that are checked at a time.
_PIECE_BYTES: Final = 2**22


def decode_text(content: bytes) -> str:
    """The file's text: UTF-8, or what its byte-order mark says. Raises ``FileRejectedError``."""
    encoding = _encoding_of(content)
    if encoding == "utf-8" and b"\0" in content[:65536]:
        raise FileRejectedError("the file is binary, not a table in text form")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise FileRejectedError(f"line {line} is not {encoding} text; save the file as UTF-8") from error
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise FileRejectedError(f"line {line} has a NUL byte; the file is damaged")
    return text


def utf8_text(content: bytes) -> tuple[bytes, int]:
    """``decode_text`` in UTF-8, and where in it the text begins: after its mark. Raises ``FileRejectedError``.

    The bytes themselves where they are UTF-8: a large file is not held twice.
    """
    if _encoding_of(content) == "utf-16":
        return decode_text(content).encode(), 0
    if b"\0" in content or not all(map(_is_utf8, whole_lines(content, 0, _PIECE_BYTES))):
        decode_text(content)  # says what is wrong, and where
    return content, len(_ENCODINGS[0][0]) if content.startswith(_ENCODINGS[0][0]) else 0


def whole_lines(content: bytes, begin: int, size: int) -> Iterator[bytes]:
    """The bytes from ``begin`` on in pieces of whole lines: of ``size`` bytes, and what is left of the last line."""
    while begin < len(content):
        end = content.find(b"\n", begin + size - 1) + 1 or len(content)
        yield content[begin:end]
        begin = end


def _is_utf8(piece: bytes) -> bool:
    try:
        piece.decode()
    except UnicodeDecodeError:
        return False
    return True


def header_of(content: bytes) -> list[str]:
    """The cells of a CSV's header, none where there is none. What is wrong with the file is left to ``open_csv``."""
    return next(iter(first_rows(content, 1)), [])


def first_rows(content: bytes, count: int) -> list[list[str]]:
    """The cells of the first rows of a CSV that have any, at most ``count``; none where it is no CSV."""
    head = content[:1_000_000].decode(_encoding_of(content), errors="replace")
    try:
        rows = ([cell.strip() for cell in cells] for cells in csv.reader(io.StringIO(head, newline="")))
        return list(islice((cells for cells in rows if any(cells)), count))
    except csv.Error:
        return []


def _encoding_of(content: bytes) -> str:
    return next((name for mark, name in _ENCODINGS if content.startswith(mark)), "utf-8")


def listed(names: Sequence[str], at_most: int = 50) -> str:
    """The first of the names, each cut short, as they stand in a message."""
    shown = [repr(name if len(name) <= 60 else f"{name[:57]}...") for name in names[:at_most]]
    more = [f"and {len(names) - at_most:,} more"] if len(names) > at_most else []
    return ", ".join(shown + more)


def refuse_patterns(names: Sequence[str]) -> None:
    """Raises ``FileRejectedError`` for a name that Polars takes for several columns: of a CSV's columns, all of which
    are read, and of those of a Parquet file that are."""
    for name in names:
        if name == "*" or (name.startswith("^") and name.endswith("$")):
            raise FileRejectedError(f"rename the column {name!r}: it reads as a pattern of names")
