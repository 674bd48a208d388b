"""`agent-pareto plan`: GPUs for a number of agents or tasks, or the agents that GPUs serve, within limits."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pipelines.commands.model_options import CommandOfModels, given, option_name
from pipelines.commands.shared_options import (
    DEFAULT_LAKE,
    AskedScenarioOption,
    HardwareOption,
    LakeOption,
    PriceListOption,
    PriceOption,
    RecordsFormatOption,
    WeightsOption,
)
from pipelines.terminal import say

if TYPE_CHECKING:
    from pydantic import BaseModel

    from pipelines.answering.release_contents import ReleaseContents
    from schemas.scenarios import Scenario
    from transforms.planning.launch import Launcher
    from transforms.planning.limits import Limits
    from transforms.planning.question import Question

ModelsOption = Annotated[list[str], typer.Option("--model", help="Model: slug or alias; may be repeated.")]


class TakesPlanLimits(CommandOfModels):
    """A command that takes what a plan must keep to, and what it changes of the scenario."""

    def models(self) -> "Sequence[type[BaseModel]]":
        from schemas.changes import WorkloadChanges
        from schemas.options import PlanLimits

        return (PlanLimits, WorkloadChanges)


def plan_command(
    context: typer.Context,
    model: ModelsOption,
    scenario: AskedScenarioOption,
    sessions: Annotated[
        int | None, typer.Option("--sessions", min=1, max=10**9, help="Concurrent agents to serve: how many GPUs?")
    ] = None,
    gpus: Annotated[
        int | None, typer.Option("--gpus", min=1, max=10**7, help="GPUs that there are: how many agents?")
    ] = None,
    tasks_per_hour: Annotated[
        float | None, typer.Option("--tasks-per-hour", help="Tasks to complete an hour: how many GPUs?")
    ] = None,
    hardware: HardwareOption = None,
    mode: Annotated[
        Literal["agg", "disagg"] | None, typer.Option("--mode", help="Aggregated or disaggregated replicas alone.")
    ] = None,
    engine: Annotated[str | None, typer.Option("--engine", help="This engine alone: vllm, sglang, trtllm.")] = None,
    weight_dtype: WeightsOption = None,
    kv_dtype: Annotated[str | None, typer.Option("--kv-dtype", help="KV in this precision alone, fp8 say.")] = None,
    price: PriceOption = None,
    prices: PriceListOption = None,
    emit: Annotated[
        Literal["vllm", "sglang", "trtllm", "dynamo"] | None,
        typer.Option("--emit", help="Print the launch of the best answer for this engine, in place of the table."),
    ] = None,
    lake: LakeOption = DEFAULT_LAKE,
    output_format: RecordsFormatOption = "table",
) -> None:
    """Find the fewest GPUs that serve so many agents or tasks, or the most agents on so many GPUs, and what stops more.

    Give one of --sessions, --gpus and --tasks-per-hour. Sessions are spread evenly over replicas of one configuration.
    The limits hold on the fuller replicas; nothing is taken beyond what a table covers or memory holds. Hardware that
    cannot do it is listed with the reason and the nearest value that would do. With prices the cheapest comes first.
    Exit code 1 where none can.
    """
    from pipelines.answering.asked_scenario import asked_scenario
    from pipelines.answering.plan_rows import ROW_COLUMNS, Asked, plan_rows
    from pipelines.answering.prices import priced
    from pipelines.answering.release_contents import open_contents

    if emit is not None and output_format != "table":
        raise typer.BadParameter(f"--emit prints a script, not {output_format}: leave one of --emit and --format out.")
    question, limits = _question(sessions, gpus, tasks_per_hour), _limits(context)
    contents = open_contents(lake)
    agents = _changed(context, asked_scenario(contents, scenario))
    catalogue = priced(contents.hardware, price or (), prices)
    filters = {"serving_mode": mode, "backend": engine, "kv_dtype": kv_dtype, "weight_dtype": weight_dtype}
    only = {name: value for name, value in filters.items() if value is not None}
    asked = Asked(question, limits, hardware or (), only)
    slugs = list(dict.fromkeys(contents.model_slug(name) for name in model))
    rows = [row for slug in slugs for row in plan_rows(contents, catalogue, slug, agents, asked)]
    feasible = [row for row in rows if row["feasible"]]
    if emit is not None and feasible:
        say(_launch(feasible[0], emit, contents, agents))
    elif output_format == "table":
        from pipelines.answering.plan_table import print_plans
        from pipelines.answering.row_notes import print_notes, slow_tables_of

        print_plans(rows, question, limits.at)
        print_notes(rows, slow_tables_of(contents, rows))
    else:
        from pipelines.commands.output import print_records

        print_records(rows, ROW_COLUMNS, output_format)
    if not feasible:
        raise typer.Exit(1)


def _changed(context: typer.Context, scenario: "Scenario") -> "Scenario":
    """The scenario with the quantities that the command line changes."""
    from pydantic import ValidationError

    from schemas.changes import WorkloadChanges

    changes = given(context, WorkloadChanges).model_dump(exclude_none=True)
    if not changes:
        return scenario
    from pipelines.answering.what_if_words import refused_changes_in_words
    from schemas.errors import UserError
    from transforms.planning.changes import changed_scenario

    try:
        return changed_scenario(scenario, changes)
    except ValidationError as error:
        raise UserError(refused_changes_in_words(error)) from None


def _question(sessions: int | None, gpus: int | None, tasks_per_hour: float | None) -> "Question":
    from transforms.planning.question import Question

    if sum(asked is not None for asked in (sessions, gpus, tasks_per_hour)) != 1:
        raise typer.BadParameter("give one of --sessions N, --gpus N and --tasks-per-hour N.")
    if tasks_per_hour is not None and not 0 < tasks_per_hour <= 1e12:
        raise typer.BadParameter(f"--tasks-per-hour {tasks_per_hour}: must be a finite number above 0.")
    return Question(sessions, tasks_per_hour, gpus)


def _limits(context: typer.Context) -> "Limits":
    from schemas.errors import UserError
    from schemas.options import PlanLimits
    from transforms.planning.limits import Limits

    for name, value in given(context, PlanLimits):
        if isinstance(value, float) and not (math.isfinite(value) and value > 0):
            raise UserError(f"{option_name(PlanLimits, name)} {value}: must be a finite number above 0.")
    return Limits(**given(context, PlanLimits).model_dump())


def _launch(row: Mapping[str, Any], launcher: "Launcher", contents: "ReleaseContents", scenario: "Scenario") -> str:
    """The launch of a plan, its first comment the plan itself."""
    from transforms.cache import constant_hit_rate, on_own_replica
    from transforms.planning.launch import deployment_of, launch

    checkpoint = contents.models.get(row["model"]).checkpoint
    keeps_prefixes = constant_hit_rate(on_own_replica(scenario)) > 0
    deployment = deployment_of(row, checkpoint, scenario.peak_context_tokens, keeps_prefixes, scenario.routing)
    plan = f"{row['sessions']:,} sessions on {row['gpus']:,} GPUs {row['hardware']}: {row['configuration']}"
    return launch(deployment, launcher, plan)
