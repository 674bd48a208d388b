"""Builds on a schedule: the flow that a schedule or a work pool runs, and the process that serves it.

Each run is a process of its own, watched by the serving one: a run that dies is recorded as crashed, and the next
one is not held up by it, as the lock of the lake is freed with its holder.
"""

import asyncio
import time
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from prefect import flow, get_client
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterName,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import StateType
from prefect.client.schemas.schedules import CronSchedule
from prefect.schedules import Cron, Schedule
from prefect.states import Crashed
from prefect.types.entrypoint import EntrypointType

from pipelines.building.flow import run_build
from pipelines.building.held_lake import hold
from pipelines.building.summary import print_summary
from pipelines.lake.places import is_remote
from pipelines.object_store.building import workshop
from pipelines.runners.prefect_runtime import PrefectServer
from schemas.errors import UserError
from schemas.options import BuildOptions, RunOptions

DEPLOYMENT = "agent-pareto"


@flow(name="agent-pareto scheduled build")
def scheduled_build(options: BuildOptions | None = None, run: RunOptions | None = None) -> str:
    """A build with its summary in the log; gives the id of the release that is current after it."""
    began = time.perf_counter()
    options = options or BuildOptions()
    with workshop(options, run or RunOptions()) as shop, hold(shop.options, shop.run) as lake:
        report = run_build(shop.options, shop.run, lake)
        if report.published:
            shop.deliver(report.release)
    print_summary(report, options.out, time.perf_counter() - began)
    return report.release


def cron_schedule(cron: str, timezone: str) -> Schedule:
    """A schedule of five cron fields in a time zone. Raises ``UserError`` where either is none."""
    try:
        ZoneInfo(timezone)
    except (KeyError, ValueError, OSError):
        raise UserError(f"--timezone {timezone!r} is not the name of a time zone, such as Europe/Berlin.") from None
    try:
        CronSchedule(cron=cron, timezone=timezone)
    except ValueError:
        raise UserError(
            f"--cron {cron!r} is not five fields of cron, such as '0 2 * * *' for two o'clock every night."
        ) from None
    return Cron(cron, timezone=timezone)


def with_absolute_paths(options: BuildOptions) -> BuildOptions:
    """The options, so that they mean the same in a process that runs elsewhere."""

    def absolute(path: Path | None) -> Path | None:
        return None if path is None else path.expanduser().resolve()

    return options.model_copy(
        update={
            "tables": tuple(path.expanduser().resolve() for path in options.tables),
            "scenarios": tuple(
                str(Path(text).resolve()) if Path(text).is_file() else text for text in options.scenarios
            ),
            "hardware": absolute(options.hardware),
            "models": absolute(options.models),
            "evaluation": absolute(options.evaluation),
            "aiconfigurator": None
            if options.aiconfigurator is None
            else options.aiconfigurator.expanduser().absolute(),
            "aiconfigurator_cache": absolute(options.aiconfigurator_cache),
            "prices": absolute(options.prices),
            "out": options.out if is_remote(options.out) else options.out.expanduser().resolve(),
        }
    )


def serve_builds(options: BuildOptions, run: RunOptions, schedule: Schedule, server: PrefectServer) -> None:
    """Serves the flow until the process is ended; one build at a time."""
    server.wait()
    if server.alive:  # its runs are processes of ours, and none of them outlived us
        asyncio.run(_mark_dead_runs())
    scheduled_build.serve(
        name=DEPLOYMENT,
        schedule=schedule,
        parameters={
            "options": with_absolute_paths(options).model_dump(mode="json"),
            "run": run.model_dump(mode="json"),
        },
        paused=False,
        limit=1,
        print_starting_message=False,
        entrypoint_type=EntrypointType.MODULE_PATH,
    )


async def _mark_dead_runs() -> None:
    """Runs that an earlier process was killed in the midst of are recorded as crashed."""
    unfinished: list[Any] = [StateType.RUNNING, StateType.PENDING, StateType.CANCELLING]
    async with get_client() as client:
        runs = await client.read_flow_runs(
            deployment_filter=DeploymentFilter(name=DeploymentFilterName(any_=[DEPLOYMENT])),
            flow_run_filter=FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=unfinished))),
        )
        for run in runs:
            state: Any = Crashed(message="The process that served this run has ended.")
            await client.set_flow_run_state(run.id, state, force=True)
