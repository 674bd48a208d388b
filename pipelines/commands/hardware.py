"""`agent-pareto hardware`: the hardware catalogue."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.commands.shared_options import AnswerFormatOption
from pipelines.terminal import say

if TYPE_CHECKING:
    from schemas.hardware import Hardware

app = typer.Typer(help="The hardware catalogue.", no_args_is_help=True)

_COLUMNS = (
    "slug",
    "memory\nGB",
    "bandwidth\nGB/s",
    "BF16\nTFLOP/s",
    "FP8\nTFLOP/s",
    "FP4\nTFLOP/s",
    "GPUs\na node",
)
_CAPTION = "1 GB = 10^9 bytes. Memory as the driver reports it; FLOP/s dense."


@app.callback()
def _group() -> None:
    """The hardware catalogue."""


@app.command("list")
def list_hardware(
    output_format: AnswerFormatOption = "table",
    hardware: Annotated[
        Path | None, typer.Option("--hardware", help="A YAML file whose entries join the shipped ones.")
    ] = None,
) -> None:
    """List the GPUs: figures of one GPU, rates without sparsity.

    The JSON has the form of a catalogue file, each figure with its source.
    """
    from pipelines.reading.catalogues import load_hardware

    catalogue = load_hardware(hardware)
    if output_format != "table":
        from pipelines.commands.output import print_answer

        entries = [entry.model_dump(mode="json", exclude_none=True) for entry in catalogue]
        print_answer(output_format, {"hardware": entries}, entries)
    else:
        from pipelines.terminal import print_table

        print_table(_COLUMNS, (_row(entry) for entry in catalogue), caption=_CAPTION)


@app.command("template")
def template_hardware() -> None:
    """Print a file of GPUs of your own to fill in, for `build --hardware FILE`: an example, each field described."""
    from pipelines.commands.templates import template
    from pipelines.reading.catalogues import load_hardware
    from schemas.hardware import Hardware

    example = load_hardware().get("h100-sxm").model_dump(mode="json", exclude={"aliases", "sources"}, exclude_none=True)
    sources = {"hbm_bytes": "where you read it", "flops_per_s.bf16": "where you read it"}
    own = {"slug": "my-gpu", "name": "My GPU", "vendor": "MyVendor"}
    notes = (
        "GPUs of your own, for `agent-pareto build --hardware FILE`; they join the shipped ones.",
        "Figures of ONE GPU: bytes, bytes a second, dense FLOP/s without sparsity. Those below are an H100 SXM's.",
        "Rates that the GPU does not have are left out. aliases: other names that tables have for it.",
    )
    say(template("hardware", Hardware, {**example, **own, "aliases": ["my_gpu"], "sources": sources}, notes))


def _row(gpu: "Hardware") -> tuple[str, ...]:
    rates = (gpu.flops_per_s.bf16, gpu.flops_per_s.fp8, gpu.flops_per_s.fp4)
    return (
        gpu.slug,
        f"{gpu.hbm_bytes / 1e9:.1f}",
        f"{gpu.hbm_bandwidth_bytes_per_s / 1e9:,.0f}",
        *("-" if rate is None else f"{rate / 1e12:,.0f}" for rate in rates),
        str(gpu.gpus_per_node),
    )
