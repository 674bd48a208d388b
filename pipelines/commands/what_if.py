"""`agent-pareto what-if`: a published lake at a changed scenario, in seconds."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from pipelines.commands.model_options import CommandOfModels, given
from pipelines.commands.shared_options import (
    DEFAULT_LAKE,
    HardwareOption,
    LakeOption,
    ModelOption,
    PriceListOption,
    PriceOption,
    RecordsFormatOption,
    ScenarioOption,
    WeightsOption,
)

if TYPE_CHECKING:
    import polars as pl
    from pydantic import BaseModel

    from pipelines.answering.release_contents import ReleaseContents
    from schemas.catalogue import HardwareCatalogue
    from schemas.options import MappingOptions
    from schemas.scenarios import Scenario
    from transforms.planning.what_if import Comparison

_HEADERS = {
    "tasks_per_hour_per_gpu": "tasks/h\nper GPU", "turn_latency_ms": "turn\ns", "task_time_s": "task\ns",
    "e2e_tokens_per_s_per_user": "tokens/s\nper user", "sessions_per_gpu": "sessions\nper GPU",
    "kv_utilization_fraction": "KV\nused, %", "usd_per_task": "USD\na task",
    "usd_per_million_output_tokens": "USD per M\ntokens out",
}  # fmt: skip
#: How easily a column goes where the terminal is narrow, least important highest; others stay.
_IMPORTANCE = {
    "usd_per_task": 1, "replica": 2, "limit": 3, "weights": 4, "sessions_per_gpu": 5, "kv_utilization_fraction": 6,
    "usd_per_million_output_tokens": 7, "task_time_s": 8, "e2e_tokens_per_s_per_user": 9,
}  # fmt: skip
_TITLES = {"most_tasks": "most tasks", "shortest_turns": "shortest turns", "operating_point": "operating point"}
_SCALE = {"turn_latency_ms": 1e-3, "kv_utilization_fraction": 100.0}
_COLUMNS = ("hardware", "point", "figure", "before", "after", "change_percent")


class TakesScenarioChanges(CommandOfModels):
    """A command that takes what changes of a scenario."""

    def models(self) -> "Sequence[type[BaseModel]]":
        from schemas.options import ScenarioChanges

        return (ScenarioChanges,)


def what_if_command(
    context: typer.Context,
    model: ModelOption,
    scenario: ScenarioOption,
    hardware: HardwareOption = None,
    weight_dtype: WeightsOption = None,
    price: PriceOption = None,
    prices: PriceListOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    output_format: RecordsFormatOption = "table",
) -> None:
    """Change a scenario and see what becomes of the best points of a published lake; nothing is written.

    The release's serving points are carried to the scenario as it is and as changed, exactly as a build would. Shown
    are the most tasks an hour per GPU, the shortest turns and, where the scenario has sessions and GPUs (or the
    options give them), the operating point with the most tasks, each with its configuration and what limits it. Exit
    code 1 where nothing is feasible after the change.
    """
    from pipelines.answering.prices import priced
    from pipelines.answering.release_contents import open_contents
    from pipelines.answering.row_notes import print_notes
    from pipelines.commands.output import print_records
    from pipelines.terminal import print_text
    from schemas.options import ScenarioChanges
    from transforms.planning.what_if import compare, follows
    from transforms.synthesis.slower import slow_tables

    contents = open_contents(lake)
    slug, own = contents.model_slug(model), contents.scenario(scenario)
    points = contents.read_precision("serving_points", hardware or (), slug, None, weight_dtype)
    changes = given(context, ScenarioChanges).model_dump(exclude_none=True)
    before, after = _scenarios(own, changes)
    hardware_at_prices = priced(contents.hardware, price or (), prices)
    found = [_best(contents, hardware_at_prices, points, slug, each) for each in (before, after)]
    comparisons = compare(*found)
    if output_format == "table":
        said = [
            _changes_in_words(before, after, follows(own, changes)),
            *_over_capacity(before, after, contents.options),
        ]
        print_text(f"{slug} at {own.slug}: {', '.join(said)}", columns=None)
        _print_table(comparisons)
        print_notes(_shown(comparisons), slow_tables(points))
    else:
        print_records(_records(comparisons), _COLUMNS, output_format)
    if all(comparison.after is None for comparison in comparisons):
        raise typer.Exit(1)


def _scenarios(own: "Scenario", changes: Mapping[str, object]) -> "tuple[Scenario, Scenario]":
    """The scenario before and after. Sessions and GPUs that it does not fix are those of both."""
    from pydantic import ValidationError

    from schemas.errors import UserError
    from transforms.planning.what_if import changed_scenario

    if not changes:
        raise UserError("Nothing is changed: give --think-time-s, --cache-hit-rate, --turns or another of --help.")
    fixed = {name: changes[name] for name in ("sessions", "gpus") if name in changes and getattr(own, name) is None}
    if ("sessions" in changes or "gpus" in changes) and None in (
        changes.get("sessions", own.sessions), changes.get("gpus", own.gpus),
    ):  # fmt: skip
        raise UserError(f"Scenario {own.slug} fixes no sessions on GPUs: give both --sessions and --gpus.")
    try:
        return changed_scenario(own, fixed), changed_scenario(own, changes)
    except ValidationError as error:
        said = []
        for problem in error.errors(include_url=False):
            text = str(problem["msg"]).removeprefix("Value error, ")
            # what the problem is with, and the option that it comes from
            renamed = {"cache": "cache_hit_rate", "first_turn_new_tokens": "new_tokens_per_turn"}
            field = renamed.get(str(problem["loc"][0]), str(problem["loc"][0])) if problem["loc"] else None
            option = "" if field is None else f"--{field.replace('_', '-')}: "
            said.append(f"{option}{text[:1].lower() if option else text[:1]}{text[1:]}.")
        raise UserError("\n".join(said)) from None


def _best(
    contents: "ReleaseContents", hardware: "HardwareCatalogue", points: "pl.DataFrame", model: str, scenario: "Scenario"
) -> dict[Any, Any]:
    from pipelines.building.carrying import Partition, carry_partition
    from transforms.planning.what_if import best_points

    (carried,) = carry_partition(
        Partition(model, points),
        [scenario],
        hardware,
        contents.models,
        contents.options,
        contents.engines,
    )
    return best_points(carried.agent_points, carried.operating_points, scenario.turns)


def _records(comparisons: "list[Comparison]") -> list[dict[str, Any]]:
    from pipelines.answering.shapes import shape_of
    from transforms.planning.what_if import OPERATING_FIGURES, change_percent

    records = []
    figures = _figures(comparisons)
    for comparison in comparisons:
        before, after = comparison.before, comparison.after
        names = (*figures, *OPERATING_FIGURES) if comparison.point == "operating_point" else figures
        pairs = {name: (_of(before, name), _of(after, name)) for name in names}
        texts = {name: (_of(before, name), _of(after, name)) for name in ("weight_dtype", "backend", "binding_limit")}
        texts["replica"] = (None if before is None else shape_of(before), None if after is None else shape_of(after))
        texts["infeasible_reason"] = (comparison.reason_before, comparison.reason_after)
        for name, (old, new) in {**pairs, **texts}.items():
            percent = change_percent(old, new) if name in pairs else None
            records.append(
                dict(zip(_COLUMNS, (comparison.hardware, comparison.point, name, old, new, percent), strict=True))
            )
    return records


def _figures(comparisons: "list[Comparison]") -> tuple[str, ...]:
    """The figures that are compared: with money where GPUs have a price."""
    from transforms.planning.what_if import FIGURES, MONEY

    sides = [side for comparison in comparisons for side in (comparison.before, comparison.after) if side is not None]
    return (*FIGURES, *(name for name in MONEY if any(side[name] is not None for side in sides)))


def _of(side: dict[str, Any] | None, name: str) -> Any:
    return None if side is None else side[name]


def _shown(comparisons: "list[Comparison]") -> list[dict[str, Any]]:
    """The rows that the table names, before and after."""
    sides = [(each.hardware, side) for each in comparisons for side in (each.before, each.after)]
    return [{"hardware": hardware, **side} for hardware, side in sides if side is not None]


def _print_table(comparisons: "list[Comparison]") -> None:
    from pipelines.terminal import print_table, print_text

    figures = _figures(comparisons)
    names = ("hardware", "", *figures, "replica", "weights", "limit")
    rows = []
    last = None
    for comparison in comparisons:
        rows.append(["" if comparison.hardware == last else comparison.hardware, *_cells(comparison, figures)])
        last = comparison.hardware
    print_table(
        [_HEADERS.get(name, name) for name in names],
        rows,
        caption="Before > after (change). most tasks, shortest turns: of all feasible points.",
        importance=[_IMPORTANCE.get(name, 0) for name in names],
    )
    for comparison in comparisons:
        for when, side in (("before", comparison.before), ("after", comparison.after)):
            if comparison.point == "operating_point" and side is not None:
                wanted, admitted = side["sessions_wanted"], side["sessions_admitted"]
                if admitted < wanted:
                    print_text(
                        f"{comparison.hardware}: {when} the change {_number(admitted, '')} of the "
                        f"{_number(wanted, '')} sessions wanted are admitted at the operating point; the others wait.",
                        columns=None,
                    )


def _over_capacity(before: "Scenario", after: "Scenario", options: "MappingOptions") -> list[str]:
    """What else changes where the cache model does: what becomes of sessions beyond the memory."""
    from transforms.cache.choice import evicts

    rules = ["thrash" if evicts(scenario, options) else "wait" for scenario in (before, after)]
    return [] if rules[0] == rules[1] else [f"sessions over capacity {rules[0]} > {rules[1]}"]


def _changes_in_words(before: "Scenario", after: "Scenario", first_turn: str | None = None) -> str:
    names = (
        "think_time_s", "turns", "initial_prompt_tokens", "new_tokens_per_turn", "output_tokens_per_turn",
        "sessions", "gpus",
    )  # fmt: skip
    said = [
        f"{name} {getattr(before, name):,} > {getattr(after, name):,}"
        for name in names
        if getattr(before, name) != getattr(after, name)
    ]
    if first_turn is not None:
        tokens = (f"{scenario.first_turn_new_tokens:,}" for scenario in (before, after))
        said.append(f"first_turn_new_tokens {' > '.join(tokens)} ({first_turn})")
    said += [
        f"{name} {getattr(before, name) or '-'} > {getattr(after, name) or '-'}"
        for name in ("routing", "replicas")
        if getattr(before, name) != getattr(after, name)
    ]
    if before.cache != after.cache:
        said.append(f"cache {before.cache} > {after.cache}")
    return ", ".join(said) or "nothing differs from the scenario"


def _cells(comparison: "Comparison", figures: Sequence[str]) -> list[str]:
    from pipelines.answering.shapes import shape_of
    from transforms.planning.what_if import change_percent

    before, after = comparison.before, comparison.after
    cells = [_TITLES[comparison.point]]
    for name in figures:
        old, new = _of(before, name), _of(after, name)
        percent = change_percent(old, new)
        change = "" if percent is None else f" ({percent:+.0f} %)"
        shown = (_number(old, name), _number(new, name))
        cells.append(shown[0] if shown[0] == shown[1] else f"{shown[0]} > {shown[1]}{change}")
    for text in (shape_of, lambda side: str(side["weight_dtype"])):
        old_text, new_text = ("-" if side is None else text(side) for side in (before, after))
        cells.append(old_text if old_text == new_text else f"{old_text} > {new_text}")
    limits = [
        reason or ("-" if side is None else str(side["binding_limit"]))
        for side, reason in ((before, comparison.reason_before), (after, comparison.reason_after))
    ]
    cells.append(limits[0] if limits[0] == limits[1] else " > ".join(limits))
    return cells


def _number(value: float | None, name: str) -> str:
    if value is None:
        return "-"
    scaled = value * _SCALE.get(name, 1.0)
    return f"{scaled:,.0f}" if abs(scaled) >= 100 else f"{scaled:.3g}"
