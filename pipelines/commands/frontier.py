"""`agent-pareto frontier`: one frontier as a table and a plot in the terminal."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.commands.shared_options import (
    DEFAULT_LAKE,
    LakeOption,
    PriceListOption,
    PriceOption,
    RecordsFormatOption,
)
from pipelines.terminal import say

if TYPE_CHECKING:
    from pipelines.answering.figures import Kind

_COLUMNS = {
    "hardware": "hardware",
    "turn_latency_ms": "turn\nms",
    "tasks_per_hour_per_gpu": "tasks/h\nper GPU",
    "e2e_tokens_per_s_per_user": "tokens/s\nper user",
    "usd_per_task": "USD\nper task",
    "usd_per_million_output_tokens": "USD per M\ntokens out",
    "sessions": "sessions",
    "max_sessions": "sessions\nthat fit",
    "shape": "replica",
    "backend": "engine",
    "weight_dtype": "weights",
    "transfer_method": "by",
    "binding_limit": "limit",
}
#: How easily a column goes where the terminal is narrow, least important highest; others stay.
_IMPORTANCE = {
    "weight_dtype": 1, "shape": 2, "transfer_method": 3, "sessions": 4, "e2e_tokens_per_s_per_user": 5,
    "usd_per_million_output_tokens": 6, "backend": 7, "binding_limit": 8, "max_sessions": 9,
}  # fmt: skip
_MONEY = ("usd_per_task", "usd_per_million_output_tokens")
_IDENTITY = ("model", "scenario", "serving_mode", "gpus_per_replica")
#: Endings of a figure's file, by its option.
SUFFIXES: "dict[Kind, tuple[str, ...]]" = {"png": (".png",), "svg": (".svg",), "html": (".html", ".htm")}
_SQL = """
    select hardware, model, scenario, scenario_name, weight_dtype, turn_latency_ms, tasks_per_hour_per_gpu,
           e2e_tokens_per_s_per_user, usd_per_task, usd_per_million_output_tokens, sessions, max_sessions,
           backend, transfer_method,
           binding_limit, serving_mode, gpus_per_replica, prefill_hardware, decode_hardware, prefill_workers,
           prefill_tp, prefill_pp, prefill_dp, prefill_cp, tasks_per_s_per_gpu, output_tokens_per_s_per_gpu,
           interpolated, feasible, infeasible_reason, on_frontier, {noted}
           case serving_mode
             when 'agg' then concat('tp', tp, case when pp > 1 then concat(' pp', pp) else '' end,
                                    case when dp > 1 then concat(' dp', dp) else '' end)
             else concat(prefill_workers, 'x(tp', prefill_tp, case when prefill_dp > 1 then concat(' dp', prefill_dp)
                         else '' end, ') + ', decode_workers, 'x(tp', decode_tp,
                         case when decode_dp > 1 then concat(' dp', decode_dp) else '' end, ')')
           end as shape
    from {table}
    where list_contains(?, hardware) and model = ? and scenario = ?
    order by list_position(?, hardware), weight_dtype, turn_latency_ms, point_id
"""
_FLAGS = """
    select hardware, model, source, slower_than_roofline from serving_points
    where list_contains(?, hardware) and model = ?
