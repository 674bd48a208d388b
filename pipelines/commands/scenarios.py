"""`agent-pareto scenarios`: the scenario catalogue."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from schemas.scenarios import Scenario

app = typer.Typer(help="The scenario catalogue.", no_args_is_help=True)

_COLUMNS = (
    "slug",
    "turns",
    "pause\ns",
    "first\nprompt\ntokens",
    "new\na turn\ntokens",
    "output\na turn\ntokens",
    "output\nkept",
    "cache\nhits",
    "mean\ncontext\ntokens",
    "peak\ncontext\ntokens",
    "sessions",
    "GPUs",
)
_CAPTION = (
    "pause: mean after each turn; output kept, cache hits: fractions; sessions, GPUs: the operating point."
)


@app.callback()
def _group() -> None:
    """The scenario catalogue."""


@app.command("list")
def list_scenarios(
    output_format: Annotated[
        Literal["table", "json"], typer.Option("--format", help="json: has the form of a scenario file.")
    ] = "table",
    scenarios: Annotated[
        list[str] | None,
        typer.Option(
            "--scenarios", help="A YAML file or a shipped scenario's slug; may be repeated. All if none."
        ),
    ] = None,
) -> None:
    """List the scenarios that a build with the same --scenarios would use."""
    from pipelines.catalogues import load_scenarios

    chosen = load_scenarios(scenarios or ())
    if output_format == "json":
        import json

        entries = [scenario.model_dump(mode="json", exclude_none=True) for scenario in chosen]
        typer.echo(json.dumps({"scenarios": entries}, indent=2, ensure_ascii=False))
    else:
        from pipelines.commands.tables import print_table

        print_table(_COLUMNS, (_row(scenario) for scenario in chosen), caption=_CAPTION)


def _row(scenario: "Scenario") -> tuple[str, ...]:
    return (
        scenario.slug,
        f"{scenario.turns:g}",
        f"{scenario.think_time_s:g}",
        f"{scenario.initial_prompt_tokens:,.0f}",
        f"{scenario.new_tokens_per_turn:,.0f}",
        f"{scenario.output_tokens_per_turn:,.0f}",
        f"{scenario.output_retention_fraction:g}",
        f"{scenario.cache_hit_rate:g}",
        f"{scenario.mean_context_tokens:,.0f}",
        f"{scenario.peak_context_tokens:,.0f}",
        "-" if scenario.sessions is None else f"{scenario.sessions:,}",
        "-" if scenario.gpus is None else f"{scenario.gpus:,}",
    )
