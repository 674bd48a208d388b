"""Files that are made to fill the memory, or never to end, are refused in a sentence before they do."""

import gzip
import io
import time
from pathlib import Path

import polars as pl
import pytest

from pipelines.reading.gathering import MAX_REASON_CHARACTERS
from pipelines.reading.inputs import MAX_FILE_BYTES, MAX_SIDECAR_BYTES, find_files, open_file
from pipelines.reading.read_inputs import read_inputs
from schemas.catalogue import HardwareCatalogue, ModelCatalogue
from tests.sources.results import AIPERF_CSV, input_file
from tests.sources.test_aiconfigurator import MTP_TEXT, beside
from tests.sources.whole import read_csv, read_file
from transforms.sources import parquet_table
from transforms.sources.csv_table import MAX_COLUMNS, MAX_LINE_CHARACTERS
from transforms.sources.json_text import read_json
from transforms.sources.rows import FileRejectedError
from transforms.sources.text import listed


def refusal(folder: Path) -> str:
    """Why the one file of the folder is refused."""
    with pytest.raises(FileRejectedError) as caught:  # noqa: PT012 - either may refuse
        (found,) = find_files([folder])
        read_file(open_file(found))
    return str(caught.value)


def alias_bomb(levels: int) -> str:
    """YAML of a few lines that stands for 9 to this power of values."""
    lines = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, levels)]
    return "\n".join(["a0: &a0 [x, x, x, x, x, x, x, x, x]", *lines, ""])


def test_a_file_of_ten_gigabytes_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "huge.csv").open("wb") as file:
        file.truncate(10 * 10**9)
    began = time.perf_counter()
    assert refusal(tmp_path) == "the file has 10,000,000,000 bytes, more than 536,870,912; split it"
    assert time.perf_counter() - began < 1.0


def test_a_gzip_bomb_is_unpacked_to_the_limit_and_no_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 2**20
    monkeypatch.setattr("pipelines.reading.inputs.MAX_FILE_BYTES", limit)
    (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress(bytes(64 * limit)))
    taken: list[int] = []
    read = gzip.GzipFile.read

    def counted(file: gzip.GzipFile, size: int | None = -1) -> bytes:
        content = read(file, size)
        taken.append(len(content))
        return content

    monkeypatch.setattr(gzip.GzipFile, "read", counted)
    assert refusal(tmp_path) == "the file unpacks to more than 1,048,576 bytes; split it"
    assert taken == [limit + 1]
    assert MAX_FILE_BYTES == 512 * 2**20


def test_a_line_of_a_hundred_megabytes() -> None:
    table = AIPERF_CSV.encode()
    began = time.perf_counter()
    with pytest.raises(FileRejectedError, match=r"^line 3 has 100,000,000 characters, more than 1,000,000"):
        read_csv(b"a,b\n1,2\n" + b"3," * 50_000_000 + b"\n4,5\n")
    with pytest.raises(FileRejectedError, match="more than 1,000,000"):
        read_csv(b"x" * 100_000_000)
    assert time.perf_counter() - began < 5.0
    assert read_file(input_file(table)).rows_read == 1


@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.parametrize("before", [b"", b"1,2\n", b"1,2\n" * 99_999 + b"\n"])
@pytest.mark.parametrize("after", [b"", b"\n1,2"])
def test_the_longest_line_that_is_read(extra: int, before: bytes, after: bytes) -> None:
    pieces = (MAX_LINE_CHARACTERS - 1) // 2 * b"1,"
    line = pieces + b"1" * (MAX_LINE_CHARACTERS + extra - len(pieces))
    content = b"a,b\n" + before + line + after
    if extra:
        with pytest.raises(FileRejectedError, match=f"^line {2 + before.count(10)} has 1,000,001 characters"):
            read_csv(content)
    else:
        assert "wrong_number_of_cells" in read_csv(content)["reason"].to_list()


@pytest.mark.parametrize("columns", [MAX_COLUMNS, MAX_COLUMNS + 1, 100_000])
@pytest.mark.parametrize("quote", ["", '"'])
def test_the_width_of_a_table(columns: int, quote: str) -> None:
    header = ",".join(f"{quote}c{number}{quote}" for number in range(columns))
    content = f"{header}\n{','.join('1' * columns)}\n".encode()
    if columns == MAX_COLUMNS:
        assert read_csv(content).height == 1
        return
    with pytest.raises(FileRejectedError, match=f"the header has {columns:,} columns, more than 2,000"):
        read_csv(content)