"""


def frontier_command(
    hardware: Annotated[list[str], typer.Option("--hardware", help="GPU: slug or alias; may be repeated.")],
    model: Annotated[str, typer.Option("--model", help="Model: slug or alias.")],
    scenario: Annotated[str, typer.Option("--scenario", help="Scenario: slug.")],
    lake: LakeOption = DEFAULT_LAKE,
    png: Annotated[Path | None, typer.Option("--png", help="Write the figure as a picture of pixels.")] = None,
    svg: Annotated[Path | None, typer.Option("--svg", help="Write the figure as a picture of lines.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write the figure as a page; works offline.")] = None,
    price: PriceOption = None,
    prices: PriceListOption = None,
    top: Annotated[
        int | None, typer.Option("--top", min=1, help="Only so many points of each GPU: those of most tasks.")
    ] = None,
    output_format: RecordsFormatOption = "table",
) -> None:
    """Show a frontier: turn latency against tasks an hour per GPU, with the configurations on it.

    A figure file has at most seven GPUs, and the points below the frontier and beyond the KV wall too,
    lighter; its numbers are the table's.
    """
    from pipelines.answering.row_notes import NOTED_COLUMNS, print_notes
    from pipelines.lake.query import open_lake
    from pipelines.reading.given_paths import check_output_file
    from schemas.errors import UserError
    from transforms.synthesis.slower import slow_tables

    asked: dict[Kind, Path | None] = {"png": png, "svg": svg, "html": html}
    figures = {kind: path for kind, path in asked.items() if path is not None}
    for kind, path in figures.items():
        check_output_file(f"--{kind}", path, SUFFIXES[kind], f"frontier.{kind}")
    with open_lake(lake) as connection:

        def slug(given: str, kind: str) -> str:
            slugs = connection.query(f"select distinct {kind} from agent_points").rows()
            return _slug([str(row[0]) for row in slugs], given, kind)

        gpus = list(dict.fromkeys(slug(given, "hardware") for given in hardware))
        model, scenario = slug(model, "model"), slug(scenario, "scenario")
        table = "agent_points" if figures else "agent_frontier"
        known = connection.query("select * from agent_points limit 0").columns
        noted = "".join(f"{name}, " for name in NOTED_COLUMNS if name in known)  # releases of before have none
        result = connection.query(_SQL.format(table=table, noted=noted), [gpus, model, scenario, gpus])
        points = [dict(zip(result.columns, row, strict=True)) for row in result.rows()]
        slow = slow_tables(connection.frame(_FLAGS, [gpus, model])) if noted else ()
    best = [point for point in points if point["on_frontier"]]
    missing = [gpu for gpu in gpus if gpu not in {point["hardware"] for point in best}]
    for gpu in missing:
        sentence = (
            f"No feasible point of {model} on {gpu} at {scenario}; see why with: agent-pareto query "
            '"select infeasible_reason, count(*) from agent_points where '
            f"hardware = '{gpu}' and model = '{model}' and scenario = '{scenario}' group by 1\""
        )
        if len(missing) == len(gpus):
            raise UserError(sentence)
        say(sentence, err=True)
    if figures:
        from pipelines.answering.figures import frontier_spec, write_figure

        spec = frontier_spec(points, model, str(points[0]["scenario_name"]))
    if price or prices is not None:
        best = _at_prices(best, lake, price or (), prices)
    if top is not None:
        best = _most_tasks(best, top)
    if output_format == "table":
        _print_table(best, several=len(gpus) > 1)
        print_notes(best, slow)
        _plot(best, f"{', '.join(gpus)}; {model}, {scenario}")
    else:
        from pipelines.commands.output import print_records

        print_records(best, (*_COLUMNS, *_IDENTITY, *(NOTED_COLUMNS if noted else ())), output_format)
    for kind, path in figures.items():
        write_figure(spec, kind, path)
        say(f"Figure: {path}", err=output_format != "table")


def _print_table(best: list[dict[str, Any]], *, several: bool) -> None:
    from pipelines.terminal import print_table

    unpriced = [name for name in _MONEY if all(point[name] is None for point in best)]
    names = [name for name in _COLUMNS if name not in unpriced and (several or name != "hardware")]
    print_table(
        [_COLUMNS[name] for name in names],
        ([_cell(point[name]) for name in names] for point in best),
        importance=[_IMPORTANCE.get(name, 0) for name in names],
    )


def _at_prices(
    points: list[dict[str, Any]], lake: Path, given: Sequence[str], price_list: Path | None
) -> list[dict[str, Any]]:
    """The points with what they cost at other prices than the build's."""
    import polars as pl

    from pipelines.answering.prices import priced
    from pipelines.answering.release_contents import open_contents
    from transforms.agent_points.judgement.cost import usd_per_gpu_hour
    from transforms.equations import cost

    price = usd_per_gpu_hour(priced(open_contents(lake).hardware, given, price_list))
    frame = pl.DataFrame(points, infer_schema_length=None).with_columns(_price=price)
    return frame.with_columns(
        usd_per_task=cost.usd_per_task(pl.col("_price"), pl.col("tasks_per_s_per_gpu")),
        usd_per_million_output_tokens=cost.usd_per_million_tokens(
            pl.col("_price"), pl.col("output_tokens_per_s_per_gpu")
        ),
    ).to_dicts()


def _most_tasks(points: list[dict[str, Any]], top: int) -> list[dict[str, Any]]:
    """So many points of each GPU, those of most tasks an hour, in the order that they have."""
    by_gpu: dict[str, list[dict[str, Any]]] = {}
    for point in sorted(points, key=lambda point: -float(point["tasks_per_hour_per_gpu"])):
        by_gpu.setdefault(point["hardware"], []).append(point)
    kept = {id(point) for of_gpu in by_gpu.values() for point in of_gpu[:top]}
    return [point for point in points if id(point) in kept]


def _slug(slugs: list[str], name: str, kind: str) -> str:
    """The slug in the lake that the name means: itself, or what the shipped catalogue's alias stands for."""
    from pipelines.lake.names import slug_in_lake
    from pipelines.reading.catalogues import load_hardware, load_models

    if name in slugs:
        return name
    entry = (
        load_hardware().lookup(name) if kind == "hardware" else load_models().lookup(name) if kind == "model" else None
    )
    return slug_in_lake(slugs, name, None if entry is None else entry.slug, kind)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return "-" if value is None else str(value)


def _plot(points: list[dict[str, object]], title: str) -> None:
    import plotext

    from pipelines.terminal import terminal_columns, terminal_text

    plotext.clear_figure()
    several = len({point["hardware"] for point in points}) > 1
    lines: dict[str, list[dict[str, object]]] = {}
    for point in points:
        name = f"{point['hardware']} {point['weight_dtype']}" if several else str(point["weight_dtype"])
        lines.setdefault(name, []).append(point)
    for name, line in lines.items():
        plotext.plot(
            [float(str(point["turn_latency_ms"])) / 1e3 for point in line],
            [float(str(point["tasks_per_hour_per_gpu"])) for point in line],
            label=terminal_text(name),
            marker="braille",
        )
    plotext.title(terminal_text(title))
    plotext.xlabel("turn latency, s")
    plotext.ylabel("tasks an hour per GPU")
    plotext.theme("clear")
    plotext.plot_size(min(100, terminal_columns() or 100), 24)
    figure = plotext.build()
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    print(figure if coloured else plotext.uncolorize(figure))
