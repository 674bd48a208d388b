"""Reads and judges input files, small ones together: what each says, and the account of its rows."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import polars as pl

from pipelines.reading.inputs import FoundFile, open_file
from pipelines.runners.machine import build_threads
from schemas.catalogue import HardwareCatalogue, ModelCatalogue
from schemas.frames import empty_frame
from schemas.moments import as_text
from transforms.serving_points.judge import judge_rows, new_points
from transforms.serving_points.measured_agentic import judge_agentic
from transforms.sources.formats import read_file
from transforms.sources.rows import FileRejectedError
from transforms.synthesis.slower import add_slower_than_roofline

#: A sentence with a list of columns has a tenth of that; what is longer quotes the file.
MAX_REASON_CHARACTERS: Final = 10_000
#: Files that are judged together: judging a row alone costs as much as judging a thousand.
FILES_TOGETHER: Final = 32
#: Bytes of them at most, as they are stored.
BYTES_TOGETHER: Final = 2**20


@dataclass(frozen=True)
class FileAccount:
    """What became of one file's rows. ``rows_read`` is the sum of the four kinds."""

    path: str
    sha256: str
    format: str | None
    tool: str | None
    tool_version: str | None
    rows_read: int = 0
    rows_accepted: int = 0
    rows_duplicate: int = 0
    rows_superseded: int = 0
    rows_quarantined: int = 0
    rejected_reason: str | None = None
    quarantined: dict[str, int] = field(default_factory=dict)
    replaced_by: dict[str, int] = field(default_factory=dict)  #: file -> superseded rows that it replaces


@dataclass(frozen=True)
class Outcome:
    """The accounts of some files, and their rows by table; reruns are not told apart yet."""

    accounts: tuple[FileAccount, ...]
    points: pl.DataFrame
    agentic: pl.DataFrame
    quarantine: pl.DataFrame


@dataclass(frozen=True)
class _Read:
    """One file as read: its rows and agent runs, and when ``source.yaml`` says that they were measured."""

    account: FileAccount
    rows: pl.DataFrame | None = None
    runs: pl.DataFrame | None = None
    measured_at: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)


def judged_files(
    files: Iterable[FoundFile],
    hardware: HardwareCatalogue,
    models: ModelCatalogue,
    on_file: Callable[[str], None] = lambda shown: None,
    threads: int | None = None,
) -> Iterator[Outcome]:
    """What the files say, in the order given; rows that an earlier file says too are counted and dropped.

    ``threads`` groups of files are read at a time, without it as many as the machine can.
    """
    seen: set[str] = set()
    judge = partial(_judged, hardware=hardware, models=models)
    for outcome in _ahead(_groups(files), judge, threads or build_threads()):
        points, runs = new_points(outcome.points, seen), new_points(outcome.agentic, seen)
        read, kept = _rows_of_files(outcome.points, outcome.agentic), _rows_of_files(points, runs)
        accounts = []
        for account in outcome.accounts:
            on_file(account.path)
            accepted = kept.get(account.path, 0)
            duplicate = read.get(account.path, 0) - accepted
            accounts.append(replace(account, rows_accepted=accepted, rows_duplicate=duplicate))
        yield Outcome(tuple(accounts), points, runs, outcome.quarantine)


def _rows_of_files(*tables: pl.DataFrame) -> dict[str, int]:
    return dict(pl.concat(table.select("source_file") for table in tables).group_by("source_file").len().iter_rows())


def _groups(files: Iterable[FoundFile]) -> Iterator[list[FoundFile]]:
    """The files one after the other, small ones in groups."""
    group: list[FoundFile] = []
    stored = 0
    for found in files:
        size = _stored_bytes(found)
        if group and (len(group) == FILES_TOGETHER or stored + size > BYTES_TOGETHER):
            yield group
            group, stored = [], 0
        group.append(found)
        stored += size
    if group:
        yield group


def _stored_bytes(found: FoundFile) -> int:
    """The size of the file; nothing of one that cannot be read, which is said when it is."""
    try:
        return found.path.stat().st_size
    except (OSError, ValueError):
        return 0


