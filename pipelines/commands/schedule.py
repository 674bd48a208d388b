"""`agent-pareto schedule`: the flow on a schedule."""

from typing import Annotated

import typer

from pipelines.terminal import say


def schedule_command(
    context: typer.Context,
    cron: Annotated[
        str, typer.Option("--cron", help="Minute, hour, day of the month, month, day of the week: '0 2 * * *'.")
    ],
    timezone: Annotated[str, typer.Option("--timezone", help="Time zone of the cron fields: Europe/Berlin.")] = "UTC",
) -> None:
    """Serve builds on a schedule until stopped. Takes the options of `build`.

    Each build is a process of its own; a build that dies is recorded and followed by the next. With PREFECT_API_URL
    the runs are kept by that server, else by one of this process.
    """
    from pipelines.commands.build import build_options

    options, run = build_options(context)
    from pipelines.runners.prefect_runtime import start_in_background

    server = start_in_background(scheduler=True)
    from pipelines.building.build_inputs import find
    from pipelines.building.schedule import cron_schedule, serve_builds

    schedule = cron_schedule(cron, timezone)
    find(options)  # what is wrong with the options is said now, not tonight
    say(f"Building {options.out.resolve()} at {cron} ({timezone}); stop with Ctrl-C.")
    serve_builds(options, run, schedule, server)
