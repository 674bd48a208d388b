"""A large table is read and judged in slices: whatever their size, the answer is that of the whole file."""

import itertools
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipelines.reading.catalogues import load_hardware, load_models
from pipelines.reading.inputs import find_files
from pipelines.reading.read_inputs import Inputs, read_inputs
from schemas.errors import UserError
from tests.conftest import SHARED
from tests.sources.every_format import EXAMPLES
from tests.sources.mutations import CSV_MUTATIONS
from tests.sources.test_fuzz import FILES, SEED
from tests.sources.test_generic import ROW, SAYS, parquet
from tests.sources.whole import read_csv, read_file
from tests.transforms.factory import input_file
from transforms.sources.rows import FileRejectedError, InputFile

ROOT = Path(__file__).parents[2]
WHOLE = 2**40
#: Of a row and more, and of a few rows.
SIZES = (1, 700)


def read(file: InputFile, slice_bytes: int) -> tuple[object, ...]:
    """All that the file says, or why it is rejected."""
    try:
        reading = read_file(file, slice_bytes)
    except FileRejectedError as rejected:
        return (str(rejected),)
    return reading.format, reading.tool_version, reading.rows.rows(), reading.agentic


@pytest.mark.parametrize("name", ["agg", "disagg", "mtp"])
def test_mutated_tables(name: str) -> None:
    content, _, _ = FILES[name]
    rejected = 0
    for number in range(30):
        mutated, _ = CSV_MUTATIONS[number % len(CSV_MUTATIONS)](content, random.Random(f"{SEED} slices {number}"))
        file = input_file(mutated)
        whole = read(file, WHOLE)
        rejected += len(whole) == 1
        for size in SIZES:
            assert read(file, size) == whole, number
    assert 3 < rejected < 27


@pytest.mark.parametrize(
    "content",
    [
        b'a,b\n1,"two\nlines, ""quoted"""\n3,4\n"5",6\n',
        b'\xef\xbb\xbf\n , \n"a\nb",c\r\n1,2\r\n\r\n3,4\r\n5,6',
        "a,b\n1,é\n\n3,4\n".encode("utf-16"),
        "a,b\r1,\u2028é\r3,4\r".encode(),
        "\u00a0a ,b\n1 ,\x0b2\x0c\n3\x1f,\x1e4\n".encode(),
        b"a,b\n1,2\n3\n4,5,6\n7,8\n",
        b"a\n1\n2\n\n3",
        b"a,b\n",
    ],
)
def test_text_of_any_kind(content: bytes) -> None:
    whole = read_csv(content, WHOLE)
    assert whole["source_row"].to_list() == list(range(1, whole.height + 1))
    for size in range(1, len(content) + 1):
        assert_frame_equal(read_csv(content, size), whole)


@pytest.mark.parametrize(
    ("end", "sentence"),
    [
        (b'"1,2\n', "line 7 is not valid CSV: unexpected end of data"),
        (b"\xff,2\n", "line 7 is not utf-8 text; save the file as UTF-8"),
        (b"1,\0\n", "the file is binary, not a table in text form"),
        (b"1," + b"2" * 100_001, "line 7 is not valid CSV: field larger than field limit (100000)"),
        (b"1," * 500_001, "line 7 has 1,000,002 characters, more than 1,000,000; this is no table"),
    ],
)
@pytest.mark.parametrize("quote", [b"", b'"'])
def test_a_fault_in_the_last_slice_is_the_files(end: bytes, sentence: str, quote: bytes) -> None:
    content = b"a,b\n" + 5 * (quote + b"1" + quote + b",2\n") + end
    for size in (1, 9, WHOLE):
        with pytest.raises(FileRejectedError) as caught:
            read_csv(content, size)
        assert str(caught.value) == sentence


def test_rows_with_other_cells_are_named_by_their_line() -> None:
    frame = read_csv(b"a,b\n" + b"1,2\n\n" * 50 + b"3\n", 16)
    assert frame["detail"].drop_nulls().to_list() == ["line 102 has 1 cells, the header 2"]
    assert frame["source_row"].max() == 51


def test_a_wide_table_is_cut_by_what_its_rows_take_as_json() -> None:
    """Each row repeats the header there: 400 short lines of a long header are a hundred times their own size."""
    header = ",".join(f"{'c' * 300}{number}" for number in range(50))
    content = f"{header}\n{(',' * 48 + '1,2' + chr(10)) * 400}".encode()
    heights = [each.height for each in _slices(content, 2**16)]
    assert sum(heights) == 400
    assert max(heights) * len(header) < 2**21


def _slices(content: bytes, size: int) -> Iterator[pl.DataFrame]:
    from transforms.sources.csv_table import open_csv

    return open_csv(content).slices(size)


