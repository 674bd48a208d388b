"""The flow: the stages of a build as Prefect tasks, wired and nothing else."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from prefect import flow, task
from prefect.artifacts import create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from pipelines.building import stages
from pipelines.building.builder_lock import BuilderLock, hold_lake
from pipelines.building.carrying import Job, Workplace, compute
from pipelines.building.incremental import PartitionRecord, Previous, load_previous
from pipelines.lake.release import ReleaseWriter, begin_release
from pipelines.lake.retention import prune
from pipelines.progress import progress
from pipelines.reading.read_inputs import Inputs
from schemas.errors import UserError
from schemas.options import BuildOptions, RunOptions
from schemas.prices import unpriced

THREADS = 2
#: On Dask, jobs are dealt out in so many shares for each of its threads, so that a slow share delays little.
SHARES_PER_WORKER = 4


@dataclass(frozen=True)
class BuildReport:
    """What a build did. Where nothing had changed, ``release`` is the one that stays and the rest is empty."""

    release: str
    published: bool
    inputs: Inputs | None = None
    synthesized: int = 0
    partitions: tuple[PartitionRecord, ...] = ()
    computed: int = 0
    damaged: int = 0
    pruned: tuple[str, ...] = ()
    unpriced: tuple[str, ...] = ()

    @property
    def rows_computed(self) -> int:
        """Agent points of the partitions that were computed; those come first."""
        return sum(record.agent_points for record in self.partitions[: self.computed])

    @property
    def rows_carried_over(self) -> int:
        """Agent points of the partitions that are as in the release before."""
        return sum(record.agent_points for record in self.partitions[self.computed :])


@dataclass(frozen=True)
class _Ahead:
    lock: BuilderLock
    previous: Previous | None
    prepared: stages.Prepared | None


#: What a caller has done ahead while Prefect was starting, for the flow that it then runs.
_ahead: dict[BuildOptions, _Ahead] = {}


@contextmanager
def read_ahead(options: BuildOptions, run: RunOptions) -> Iterator[None]:
    """Takes the lake's lock and does the flow's first stage now; a flow with these options inside the block uses it."""
    with _hold(options, run) as lock:
        previous = _previous(options, run)
        _ahead[options] = _Ahead(lock, previous, stages.prepare_if_changed(options, previous))
        try:
            yield
        finally:
            _ahead.pop(options, None)


def _done_ahead(options: BuildOptions) -> _Ahead | None:
    """A function, because Dask pickles a flow with the globals that it names, and a lock cannot be pickled."""
    return _ahead.get(options)


def _hold(options: BuildOptions, run: RunOptions) -> Any:
    return hold_lake(options.out, run.wait_s, lambda sentence: progress().start(sentence, None))


def _previous(options: BuildOptions, run: RunOptions) -> Previous | None:
    return None if run.full else load_previous(options.out)


@task(name="read tables", cache_policy=NO_CACHE)
def read_tables(options: BuildOptions, previous: Previous | None) -> stages.Prepared | None:
    """Input files to serving points, quarantine and accounts; None where nothing has changed."""
    ahead = _done_ahead(options)
    return ahead.prepared if ahead is not None else stages.prepare_if_changed(options, previous)


@task(name="divide work", cache_policy=NO_CACHE)
def divide(prepared: stages.Prepared, previous: Previous | None, release: ReleaseWriter) -> tuple[stages.Division, int]:
    """Roofline points where no table covers; unchanged partitions into the release, the others as jobs."""
    points = stages.synthesize(prepared)
    partitions = stages.plan_partitions(points)
    synthesized = points.height - prepared.inputs.serving_points.height
    del points  # gigabytes of them, of a large collection
    return stages.divide(prepared, partitions, previous, release), synthesized


def _may_help(task: object, run: object, state: Any) -> bool:
    """Retrying helps against a worker that died, not against what the user must mend."""
    return not isinstance(state.result(raise_on_failure=False), UserError)


@task(name="carry to agents", cache_policy=NO_CACHE, retries=2, retry_delay_seconds=1, retry_condition_fn=_may_help)
def carry(jobs: list[Job], place: Workplace) -> list[PartitionRecord]:
    """Serving points to agent points, frontiers and operating points, written into the release."""
    return compute(jobs, place)


@task(name="publish release", cache_policy=NO_CACHE)
def publish(prepared: stages.Prepared, release: ReleaseWriter, records: list[PartitionRecord]) -> str:
    """Everything that was written becomes the newest release, in one step."""
    return stages.publish(prepared, release, records)


def task_runner(options: BuildOptions, run: RunOptions) -> TaskRunner[Any]:
    """What runs the partitions. Raises ``UserError`` where Dask is asked for and not installed."""
    if options.runner == "threads":
        return ThreadPoolTaskRunner(max_workers=THREADS)
    from pipelines.runners.dask_runner import dask_task_runner

    runner: TaskRunner[Any] = dask_task_runner(run.dask_address)  # asks the cluster whether it is there
    return runner


def run_build(options: BuildOptions, run: RunOptions) -> BuildReport:
    """Runs the flow on the runner that the options name."""
    return build_lake.with_options(task_runner=task_runner(options, run))(options, run)


@flow(name="agent-pareto build", validate_parameters=False)
def build_lake(options: BuildOptions, run: RunOptions) -> BuildReport:
    """Tables in, a published release out. Nothing is published if a stage fails, or if nothing has changed."""
    ahead = _done_ahead(options)
    with nullcontext(ahead.lock) if ahead is not None else _hold(options, run) as lock:
        previous = ahead.previous if ahead is not None else _previous(options, run)
        prepared = read_tables(options, previous)
        if prepared is None:
            assert previous is not None
            return BuildReport(previous.release.id, published=False)
        number = _shares(options)
        with begin_release(options.out, lock) as release:
            division, synthesized = divide(prepared, previous, release)
            place = stages.workplace(prepared, release)
            shares = [division.jobs[start::number] for start in range(number)]
            futures = [carry.submit(share, place) for share in shares if share]
            computed = [record for future in futures for record in future.result()]
            records = computed + division.records
            stages.adopt(records, release)
            release_id = publish(prepared, release, records)
        pruned = prune(options.out, run.keep).deleted if run.keep is not None else []
    points = tuple(record for record in records if record.key.scenario is not None)
    report = BuildReport(
        release_id,
        True,
        prepared.inputs,
        synthesized,
        points,
        len(computed),
        division.damaged,
        tuple(pruned),
        unpriced(prepared.prices, (record.hardware for record in points)),
    )
    create_table_artifact(
        key="agent-pareto-release",
        table=[_artifact_row(record) for record in points],
        description=f"Release {release_id}: points of each hardware, model and scenario.",
    )
    return report


def _shares(options: BuildOptions) -> int:
    if options.runner == "threads":
        return THREADS
    from pipelines.runners.dask_runner import dask_threads

    return max(THREADS, SHARES_PER_WORKER * dask_threads())


def _artifact_row(record: PartitionRecord) -> dict[str, Any]:
    names = ("hardware", "model", "scenario", "agent_points", "feasible", "frontier", "best_tasks_per_hour_per_gpu")
    return {name: getattr(record, name) for name in names}
