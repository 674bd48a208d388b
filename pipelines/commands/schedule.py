"""`agent-pareto schedule`: the flow on a schedule."""

import inspect
from typing import Annotated, Any, get_type_hints

import typer

from pipelines.commands.build import build_command


def schedule_command(
    cron: Annotated[
        str, typer.Option("--cron", help="Minute, hour, day of the month, month, day of the week: '0 2 * * *'.")
    ],
    timezone: Annotated[str, typer.Option("--timezone", help="Time zone of the cron fields: Europe/Berlin.")] = "UTC",
    **build_options: Any,
) -> None:
    """Serve builds on a schedule until stopped. Takes the options of `build`.

    Each build is a process of its own; a build that dies is recorded and followed by the next. With PREFECT_API_URL
    the runs are kept by that server, else by one of this process.
    """
    from pipelines.commands.build import options_of

    options, run = options_of(build_options)
    from pipelines.runners.prefect_runtime import start_in_background

    server = start_in_background(scheduler=True)
    from pipelines.building.schedule import cron_schedule, serve_builds
    from pipelines.building.stages import find

    schedule = cron_schedule(cron, timezone)
    find(options)  # what is wrong with the options is said now, not tonight
    typer.echo(f"Building {options.out.resolve()} at {cron} ({timezone}); stop with Ctrl-C.")
    serve_builds(options, run, schedule, server)


def _take_options_of_build() -> None:
    """Makes the options of ``build`` those of ``schedule`` too: Typer reads them from the signature."""
    own = inspect.signature(schedule_command)
    build = inspect.signature(build_command)
    shared = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in build.parameters.values()]
    mine = [parameter for name, parameter in own.parameters.items() if name != "build_options"]
    schedule_command.__signature__ = own.replace(parameters=mine + shared)  # type: ignore[attr-defined]
    hints = get_type_hints(schedule_command, include_extras=True)
    del hints["build_options"]
    schedule_command.__annotations__ = {**hints, **get_type_hints(build_command, include_extras=True)}


_take_options_of_build()