def _ahead(
    groups: Iterable[Sequence[FoundFile]], judge: Callable[[Sequence[FoundFile]], Outcome], number: int
) -> Iterator[Outcome]:
    """The outcomes in the order of the files, the next of which are read meanwhile; no more are kept than are read."""
    waiting: deque[Future[Outcome]] = deque()
    threads = ThreadPoolExecutor(number)
    try:
        for group in groups:
            waiting.append(threads.submit(judge, group))
            if len(waiting) == number:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        threads.shutdown(cancel_futures=True)


def _judged(group: Sequence[FoundFile], hardware: HardwareCatalogue, models: ModelCatalogue) -> Outcome:
    """What the files say by themselves: rows that several say are still there several times."""
    read = [_read(found) for found in group]
    with_rows = [(each, each.rows) for each in read if each.rows is not None and each.rows.height]
    with_runs = [(each, each.runs) for each in read if each.runs is not None and each.runs.height]
    points, bad = empty_frame("serving_points"), empty_frame("quarantine")
    runs = empty_frame("measured_agentic")
    if with_rows:
        points, bad = judge_rows(_together(with_rows), hardware, models)
        points = add_slower_than_roofline(points, hardware, models)
    if with_runs:
        runs, bad_runs = judge_agentic(_together(with_runs), hardware, models)
        bad = pl.concat([bad, bad_runs])
    for each in read:
        bad = _with_own_names(bad, each)
    reasons: dict[str, dict[str, int]] = {}
    for file, reason, rows in bad.group_by("source_file", "reason", maintain_order=True).len().iter_rows():
        reasons.setdefault(file, {})[reason] = rows
    accounts = []
    for each in read:
        quarantined = reasons.get(each.account.path, {})
        accounts.append(replace(each.account, quarantined=quarantined, rows_quarantined=sum(quarantined.values())))
    return Outcome(tuple(accounts), points, runs, bad)


def _with_own_names(bad: pl.DataFrame, file: _Read) -> pl.DataFrame:
    """The quarantined rows, those of the file with what it calls the field that their detail begins with."""
    if bad.is_empty() or not file.columns:
        return bad
    own = pl.col("detail").str.extract(r"^(\w+) is ").replace_strict(file.columns, default=None, return_dtype=pl.String)
    told = pl.format("{} (column {} of the file)", "detail", own)
    of_file = (pl.col("source_file") == file.account.path) & own.is_not_null()
    return bad.with_columns(detail=pl.when(of_file).then(told).otherwise("detail"))


def _together(files: Sequence[tuple[_Read, pl.DataFrame]]) -> pl.DataFrame:
    """The rows of the files with what each is called, which version wrote it, and a date where they give none."""
    lengths = pl.Series([rows.height for _, rows in files])

    def of_files(values: Sequence[str | None]) -> pl.Expr:
        if len(values) == 1:
            return pl.lit(values[0], pl.String)
        return pl.lit(pl.Series(values, dtype=pl.String).repeat_by(lengths).explode())

    return pl.concat([rows for _, rows in files]).with_columns(
        source_file=of_files([each.account.path for each, _ in files]),
        tool_version=of_files([each.account.tool_version for each, _ in files]),
        measured_at=pl.coalesce("measured_at", of_files([each.measured_at for each, _ in files])),
    )


def _read(found: FoundFile) -> _Read:
    """One file as read, or why it is rejected."""
    sha256 = ""
    try:
        file = open_file(found)
        sha256 = file.sha256
        reading = read_file(file)
    except FileRejectedError as rejected:
        reason = str(rejected)
        reason = reason if len(reason) <= MAX_REASON_CHARACTERS else f"{reason[:MAX_REASON_CHARACTERS]}..."
        return _Read(FileAccount(found.shown, sha256, None, None, None, rejected_reason=reason))
    account = FileAccount(
        found.shown, sha256, reading.format, reading.tool, reading.tool_version, rows_read=reading.rows_read
    )
    moment = file.sidecar.measured_at if file.sidecar else None
    return _Read(account, reading.rows, reading.agentic, None if moment is None else as_text(moment), reading.columns)
