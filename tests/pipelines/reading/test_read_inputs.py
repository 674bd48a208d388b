"""Files are read a few at a time; what comes of them is as if they were read one after the other."""

from pathlib import Path

import polars as pl
import pytest

from pipelines.reading.catalogues import load_hardware, load_models
from pipelines.reading.inputs import find_files
from pipelines.reading.read_inputs import Inputs, read_inputs
from tests.pipelines.builds import CANDIDATES, SMALL

NAMES = [f"{number}.csv" for number in range(9)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Nine files: the first is by far the largest and says what all others say too; two are no tables."""
    rows = pl.read_csv(CANDIDATES / SMALL["h200-qwen.csv"], infer_schema_length=None)
    for number, name in enumerate(NAMES):
        rows.head(200 if number == 0 else 2 * number).write_csv(tmp_path / name)
    for name in (NAMES[3], NAMES[8]):
        (tmp_path / name).write_text("no,table\n1,2\n", encoding="utf-8")
    return tmp_path


def read(folder: Path, seen: list[str]) -> Inputs:
    return read_inputs(find_files([folder]), load_hardware(), load_models(), on_file=seen.append)


def test_accounts_are_in_the_order_of_the_files_and_the_first_to_say_a_row_keeps_it(folder: Path) -> None:
    seen: list[str] = []
    inputs = read(folder, seen)
    assert [Path(account.path).name for account in inputs.accounts] == NAMES
    assert [Path(path).name for path in seen] == NAMES
    assert [account.rows_accepted for account in inputs.accounts] == [200, *[0] * 8]
    assert [account.rows_duplicate for account in inputs.accounts] == [0, 2, 4, 0, 8, 10, 12, 14, 0]
    rejected = [account.rejected_reason is not None for account in inputs.accounts]
    assert [name for name, each in zip(NAMES, rejected, strict=True) if each] == [NAMES[3], NAMES[8]]
    assert inputs.serving_points["source_file"].unique().to_list() == [inputs.accounts[0].path]


def test_a_fault_of_the_program_in_one_file_ends_the_reading(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr("pipelines.reading.gathering.judge_rows", broken)
    with pytest.raises(ZeroDivisionError, match="a fault"):
        read(folder, [])
