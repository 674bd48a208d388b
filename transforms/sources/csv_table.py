"""A CSV from a file's bytes, every cell as text, in slices of whole rows, with the faults of each line named.

A slice holds a few megabytes of the file: what is made of it takes ten times that, whatever the file has. Rows and
lines are counted from the beginning of the file, and a fault in any slice is the file's.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import polars as pl

from transforms.sources.rows import SLICE_BYTES, FileRejectedError
from transforms.sources.text import MAX_FIELD_CHARACTERS, listed, refuse_patterns, utf8_text, whole_lines

#: A table of one's own may have a column for each of many figures; none has so many.
MAX_COLUMNS: Final = 2_000
MAX_LINE_CHARACTERS: Final = 1_000_000
#: White space to Python and none to Polars.
_SEPARATORS: Final = (b"\x1c", b"\x1d", b"\x1e", b"\x1f")
#: Columns that each row is given.
ADDED: Final = ("source_row", "raw", "reason", "detail")
#: Bytes of a slice's rows as JSON, which repeats the header in each, over those of the slice.
_JSON_TIMES: Final = 16


@dataclass(frozen=True)
class CsvTable:
    """A CSV whose text and header are right. ``content`` is UTF-8, the text begins at ``begin``.

    ``header_lines`` are the lines up to the header's last one.
    """

    header: list[str]
    content: bytes
    begin: int
    header_lines: int

    def slices(self, size: int = SLICE_BYTES) -> Iterator[pl.DataFrame]:
        """All data rows as text, some at a time, with ``source_row``, ``raw``, ``reason`` and ``detail``.

        Empty cells are NULL. A row with too many or too few cells keeps what it has and is flagged
        ``wrong_number_of_cells``. A table without rows is one slice without rows. Raises ``FileRejectedError`` where
        the text ceases to be CSV.
        """
        rows = 0
        # each row as JSON repeats the header
        most = max(1, _JSON_TIMES * size // sum(len(name) + 4 for name in self.header))
        for frame in self._plain(size) if self._is_plain else self._quoted(size):
            for begin in range(0, frame.height, most):
                yield self._accounted(frame.slice(begin, most), rows + begin)
            rows += frame.height
        if not rows:
            yield self._accounted(self._frame([], []), 0)

    def _accounted(self, frame: pl.DataFrame, rows_before: int) -> pl.DataFrame:
        first = rows_before + 1
        return frame.with_columns(
            source_row=pl.int_range(first, first + pl.len(), dtype=pl.Int64),
            raw=pl.struct(self.header).struct.json_encode(),
            reason=pl.when(pl.col("detail").is_not_null()).then(pl.lit("wrong_number_of_cells")),
        )

    @property
    def _is_plain(self) -> bool:
        """Whether each line is a row: no quotes, no old line ends, no white space that Polars does not know."""
        ends = self.content.count(b"\r") == self.content.count(b"\r\n")
        return ends and not any(mark in self.content for mark in (b'"', *_SEPARATORS))

    def _plain(self, size: int) -> Iterator[pl.DataFrame]:
        begin, lines = self.begin, self.header_lines
        for _ in range(lines):
            begin = self.content.find(b"\n", begin) + 1 or len(self.content)
        for piece in whole_lines(self.content, begin, size):
            text = piece.decode()
            frame = self._lines(text)
            if frame is None:
                yield from self._rows(io.StringIO(text, newline=""), lines, size)
            else:
                yield frame
            lines += piece.count(b"\n")

    def _lines(self, text: str) -> pl.DataFrame | None:
        """The cells of lines without quotes; None where one has more or fewer of them, or too long a one."""
        lines = pl.Series("", text.split("\n"), dtype=pl.String())
        lines = lines.filter(lines.str.contains(r"[^,\s]"))
        others = lines.str.count_matches(",", literal=True) != len(self.header) - 1
        if others.any() or (lines.str.len_chars() > MAX_FIELD_CHARACTERS).any():
            return None
        columns = lines.str.split_exact(",", len(self.header) - 1).struct.unnest()
        columns.columns = self.header
        return columns.with_columns(pl.all().str.strip_chars().replace("", None), detail=pl.lit(None, pl.String))

    def _quoted(self, size: int) -> Iterator[pl.DataFrame]:
        text = _text(self.content, self.begin)
        reader = csv.reader(text, strict=True)
        while reader.line_num < self.header_lines:
            next(reader)
        yield from self._rows(text, self.header_lines, size)

    def _rows(self, text: Iterable[str], lines_before: int, size: int) -> Iterator[pl.DataFrame]:
        """The cells of any CSV, and in ``detail`` what is wrong with a line."""
        rows: list[list[str | None]] = []
        problems: list[str | None] = []
        reader = csv.reader(text, strict=True)
        characters = 0
        try:
            for cells in reader:
                if not any(cell.strip() for cell in cells):
                    continue
                line, wrong = lines_before + reader.line_num, len(cells) != len(self.header)
                problems.append(f"line {line} has {len(cells)} cells, the header {len(self.header)}" if wrong else None)
                padded: list[str | None] = [cell.strip() or None for cell in cells[: len(self.header)]]
                rows.append(padded + [None] * (len(self.header) - len(padded)))
                characters += sum(map(len, cells)) + len(cells)
                if characters >= size:
                    yield self._frame(rows, problems)
                    rows, problems, characters = [], [], 0
        except csv.Error as error:
            raise FileRejectedError(f"line {lines_before + reader.line_num} is not valid CSV: {error}") from error
        yield self._frame(rows, problems)

    def _frame(self, rows: list[list[str | None]], problems: list[str | None]) -> pl.DataFrame:
        frame = pl.DataFrame(rows, schema={name: pl.String() for name in self.header}, orient="row")
        return frame.with_columns(detail=pl.Series(problems, dtype=pl.String()))


def open_csv(content: bytes) -> CsvTable:
    """The CSV in these bytes. Raises ``FileRejectedError`` for a file that is no text or has no header of a table."""
    content, begin = utf8_text(content)
    _check_lines(content, begin)
    csv.field_size_limit(MAX_FIELD_CHARACTERS)
    reader = csv.reader(_text(content, begin), strict=True)
    try:
        rows = ([cell.strip() for cell in cells] for cells in reader)
        header = next((cells for cells in rows if any(cells)), None)
    except csv.Error as error:
        raise FileRejectedError(f"line {reader.line_num} is not valid CSV: {error}") from error
    if header is None:
        raise FileRejectedError("the file is empty")
    check_header(header)
    return CsvTable(header, content, begin, reader.line_num)


def _text(content: bytes, begin: int) -> Iterator[str]:
    stream = io.BytesIO(content)
    stream.seek(begin)
    return io.TextIOWrapper(stream, encoding="utf-8", newline="")


def _check_lines(content: bytes, begin: int) -> None:
    """Raises ``FileRejectedError`` for a line that is too long, before it is taken apart."""
    half = MAX_LINE_CHARACTERS // 2
    for start in range(begin, len(content) - half, half):  # a line that is too long fills one of these
        if content.find(b"\n", start, start + half) < 0:
            first, end = max(begin, content.rfind(b"\n", begin, start) + 1), content.find(b"\n", start + half)
            length = len(content[first : len(content) if end < 0 else end].decode())
            if length > MAX_LINE_CHARACTERS:
                line = content.count(b"\n", 0, first) + 1
                raise FileRejectedError(
                    f"line {line} has {length:,} characters, more than {MAX_LINE_CHARACTERS:,}; this is no table"
                )


def check_header(header: list[str]) -> None:
    """Raises ``FileRejectedError`` where columns of these names could not be told apart, or from those added."""
    if len(header) > MAX_COLUMNS:
        raise FileRejectedError(f"the header has {len(header):,} columns, more than {MAX_COLUMNS:,}")
    twice = sorted(name for name, count in Counter(header).items() if count > 1)
    if twice:
        raise FileRejectedError(f"the header names {listed(twice)} more than once")
    for name in ADDED:
        if name in header:
            raise FileRejectedError(f"rename the column {name!r}: it is a name that every row is given")
    refuse_patterns(header)
    if "" in header:
        raise FileRejectedError(f"the header has no name for column {header.index('') + 1}")
