"""Environments for programs that are not among the project's own dependencies."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest


def environment(folder: Path, packages: Sequence[str]) -> Path:
    """The Python of a new environment with these packages; skips the test where they cannot be installed."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet", "install", *packages]
    installed = subprocess.run(pip, capture_output=True, text=True, check=False)
    if installed.returncode:
        last = installed.stderr.strip().splitlines()[-1:]
        pytest.skip(f"{' '.join(packages)} cannot be installed here: {''.join(last)}")
    return python


def run(python: Path, script: str, *arguments: str) -> str:
    """What the script prints."""
    result = subprocess.run(
        [str(python), "-c", script, *arguments], capture_output=True, text=True, check=False, cwd=python.parent
    )
    assert result.returncode == 0, result.stderr
    return result.stdout
