"""The first stage: input files to serving points, with the account of every file and row."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

import polars as pl

from pipelines.reading.folders import PassedOver
from pipelines.reading.inputs import FoundFile, open_file
from pipelines.runners.machine import build_threads
from schemas.catalogue import HardwareCatalogue, ModelCatalogue
from schemas.frames import conform, empty_frame
from schemas.moments import as_text
from transforms.serving_points.judge import judge_rows, new_points
from transforms.serving_points.measured_agentic import judge_agentic
from transforms.serving_points.superseding import rerun_columns, superseded
from transforms.sources.formats import read_file
from transforms.sources.rows import FileRejectedError, Reading
from transforms.synthesis.slower import SlowTable, sample_rows, slower_than_roofline

#: A sentence with a list of columns has a tenth of that; what is longer quotes the file.
READING = "Reading tables"
MAX_REASON_CHARACTERS = 10_000


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
class FileOutcome:
    """One file's account, and its rows by table; reruns, and at first repeats, are not told apart yet."""

    account: FileAccount
    points: pl.DataFrame
    agentic: pl.DataFrame
    quarantine: pl.DataFrame


@dataclass(frozen=True)
class Inputs:
    """All that the input files say: frames of the tables of these names, and the accounts."""

    serving_points: pl.DataFrame
    measured_agentic: pl.DataFrame
    quarantine: pl.DataFrame
    accounts: tuple[FileAccount, ...]
    passed_over: tuple[PassedOver, ...] = ()
    slow: tuple[SlowTable, ...] = ()

    @property
    def sources(self) -> pl.DataFrame:
        """The accounts as the table ``sources``."""
        columns = empty_frame("sources").columns
        rows = [{name: getattr(account, name) for name in columns} for account in self.accounts]
        return conform(pl.DataFrame(rows, schema=empty_frame("sources").schema), "sources")

    @property
    def faults(self) -> int:
        """Rows and files that are not used."""
        return sum(account.rows_quarantined + (account.rejected_reason is not None) for account in self.accounts)


def read_inputs(
    files: Iterable[FoundFile],
    hardware: HardwareCatalogue,
    models: ModelCatalogue,
    on_file: Callable[[str], None] = lambda shown: None,
    keep_points: bool = True,
    threads: int | None = None,
) -> Inputs:
    """Reads and judges the files, ``threads`` at a time: without it as many as the machine can.

    A row that an earlier one says word for word is dropped; a run that a later one of the same
    configuration replaces is dropped too, in whatever order they are read. Without ``keep_points`` the
    tables of points stay empty and memory bounded: for the accounts alone.
    """
    points: list[pl.DataFrame] = []
    agentic: list[pl.DataFrame] = []
    quarantine: list[pl.DataFrame] = []
    reruns: list[pl.DataFrame] = []
    samples: list[pl.DataFrame] = []
    accounts: list[FileAccount] = []
    for outcome in judged_files(files, hardware, models, on_file, threads):
        accounts.append(outcome.account)
        quarantine.append(outcome.quarantine)
        reruns.append(rerun_columns(outcome.points))
        samples.append(sample_rows(outcome.points))
        if keep_points:
            points.append(outcome.points)
            agentic.append(outcome.agentic)
    replaced = superseded(pl.concat([rerun_columns(empty_frame("serving_points")), *reruns]))
    kept = pl.concat([empty_frame("serving_points"), *points])
    points.clear()
    if replaced.height:
        kept = kept.join(replaced.select("point_id"), on="point_id", how="anti", maintain_order="left")
    replacing: dict[str, dict[str, int]] = {}
    for file, by, rows in replaced.group_by("source_file", "replaced_by", maintain_order=True).len().iter_rows():
        replacing.setdefault(file, {})[by] = rows
    return Inputs(
        conform(kept, "serving_points"),
        conform(pl.concat([empty_frame("measured_agentic"), *agentic]), "measured_agentic"),
        conform(pl.concat([empty_frame("quarantine"), *quarantine]), "quarantine"),
        tuple(
            replace(
                account,
                rows_accepted=account.rows_accepted - sum(replacing.get(account.path, {}).values()),
                rows_superseded=sum(replacing.get(account.path, {}).values()),
                replaced_by=replacing.get(account.path, {}),
            )
            for account in accounts
        ),
        slow=slower_than_roofline(pl.concat([empty_frame("serving_points"), *samples]), hardware, models),
    )


