"""CSV text: what is written is read back; whatever else comes, the file is refused in words or read."""

import csv
import io
import json
import re
from contextlib import suppress

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sources.whole import read_csv, read_file
from tests.transforms.factory import aic_row, csv_text, input_file
from transforms.sources.rows import FileRejectedError
from transforms.sources.text import MAX_FIELD_CHARACTERS, header_of

OWN = {"source_row", "raw", "reason", "detail"}
IS_PATTERN = re.compile(r"\*|\^.*\$", re.DOTALL).fullmatch
CELL = st.text(st.characters(exclude_characters="\0\r", exclude_categories=["Cs"]), max_size=12)
NAME = CELL.map(str.strip).filter(lambda name: name and name not in OWN and not IS_PATTERN(name))
TABLES = st.lists(NAME, min_size=1, max_size=5, unique=True).flatmap(
    lambda names: st.tuples(
        st.just(names), st.lists(st.lists(CELL, min_size=len(names), max_size=len(names)), max_size=6)
    )
)


def written(names: list[str], rows: list[list[str]], encoding: str, end: str, quoted: bool) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator=end, quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL)
    writer.writerow(names)
    writer.writerows(rows)
    return text.getvalue().encode(encoding)


@given(
    table=TABLES,
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    end=st.sampled_from(["\n", "\r\n"]),
    quoted=st.booleans(),
)
def test_round_trip(table: tuple[list[str], list[list[str]]], encoding: str, end: str, quoted: bool) -> None:
    """Cells are stripped, empty ones are NULL, rows without a word are passed over."""
    names, rows = table
    content = written(names, rows, encoding, end, quoted)
    frame = read_csv(content)
    assert header_of(content) == names
    kept = [[cell.strip() or None for cell in row] for row in rows if any(cell.strip() for cell in row)]
    assert [list(row) for row in frame.select(names).rows()] == kept
    assert frame["source_row"].to_list() == list(range(1, len(kept) + 1))
    assert frame["reason"].null_count() == len(kept)
    assert [list(json.loads(raw).values()) for raw in frame["raw"]] == kept


GOOD = csv_text([aic_row(**{
    "bs": 24, "ttft": 750.0, "tpot": 12.5, "request_latency": 7000.0, "seq/s": 3.429, "seq/s/gpu": 0.857,
    "tokens/s": 1714.286, "tokens/s/gpu": 428.571, "tokens/s/user": 80.0})]).encode()  # fmt: skip


def damaged(content: bytes, cuts: list[tuple[int, bytes]]) -> bytes:
    for position, piece in cuts:
        at = position % (len(content) + 1)
        content = content[:at] + piece + content[at + 1 :]
    return content


@given(
    content=st.binary(max_size=200)
    | st.lists(st.tuples(st.integers(0, 10_000), st.binary(max_size=3)), min_size=1, max_size=4).map(
        lambda cuts: damaged(GOOD, cuts)
    )
)
def test_any_bytes_are_read_or_refused_in_words(content: bytes) -> None:
    assert isinstance(header_of(content), list)
    for read in (read_csv, lambda raw: read_file(input_file(raw)).rows):
        with suppress(FileRejectedError):
            assert isinstance(read(content), pl.DataFrame)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"\n\n , \n", "empty"),
        (b"a,b\n1,\0\n", "binary"),
        (b"\x89PNG\r\n\x1a\n\0\0", "binary"),
        (b"a,b\n1,2\n3,\xff\n", "line 3"),
        ("a,b\n1,2\0\n".encode("utf-16"), "line 2 has a NUL"),
        (b"a,a\n1,2\n", "'a' more than once"),
        (b"a,,c\n1,2,3\n", "no name for column 2"),
        (b"a,raw\n1,2\n", "rename the column 'raw'"),
        (b"0,*\n1,2\n", "rename the column '\\*'"),
        (b"a,^b.*$\n1,2\n", "it reads as a pattern of names"),
        (b'a,b\n1,"2\n', "not valid CSV"),
        (b"a,b\n1," + b"x" * (MAX_FIELD_CHARACTERS + 1), "line 2 is not valid CSV"),
    ],
)
def test_what_is_refused_and_why(content: bytes, words: str) -> None:
    with pytest.raises(FileRejectedError, match=words):
        read_csv(content)


def test_rows_of_another_length_are_flagged_with_their_line() -> None:
    frame = read_csv(b"a,b\n1,2\n3\n4,5,6\n")
    assert frame.select("a", "b").rows() == [("1", "2"), ("3", None), ("4", "5")]
    assert frame["reason"].to_list() == [None, "wrong_number_of_cells", "wrong_number_of_cells"]
    assert frame["detail"].to_list()[1:] == ["line 3 has 1 cells, the header 2", "line 4 has 3 cells, the header 2"]


def test_a_table_is_recognised_whatever_stands_at_the_millionth_byte() -> None:
    """The header is looked for in the first megabyte; a character may stand across its end."""
    header, row = GOOD.decode().splitlines()
    content = (header + "\n" + (row + "\n") * 6_000).encode()
    assert len(content) > 1_000_000
    across = content[:999_999] + "é".encode() + content[999_999:]
    assert header_of(across) == header.split(",")


def test_one_bad_byte_is_named_by_its_line() -> None:
    header, row = GOOD.decode().splitlines()
    content = "\n".join([header, row, row.replace("trtllm", "trt\xfcllm"), row]).encode("latin-1")
    with pytest.raises(FileRejectedError, match="line 3 is not utf-8 text"):
        read_file(input_file(content))
