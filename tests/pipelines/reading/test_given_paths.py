"""Paths that are wrong are told before any work is done."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.runners import prefect_runtime
from schemas.errors import UserError


def test_tables_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prefect does not start, and no lake is left behind."""
    monkeypatch.setattr(prefect_runtime, "start_in_background", lambda: pytest.fail("Prefect was started"))
    tables, lake = tmp_path / "nonexist", tmp_path / "lake"
    error = CliRunner().invoke(app, ["build", "--tables", str(tables), "--out", str(lake)]).exception
    assert isinstance(error, UserError)
    assert str(error) == f"{tables} does not exist: name a table file or a folder of tables."
    assert not lake.exists()
