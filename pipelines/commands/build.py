"""`agent-pareto build`: the flow."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from schemas.options import BuildOptions


def build_command(
    tables: Annotated[
        list[Path] | None,
        typer.Option("--tables", help="A table file or a folder of them; may be repeated. Without: those in data/."),
    ] = None,
    scenarios: Annotated[
        list[str] | None,
        typer.Option("--scenarios", help="A scenario file or a slug; may be repeated. Without: the catalogue."),
    ] = None,
    synthesize: Annotated[
        bool | None,
        typer.Option(
            "--synthesize/--no-synthesize",
            help="Add roofline points for each hardware x model that no table covers "
            "(default: on without --tables, off with).",
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
    out: Annotated[Path, typer.Option("--out", help="Folder of the lake.")] = Path("lake"),
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
    evaluation: Annotated[
        Path | None,
        typer.Option("--evaluation", help="Errors that `evaluate --save FILE` wrote: the release carries them."),
    ] = None,
    runner: Annotated[Literal["threads"], typer.Option("--runner", help="What runs the partitions.")] = "threads",
    strict: Annotated[
        bool, typer.Option("--strict", help="Publish nothing if a row is quarantined or a file rejected.")
    ] = False,
) -> None:
    """Build a lake: read tables, carry every point to every scenario, publish a release.

    Exit 0 when a release was published, 1 when nothing was.
    """
    from pipelines.prefect_runtime import start_in_background

    server = start_in_background()

    from pipelines.progress import shown_progress

    options = checked_options(
        tables=tuple(tables or ()),
        scenarios=tuple(scenarios or ()),
        synthesize=synthesize,
        roofline=roofline,
        hardware=hardware,
        models=models,
        out=out,
        kv_context=kv_context,
        kv_layout=kv_layout,
        parked_kv=parked_kv,
        closed_loop=closed_loop,
        reserve_fraction=reserve_fraction,
        overhead_bytes_per_gpu=overhead_gb * 1e9,
        idle_kv=idle_kv,
        host_memory_bytes_per_gpu=host_memory_gb * 1e9,
        cluster_gpus=cluster_gpus,
        evaluation=evaluation,
        runner=runner,
        strict=strict,
    )
    with shown_progress():
        import logging

        from pipelines.flow import build_lake, read_ahead

        logging.getLogger("prefect").setLevel(logging.CRITICAL)  # errors are said below, in a sentence
        read_ahead(options)
        server.wait()
        report = build_lake(options)
    from pipelines.summary import print_summary

    print_summary(report, out)


def checked_options(**given: object) -> "BuildOptions":
    """The options as one model. Raises ``UserError`` where they do not go together."""
    from pydantic import ValidationError

    from schemas.errors import UserError
    from schemas.options import BuildOptions

    try:
        return BuildOptions.model_validate(given)
    except ValidationError as error:
        said = (str(problem["msg"]).removeprefix("Value error, ") for problem in error.errors())
        raise UserError(f"{'; '.join(said)}.") from None
