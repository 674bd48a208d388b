"""Work in DuckDB that Ctrl-C stops: while DuckDB works, Python's main thread would see no signal for minutes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import duckdb

Result = TypeVar("Result")

#: DuckDB looks for an interrupt between two batches of rows; a batch that takes longer is not waited for.
GRACE_S = 0.5


def interruptible(connection: duckdb.DuckDBPyConnection, work: Callable[[], Result]) -> Result:
    """What ``work`` on the connection returns or raises. A signal that raises meanwhile interrupts DuckDB first."""
    results: list[Result] = []
    errors: list[BaseException] = []
    ended = Event()  # after an interrupted ``join``, Python takes the thread for ended

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    # a daemon, so that the process can end where DuckDB does not
    thread = Thread(target=run, name="query", daemon=True)
    try:
        thread.start()
        ended.wait()
    except BaseException:
        connection.interrupt()
        ended.wait(GRACE_S)
        raise
    if errors:
        raise errors[0]
    return results[0]


def close(connection: duckdb.DuckDBPyConnection) -> None:
    """Closes the connection, unless a statement of it runs that an interrupt did not reach."""
    import duckdb

    with suppress(duckdb.Error):  # it refuses, it does not wait
        connection.close()
