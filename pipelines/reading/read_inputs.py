"""The first stage: input files to serving points, with the account of every file and row."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import polars as pl

from pipelines.reading.folders import PassedOver
from pipelines.reading.gathering import FileAccount
from pipelines.reading.inputs import FoundFile
from pipelines.reading.judged_files import judged_files
from schemas.catalogue import HardwareCatalogue, ModelCatalogue
from schemas.frames import conform, empty_frame
from transforms.serving_points.superseding import rerun_columns, superseded
from transforms.sources.rows import SLICE_BYTES
from transforms.synthesis.slower import TABLE_COLUMNS, SlowTable, slow_tables

READING = "Reading tables"


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
    slice_bytes: int = SLICE_BYTES,
) -> Inputs:
    """Reads and judges the files, ``threads`` at a time: without it as many as the machine can.

    A row that an earlier one says word for word is dropped; a run that a later one of the same
    configuration replaces is dropped too, in whatever order they are read. Without ``keep_points`` the
    tables of points stay empty, quarantined rows without their text, and memory bounded: for the accounts alone.
    Of a large file ``slice_bytes`` are taken apart at a time, which changes no answer.
    """
    points: list[pl.DataFrame] = []
    agentic: list[pl.DataFrame] = []
    quarantine: list[pl.DataFrame] = []
    reruns: list[pl.DataFrame] = []
    flags: list[pl.DataFrame] = []
    accounts: list[FileAccount] = []
    for outcome in judged_files(files, hardware, models, on_file, threads, keep_points, slice_bytes):
        accounts += outcome.accounts
        quarantine.append(outcome.rows.quarantine)
        reruns.append(outcome.rows.told.filter(pl.col("measured_at").is_not_null()).drop(TABLE_COLUMNS))
        flags.append(outcome.rows.told.select(TABLE_COLUMNS))
        if keep_points:
            points.append(outcome.rows.points)
            agentic.append(outcome.rows.agentic)
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
        slow=slow_tables(pl.concat([empty_frame("serving_points").select(TABLE_COLUMNS), *flags])),
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
