"""Text and CSV from a file's bytes, every cell as text, with the faults of each line named."""

import csv
import io
from collections import Counter
from collections.abc import Sequence
from itertools import islice

import polars as pl

from transforms.sources.rows import FileRejectedError

_ENCODINGS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
MAX_FIELD_CHARACTERS = 100_000
#: A table of one's own may have a column for each of many figures; none has so many.
MAX_COLUMNS = 2_000
MAX_LINE_CHARACTERS = 1_000_000
#: White space to Python and none to Polars.
_SEPARATORS = "\x1c\x1d\x1e\x1f"
#: Columns that ``read_csv`` adds.
_ADDED = ("source_row", "raw", "reason", "detail")


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


def header_of(content: bytes) -> list[str]:
    """The cells of a CSV's header, none where there is none. What is wrong with the file is left to ``read_csv``."""
    return next(iter(first_rows(content, 1)), [])


def first_rows(content: bytes, count: int) -> list[list[str]]:
    """The cells of the first rows of a CSV that have any, at most ``count``; none where it is no CSV."""
    head = content[:1_000_000].decode(_encoding_of(content), errors="replace")
    try:
        rows = ([cell.strip() for cell in cells] for cells in csv.reader(io.StringIO(head, newline="")))
        return list(islice((cells for cells in rows if any(cells)), count))
    except csv.Error:
        return []


def read_csv(content: bytes) -> pl.DataFrame:
    """All data rows of a CSV as text, with ``source_row``, ``raw``, ``reason`` and ``detail``.

    Empty cells are NULL. A row with too many or too few cells keeps what it has and is flagged
    ``wrong_number_of_cells``. Raises ``FileRejectedError`` for a file that is no CSV.
    """
    text = decode_text(content)
    _check_lines(text)
    frame = _read_plain(text)
    if frame is None:
        frame = _read_quoted(text)
    cells = [name for name in frame.columns if name != "detail"]
    return frame.with_columns(
        source_row=pl.int_range(1, pl.len() + 1, dtype=pl.Int64),
        raw=pl.struct(cells).struct.json_encode(),
        reason=pl.when(pl.col("detail").is_not_null()).then(pl.lit("wrong_number_of_cells")),
    )


def _check_lines(text: str) -> None:
    """Raises ``FileRejectedError`` for a line that is too long, before it is taken apart."""
    half = MAX_LINE_CHARACTERS // 2
    for start in range(0, len(text) - half, half):  # a line that is too long fills one of these
        if text.find("\n", start, start + half) < 0:
            begin, end = text.rfind("\n", 0, start) + 1, text.find("\n", start + half)
            length = (len(text) if end < 0 else end) - begin
            if length > MAX_LINE_CHARACTERS:
                line = text.count("\n", 0, begin) + 1
                raise FileRejectedError(
                    f"line {line} has {length:,} characters, more than {MAX_LINE_CHARACTERS:,}; this is no table"
                )


def _read_plain(text: str) -> pl.DataFrame | None:
    """The cells of a CSV without quotes and with as many cells in every line; None for any other."""
    if '"' in text or "\r" in text.replace("\r\n", "\n") or any(separator in text for separator in _SEPARATORS):
        return None
    lines = pl.Series("", text.split("\n"), dtype=pl.String())
    lines = lines.filter(lines.str.contains(r"[^,\s]"))
    if lines.is_empty():
        return None
    commas = lines.str.count_matches(",", literal=True)
    if commas.n_unique() > 1 or lines.str.len_chars().max() > MAX_FIELD_CHARACTERS:  # type: ignore[operator]
        return None
    header = _checked_header([cell.strip() for cell in lines[0].split(",")])
    columns = lines[1:].str.split_exact(",", len(header) - 1).struct.unnest()
    columns.columns = header
    return columns.with_columns(pl.all().str.strip_chars().replace("", None), detail=pl.lit(None, pl.String))


def _read_quoted(text: str) -> pl.DataFrame:
    """The cells of any CSV, and in ``detail`` what is wrong with a line."""
    csv.field_size_limit(MAX_FIELD_CHARACTERS)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[list[str | None]] = []
    problems: list[str | None] = []
    header: list[str] = []
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if not header:
                header = _checked_header([cell.strip() for cell in cells])
                continue
            wrong = len(cells) != len(header)
            problems.append(
                f"line {reader.line_num} has {len(cells)} cells, the header {len(header)}" if wrong else None
            )
            padded: list[str | None] = [cell.strip() or None for cell in cells[: len(header)]]
            rows.append(padded + [None] * (len(header) - len(padded)))
    except csv.Error as error:
        raise FileRejectedError(f"line {reader.line_num} is not valid CSV: {error}") from error
    if not header:
        raise FileRejectedError("the file is empty")
    frame = pl.DataFrame(rows, schema={name: pl.String() for name in header}, orient="row")
    return frame.with_columns(detail=pl.Series(problems, dtype=pl.String()))


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


def _checked_header(header: list[str]) -> list[str]:
    if len(header) > MAX_COLUMNS:
        raise FileRejectedError(f"the header has {len(header):,} columns, more than {MAX_COLUMNS:,}")
    twice = sorted(name for name, count in Counter(header).items() if count > 1)
    if twice:
        raise FileRejectedError(f"the header names {listed(twice)} more than once")
    for name in _ADDED:
        if name in header:
            raise FileRejectedError(f"rename the column {name!r}: it is a name that every row is given")
    refuse_patterns(header)
    if "" in header:
        raise FileRejectedError(f"the header has no name for column {header.index('') + 1}")
    return header
