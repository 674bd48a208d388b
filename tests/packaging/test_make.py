"""The Make targets and the CI script, with stand-ins for Python, pip and make: nothing is installed."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Stands in for python3, and, copied into the environment, for its python: notes its calls, fails where told to.
PYTHON = """#!/bin/sh
echo "$*" >> "$CALLS"
case "$*" in
  *version_info*) exit ${TOO_OLD:-0} ;;
  --version) echo "Python ${VERSION:-3.12.1}" ;;
  "-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python && cp "$0" .venv/bin/agent-pareto ;;
  *"${FAIL:-nothing}"*) echo "no" >&2; exit 1 ;;
esac
"""


class Checkout:
    """A folder with the Makefile and what it reads, and a stand-in for Python."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("Makefile", "requirements.lock", "pyproject.toml"):
            shutil.copy2(ROOT / name, folder / name)
        self.python = folder / "python-stand-in"
        self.python.write_text(PYTHON)
        self.python.chmod(0o755)
        self.calls = folder / "calls"

    def make(self, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        self.calls.write_text("")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
        return subprocess.run(
            ["make", f"PYTHON={self.python}", *arguments],
            cwd=self.folder,
            env={**inherited, "CALLS": str(self.calls), **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def installs(self) -> int:
        return sum("pip" in call and " install " in call for call in self.calls.read_text().splitlines())


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_help_is_the_default_and_names_every_target(checkout: Checkout) -> None:
    (targets,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    listed = [line.split()[1] for line in checkout.make().stdout.splitlines()]
    assert listed == targets.split()
    assert {"run", "test", "bench", "lint", "help", "clean"} <= set(listed)


def test_run_sets_up_once_and_builds_the_default_lake(checkout: Checkout) -> None:
    first = checkout.make("run")
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout == "setting up .venv with Python 3.12.1 …\n"
    assert checkout.installs == 2
    assert checkout.calls.read_text().splitlines()[-1] == "build --out lake"
    second = checkout.make("run")
    assert (second.returncode, second.stdout) == (0, "")
    assert checkout.calls.read_text().splitlines() == ["build --out lake"]


@pytest.mark.parametrize("changed", ["requirements.lock", "pyproject.toml"])
def test_a_change_of_what_is_installed_sets_up_anew(checkout: Checkout, changed: str) -> None:
    checkout.make("run")
    (checkout.folder / ".venv" / "left-over").touch()
    made = (checkout.folder / ".venv" / ".made").stat().st_mtime
    os.utime(checkout.folder / changed, (made + 10, made + 10))
    assert checkout.make("run").returncode == 0
    assert checkout.installs == 2
    assert not (checkout.folder / ".venv" / "left-over").exists()


@pytest.mark.parametrize("step", ["--requirement", "--editable"])
def test_a_half_made_environment_is_not_taken_as_good(checkout: Checkout, step: str) -> None:
    assert checkout.make("run", FAIL=step).returncode != 0
    assert "build --out lake" not in checkout.calls.read_text()
    assert checkout.make("run").returncode == 0
    assert checkout.installs == 2


def test_a_python_that_is_too_old_is_named(checkout: Checkout) -> None:
    result = checkout.make("test", TOO_OLD="1", VERSION="3.9.18")
    assert result.returncode != 0
    assert "Agent Pareto needs Python 3.11 or newer" in result.stderr
    assert f"{checkout.python} is Python 3.9.18" in result.stderr
    assert not (checkout.folder / ".venv").exists()


def test_pytest_arguments_are_passed_on(checkout: Checkout) -> None:
    checkout.make("run")
    checkout.make("test", "PYTEST_ARGS=-k 'one or two' -x")
    assert checkout.calls.read_text() == "-m pytest --numprocesses auto --dist loadfile -k one or two -x\n"


def test_clean_leaves_the_lake(checkout: Checkout) -> None:
    for folder in (".venv/bin", "lake/releases", ".pytest_cache", "tests/__pycache__"):
        (checkout.folder / folder).mkdir(parents=True)
    assert checkout.make("clean").returncode == 0
    left = {path.name for path in checkout.folder.iterdir() if path.is_dir()}
    assert left == {"lake", "tests"}
    assert not (checkout.folder / "tests" / "__pycache__").exists()


@pytest.mark.parametrize(
    ("fails", "code", "ran"),
    [
        ("none", 0, "lint test test-slow"),
        ("lint", 1, "lint"),
        ("test", 1, "lint test"),
        ("test-slow", 1, "lint test test-slow"),
    ],
)
def test_the_ci_script_runs_all_and_stops_at_a_failure(tmp_path: Path, fails: str, code: int, ran: str) -> None:
    stand_in = tmp_path / "make"
    stand_in.write_text('#!/bin/sh\nprintf "%s " "$1" >> "$CALLS"\n[ "$1" != "$FAILS" ]\n')
    stand_in.chmod(0o755)
    calls = tmp_path / "calls"
    result = subprocess.run(
        ["bash", str(ROOT / ".ci" / "run")],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "CALLS": str(calls), "FAILS": fails, "CI": "true"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert result.returncode == code
    assert calls.read_text().split() == ran.split()
