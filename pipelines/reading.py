"""The first stage: input files to serving points, with the account of every file and row."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import polars as pl

from pipelines.inputs import FoundFile, open_file
from schemas.catalogue import HardwareCatalogue, ModelCatalogue
from schemas.frames import conform, empty_frame
from transforms.serving_points import judge_rows, new_points
from transforms.sources.formats import read_file
from transforms.sources.rows import FileRejectedError, Reading


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


@dataclass(frozen=True)
class Inputs:
    """All that the input files say: frames of the tables of these names, and the accounts."""

    serving_points: pl.DataFrame
    quarantine: pl.DataFrame
    accounts: tuple[FileAccount, ...]

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
) -> Inputs:
    """Reads and judges the files in their order; a row that an earlier one says word for word is dropped."""
    points: list[pl.DataFrame] = []
    quarantine: list[pl.DataFrame] = []
    accounts: list[FileAccount] = []
    seen: set[str] = set()
    for found in files:
        on_file(found.shown)
        sha256 = ""
        try:
            file = open_file(found)
            sha256 = file.sha256
            reading = read_file(file)
        except FileRejectedError as rejected:
            accounts.append(FileAccount(found.shown, sha256, None, None, None, rejected_reason=str(rejected)))
            continue
        good, bad = judge_rows(reading.rows, found.shown, reading.tool_version, hardware, models)
        new = new_points(good, seen)
        points.append(new)
        quarantine.append(bad)
        accounts.append(_account(found.shown, sha256, reading, new.height, good.height - new.height, bad))
    return Inputs(
        conform(pl.concat([empty_frame("serving_points"), *points]), "serving_points"),
        conform(pl.concat([empty_frame("quarantine"), *quarantine]), "quarantine"),
        tuple(accounts),
    )


def _account(
    shown: str, sha256: str, reading: Reading, accepted: int, duplicate: int, bad: pl.DataFrame
) -> FileAccount:
    reasons = dict(bad.group_by("reason", maintain_order=True).len().iter_rows())
    return FileAccount(
        path=shown,
        sha256=sha256,
        format=reading.format,
        tool=reading.tool,
        tool_version=reading.tool_version,
        rows_read=reading.rows.height,
        rows_accepted=accepted,
        rows_duplicate=duplicate,
        rows_quarantined=bad.height,
        quarantined=reasons,
    )
