"""Finds AIConfigurator: in this environment, by option, or on the PATH; and asks what it knows."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from schemas.errors import UserError

WORKER = Path(__file__).with_name("worker.py")
HOW_TO_INSTALL = (
    "AIConfigurator is not installed here. Install it beside Agent Pareto: pip install 'agent-pareto[aiconfigurator]' "
    "(in a checkout: pip install -e '.[aiconfigurator]'). Or install aiconfigurator==0.12.0 into an environment of "
    "its own and name that environment with --aiconfigurator PATH."
)


@dataclass(frozen=True)
class Program:
    """A Python that has AIConfigurator, and what this AIConfigurator knows: the backends of each system, models."""

    python: Path
    version: str
    systems: Mapping[str, Sequence[str]]
    models: Sequence[str]


def find_program(named: Path | None) -> Program:
    """The AIConfigurator that the user names, else that of this environment, else that of the PATH.

    Raises ``UserError`` where there is none.
    """
    return _supported_by(find_python(named))


def find_python(named: Path | None) -> Path:
    """The Python that can import AIConfigurator. ``named`` is an environment, a Python or the program."""
    if named is not None:
        return _python_of(named.expanduser())
    if importlib.util.find_spec("aiconfigurator") is not None:
        return Path(sys.executable)
    on_path = shutil.which("aiconfigurator")
    if on_path is None:
        raise UserError(HOW_TO_INSTALL)
    return _python_of(Path(on_path))


def _python_of(named: Path) -> Path:
    if not named.exists():
        raise UserError(f"--aiconfigurator: {named} does not exist; name an environment that has AIConfigurator.")
    if named.is_file() and named.name.startswith("python"):
        return named.absolute()  # a link to another Python is an environment of its own: it is not followed
    # `aiconfigurator` itself may be linked to from elsewhere
    folders = (named / "bin", named / "Scripts") if named.is_dir() else (named.resolve().parent,)
    for folder in folders:
        for name in ("python", "python3", "python.exe"):
            if (folder / name).is_file():
                return (folder / name).absolute()
    raise UserError(f"--aiconfigurator: there is no Python in {named}; name an environment, or its Python.")


def _supported_by(python: Path) -> Program:
    try:
        run = subprocess.run(
            [python, WORKER, "known"], capture_output=True, text=True, env=environment(python), stdin=subprocess.DEVNULL
        )
        supported = json.loads(run.stdout.splitlines()[-1])
        return Program(python, supported["version"], supported["systems"], supported["models"])
    except OSError as error:
        raise UserError(f"--aiconfigurator: {python} cannot be run: {error.strerror or error}.") from error
    except (ValueError, KeyError, IndexError, TypeError):
        why = (run.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise UserError(
            f"{python} has no AIConfigurator that can be asked ({why}). Install aiconfigurator==0.12.0 into it, or "
            "name another environment with --aiconfigurator PATH."
        ) from None


def environment(python: Path) -> dict[str, str]:
    """Of the worker: UTF-8, and in another environment nothing of the modules of this one."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" or python == Path(sys.executable)}
    return {**own, "PYTHONIOENCODING": "utf-8"}
