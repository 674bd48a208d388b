"""Writes anew what the commands of a page print: ``python -m tests.docs.renew LAKE_PARENT docs/questions.md``.

LAKE_PARENT is a folder with the default lake as ``lake``; every command that shows output is run there. Options and
figures of the text are not touched.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.docs.page import ROOT, commands_of
from tests.docs.workplace import write_files_shown


def renewed(page: str, folder: Path) -> str:
    """The page with the output that its console blocks have now."""

    def block(match: re.Match[str]) -> str:
        parts = []
        prompt = "$ " if match[1].startswith("$ ") else ""
        for command in commands_of(match[1].splitlines()):
            parts.append(prompt + command.text)
            if command.shown is not None:
                printed = _run(command.words, folder).strip("\n").splitlines()
                parts += ["", *(line.rstrip() for line in printed), ""]
        return "```console\n" + "\n".join(parts).rstrip("\n") + "\n```"

    return re.sub(r"^```console\n(.*?)^```$", block, page, flags=re.DOTALL | re.MULTILINE)


def _run(words: list[str], folder: Path) -> str:
    program = [sys.executable, "-m", "pipelines.cli", *words[1:]]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"{' '.join(words)}\n{result.stderr}")
    return result.stdout


if __name__ == "__main__":
    place = Path(sys.argv[1])
    write_files_shown(place)
    for name in sys.argv[2:]:
        path = Path(name)
        path.write_text(renewed(path.read_text(encoding="utf-8"), place), encoding="utf-8")
