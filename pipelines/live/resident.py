"""A process of AIConfigurator that stays: the kernel times that it has read serve the questions that follow."""

import json
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from pipelines.live.program import WORKER, Program, environment
from pipelines.live.questions import Question

#: A process that has grown to this is replaced by a new one: databases are never given back.
LARGEST_BYTES = 3 * 2**30


class ResidentWorker:
    """Answers one question after the other; a context manager, at whose end the process ends."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def why_not(self, question: Question, table: Path) -> str | None:
        """Has the table written, CSV or Parquet by its name; None, or why there is none."""
        process = self._process or self._begin()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps({"question": question.to_json(), "table": str(table)}) + "\n")
            process.stdin.flush()
            said = json.loads(process.stdout.readline())
        except (OSError, ValueError):
            self._end()
            return f"AIConfigurator ended with {process.returncode}; where memory was short, ask for less at a time"
        if said["memory_bytes"] > LARGEST_BYTES:
            self._end()
        return None if said["reason"] is None else " ".join(said["reason"].split())[:400]

    def _begin(self) -> subprocess.Popen[str]:
        self._process = subprocess.Popen(
            [self._program.python, WORKER, "resident"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            env=environment(self._program.python),
        )
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
        self._process = None
