"""Small releases that carry their number in every row, and readers that tell which one they saw.

Importable without pytest, as child processes of the crash and concurrency tests use it.
"""

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from pipelines.lake import publish
from pipelines.lake.parts import write_parts
from pipelines.lake.query import open_lake
from pipelines.lake.reader import Release, current_release
from pipelines.lake.release import ReleaseWriter, begin_release

FIELDS: dict[str, Any] = {
    "config": {"kv_context": "mean"},
    "code_version": "0.1.0",
    "schema_version": "1",
    "inputs": [{"path": "tables/pareto.csv", "sha256": "ab" * 32}],
}
KEYS = ("hardware", "model")


def points(number: int) -> pl.DataFrame:
    """Three partitions, ``number + 2`` rows: so that a mix of two releases shows in the counts too."""
    hardware = ["h100-sxm", "h100-sxm", *["b200"] * number]
    model = ["llama", "kimi", *["kimi"] * number]
    return pl.DataFrame({"number": number, "hardware": hardware, "model": model}).with_columns(
        x=pl.int_range(pl.len()).cast(pl.Float64)
    )


def write_partitioned(writer: ReleaseWriter, table: str, frame: pl.DataFrame, by: Sequence[str]) -> None:
    """A whole frame, one partition for each combination of values of the columns ``by``."""
    writer.adopt(table, frame.schema, by, ())  # refused before a file is written
    writer.adopt(table, frame.schema, by, write_parts(writer.staging, table, frame, by))


def write_release(writer: ReleaseWriter, number: int) -> None:
    write_partitioned(writer, "agent_points", points(number), by=KEYS)
    write_partitioned(writer, "agent_frontier", points(number), by=KEYS)
    writer.write_table("hardware", pl.DataFrame({"number": [number]}))
    writer.write_text("DATA_DICTIONARY.md", f"# {number}\n")


def publish_number(lake: Path, number: int) -> Release:
    with begin_release(lake) as writer:
        write_release(writer, number)
        return writer.publish(**FIELDS)


NUMBERS_SQL = """
    SELECT min(n), max(n), count(DISTINCT n), bool_and(rows = expected) FROM (
        SELECT min(number) n, count(*) rows, min(number) + 2 expected FROM agent_points GROUP BY number
        UNION ALL SELECT min(number), count(*), min(number) + 2 FROM agent_frontier GROUP BY number
        UNION ALL SELECT min(number), count(*), 1 FROM hardware GROUP BY number
    )
"""


class TornError(AssertionError):
    """A reader has seen parts of different releases, or not all of one."""


def seen_by_query(lake: Path) -> int:
    """The number of the release that ``query`` shows, which must be whole."""
    with open_lake(lake) as connection:
        return _whole(next(connection.query(NUMBERS_SQL).rows()))


def seen_by_database(lake: Path) -> int:
    """The number of the release that the DuckDB file shows, which must be whole."""
    connection = duckdb.connect(str(lake / "agent_pareto.duckdb"), read_only=True)
    try:
        return _whole(connection.execute(NUMBERS_SQL).fetchall()[0])
    finally:
        connection.close()


def seen_by_polars(lake: Path) -> int:
    """The number of the release that ``current.json`` names, which must be whole."""
    folder = current_release(lake).path
    return whole_number(folder)


def whole_number(folder: Path) -> int:
    """The number of the release in a folder, which must be whole."""
    tables = [pl.read_parquet(folder / "hardware.parquet")]
    tables += [pl.scan_parquet(folder / name).collect() for name in ("agent_points", "agent_frontier")]
    numbers = {number for table in tables for number in table["number"].to_list()}
    number = min(numbers)
    heights = [table.height for table in tables]
    return _whole((number, max(numbers), len(numbers), heights == [1, number + 2, number + 2]))


def _whole(row: tuple[Any, ...]) -> int:
    low, high, distinct, complete = row
    if low != high or distinct != 1 or not complete:
        raise TornError(f"numbers {low} to {high}, {distinct} different, complete: {complete}")
    return int(low)


def kill_at(step: str) -> Callable[[str], None]:
    """For ``publish.reached``: end the process there as ``kill -9`` would."""

    def reached(now: str) -> None:
        if now == step:
            os.kill(os.getpid(), signal.SIGKILL)

    return reached


def publish_and_die(lake: Path, number: int, step: str) -> None:
    """In a child: publish, but die at a step of publishing, or before it (``written``)."""
    publish.reached = kill_at(step)  # type: ignore[assignment]
    with begin_release(lake) as writer:
        write_release(writer, number)
        publish.reached("written")
        writer.publish(**FIELDS)


DISK_CALLS = ("fsync", "rename", "replace", "unlink")


def publish_and_die_at_call(lake: Path, number: int, call: int) -> None:
    """In a child: publish, but die just before the call of that number to one of ``DISK_CALLS``."""
    left = call

    def dying(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*args, **kwargs)

        return wrapper

    with begin_release(lake) as writer:
        write_release(writer, number)
        for name in DISK_CALLS:
            setattr(os, name, dying(getattr(os, name)))
        writer.publish(**FIELDS)


def publish_many(lake: Path, numbers: list[int]) -> None:
    """In a child: publish one after the other."""
    for number in numbers:
        publish_number(lake, number)


def poll(lake: Path, stop: Path, report: Path) -> None:
    """In a child: read in all three ways until the file ``stop`` is there; write reads, torn ones and numbers."""
    reads = 0
    torn: list[str] = []
    seen: dict[str, list[int]] = {"query": [], "database": [], "polars": []}
    while True:
        last = stop.exists()
        for name, read in (
            ("query", seen_by_query),
            ("database", seen_by_database),
            ("polars", seen_by_polars),
        ):
            reads += 1
            try:
                seen[name].append(read(lake))
            except Exception as error:
                torn.append(f"{name}: {error!r}")
        if last:
            break
    report.write_text(repr((reads, torn, seen)), encoding="utf-8")
