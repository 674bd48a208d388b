"""The program on a terminal: width, readers that have enough, Ctrl-C, the version, names that are not there."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipelines.lake.names import slug_in_lake
from pipelines.terminal import print_table, print_text
from schemas.errors import UserError

PROGRAM = [sys.executable, "-m", "pipelines.cli"]
ROOT = Path(__file__).parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def test_columns_go_by_importance(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    columns, rows = ("name", "a\nlong", "least", "more"), [("one", "11", "x" * 30, "22"), ("two", "33", "y", "44")]
    monkeypatch.setenv("COLUMNS", "40")
    print_table(columns, rows, caption="A caption.", importance=(0, 0, 2, 1))
    said = capsys.readouterr().out
    assert "Not shown in so narrow a terminal: least." in " ".join(said.split())
    assert "more" in said
    assert max(map(len, said.splitlines())) <= 40
    monkeypatch.delenv("COLUMNS")
    print_table(columns, rows, importance=(0, 0, 2, 1))
    assert "x" * 30 in capsys.readouterr().out


def test_without_importance_columns_go_from_the_right(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    print_table(("name", "a", "b", "c"), [("one", "1" * 12, "2" * 12, "3" * 12)])
    said = capsys.readouterr().out
    assert "2" * 12 in said
    assert "Not shown in so narrow a terminal: c." in " ".join(said.split())


def test_what_cannot_go_is_stacked(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    print_table(("name", "value"), [("one", "x" * 30), ("two", "a b " * 20)])
    said = capsys.readouterr().out
    assert f"value  {'x' * 30}" in said
    assert max(map(len, said.splitlines())) <= 40
    print_text("word " * 30)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 40


def test_no_name_drives_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name",), [("\x1b[31m[red]",)], caption="\x1b[0m")
    assert capsys.readouterr().out.count("\\x1b[") == 2


def test_the_version() -> None:
    result = subprocess.run([*PROGRAM, "--version"], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert result.stdout.startswith("agent-pareto 0.")


@pytest.mark.parametrize("command", [["hardware", "list"], ["models", "list"], ["--help"]], ids=" ".join)
def test_a_reader_that_has_enough_is_no_error(command: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    result = subprocess.run([*PROGRAM, *command], env=ENVIRONMENT, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (result.returncode, result.stderr) == (0, b"")


def test_what_is_wrong_still_is_where_nobody_reads(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [*PROGRAM, "query", "select 1", "--lake", str(tmp_path / "none")]
    result = subprocess.run(command, env=ENVIRONMENT, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert result.returncode == 1
    assert b"There is no lake" in result.stderr


def test_an_interrupt_says_what_became_of_the_work(tmp_path: Path) -> None:
    traces = tmp_path / "never-ends"
    os.mkfifo(traces)
    command = [*PROGRAM, "scenarios", "fit", str(traces), "--out", str(tmp_path / "fit.yaml")]
    # a shell's background jobs ignore it
    listening = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    run = f"{listening}; import sys; sys.argv = {command[2:]!r}; from pipelines.cli import main; main()"
    with subprocess.Popen([sys.executable, "-c", run], env=ENVIRONMENT, stderr=subprocess.PIPE) as running:
        time.sleep(2)
        running.send_signal(signal.SIGINT)
        assert running.stderr is not None
        said = running.stderr.read().decode()
    assert running.returncode == 130
    assert said == "Interrupted. What was published stays; a lake's lock is given back.\n"


def test_the_three_nearest_of_many() -> None:
    slugs = [f"qwen3-{size}b" for size in (1, 4, 8, 14, 32, 235)] + ["llama-3-1-8b", "llama-3-1-70b", "kimi-k2"]
    with pytest.raises(UserError, match="Nearest of 9: llama-3-1-8b, llama-3-1-70b; all of them: agent-pareto query"):
        slug_in_lake(slugs, "llama-3.1-8b", None, "model")
    with pytest.raises(UserError, match="It has: a, b"):
        slug_in_lake(["b", "a"], "c", None, "model")
