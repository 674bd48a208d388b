"""A lake that one build holds: its lock, the release before, and what the build is made from."""

from collections.abc import Iterator
from contextlib import contextmanager

from pipelines.building import build_inputs
from pipelines.building.builder_lock import BuilderLock, hold_lake
from pipelines.building.incremental import Previous, load_previous
from pipelines.progress import progress
from pipelines.runners.machine import build_threads
from schemas.options import BuildOptions, RunOptions


class HeldLake:
    """The lake of a build that runs. Use ``hold``.

    It stays in this process. Prefect records a flow's arguments and Dask copies them to its workers: they find nothing
    to record (no ``__dict__``) and an empty copy, because a lock belongs to one process and workers need none of this.
    """

    __slots__ = ("_options", "_prepared", "_read", "lock", "previous", "threads")

    def __init__(self, options: BuildOptions, threads: int, lock: BuilderLock, previous: Previous | None) -> None:
        self.lock = lock
        self.previous = previous
        self._options = options
        self.threads = threads
        self._prepared: build_inputs.Prepared | None = None
        self._read = False

    def __reduce__(self) -> tuple[type[object], tuple[()]]:
        return object, ()

    def prepared(self) -> build_inputs.Prepared | None:
        """What the build is made from, read at the first call; None where nothing has changed since the release."""
        if not self._read:
            self._prepared = build_inputs.prepare_if_changed(self._options, self.previous, self.threads)
            self._read = True
        return self._prepared


@contextmanager
def hold(options: BuildOptions, run: RunOptions) -> Iterator[HeldLake]:
    """Holds the lake of the options while the block lasts; waits for another build as long as ``run`` says."""
    with hold_lake(options.out, run.wait_s, lambda sentence: progress().start(sentence, None)) as lock:
        yield HeldLake(options, run.threads or build_threads(), lock, None if run.full else load_previous(options.out))
