"""Judges the rows of files as they are read, small files together and large ones in slices.

However large or many the files of a group are, a few megabytes of their text are taken apart at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import polars as pl

from pipelines.reading.inputs import FoundFile, open_file
from schemas.catalogue import HardwareCatalogue, ModelCatalogue
from schemas.frames import empty_frame
from schemas.moments import as_text
from transforms.serving_points.judge import judge_rows
from transforms.serving_points.measured_agentic import judge_agentic
from transforms.serving_points.superseding import rerun_columns
from transforms.sources.formats import read_file
from transforms.sources.rows import FileRejectedError, Reading
from transforms.synthesis.slower import TABLE_COLUMNS, add_slower_than_roofline

#: A sentence with a list of columns has a tenth of that; what is longer quotes the file.
MAX_REASON_CHARACTERS: Final = 10_000
#: Bytes of a row of a table: so many rows are judged as soon as they are read as a slice would have of such.
_ROW_BYTES: Final = 256


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
class JudgedRows:
    """Rows of some files by table; repeats and reruns are not told apart yet.

    ``told`` is what repeats, reruns and slow tables are found by, row by row of the points. Where points are not kept
    ``points`` is empty, and ``quarantine`` without the rows' own text.
    """

    told: pl.DataFrame
    points: pl.DataFrame
    agentic: pl.DataFrame
    quarantine: pl.DataFrame

    def of_others(self, path: str) -> "JudgedRows":
        """The rows of all files but this one."""
        others = pl.col("source_file") != path
        return JudgedRows(*(table.filter(others) for table in (self.told, self.points, self.agentic, self.quarantine)))


@dataclass(frozen=True)
class _Slice:
    """Rows of a file as read, and when ``source.yaml`` says that they were measured."""

    path: str
    reading: Reading
    measured_at: str | None


@dataclass
class Gathering:
    """What files of one group say, one file after the other: rows that several say are there several times.

    ``slice_bytes`` are what is taken apart at a time. Without ``keep_points`` memory grows little with the rows.
    """

    hardware: HardwareCatalogue
    models: ModelCatalogue
    keep_points: bool
    slice_bytes: int
    _files: list[str] = field(default_factory=list)
    _waiting: list[_Slice] = field(default_factory=list)
    _judged: list[JudgedRows] = field(default_factory=list)

    def add(self, found: FoundFile) -> FileAccount:
        """Reads the file; gives the account of its rows as far as it is known, or why it is rejected."""
        account = FileAccount(found.shown, "", None, None, None)
        self._files.append(found.shown)
        try:
            file = open_file(found)
            account = replace(account, sha256=file.sha256)
            moment = file.sidecar.measured_at if file.sidecar else None
            for reading in read_file(file, self.slice_bytes):
                account = replace(
                    account,
                    format=reading.format,
                    tool=reading.tool,
                    tool_version=reading.tool_version,
                    rows_read=account.rows_read + reading.rows_read,
                )
                self._waiting.append(_Slice(found.shown, reading, None if moment is None else as_text(moment)))
                if sum(each.reading.rows_read for each in self._waiting) * _ROW_BYTES >= self.slice_bytes:
                    self._judge()
        except FileRejectedError as rejected:
            self._waiting = [each for each in self._waiting if each.path != found.shown]
            self._judged = [rows.of_others(found.shown) for rows in self._judged]
            reason = str(rejected)
            reason = reason if len(reason) <= MAX_REASON_CHARACTERS else f"{reason[:MAX_REASON_CHARACTERS]}..."
            return FileAccount(found.shown, account.sha256, None, None, None, rejected_reason=reason)
        return account

    def finish(self) -> JudgedRows:
        """All rows of the files that were not rejected, in the order of the files."""
        self._judge()
        each = self._judged
        bad = pl.concat(rows.quarantine for rows in each)
        in_order = pl.col("source_file").cast(pl.Enum(list(dict.fromkeys(self._files))))
        return JudgedRows(
            pl.concat(rows.told for rows in each),
            pl.concat(rows.points for rows in each),
            pl.concat(rows.agentic for rows in each),
            bad.sort(in_order, "source_row", maintain_order=True),
        )

    def _judge(self) -> None:
        parts, self._waiting = self._waiting, []
        with_rows = [(each, each.reading.rows) for each in parts if each.reading.rows.height]
        with_runs = [(each, runs) for each in parts if (runs := each.reading.agentic) is not None and runs.height]
        points, bad = empty_frame("serving_points"), empty_frame("quarantine")
        runs = empty_frame("measured_agentic")
        if with_rows:
            points, bad = judge_rows(_together(with_rows), self.hardware, self.models)
            points = add_slower_than_roofline(points, self.hardware, self.models)
        if with_runs:
            runs, bad_runs = judge_agentic(_together(with_runs), self.hardware, self.models)
            bad = pl.concat([bad, bad_runs])
        for each in {each.path: each for each in parts}.values():
            bad = _with_own_names(bad, each)
        told = rerun_columns(points).hstack(points.select(TABLE_COLUMNS))
        if not self.keep_points:
            points, bad = points.clear(), bad.with_columns(raw=pl.lit("", pl.String))
        self._judged.append(JudgedRows(told, points, runs, bad))


def _with_own_names(bad: pl.DataFrame, part: _Slice) -> pl.DataFrame:
    """The quarantined rows, those of the file with what it calls the field that their detail begins with."""
    if bad.is_empty() or not part.reading.columns:
        return bad
    own = (
        pl.col("detail")
        .str.extract(r"^(\w+) is ")
        .replace_strict(part.reading.columns, default=None, return_dtype=pl.String)
    )
    told = pl.format("{} (column {} of the file)", "detail", own)
    of_file = (pl.col("source_file") == part.path) & own.is_not_null()
    return bad.with_columns(detail=pl.when(of_file).then(told).otherwise("detail"))


def _together(parts: Sequence[tuple[_Slice, pl.DataFrame]]) -> pl.DataFrame:
    """The rows of the slices with what each is called, which version wrote it, and a date where they give none."""
    lengths = pl.Series([rows.height for _, rows in parts])

    def of_parts(values: Sequence[str | None]) -> pl.Expr:
        if len(values) == 1:
            return pl.lit(values[0], pl.String)
        return pl.lit(pl.Series(values, dtype=pl.String).repeat_by(lengths).explode())

    return pl.concat([rows for _, rows in parts]).with_columns(
        source_file=of_parts([each.path for each, _ in parts]),
        tool_version=of_parts([each.reading.tool_version for each, _ in parts]),
        measured_at=pl.coalesce("measured_at", of_parts([each.measured_at for each, _ in parts])),
    )
