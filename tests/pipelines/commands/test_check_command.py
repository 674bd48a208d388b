"""`agent-pareto check`: its accounts, its exit code, its JSON (the fields that others read)."""

import csv
import json
from pathlib import Path

from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.reading.catalogues import SHIPPED_TABLES

RUN = SHIPPED_TABLES / "aiconfigurator" / "runs" / "h100_sxm__llama-3.1-70b__isl4000_osl1000" / "agg"
FIELDS = {
    "path", "format", "tool_version", "rows_read", "rows_accepted", "rows_duplicate", "rows_superseded",
    "quarantined", "rejected_reason",
}  # fmt: skip


def table(folder: Path, edit: str | None = None, rows: int = 3, again: int = 0) -> Path:
    """Rows of a shipped table; `edit`: this TPOT in the first of them; `again`: so many of them a second time."""
    with (RUN / "pareto.csv").open(newline="") as file:
        header, *lines = csv.reader(file)
    chosen = lines[:rows]
    if edit is not None:
        chosen[0][header.index("tpot")] = edit
    folder.mkdir()
    with (folder / "pareto.csv").open("w", newline="") as file:
        csv.writer(file).writerows([header, *chosen, *chosen[rows - again :]])
    return folder


def check(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["check", *arguments])
    return result.exit_code, result.stdout


def test_a_good_table_with_a_row_twice(tmp_path: Path) -> None:
    code, text = check("--tables", str(table(tmp_path / "good", again=1)), "--format", "json")
    (file,) = json.loads(text)["files"]
    assert code == 0
    assert set(file) >= FIELDS
    assert (file["format"], file["rejected_reason"], file["quarantined"]) == ("aiconfigurator", None, {})
    assert (file["rows_read"], file["rows_accepted"], file["rows_duplicate"], file["rows_superseded"]) == (4, 3, 1, 0)


def test_a_row_that_cannot_be_right_is_named(tmp_path: Path) -> None:
    """A TPOT of 0 ms: the other rows stay, counts add up, exit 1."""
    folder = table(tmp_path / "bad", edit="0")
    code, text = check("--tables", str(folder), "--format", "json")
    (file,) = json.loads(text)["files"]
    assert code == 1
    assert (file["rows_read"], file["rows_accepted"], sum(file["quarantined"].values())) == (3, 2, 1)
    (reason,) = file["quarantined"]
    code, text = check("--tables", str(folder))
    assert code == 1
    assert "pareto.csv row 1:" in text
    assert f"quarantined, {reason}: 1" in text


def test_a_file_that_is_no_table_is_rejected_with_a_reason(tmp_path: Path) -> None:
    folder = table(tmp_path / "mixed")
    (folder / "prices.csv").write_text("city,price\nOslo,3\n")
    code, text = check("--tables", str(folder), "--format", "json")
    files = {file["path"].rpartition("/")[2]: file for file in json.loads(text)["files"]}
    assert code == 1
    assert files["pareto.csv"]["rows_accepted"] == 3
    assert files["prices.csv"]["format"] is None
    assert files["prices.csv"]["rejected_reason"]


def test_a_header_without_rows_is_said(tmp_path: Path) -> None:
    code, text = check("--tables", str(table(tmp_path / "none", rows=0)))
    assert code == 0
    assert "pareto.csv: a header and no rows" in text
