"""The flow: the stages of a build as Prefect tasks, wired and nothing else.

read tables -> divide work -> carry to agents, a share of the work each -> publish release
"""

from typing import Any

from prefect import flow, task
from prefect.artifacts import create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from pipelines.building import build_inputs, stages
from pipelines.building.carrying import Job, Workplace, compute
from pipelines.building.held_lake import HeldLake
from pipelines.building.incremental import PartitionRecord, Previous
from pipelines.building.report import BuildReport
from pipelines.lake.release import ReleaseWriter, begin_release
from pipelines.lake.retention import prune
from schemas.errors import UserError
from schemas.options import BuildOptions, RunOptions
from schemas.prices import unpriced

#: On Dask, jobs are dealt out in so many shares for each of its threads, so that a slow share delays little.
SHARES_PER_WORKER = 4


@flow(name="agent-pareto build", validate_parameters=False)
def build_lake(options: BuildOptions, run: RunOptions, lake: HeldLake) -> BuildReport:
    """Tables in, a published release out. Nothing is published if a stage fails, or if nothing has changed."""
    prepared = read_tables(lake)
    if prepared is None:
        assert lake.previous is not None
        return BuildReport(lake.previous.release.id, published=False)
    with begin_release(options.out, lake.lock) as release:
        division, shared, synthesized = divide(prepared, lake.previous, release)
        place = stages.workplace(prepared, release)
        futures = [carry.submit(share, place) for share in _shares(division.jobs, options, lake.threads)]
        computed = [record for future in futures for record in future.result()]
        records = computed + division.records
        stages.adopt(records, release)
        release_id = publish(prepared, release, records)
    pruned = prune(options.out, run.keep).deleted if run.keep is not None else []
    points = tuple(record for record in records if record.key.scenario is not None)
    create_table_artifact(
        key="agent-pareto-release",
        table=[_artifact_row(record) for record in points],
        description=f"Release {release_id}: points of each hardware, model and scenario.",
    )
    return BuildReport(
        release_id,
        True,
        prepared.inputs,
        shared,
        synthesized,
        points,
        len(computed),
        division.damaged,
        tuple(pruned),
        unpriced(prepared.prices, (record.hardware for record in points)),
    )


@task(name="read tables", cache_policy=NO_CACHE)
def read_tables(lake: HeldLake) -> build_inputs.Prepared | None:
    """Input files to serving points, quarantine and accounts; None where nothing has changed."""
    return lake.prepared()


@task(name="divide work", cache_policy=NO_CACHE)
def divide(
    prepared: build_inputs.Prepared, previous: Previous | None, release: ReleaseWriter
) -> tuple[stages.Division, int, int]:
    """Shared rows, roofline points where no table covers, and how many of each; unchanged partitions into the release,
    the others as jobs."""
    points = build_inputs.synthesize(prepared)
    partitions = stages.plan_partitions(points)
    shared = points["shared_from"].count()
    synthesized = points.height - prepared.inputs.serving_points.height - shared
    prepared.let_go_of_points()
    del points  # gigabytes of them, of a large collection
    return stages.divide(prepared, partitions, previous, release), shared, synthesized


def _may_help(task: object, run: object, state: Any) -> bool:
    """Retrying helps against a worker that died, not against what the user must mend."""
    return not isinstance(state.result(raise_on_failure=False), UserError)


@task(name="carry to agents", cache_policy=NO_CACHE, retries=2, retry_delay_seconds=1, retry_condition_fn=_may_help)
def carry(jobs: list[Job], place: Workplace) -> list[PartitionRecord]:
    """Serving points to agent points, frontiers and operating points, written into the release."""
    return compute(jobs, place)


@task(name="publish release", cache_policy=NO_CACHE)
def publish(prepared: build_inputs.Prepared, release: ReleaseWriter, records: list[PartitionRecord]) -> str:
    """Everything that was written becomes the newest release, in one step."""
    return stages.publish(prepared, release, records)


def run_build(options: BuildOptions, run: RunOptions, lake: HeldLake) -> BuildReport:
    """Runs the flow on a lake that is held, on the runner that the options name."""
    return build_lake.with_options(task_runner=task_runner(options, run, lake.threads))(options, run, lake)


def task_runner(options: BuildOptions, run: RunOptions, threads: int) -> TaskRunner[Any]:
    """What runs the partitions. Raises ``UserError`` where Dask is asked for and not installed."""
    if options.runner == "threads":
        return ThreadPoolTaskRunner(max_workers=threads)
    from pipelines.runners.dask_runner import dask_task_runner

    runner: TaskRunner[Any] = dask_task_runner(run.dask_address, threads)  # asks the cluster whether it is there
    return runner


def _shares(jobs: list[Job], options: BuildOptions, threads: int) -> list[list[Job]]:
    """The jobs, dealt out to whoever carries them."""
    number = threads
    if options.runner == "dask":
        from pipelines.runners.dask_runner import dask_threads

        number = max(number, SHARES_PER_WORKER * dask_threads())
    return [share for start in range(number) if (share := jobs[start::number])]


def _artifact_row(record: PartitionRecord) -> dict[str, Any]:
    names = ("hardware", "model", "scenario", "agent_points", "feasible", "frontier", "best_tasks_per_hour_per_gpu")
    return {name: getattr(record, name) for name in names}
