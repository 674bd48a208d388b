"""`agent-pareto scenarios`: the scenario catalogue, and scenarios from real traces."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pipelines.commands.shared_options import AnswerFormatOption
from pipelines.terminal import say

if TYPE_CHECKING:
    from schemas.scenarios import Scenario

app = typer.Typer(help="The scenario catalogue, and scenarios from real traces.", no_args_is_help=True)

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
    "",
)
#: A trace that `scenarios fit` reads: two sessions.
_TRACE = """\
session,turn,input_tokens,cached_tokens,output_tokens,pause_s
first,0,12000,0,150,
first,1,12400,12100,90,2.5
first,2,13100,12400,210,31
second,0,11800,0,120,
second,1,12500,11900,160,4"""
_CAPTION = "pause: mean after each turn; output kept, cache hits: fractions; sessions, GPUs: the operating point."
_NAMED_ONLY = "\n*: built only when named, `build --scenarios SLUG`; the others are built by default."


@app.callback()
def _group() -> None:
    """The scenario catalogue, and scenarios from real traces."""


@app.command("list")
def list_scenarios(
    output_format: AnswerFormatOption = "table",
    scenarios: Annotated[
        list[str] | None,
        typer.Option("--scenarios", help="A YAML file or a shipped scenario's slug; may be repeated."),
    ] = None,
) -> None:
    """List the shipped scenarios, or those that a build with the same --scenarios would use.

    The JSON has the form of a scenario file.
    """
    from pipelines.reading.catalogues import load_scenarios, shipped_scenarios

    chosen = load_scenarios(scenarios) if scenarios else shipped_scenarios()
    if output_format != "table":
        from pipelines.commands.output import print_answer

        entries = [scenario.model_dump(mode="json", exclude_none=True) for scenario in chosen]
        print_answer(output_format, {"scenarios": entries}, entries)
    else:
        from pipelines.terminal import print_table

        default = chosen if scenarios else load_scenarios()
        rows = ((*_row(scenario), "" if scenario in default else "*") for scenario in chosen)
        print_table(_COLUMNS, rows, caption=_CAPTION + ("" if scenarios else _NAMED_ONLY))


@app.command("template")
def template_scenarios(
    trace: Annotated[
        bool, typer.Option("--trace", help="A trace instead, the table that `scenarios fit` reads most plainly.")
    ] = False,
) -> None:
    """Print a scenario file to fill in, for `build --scenarios FILE`: an example, each field described."""
    if trace:
        say(_TRACE)
        return
    from pipelines.commands.templates import template
    from pipelines.reading.catalogues import load_scenarios
    from schemas.scenarios import Scenario

    (shipped,) = load_scenarios(("code-agent",))
    example = shipped.model_dump(mode="json", exclude_none=True, exclude={"cache", "distributions"})
    own = {"slug": "my-agent", "name": "My agent", "source": "where the figures are from"}
    notes = (
        "Scenarios of your own, for `agent-pareto build --scenarios FILE` and `plan --scenario FILE`.",
        "In place of a number, a distribution: {mean: 68, p50: 45, p90: 155}, {values: [4, 30], weights: [3, 1]} or "
        "{log_normals: [{weight: 1, median: 7, sigma: 0.5}]}.",
        "In place of cache_hit_rate, a cache: {model: ttl, kept_s: 300} or {model: lru, host_memory_gb_per_gpu: 250}.",
        "Several on the same replicas: slug, and mix: [{scenario: code-agent, weight: 3}, …] in place of the rest.",
        "sessions and gpus go together, or neither: the operating point.",
    )
    say(template("scenarios", Scenario, {**example, **own, "cache_hit_rate": shipped.cache_hit_rate}, notes))


@app.command("fit")
def fit(
    traces: Annotated[
        list[Path], typer.Argument(metavar="TRACE...", help="Trace files, also gzipped, or folders of them.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The scenario file to write (YAML).")],
    slug: Annotated[
        str | None, typer.Option("--slug", help="Slug of the scenario. Default: made from the name of FILE.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Its name in words. Default: the slug.")] = None,
    trace_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="weka, tracelab, tracelab-replay, claude-code, spans, aiperf, bailian, mooncake, lmcache,"
            " conversations, table or json-table. Default: by the content.",
        ),
    ] = None,
    cap_pauses: Annotated[
        float | None,
        typer.Option("--cap-pauses", min=0, metavar="S", help="Cut longer pauses to this, as AgentX does to 10 s."),
    ] = None,
    cache_timeout: Annotated[
        float | None,
        typer.Option(
            "--cache-timeout",
            min=0,
            metavar="S",
            help="Take the hit rate of a cache that forgets after this pause. Default: a cache that evicts (lru) where"
            " the trace's hits depend on it, else the trace's hit rate.",
        ),
    ] = None,
    characters_per_token: Annotated[
        float, typer.Option("--characters-per-token", min=0.1, help="For traces of text: the estimate of tokens.")
    ] = 4.0,
    time_unit: Annotated[
        Literal["s", "ms", "us", "ns"] | None,
        typer.Option("--time-unit", help="Of times of arrival whose unit the trace does not tell."),
    ] = None,
) -> None:
    """Fit a scenario to real agent traces: a scenario file for `build --scenarios FILE`, and a summary.

    The means and the distributions about them are what a build uses; hit rates by time-out and what was odd in the
    traces stand under `statistics:`.
    """
    import math

    from pipelines.commands.models import slug_of
    from pipelines.commands.trace_summary import print_trace_summary
    from pipelines.progress import shown_progress
    from pipelines.reading.given_paths import check_output_file
    from pipelines.reading.traces import FitOptions, fit_scenario, write_scenario
    from schemas.errors import UserError
    from schemas.slugs import WORDS_READ_AS_VALUES, is_slug

    chosen = slug_of(out.name.split(".")[0] or "traces") if slug is None else slug
    if not is_slug(chosen) or chosen in WORDS_READ_AS_VALUES:
        raise UserError(
            f"--slug {chosen!r}: a slug is lower-case letters, digits and '-', begins with a letter and is no word"
            " like 'true' or 'null'."
        )
    for option, value in (("--cap-pauses", cap_pauses), ("--cache-timeout", cache_timeout)):
        if value is not None and not math.isfinite(value):
            raise UserError(f"{option} {value}: must be a finite number of seconds.")
    check_output_file("--out", out, example="scenario.yaml")
    options = FitOptions(chosen, name, trace_format, cap_pauses, cache_timeout, characters_per_token, time_unit)
    with shown_progress():
        scenario = fit_scenario(traces, options)
    write_scenario(scenario, out)
    print_trace_summary(scenario)
    say(f"Wrote {out}: scenario {scenario.slug}. Use it with `agent-pareto build --scenarios {out}`.")


def _row(scenario: "Scenario") -> tuple[str, ...]:
    return (
        scenario.slug,
        f"{scenario.turns:g}",
        f"{scenario.think_time_s:g}",
        f"{scenario.initial_prompt_tokens:,.0f}",
        f"{scenario.new_tokens_per_turn:,.0f}",
        f"{scenario.output_tokens_per_turn:,.0f}",
        f"{scenario.output_retention_fraction:g}",
        str(scenario.cache),
        f"{scenario.mean_context_tokens:,.0f}",
        f"{scenario.peak_context_tokens:,.0f}",
        "-" if scenario.sessions is None else f"{scenario.sessions:,}",
        "-" if scenario.gpus is None else f"{scenario.gpus:,}",
    )
