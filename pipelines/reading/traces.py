"""Reads trace files as streams and fits a scenario to them."""

import csv
import gzip
import hashlib
import io
import os
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Literal

import yaml
from pydantic import ValidationError

from pipelines.progress import progress
from schemas.errors import UserError
from schemas.scenarios import Scenario
from schemas.sentences import explain
from schemas.suggest import did_you_mean
from schemas.trace_statistics import TraceFile
from transforms.traces.formats import FORMATS, TraceFormat, UnknownTraceError, detect_format
from transforms.traces.formats.lmcache import CHARACTERS_PER_TOKEN
from transforms.traces.formats.values import MAX_LINE_BYTES
from transforms.traces.requests import Asked, Counts, Reading
from transforms.traces.sessions import TIMEOUTS_S, Sessions
from transforms.traces.statistics import NothingToFitError, scenario_from, trace_statistics

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

TRACE_SUFFIXES: Final = (".json", ".jsonl", ".csv")
_STAGE: Final = "Traces, MB read"
_STEP_BYTES: Final = 1_000_000


@dataclass(frozen=True)
class FitOptions:
    """What the user may say about a fit."""

    slug: str
    name: str | None = None
    format: str | None = None  #: a name of ``FORMATS``; by content if None
    cap_pauses_s: float | None = None
    cache_timeout_s: float | None = None
    characters_per_token: float = CHARACTERS_PER_TOKEN
    time_unit: Literal["s", "ms", "us", "ns"] | None = None


