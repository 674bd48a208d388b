"""Reads and judges input files, a few at a time: what each says, and the account of its rows."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import polars as pl

from pipelines.reading.gathering import FileAccount, Gathering, JudgedRows
from pipelines.reading.inputs import FoundFile, unpacked_bytes
from pipelines.runners.machine import build_threads
from schemas.catalogue import HardwareCatalogue, ModelCatalogue
from transforms.serving_points.judge import are_new, new_points
from transforms.sources.rows import SLICE_BYTES

#: Files that are judged together: judging a row alone costs as much as judging a thousand.
FILES_TOGETHER: Final = 32
#: Bytes of them at most, unpacked.
BYTES_TOGETHER: Final = 2**20
#: Files that are larger, unpacked, are read one at a time: the text of one is in memory whole.
LARGE_BYTES: Final = 32 * 2**20


@dataclass(frozen=True)
class Outcome:
    """The accounts of some files, and their rows; reruns are not told apart yet."""

    accounts: tuple[FileAccount, ...]
    rows: JudgedRows


def judged_files(
    files: Iterable[FoundFile],
    hardware: HardwareCatalogue,
    models: ModelCatalogue,
    on_file: Callable[[str], None] = lambda shown: None,
    threads: int | None = None,
    keep_points: bool = True,
    slice_bytes: int = SLICE_BYTES,
) -> Iterator[Outcome]:
    """What the files say, in the order given; rows that an earlier file says too are counted and dropped.

    ``threads`` groups of files are read at a time, without it as many as the machine can.
    """
    seen: set[str] = set()
    gathering = partial(Gathering, hardware, models, keep_points, slice_bytes)
    judge = partial(_judged, gathering=gathering, large=threading.Lock())
    for outcome in _ahead(_groups(files), judge, threads or build_threads()):
        rows = outcome.rows
        fresh = are_new(rows.told["point_id"], seen)
        points = rows.points.filter(fresh) if keep_points else rows.points
        new = JudgedRows(rows.told.filter(fresh), points, new_points(rows.agentic, seen), rows.quarantine)
        read, kept = _rows_of_files(rows.told, rows.agentic), _rows_of_files(new.told, new.agentic)
        accounts = []
        for account in outcome.accounts:
            on_file(account.path)
            accepted = kept.get(account.path, 0)
            duplicate = read.get(account.path, 0) - accepted
            accounts.append(replace(account, rows_accepted=accepted, rows_duplicate=duplicate))
        yield Outcome(tuple(accounts), new)


def _rows_of_files(*tables: pl.DataFrame) -> dict[str, int]:
    return dict(pl.concat(table.select("source_file") for table in tables).group_by("source_file").len().iter_rows())


def _groups(files: Iterable[FoundFile]) -> Iterator[list[FoundFile]]:
    """The files one after the other, small ones in groups."""
    group: list[FoundFile] = []
    together = 0
    for found in files:
        size = unpacked_bytes(found)
        if group and (len(group) == FILES_TOGETHER or together + size > BYTES_TOGETHER):
            yield group
            group, together = [], 0
        group.append(found)
        together += size
    if group:
        yield group


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


def _judged(group: Sequence[FoundFile], gathering: Callable[[], Gathering], large: threading.Lock) -> Outcome:
    """What the files say by themselves: rows that several say are still there several times."""
    gathered = gathering()
    accounts = []
    for found in group:
        with large if unpacked_bytes(found) > LARGE_BYTES else nullcontext():
            accounts.append(gathered.add(found))
    rows = gathered.finish()
    reasons: dict[str, dict[str, int]] = {}
    alike = rows.quarantine.group_by("source_file", "reason", maintain_order=True).len()
    for file, reason, number in alike.iter_rows():
        reasons.setdefault(file, {})[reason] = number
    return Outcome(tuple(_with_reasons(account, reasons.get(account.path, {})) for account in accounts), rows)


def _with_reasons(account: FileAccount, quarantined: Mapping[str, int]) -> FileAccount:
    return replace(account, quarantined=dict(quarantined), rows_quarantined=sum(quarantined.values()))
