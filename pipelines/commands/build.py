"""`agent-pareto build`: the flow."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from pipelines.commands.model_options import CommandOfModels, given

if TYPE_CHECKING:
    from pydantic import BaseModel

    from schemas.options import BuildOptions, RunOptions


class TakesBuildOptions(CommandOfModels):
    """A command that takes all that can be said of a build."""

    def models(self) -> "Sequence[type[BaseModel]]":
        from schemas.options import BuildOptions, RunOptions

        return BuildOptions, RunOptions


def build_command(context: typer.Context) -> None:
    """Build a lake: read tables, carry points to every scenario, publish a release.

    Partitions (hardware, model, scenario) whose inputs are as in the current release are carried over from it.
    Exit 0 when a release was published or nothing has changed, 1 when a build failed.
    """
    from pipelines.runners.machine import one_thread_a_frame

    one_thread_a_frame()
    options, run = build_options(context)
    import time

    began = time.perf_counter()
    from pipelines.lake.layout import Lake
    from pipelines.reading.given_paths import check_tables

    check_tables(options.tables)
    Lake.at(options.out)  # a store that refuses says so before Prefect starts
    from pipelines.runners.prefect_runtime import start_in_background

    server = start_in_background()

    from pipelines.progress import shown_progress

    with shown_progress():
        import logging

        from pipelines.building.flow import run_build
        from pipelines.building.held_lake import hold
        from pipelines.object_store.building import workshop

        logging.getLogger("prefect").setLevel(logging.CRITICAL)  # errors are said below, in a sentence
        with workshop(options, run) as shop, hold(shop.options, shop.run) as lake:
            lake.prepared()  # read while Prefect starts
            server.wait()
            report = run_build(shop.options, shop.run, lake)
            if report.published:
                shop.deliver(report.release)
    from pipelines.building.summary import print_summary

    print_summary(report, options.out, time.perf_counter() - began)


def build_options(context: typer.Context) -> "tuple[BuildOptions, RunOptions]":
    """What the command line says of the build and its run. Raises ``UserError`` where they do not go together."""
    from schemas.errors import UserError
    from schemas.options import BuildOptions, RunOptions

    options, run = given(context, BuildOptions), given(context, RunOptions)
    if run.dask_address is not None and options.runner != "dask":
        raise UserError("--dask-address is for --runner dask: give both, or neither.")
    return options, run
