"""The README's commands in a shell, on the lake that `make run` builds: they run, and print what the README shows."""

import os
import re
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.docs.page import PROSE, ROOT, TEXT, Command, commands, lines_of
from tests.docs.workplace import NOT_RUN, TABLES, furnish, install

pytestmark = pytest.mark.slow

RUN = [command for command in dict.fromkeys(commands(TEXT)) if not command.text.startswith(tuple(NOT_RUN))]
Shell = Callable[[str], str]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readme")
    furnish(folder)
    install(folder)
    return folder


@pytest.fixture(scope="module")
def shell(workplace: Path) -> Shell:
    path = f"{workplace / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"

    @cache
    def run(command: str) -> str:
        result = subprocess.run(
            ["sh", "-c", command], cwd=workplace, env={**os.environ, "PATH": path}, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert result.returncode == 0, f"{command}\n{result.stdout[-2000:]}\n{result.stderr[-2000:]}"
        return result.stdout

    return run


@pytest.fixture(scope="module")
def summary(shell: Shell) -> str:
    """What the recipe of `make run` prints; its lake is ``./lake`` of the workplace."""
    (recipe,) = re.findall(r"^run:.*\n\t@\$\(BIN\)/(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return shell(recipe)


def test_the_size_of_the_default_build(summary: str, shell: Shell) -> None:
    ((rows, *sizes),) = re.findall(r"\((\S+) rows read, (\S+) agent points on (\d+) GPUs, (\d+) models", PROSE)
    assert f"Rows read {rows} from" in summary
    sql = "select count(*), count(distinct hardware), count(distinct model) from agent_points"
    counted = shell(f"agent-pareto query '{sql}' --format csv").splitlines()[-1]
    assert counted.split(",") == [size.replace(",", "") for size in sizes]


@pytest.mark.usefixtures("summary")
def test_the_size_of_the_explorer(shell: Shell) -> None:
    (megabytes,) = re.findall(r"default\s+lake's\s+folder\s+has\s+(\d+) MB", PROSE)
    (command,) = (command for command in RUN if command.words[1] == "explorer")
    (written,) = re.findall(r"files, (\S+) MB in", shell(command.text))
    assert float(written) == pytest.approx(float(megabytes), rel=0.05)


@pytest.mark.usefixtures("summary")
@pytest.mark.parametrize("command", RUN, ids=lambda command: " ".join(command.words[1:3])[:30])
def test_a_command_runs_and_prints_what_is_shown(shell: Shell, command: Command) -> None:
    """Builds get tables of one model and a lake of their own, so that the default lake stays and time is short."""
    text = command.text
    if command.words[1] == "build":
        tables = "" if "--tables" in command.words else " ".join(f"--tables '{path}'" for path in TABLES)
        text += f" {tables} --out other-lake"
    printed = shell(text)
    if command.shown is not None:
        assert lines_of(printed) == command.shown