def fit_scenario(paths: Sequence[Path], options: FitOptions) -> Scenario:
    """The scenario of these traces, files or folders, all of one format.

    Raises ``UserError`` for a file that cannot be read or is no trace, for files of different formats, and where
    there is nothing to fit.
    """
    files, passed_over = _find(paths)
    form = _common_format(files, options)
    readings = _settled(files, form, options)
    timeouts = TIMEOUTS_S if options.cache_timeout_s is None else (*TIMEOUTS_S, options.cache_timeout_s)
    counts: Counts = Counter()
    sessions = Sessions(counts, timeouts_s=timeouts, cap_pauses_s=options.cap_pauses_s, one_by_one=form.one_by_one)
    progress().start(_STAGE, sum(path.stat().st_size // _STEP_BYTES + 1 for path in files))
    read = [_read(path, number, reading, sessions, counts) for number, (path, reading) in enumerate(readings.items())]
    sessions.finish()
    reuse = next(iter(readings.values())).reuse
    notes = tuple(dict.fromkeys(note for reading in readings.values() for note in reading.notes))
    if passed_over:
        shown = ", ".join(path.name for path in passed_over[:8]) + (" ..." if len(passed_over) > 8 else "")
        notes += (f"Files of the folders that were passed over ({len(passed_over):,}): {shown}.",)
    try:
        statistics = trace_statistics(sessions, form.name, reuse, read, notes)
    except NothingToFitError as error:
        raise UserError(f"{', '.join(map(str, paths))}: {error}") from None
    if options.cache_timeout_s is not None and not statistics.cache.by_timeout:
        why = "the hits are those of the server's own cache" if reuse == "observed" else "it tells no pauses"
        raise UserError(f"--cache-timeout cannot be applied to this trace: {why}.")
    try:
        return scenario_from(
            sessions, statistics, slug=options.slug, name=options.name, timeout_s=options.cache_timeout_s
        )
    except ValidationError as error:
        problems = " ".join(problem.sentence for problem in explain(error, Scenario, {}))
        raise UserError(f"The means of these traces are no possible scenario: {problems}") from None


def write_scenario(scenario: Scenario, out: Path) -> None:
    """Write a scenario file, in one step. Raises ``UserError`` where it cannot be written."""
    entry = scenario.model_dump(mode="json", exclude_none=True)
    header = "# Made by `agent-pareto scenarios fit`. Fields: `agent-pareto scenarios list`.\n"
    text = header + yaml.safe_dump({"scenarios": [entry]}, sort_keys=False, allow_unicode=True, width=110)
    try:
        handle, beside = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(beside, 0o644)
            os.replace(beside, out)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UserError(f"--out {out}: cannot be written ({error.strerror or error}).") from None


def _find(paths: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """The traces that the paths name or hold, and the files beside them whose ending is no trace's."""
    found: dict[Path, Path] = {}
    passed_over: list[Path] = []
    for path in paths:
        if not path.exists():
            raise UserError(f"{path} does not exist: name a trace file or a folder of them.")
        files = sorted(file for file in path.rglob("*") if _is_trace_name(file)) if path.is_dir() else [path]
        if path.is_dir():
            passed_over += sorted(file for file in path.rglob("*") if file.is_file() and not _is_trace_name(file))
        if not files:
            raise UserError(f"{path} holds no trace ({', '.join(TRACE_SUFFIXES)}, each also gzipped as .gz).")
        for file in files:
            found.setdefault(file.resolve(), file)
    return list(found.values()), passed_over


def _is_trace_name(path: Path) -> bool:
    return path.is_file() and path.name.removesuffix(".gz").endswith(TRACE_SUFFIXES)


def _common_format(files: Sequence[Path], options: FitOptions) -> TraceFormat:
    if options.format is not None:
        if options.format not in FORMATS:
            hint = did_you_mean(options.format, FORMATS)
            raise UserError(f"--format {options.format}: unknown.{hint} Known: {', '.join(FORMATS)}.")
        form = FORMATS[options.format]
    else:
        formats: dict[str, tuple[TraceFormat, Path]] = {}
        refused = []
        for path in files:
            try:
                found = _detect(path)
                formats.setdefault(found.name, (found, path))
            except UnknownTraceError as error:
                refused.append(f"{path} {error}.")
        if refused:
            forms = ", ".join(f"{form.name} ({form.title})" for form in FORMATS.values())
            raise UserError("\n".join([*refused[:20], f"Formats that can be fitted: {forms}."]))
        if len(formats) > 1:
            kinds = "; ".join(f"{name} ({path})" for name, (_, path) in formats.items())
            raise UserError(f"The traces are of different formats: {kinds}. Fit them one by one.")
        form, _ = next(iter(formats.values()))
    return form


def _settled(files: Sequence[Path], form: TraceFormat, options: FitOptions) -> dict[Path, Reading]:
    """How each file is read, its dialect settled. Raises ``UserError``."""
    asked = Asked(options.time_unit, options.characters_per_token)
    readings: dict[Path, Reading] = {}
    refused = []
    for path in files:
        with _Lines(path) as lines:
            try:
                readings[path] = form.settle(lines, asked)
            except csv.Error as error:
                raise UserError(f"{path}: is not a CSV file to its end ({error}).") from None
            except UnknownTraceError as error:
                refused.append(f"{path} {error}.")
    if refused:
        raise UserError("\n".join(refused[:20]))
    kinds = {reading.reuse: path for path, reading in readings.items()}
    if len(kinds) > 1:
        told = "; ".join(f"{form.name}, hits {reuse} ({path})" for reuse, path in kinds.items())
        raise UserError(f"The traces are of different formats: {told}. Fit them one by one.")
    return readings


def _detect(path: Path) -> TraceFormat:
    with _Lines(path) as lines:
        first = next((line for line in lines if line.strip()), b"")
        return detect_format(first, lambda: first + b"".join(lines))


def _read(path: Path, number: int, reading: Reading, sessions: Sessions, counts: Counts) -> TraceFile:
    before = sessions.requests + sessions.subagent_requests
    with _Lines(path, show=True) as lines:
        try:
            for request in reading.read(lines, counts):
                sessions.add(request, number)
        except csv.Error as error:
            raise UserError(f"{path}: is not a CSV file to its end ({error}).") from None
        except UnknownTraceError as error:
            raise UserError(f"{path} {error}.") from None
        lines.drain()
    return TraceFile(
        name=path.name,
        sha256=lines.sha256,
        bytes=lines.bytes_read,
        requests=sessions.requests + sessions.subagent_requests - before,
    )


class _Lines:
    """The lines of a file, unpacked if it is gzipped; counts and hashes its bytes as stored.

    Raises ``UserError`` where the file cannot be read.
    """

    def __init__(self, path: Path, *, show: bool = False) -> None:
        self._path = path
        self._show = show
        self._hash = hashlib.sha256()
        self._steps = 0
        self.bytes_read = 0

    def __enter__(self) -> "_Lines":
        try:
            self._file = self._path.open("rb")
            packed = self._file.peek(2)[:2] == b"\x1f\x8b"
        except OSError as error:
            raise UserError(f"{self._path}: cannot be read ({error.strerror or error}).") from None
        raw: IO[bytes] = io.BufferedReader(_Counted(self._file, self._count), 1 << 16)
        self._raw = raw
        self._text: io.BufferedIOBase | IO[bytes] = gzip.GzipFile(fileobj=raw, mode="rb") if packed else raw
        return self

    def __exit__(self, *_: object) -> None:
        self._text.close()
        self._raw.close()
        self._file.close()

    def __iter__(self) -> Iterator[bytes]:
        try:
            while line := self._text.readline(MAX_LINE_BYTES):
                if len(line) == MAX_LINE_BYTES:
                    raise UserError(f"{self._path}: has a line of more than {MAX_LINE_BYTES:,} bytes.")
                yield line
        except (OSError, EOFError, zlib.error) as error:
            raise UserError(f"{self._path}: cannot be unpacked or read to its end ({error}).") from None

    def drain(self) -> None:
        """Read what is left, so that the hash is the whole file's."""
        while self._raw.read(1 << 20):
            pass
        if self._show:
            for _ in range(self._steps, self._path.stat().st_size // _STEP_BYTES + 1):
                progress().advance(_STAGE)

    @property
    def sha256(self) -> str:
        """Hash of the bytes read so far."""
        return self._hash.hexdigest()

    def _count(self, data: bytes) -> None:
        self._hash.update(data)
        self.bytes_read += len(data)
        while self._show and self._steps < self.bytes_read // _STEP_BYTES:
            self._steps += 1
            progress().advance(_STAGE)


class _Counted(io.RawIOBase):
    """A raw file that tells what passes through it."""

    def __init__(self, file: io.BufferedReader, tell: Callable[[bytes], None]) -> None:
        self._file = file
        self._tell = tell

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        view = memoryview(buffer)
        count = self._file.readinto(view)
        self._tell(bytes(view[:count]))
        return count
