"""A lake that builds in half a second, and builders of it that run as processes. Importable without pytest."""

import os
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import duckdb

from pipelines.building import builder_lock
from pipelines.lake import publish
from pipelines.lake.query import open_lake
from pipelines.lake.reader import current_release
from pipelines.lake.release import begin_release
from pipelines.lake.verify import verify_release
from schemas.errors import UserError
from schemas.options import BuildOptions
from tests.lake.factory import FIELDS, write_release
from tests.pipelines.builds import build, write_small_table

FIGURES = (
    "SELECT count(*), bit_xor(hash(point_id, turn_latency_ms, tasks_per_hour_per_gpu)), "
    "(SELECT count(*) FROM agent_frontier), (SELECT count(*) FROM serving_points) FROM agent_points"
)
#: Rows of the tables that the builders differ in.
VERSIONS = (4, 5, 6)
#: Exit code of a builder that a ``UserError`` has ended.
REFUSED = 3


def small_options(folder: Path, version: int) -> BuildOptions:
    """A build of one table of a few rows, which is written if need be, for one scenario."""
    tables = folder / f"tables-{version}"
    if not tables.is_dir():
        tables.mkdir(parents=True)
        write_small_table(tables, "h200-qwen.csv", VERSIONS[version])
    return BuildOptions(tables=(tables,), scenarios=("code-agent",), out=folder / "lake")


def figures(lake: Path) -> tuple[object, ...]:
    """What ``query`` shows of the lake."""
    with open_lake(lake) as connection:
        return next(connection.query(FIGURES).rows())


def figures_of_database(lake: Path) -> tuple[object, ...]:
    """What the lake's DuckDB file shows."""
    connection = duckdb.connect(str(lake / "agent_pareto.duckdb"), read_only=True)
    try:
        row: tuple[object, ...] = connection.execute(FIGURES).fetchall()[0]
        return row
    finally:
        connection.close()


def build_in_child(options: BuildOptions, tell: Connection, expires_s: float | None = None) -> None:
    """In a child: one whole build, full, which waits for others. Tells when it begins and when it publishes."""
    if expires_s is not None:
        builder_lock.EXPIRES_S, builder_lock.HEARTBEAT_S = expires_s, expires_s / 8
    tell.send("begins")
    publish.reached = _telling(tell)  # type: ignore[assignment]
    _refusable(lambda: build(options, full=True))


def publish_in_child(lake: Path, number: int, tell: Connection) -> None:
    """In a child: a release that carries its number, under the builder's lock. Tells when it publishes."""

    def publish_it() -> None:
        with builder_lock.hold_lake(lake, 60) as lock, begin_release(lake, lock) as writer:
            write_release(writer, number)
            tell.send("publishes")
            writer.publish(**FIELDS)

    _refusable(publish_it)


def _telling(tell: Connection) -> Callable[[str], None]:
    def reached(step: str) -> None:
        if step == "sync_files":
            tell.send("publishes")

    return reached


def _refusable(work: Callable[[], object]) -> None:
    try:
        work()
    except UserError as error:
        print(error)
        os._exit(REFUSED)


def assert_whole(lake: Path, known: dict[tuple[object, ...], int]) -> int:
    """Asserts that readers see one whole release; the version that it is of."""
    verified = verify_release(lake)
    assert verified.whole, verified
    seen = figures(lake)
    assert seen in known, f"{seen} is no release's"
    by_database = figures_of_database(lake)
    assert by_database in known, f"{by_database} in the DuckDB file is no release's"
    return known[seen]


def assert_tidy(lake: Path) -> None:
    """Asserts that nothing is left of builders that were killed, and that all ways of reading show one release."""
    left = [path.name for path in lake.iterdir() if path.name.startswith(".") and path.name != ".publish.lock"]
    left += [path.name for path in (lake / "releases").iterdir() if path.name.startswith(".")]
    assert not left, left
    assert figures(lake) == figures_of_database(lake)
    assert current_release(lake).path.is_dir()


def wait_until(done: Callable[[], bool], at_most_s: float) -> bool:
    """Whether it came true in time."""
    deadline = time.monotonic() + at_most_s
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
