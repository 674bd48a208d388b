"""`agent-pareto build`: the flow."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from schemas.options import BuildOptions, RunOptions


def build_command(
    tables: Annotated[
        list[Path] | None,
        typer.Option("--tables", help="A table file or a folder of them; may be repeated. Without: those in data/."),
    ] = None,
    scenarios: Annotated[
        list[str] | None,
        typer.Option("--scenarios", help="A scenario file or a slug; may be repeated. Without: the catalogue."),
    ] = None,
    source: Annotated[
        Literal["aiconfigurator"] | None,
        typer.Option(
            "--source",
            help="Have tables made: ask AIConfigurator for the standard workload and for each scenario's own turns.",
        ),
    ] = None,
    system: Annotated[
        list[str] | None, typer.Option("--system", help="GPU to ask for: h200_sxm, or our slug; may be repeated.")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", help="Model to ask for: Qwen/Qwen3-32B, or our slug; may be repeated."),
    ] = None,
    backend: Annotated[
        list[str] | None,
        typer.Option("--backend", help="trtllm, vllm or sglang; may be repeated.  [default: trtllm]"),
    ] = None,
    total_gpus: Annotated[
        list[int] | None,
        typer.Option("--total-gpus", min=1, help="GPUs of a replica at most; may be repeated.  [default: 8]"),
    ] = None,
    workload: Annotated[
        list[str] | None,
        typer.Option(
            "--workload", help="Standard workload to ask for, ISL/OSL; may be repeated.  [default: 4000/1000]"
        ),
    ] = None,
    aiconfigurator: Annotated[
        Path | None,
        typer.Option(
            "--aiconfigurator",
            envvar="AGENT_PARETO_AICONFIGURATOR",
            help="Environment that has AIConfigurator, its Python or the program. Without: this one, then the PATH.",
        ),
    ] = None,
    aiconfigurator_cache: Annotated[
        Path | None,
        typer.Option(
            "--aiconfigurator-cache",
            envvar="AGENT_PARETO_AICONFIGURATOR_CACHE",
            help="Folder that keeps its answers. Without: agent-pareto/aiconfigurator in the user's cache.",
        ),
    ] = None,
    synthesize: Annotated[
        bool | None,
        typer.Option(
            "--synthesize/--no-synthesize",
            help="Add roofline points for each hardware x model that no table covers "
            "(default: on without --tables and --source, off with).",
            show_default=False,
        ),
    ] = None,
    roofline: Annotated[
        Literal["calibrated", "article"],
        typer.Option("--roofline", help="Equations of synthesised points; article: Eqs. 1-3c and nothing more."),
    ] = "calibrated",
    hardware: Annotated[
        Path | None, typer.Option("--hardware", help="Your own hardware catalogue, beside the shipped one.")
    ] = None,
    models: Annotated[
        Path | None, typer.Option("--models", help="Your own model catalogue, beside the shipped one.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="The lake: a folder, or s3://bucket/prefix.")] = Path("lake"),
    kv_context: Annotated[
        Literal["mean", "p95", "peak"],
        typer.Option("--kv-context", help="Context at which a session's KV counts."),
    ] = "mean",
    kv_layout: Annotated[
        Literal["paged", "ideal"],
        typer.Option("--kv-layout", help="paged: sliding windows free nothing (safe); ideal: all they can."),
    ] = "paged",
    parked_kv: Annotated[
        Literal["prefill", "decode"],
        typer.Option("--parked-kv", help="Pool of a disaggregated replica that keeps the KV of pausing sessions."),
    ] = "prefill",
    idle_kv: Annotated[
        Literal["resident", "dropped", "offloaded"],
        typer.Option("--idle-kv", help="KV of a pausing session: stays on the GPU, is dropped, or moves to the host."),
    ] = "resident",
    host_memory_gb: Annotated[
        float, typer.Option("--host-memory-gb", min=0.0, help="Host memory for idle KV, 10^9 bytes per GPU.")
    ] = 0.0,
    over_capacity: Annotated[
        Literal["wait", "thrash"] | None,
        typer.Option(
            "--over-capacity",
            help="Sessions whose KV the memory does not hold wait until it does, or thrash: all are let in and idle KV "
            "is evicted, least recently used first (default: thrash where a scenario's cache is lru, else wait).",
            show_default=False,
        ),
    ] = None,
    closed_loop: Annotated[
        Literal["arrival", "article"],
        typer.Option("--closed-loop", help="arrival: a session meets the others; article: C = B/rho."),
    ] = "arrival",
    reserve_fraction: Annotated[
        float,
        typer.Option("--reserve-fraction", min=0.0, max=0.99, help="GPU memory kept from weights and KV."),
    ] = 0.10,
    overhead_gb: Annotated[
        float,
        typer.Option(
            "--overhead-gb", min=0.0, help="Memory of the runtime on each GPU beside the reserve, 10^9 bytes."
        ),
    ] = 0.0,
    cluster_gpus: Annotated[
        int | None,
        typer.Option("--cluster-gpus", min=1, help="GPUs of the cluster: idle ones count against it."),
    ] = None,
    prices: Annotated[
        Path | None,
        typer.Option("--prices", help="Your price list, USD per GPU-hour: fills the cost columns, else NULL."),
    ] = None,
    evaluation: Annotated[
        Path | None,
        typer.Option("--evaluation", help="Errors that `evaluate --save FILE` wrote: the release carries them."),
    ] = None,
    runner: Annotated[
        Literal["threads", "dask"],
        typer.Option("--runner", help="What runs the partitions; dask: processes, or a cluster."),
    ] = "threads",
    dask_address: Annotated[
        str | None,
        typer.Option("--dask-address", help="A Dask cluster that sees the lake's folder under the same path."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Publish nothing if a row is quarantined or a file rejected.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Compute every partition, also those whose inputs are as before.")
    ] = False,
    wait_minutes: Annotated[
        float,
        typer.Option("--wait-minutes", min=0.0, help="How long to wait while another build of the lake runs."),
    ] = 10.0,
    keep: Annotated[
        int | None,
        typer.Option("--keep", min=1, help="Releases to keep after publishing, as `releases prune`. Without: all."),
    ] = None,
) -> None:
    """Build a lake: read tables, carry points to every scenario, publish a release.

    Partitions (hardware, model, scenario) whose inputs are as in the current release are carried over from it.
    Exit 0 when a release was published or nothing has changed, 1 when a build failed.
    """
    options, run = options_of(dict(locals()))
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

        from pipelines.building.flow import read_ahead, run_build
        from pipelines.object_store.building import workshop

        logging.getLogger("prefect").setLevel(logging.CRITICAL)  # errors are said below, in a sentence
        with workshop(options, run) as shop, read_ahead(shop.options, shop.run):
            server.wait()
            report = run_build(shop.options, shop.run)
            if report.published:
                shop.deliver(report.release)
    from pipelines.building.summary import print_summary

    print_summary(report, out, time.perf_counter() - began)


_REPEATED = ("tables", "scenarios", "system", "model", "backend", "total_gpus", "workload")


def options_of(given: dict[str, Any]) -> "tuple[BuildOptions, RunOptions]":
    """The command line's options as models. Raises ``UserError`` where they do not go together."""
    from pydantic import ValidationError

    from schemas.errors import UserError
    from schemas.options import BuildOptions, RunOptions

    run = {
        "full": given.pop("full"),
        "wait_s": 60.0 * given.pop("wait_minutes"),
        "keep": given.pop("keep"),
        "dask_address": given.pop("dask_address"),
    }
    if run["dask_address"] is not None and given["runner"] != "dask":
        raise UserError("--dask-address is for --runner dask: give both, or neither.")
    build = {
        **given,
        **{name: tuple(given[name] or ()) for name in _REPEATED},
        "overhead_bytes_per_gpu": given["overhead_gb"] * 1e9,
        "host_memory_bytes_per_gpu": given["host_memory_gb"] * 1e9,
    }
    for name in ("overhead_gb", "host_memory_gb"):
        del build[name]
    try:
        return BuildOptions.model_validate(build), RunOptions.model_validate(run)
    except ValidationError as error:
        said = [_said(problem["loc"], str(problem["msg"])) for problem in error.errors()]
        raise UserError("\n".join(said)) from None


def _said(location: tuple[int | str, ...], message: str) -> str:
    """What is wrong with an option, by the name that the command line has for it."""
    renamed = {"overhead_bytes_per_gpu": "overhead-gb", "host_memory_bytes_per_gpu": "host-memory-gb"}
    if not location:
        return f"{message.removeprefix('Value error, ')}."
    name, message = str(location[0]), message.removeprefix("Value error, ")
    return f"--{renamed.get(name, name.replace('_', '-'))}: {message[:1].lower()}{message[1:]}."
