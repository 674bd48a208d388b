"""The flow: the stages of a build as Prefect tasks, wired and nothing else."""

from dataclasses import dataclass

from prefect import flow, task
from prefect.artifacts import create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.task_runners import ThreadPoolTaskRunner

from pipelines import stages
from pipelines.carrying import Partition
from pipelines.lake.release import ReleaseWriter, begin_release
from pipelines.reading import Inputs
from schemas.options import BuildOptions

WORKERS = 2
#: What a caller has read ahead while Prefect was starting, for the flow that it then runs.
_read_ahead: dict[BuildOptions, stages.Prepared] = {}


@dataclass(frozen=True)
class BuildReport:
    """What a build did."""

    release: str
    inputs: Inputs
    synthesized: int
    partitions: list[stages.PartitionSummary]


def read_ahead(options: BuildOptions) -> stages.Prepared:
    """Does the flow's first stage now: the next flow with these options takes its result."""
    _read_ahead[options] = stages.prepare(options)
    return _read_ahead[options]


@task(name="read tables", cache_policy=NO_CACHE)
def read_tables(options: BuildOptions) -> stages.Prepared:
    """Input files to serving points, quarantine and accounts."""
    return _read_ahead.pop(options, None) or stages.prepare(options)


@task(name="synthesize points", cache_policy=NO_CACHE)
def plan_partitions(prepared: stages.Prepared) -> list[Partition]:
    """Roofline points where no table covers, and all points by partition."""
    return stages.plan_partitions(stages.synthesize(prepared))


@task(name="carry to agents", cache_policy=NO_CACHE)
def carry(
    prepared: stages.Prepared, partitions: list[Partition], release: ReleaseWriter
) -> list[stages.PartitionSummary]:
    """Serving points to agent points, frontiers and operating points, written into the release."""
    return stages.carry(prepared, partitions, release)


@task(name="publish release", cache_policy=NO_CACHE)
def publish(prepared: stages.Prepared, release: ReleaseWriter) -> str:
    """Everything that was written becomes the newest release, in one step."""
    return stages.publish(prepared, release)


@flow(
    name="agent-pareto build",
    task_runner=ThreadPoolTaskRunner(max_workers=WORKERS),  # type: ignore[arg-type]
    validate_parameters=False,
)
def build_lake(options: BuildOptions) -> BuildReport:
    """Tables in, a published release out. Nothing is published if a stage fails."""
    prepared = read_tables(options)
    partitions = plan_partitions(prepared)
    with begin_release(options.out) as release:
        shares = [partitions[start::WORKERS] for start in range(WORKERS)]
        futures = [carry.submit(prepared, share, release) for share in shares if share]
        summaries = [summary for future in futures for summary in future.result()]
        release_id = publish(prepared, release)
    synthesized = sum(partition.points.height for partition in partitions) - prepared.inputs.serving_points.height
    report = BuildReport(release_id, prepared.inputs, synthesized, summaries)
    create_table_artifact(
        key="agent-pareto-release",
        table=[vars(summary) for summary in summaries],
        description=f"Release {release_id}: points of each hardware, model and scenario.",
    )
    return report
