"""Text and CSV from a file's bytes, every cell as text, with the faults of each line named."""

import csv
import io
import json

import polars as pl

from transforms.sources.rows import FileRejectedError

_ENCODINGS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
MAX_FIELD_CHARACTERS = 100_000


def decode_text(content: bytes) -> str:
    """The file's text: UTF-8, or what its byte-order mark says. Raises ``FileRejectedError``."""
    encoding = next((name for mark, name in _ENCODINGS if content.startswith(mark)), "utf-8")
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
    """The cells of a CSV's first line, none if there is no text line to read."""
    try:
        head = decode_text(content[:1_000_000])
    except FileRejectedError:
        return []
    first = head.lstrip("\r\n").splitlines()[:1]
    try:
        return [cell.strip() for cell in next(csv.reader(first), [])]
    except csv.Error:
        return []


def read_csv(content: bytes) -> pl.DataFrame:
    """All data rows of a CSV as text, with ``source_row``, ``raw``, ``reason`` and ``detail``.

    Empty cells are NULL. A row with too many or too few cells keeps what it has and is flagged
    ``wrong_number_of_cells``. Raises ``FileRejectedError`` for a file that is no CSV.
    """
    text = decode_text(content)
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
    raw = [json.dumps(dict(zip(header, row, strict=True)), ensure_ascii=False) for row in rows]
    return frame.with_columns(
        source_row=pl.int_range(1, pl.len() + 1, dtype=pl.Int64),
        raw=pl.Series(raw, dtype=pl.String()),
        detail=pl.Series(problems, dtype=pl.String()),
    ).with_columns(reason=pl.when(pl.col("detail").is_not_null()).then(pl.lit("wrong_number_of_cells")))


def _checked_header(header: list[str]) -> list[str]:
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise FileRejectedError(f"the header names {', '.join(map(repr, twice))} more than once")
    if "" in header:
        raise FileRejectedError(f"the header has no name for column {header.index('') + 1}")
    return header