def superseded_in_words(accounts: Sequence[FileAccount], at_most: int = 10) -> list[str]:
    """A line for each file whose rows later runs replace: which files those are."""
    lines = [
        f"superseded, {account.path}: {rows:,} row{'s' if rows > 1 else ''} by {file}"
        for account in accounts
        for file, rows in account.replaced_by.items()
    ]
    more = [f"superseded, ... and {len(lines) - at_most:,} more"] if len(lines) > at_most else []
    return lines[:at_most] + more


def judged_files(
    files: Iterable[FoundFile],
    hardware: HardwareCatalogue,
    models: ModelCatalogue,
    on_file: Callable[[str], None] = lambda shown: None,
    threads: int | None = None,
) -> Iterator[FileOutcome]:
    """What each file says, in the order given; rows that an earlier file says too are counted and dropped."""
    seen: set[str] = set()
    for outcome in _ahead(files, partial(_judged, hardware=hardware, models=models), threads or build_threads()):
        on_file(outcome.account.path)
        points, runs = new_points(outcome.points, seen), new_points(outcome.agentic, seen)
        accepted = points.height + runs.height
        duplicate = outcome.points.height + outcome.agentic.height - accepted
        account = replace(outcome.account, rows_accepted=accepted, rows_duplicate=duplicate)
        yield FileOutcome(account, points, runs, outcome.quarantine)


def _ahead(files: Iterable[FoundFile], judge: Callable[[FoundFile], FileOutcome], number: int) -> Iterator[FileOutcome]:
    """The outcomes in the order of the files, the next of which are read meanwhile; no more are kept than are read."""
    waiting: deque[Future[FileOutcome]] = deque()
    threads = ThreadPoolExecutor(number)
    try:
        for found in files:
            waiting.append(threads.submit(judge, found))
            if len(waiting) == number:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        threads.shutdown(cancel_futures=True)


def _judged(found: FoundFile, hardware: HardwareCatalogue, models: ModelCatalogue) -> FileOutcome:
    """What one file says by itself."""
    runs = empty_frame("measured_agentic")
    sha256 = ""
    try:
        file = open_file(found)
        sha256 = file.sha256
        reading = read_file(file)
    except FileRejectedError as rejected:
        reason = str(rejected)
        reason = reason if len(reason) <= MAX_REASON_CHARACTERS else f"{reason[:MAX_REASON_CHARACTERS]}..."
        account = FileAccount(found.shown, sha256, None, None, None, rejected_reason=reason)
        return FileOutcome(account, empty_frame("serving_points"), runs, empty_frame("quarantine"))
    moment = file.sidecar.measured_at if file.sidecar else None
    good, bad = judge_rows(_dated(reading.rows, moment), found.shown, reading.tool_version, hardware, models)
    if reading.agentic is not None:
        dated = _dated(reading.agentic, moment)
        runs, bad_runs = judge_agentic(dated, found.shown, reading.tool_version, hardware, models)
        bad = pl.concat([bad, bad_runs])
    return FileOutcome(_account(found.shown, sha256, reading, bad), good, runs, bad)


def _dated(rows: pl.DataFrame, moment: datetime | None) -> pl.DataFrame:
    """The rows with the sidecar's ``measured_at`` where they give none of their own."""
    if moment is None:
        return rows
    return rows.with_columns(pl.col("measured_at").fill_null(as_text(moment)))


def _account(shown: str, sha256: str, reading: Reading, bad: pl.DataFrame) -> FileAccount:
    reasons = dict(bad.group_by("reason", maintain_order=True).len().iter_rows())
    return FileAccount(
        path=shown,
        sha256=sha256,
        format=reading.format,
        tool=reading.tool,
        tool_version=reading.tool_version,
        rows_read=reading.rows_read,
        rows_quarantined=bad.height,
        quarantined=reasons,
    )
