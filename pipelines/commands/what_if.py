"""`agent-pareto what-if`: a published lake at a changed scenario, in seconds."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from pipelines.commands.model_options import CommandOfModels, given
from pipelines.commands.shared_options import (
    DEFAULT_LAKE,
    AskedScenarioOption,
    HardwareOption,
    LakeOption,
    ModelOption,
    PriceListOption,
    PriceOption,
    RecordsFormatOption,
    WeightsOption,
)

if TYPE_CHECKING:
    import polars as pl
    from pydantic import BaseModel

    from pipelines.answering.release_contents import ReleaseContents
    from schemas.catalogue import HardwareCatalogue
    from schemas.scenarios import Scenario
    from transforms.planning.changes import Circumstances
    from transforms.planning.what_if import Comparison, MovedParts

_COLUMNS = ("hardware", "point", "figure", "before", "after", "change_percent")


class TakesScenarioChanges(CommandOfModels):
    """A command that takes what changes of a scenario and of what serves it."""

    def models(self) -> "Sequence[type[BaseModel]]":
        from schemas.changes import ScenarioChanges, ServingChanges

        return (ScenarioChanges, ServingChanges)


def what_if_command(
    context: typer.Context,
    model: ModelOption,
    scenario: AskedScenarioOption,
    hardware: HardwareOption = None,
    weight_dtype: WeightsOption = None,
    price: PriceOption = None,
    prices: PriceListOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    output_format: RecordsFormatOption = "table",
) -> None:
    """Change a scenario, or what serves it, and see what becomes of the best points of a published lake.

    The release's serving points are carried to the scenario as it is and as changed, exactly as a build would; nothing
    is written. Shown are the most tasks an hour per GPU, the shortest turns and, where the scenario has sessions and
    GPUs (or the options give them), the operating point with the most tasks, each with its configuration and what
    limits it; then which of a turn's own time, what other sessions add, and memory the change moved. Exit code 1 where
    nothing is feasible after the change.
    """
    from pipelines.answering.asked_scenario import asked_scenario
    from pipelines.answering.prices import priced
    from pipelines.answering.release_contents import open_contents
    from pipelines.answering.row_notes import print_notes
    from pipelines.answering.what_if_table import print_comparisons
    from pipelines.answering.what_if_words import changes_in_words
    from pipelines.commands.output import print_records
    from pipelines.terminal import print_text
    from transforms.planning.what_if import best_points, compare, moved_parts
    from transforms.synthesis.slower import slow_tables

    contents = open_contents(lake)
    slug, own = contents.model_slug(model), asked_scenario(contents, scenario)
    points = contents.read_precision("serving_points", hardware or (), slug, None, weight_dtype)
    before, after = _circumstances(context, own, contents, priced(contents.hardware, price or (), prices))
    sides = [_carried(contents, points, slug, each) for each in (before, after)]
    turns = [each.scenario.turns for each in (before, after)]
    best = [best_points(*side, count) for side, count in zip(sides, turns, strict=True)]
    comparisons, parts = compare(*best), moved_parts(*(agents for agents, _ in sides))
    if output_format == "table":
        print_text(f"{slug} at {own.slug}: {changes_in_words(own, before, after)}", columns=None)
        print_comparisons(comparisons, parts)
        print_notes(_shown(comparisons), slow_tables(points))
    else:
        print_records([*_records(comparisons), *_records_of_parts(parts)], _COLUMNS, output_format)
    if all(comparison.after is None for comparison in comparisons):
        raise typer.Exit(1)


def _circumstances(
    context: typer.Context, own: "Scenario", contents: "ReleaseContents", hardware: "HardwareCatalogue"
) -> "tuple[Circumstances, Circumstances]":
    """What points are carried under before and after. Sessions and GPUs that the scenario does not fix are of both."""
    from pydantic import ValidationError

    from pipelines.answering.what_if_words import refused_changes_in_words
    from schemas.changes import ScenarioChanges, ServingChanges
    from schemas.errors import UserError
    from transforms.planning.changes import Circumstances, changed_circumstances, changed_scenario

    changes = given(context, ScenarioChanges).model_dump(exclude_none=True)
    serving = given(context, ServingChanges)
    if not changes and not serving.model_dump(exclude_none=True):
        raise UserError("Nothing is changed: give --think-time-s, --cache-hit-rate, --turns or another of --help.")
    fixed: dict[str, object] = {
        name: changes[name] for name in ("sessions", "gpus") if name in changes and getattr(own, name) is None
    }
    if ("sessions" in changes or "gpus" in changes) and None in (
        changes.get("sessions", own.sessions), changes.get("gpus", own.gpus),
    ):  # fmt: skip
        raise UserError(f"Scenario {own.slug} fixes no sessions on GPUs: give both --sessions and --gpus.")
    try:
        before = Circumstances(changed_scenario(own, fixed), contents.options, hardware)
        return before, changed_circumstances(before, changed_scenario(own, changes), serving)
    except ValidationError as error:
        raise UserError(refused_changes_in_words(error)) from None


def _carried(
    contents: "ReleaseContents", points: "pl.DataFrame", model: str, circumstances: "Circumstances"
) -> "tuple[pl.DataFrame, pl.DataFrame]":
    """Agent points and operating points, as a build would have them."""
    from pipelines.building.carrying import Partition, carry_partition
    from schemas.errors import UserError

    if circumstances.kv_dtype is not None:
        there = ", ".join(points["kv_dtype"].drop_nulls().unique().sort())
        points = points.filter(kv_dtype=circumstances.kv_dtype)
        if points.is_empty():
            raise UserError(f"The lake has no point of {model} with KV in {circumstances.kv_dtype}. It has: {there}.")
    (carried,) = carry_partition(
        Partition(model, points),
        [circumstances.scenario],
        circumstances.hardware,
        contents.models,
        circumstances.options,
        contents.engines,
    )
    return carried.agent_points, carried.operating_points


def _records(comparisons: "list[Comparison]") -> list[dict[str, Any]]:
    from pipelines.answering.shapes import shape_of
    from pipelines.answering.what_if_table import compared_figures, of_side
    from transforms.planning.what_if import OPERATING_FIGURES, change_percent

    records = []
    figures = compared_figures(comparisons)
    for comparison in comparisons:
        before, after = comparison.before, comparison.after
        names = (*figures, *OPERATING_FIGURES) if comparison.point == "operating_point" else figures
        pairs = {name: (of_side(before, name), of_side(after, name)) for name in names}
        texts = {
            name: (of_side(before, name), of_side(after, name)) for name in ("weight_dtype", "backend", "binding_limit")
        }
        texts["replica"] = (
            None if before is None else shape_of(before),
            None if after is None else shape_of(after),
        )
        texts["infeasible_reason"] = (comparison.reason_before, comparison.reason_after)
        for name, (old, new) in {**pairs, **texts}.items():
            percent = change_percent(old, new) if name in pairs else None
            records.append(
                dict(zip(_COLUMNS, (comparison.hardware, comparison.point, name, old, new, percent), strict=True))
            )
    return records


def _records_of_parts(parts: "list[MovedParts]") -> list[dict[str, Any]]:
    from transforms.planning.what_if import PARTS, change_percent

    return [
        dict(zip(_COLUMNS, (each.hardware, "best_before", name, old, new, change_percent(old, new)), strict=True))
        for each in parts
        for name, old, new in ((name, each.before[name], each.after[name]) for name in PARTS)
    ]


def _shown(comparisons: "list[Comparison]") -> list[dict[str, Any]]:
    """The rows that the table names, before and after."""
    sides = [(each.hardware, side) for each in comparisons for side in (each.before, each.after)]
    return [{"hardware": hardware, **side} for hardware, side in sides if side is not None]