def test_names_in_a_message_are_few_and_short() -> None:
    assert listed(["a", "b" * 61]) == f"'a', '{'b' * 57}...'"
    assert listed([f"{number}" for number in range(52)]).endswith("'49', and 2 more")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"[" + b"{}," * 5_000_001 + b"1]", "more than 5,000,000 objects and lists"),
        (b"[" + b"1," * 1_000_000 + b"1]", "a list of 1,000,001 records, more than 1,000,000"),
        (b'{"a": 1}\n' + b"1\n" * 1_000_001, "more than 1,000,000 lines"),
    ],
)
def test_json_of_too_many_records(content: bytes, sentence: str) -> None:
    with pytest.raises(FileRejectedError, match=sentence):
        read_json(content)
    read_json(b"{}")  # which lets go of the last


def test_a_key_given_twice_among_very_many_is_found_at_once() -> None:
    keys = [f'"k{number}": 0' for number in range(200_000)]
    began = time.perf_counter()
    with pytest.raises(FileRejectedError, match="the key 'k199999' is given twice"):
        read_json(("{" + ", ".join([*keys, keys[-1]]) + "}").encode())
    assert time.perf_counter() - began < 5.0


def parquet(cells: pl.Series) -> bytes:
    buffer = io.BytesIO()
    pl.DataFrame({"a": cells, "t": 1.0}).write_parquet(buffer, compression="zstd")
    return buffer.getvalue()


GENERIC = (
    "format: generic\nhardware: h200-sxm\ncolumns:\n  backend_version: {column: a}\n  ttft_ms: {column: t, unit: s}\n"
)


def test_a_parquet_bomb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_table, "MAX_PARQUET_BYTES", 2**20)
    small = parquet(pl.Series(["x" * 400]).new_from_index(0, 20_000))
    assert len(small) < 10_000
    with pytest.raises(FileRejectedError, match="the table unpacks to more than 1,048,576 bytes; split it"):
        read_file(input_file(small, GENERIC))
    many = parquet(pl.int_range(0, 200_000, eager=True).cast(pl.String))
    with pytest.raises(FileRejectedError, match="the table unpacks to"):
        read_file(input_file(many, GENERIC))
    assert read_file(input_file(parquet(pl.Series(["1.0", None] * 500)), GENERIC)).rows_read == 1000


def test_a_parquet_table_that_is_too_wide() -> None:
    buffer = io.BytesIO()
    pl.DataFrame({f"c{number}": [1] for number in range(MAX_COLUMNS + 1)}).write_parquet(buffer)
    with pytest.raises(FileRejectedError, match="the table has 2,001 columns, more than 2,000"):
        read_file(input_file(buffer.getvalue(), GENERIC))


def test_a_yaml_bomb_beside_a_table(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(AIPERF_CSV)
    (tmp_path / "source.yaml").write_text(alias_bomb(12))
    assert "aliases repeat more than 1,000 values" in refusal(tmp_path)
    for says in ("nextn: *a6\n", "nextn: 1\nnextn_accepted: *a6\n", "nextn: 1\nnextn_accept_rates: {a: *a6}\n"):
        with pytest.raises(FileRejectedError, match=r"nextn.* a (list|mapping), not ") as caught:
            read_file(beside(MTP_TEXT, alias_bomb(7) + says))
        assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("source.yaml", "source.yaml: is larger than 1,000,000 bytes"),
        ("exp_config.yaml", "exp_config.yaml beside it has 3,000,000,000 bytes, more than 1,048,576"),
        ("a.json", None),  # the tool's own other form of the same run: only leaves facts unsaid
    ],
)
def test_a_large_file_beside_a_table_is_not_read(tmp_path: Path, name: str, sentence: str | None) -> None:
    (tmp_path / "a.csv").write_text(AIPERF_CSV)
    with (tmp_path / name).open("wb") as file:
        file.truncate(3 * 10**9)
    found = next(file for file in find_files([tmp_path]) if file.shown == "a.csv")
    began = time.perf_counter()
    if sentence is None:
        assert open_file(found).beside == {}
    else:
        with pytest.raises(FileRejectedError, match=sentence):
            open_file(found)
    assert time.perf_counter() - began < 1.0
    assert MAX_SIDECAR_BYTES == 2**20


def test_a_reason_is_never_the_file_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> object:
        raise FileRejectedError("x" * 10**6)

    monkeypatch.setattr("pipelines.reading.gathering.read_file", refuse)
    (tmp_path / "a.csv").write_text("a")
    inputs = read_inputs(find_files([tmp_path]), HardwareCatalogue(()), ModelCatalogue(()))
    assert inputs.accounts[0].rejected_reason == "x" * MAX_REASON_CHARACTERS + "..."
