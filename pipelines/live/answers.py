"""Asks AIConfigurator, several questions at a time, and keeps the answers in a cache by content."""

import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pipelines.live.program import WORKER, Program, environment
from pipelines.live.questions import Question
from pipelines.reading.inputs import FoundFile
from pipelines.user_cache import user_cache
from schemas.errors import UserError


def default_cache() -> Path:
    """The user's cache folder."""
    return user_cache() / "aiconfigurator"


def answer_all(
    asked: Sequence[Question], program: Program, cache: Path, on_answer: Callable[[], None] = lambda: None
) -> list[FoundFile]:
    """The answer to each question, as a file of the cache; where there is none, why.

    An answer is kept under a hash of the question, AIConfigurator's version and the code that asks. What
    could not be answered is asked again the next time.
    """
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache):
            pass
    except OSError as error:
        raise UserError(
            f"The cache {cache} cannot be written: {error.strerror or error}. Name another folder with "
            "--aiconfigurator-cache."
        ) from error

    def answer(question: Question) -> FoundFile:
        table = _answer(question, program, cache)
        on_answer()
        return table

    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as threads:
        try:
            return list(threads.map(answer, asked))
        except BaseException:  # Ctrl-C, for one, ends the processes that run; no more are started
            threads.shutdown(wait=False, cancel_futures=True)
            raise


def cached_at(question: Question, program: Program, cache: Path) -> Path:
    """Where the answer to the question is kept."""
    content = {
        "question": question.to_json(),
        "aiconfigurator": program.version,
        "worker": hashlib.sha256(WORKER.read_bytes()).hexdigest(),
    }
    return cache / f"{hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()}.csv"


def _answer(question: Question, program: Program, cache: Path) -> FoundFile:
    kept = cached_at(question, program, cache)
    if kept.is_file():
        return FoundFile(kept, question.name)
    descriptor, aside = tempfile.mkstemp(suffix=".part", dir=cache)
    os.close(descriptor)
    try:
        refused = _why_not(question, program, Path(aside))
        if refused is None:
            os.replace(aside, kept)
    finally:
        Path(aside).unlink(missing_ok=True)
    return FoundFile(kept, question.name, refused)


def _why_not(question: Question, program: Program, table: Path) -> str | None:
    """Has the table written; None, or why it cannot be."""
    try:
        run = subprocess.run(
            [program.python, WORKER, table],
            input=json.dumps(question.to_json()),
            capture_output=True,
            text=True,
            env=environment(program.python),
        )
    except OSError as error:
        return f"AIConfigurator cannot be run: {error.strerror or error}"
    if run.returncode == 0:
        return None if table.stat().st_size else "AIConfigurator gave no answer"
    if run.returncode < 0:
        return f"AIConfigurator was ended by signal {-run.returncode}; where memory was short, ask for less at a time"
    try:
        reason = str(json.loads(run.stdout.splitlines()[-1])["reason"])
    except (ValueError, KeyError, IndexError, TypeError):
        reason = (run.stderr.strip().splitlines() or [f"exit code {run.returncode}"])[-1]
    return f"AIConfigurator {program.version} cannot answer: {' '.join(reason.split())[:400]}"