def test_parquet() -> None:
    rows = [ROW | {"users": 16 + number % 3, "engine": "é" * (number % 5) * 300 or None} for number in range(40)]
    says = SAYS + "  backend_version: {column: engine}\n"
    whole = read(input_file_of(parquet(*rows), says), WHOLE)
    assert len(whole) == 4
    for size in (1, 700, 20_000):
        assert read(input_file_of(parquet(*rows), says), size) == whole


def input_file_of(content: bytes, says: str) -> InputFile:
    from tests.sources.results import input_file as with_sidecar

    return with_sidecar(content, says)


def of_all(folder: Path, slice_bytes: int, keep_points: bool) -> Inputs:
    return read_inputs(
        find_files([folder]), load_hardware(), load_models(), keep_points=keep_points, slice_bytes=slice_bytes
    )


def check_slices(folder: Path, sizes: tuple[int, ...]) -> Inputs:
    """`check` and `build` read the folder, whole and in slices: all say the same."""
    whole = of_all(folder, WHOLE, keep_points=True)
    for size, keep_points in itertools.product((*sizes, WHOLE), (True, False)):
        inputs = of_all(folder, size, keep_points)
        assert inputs.accounts == whole.accounts, (size, keep_points)
        assert inputs.slow == whole.slow
        names = inputs.quarantine.columns if keep_points else ["source_file", "source_row", "reason", "detail"]
        assert_frame_equal(inputs.quarantine.select(names), whole.quarantine.select(names))
        if keep_points:
            assert_frame_equal(inputs.serving_points, whole.serving_points)
            assert_frame_equal(inputs.measured_agentic, whole.measured_agentic)
    return whole


def write_examples(folder: Path) -> None:
    """A good file of each format, and one in which values are spoiled; rows of tables several times."""
    for name, example in EXAMPLES.items():
        (folder / name).mkdir()
        if example.says:
            (folder / name / "source.yaml").write_text(example.says)
        spoiled = [content for _, content in itertools.islice(example.spoil(example.content), 2)]
        for number, content in enumerate([example.content, *spoiled]):
            (folder / name / f"{number}.{'parquet' if content.startswith(b'PAR1') else 'csv'}").write_bytes(content)


@pytest.mark.slow
def test_files_of_every_format(tmp_path: Path) -> None:
    write_examples(tmp_path)
    whole = check_slices(tmp_path, (2_000,))
    assert sum(account.rows_accepted for account in whole.accounts) > 30
    assert sum(account.rows_quarantined for account in whole.accounts) > 100


def cases() -> list[Any]:
    folders = sorted(path for path in (SHARED / "cases").iterdir() if path.is_dir()) if SHARED.exists() else []
    return [pytest.param(path, id=path.name) for path in folders]


@pytest.mark.slow
@pytest.mark.parametrize("folder", cases() or [pytest.param(None, marks=pytest.mark.skip(reason="no shared cases"))])
def test_worked_cases(folder: Path) -> None:
    try:
        find_files([folder])
    except UserError:
        pytest.skip("a case without tables")
    check_slices(folder, (1,))


def test_reruns_and_repeats_across_slices(tmp_path: Path) -> None:
    """What is found out by all rows of a file: those said twice, and those that a later run replaces."""
    (tmp_path / "source.yaml").write_text(SAYS)
    lines = pl.DataFrame([ROW, ROW | {"users": 15}] * 2).write_csv()
    (tmp_path / "a.csv").write_text(lines)
    (tmp_path / "b.csv").write_text(lines + "no,cells\n")
    whole = check_slices(tmp_path, (100,))
    assert [(each.rows_accepted, each.rows_duplicate, each.rows_quarantined) for each in whole.accounts] == [
        (2, 2, 0), (0, 4, 1),
    ]  # fmt: skip


def test_nothing_is_left_of_a_file_that_is_rejected_in_its_last_slice(tmp_path: Path) -> None:
    content = FILES["agg"][0] * 1
    header, *rows = content.splitlines(keepends=True)
    (tmp_path / "a.csv").write_bytes(header + b"".join(rows) * 3 + b'"cut off')
    (tmp_path / "b.csv").write_bytes(content)
    whole = check_slices(tmp_path, (700,))
    first, second = whole.accounts
    assert first.rejected_reason == "line 11 is not valid CSV: unexpected end of data"
    assert (first.rows_read, second.rows_accepted) == (0, 3)


@pytest.mark.slow
def test_memory_is_that_of_slices() -> None:
    """A table of 400,000 rows, 100 MB: read whole and at once it took more than a gigabyte."""
    script = "from tests.bench.bench_reading import main; main(['--files', '1', '--rows', '400000'])"
    command = (sys.executable, "-c", script)
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300, cwd=ROOT).stdout
    peak = re.search(r"peak memory ([\d,]+) MiB", printed)
    assert peak is not None, printed
    assert int(peak[1].replace(",", "")) < 700, printed
