"""`agent-pareto frontier`: one frontier as a table and a plot in the terminal."""

import sys
from pathlib import Path
from typing import Annotated

import typer

_COLUMNS = {
    "turn_latency_ms": "turn\nms",
    "tasks_per_hour_per_gpu": "tasks/h\nper GPU",
    "e2e_tokens_per_s_per_user": "tokens/s\nper user",
    "sessions": "sessions",
    "max_sessions": "sessions\nthat fit",
    "shape": "replica",
    "backend": "engine",
    "weight_dtype": "weights",
    "transfer_method": "by",
    "binding_limit": "limit",
}
_SQL = """
    select weight_dtype, turn_latency_ms, tasks_per_hour_per_gpu, e2e_tokens_per_s_per_user, sessions, max_sessions,
           backend, transfer_method, binding_limit, interpolated,
           case serving_mode
             when 'agg' then concat('tp', tp, case when pp > 1 then concat(' pp', pp) else '' end,
                                    case when dp > 1 then concat(' dp', dp) else '' end)
             else concat(prefill_workers, 'x(tp', prefill_tp, case when prefill_dp > 1 then concat(' dp', prefill_dp)
                         else '' end, ') + ', decode_workers, 'x(tp', decode_tp,
                         case when decode_dp > 1 then concat(' dp', decode_dp) else '' end, ')')
           end as shape
    from agent_frontier
    where on_frontier and hardware = ? and model = ? and scenario = ?
    order by weight_dtype, turn_latency_ms
"""


def frontier_command(
    hardware: Annotated[str, typer.Option("--hardware", help="GPU: slug or alias.")],
    model: Annotated[str, typer.Option("--model", help="Model: slug or alias.")],
    scenario: Annotated[str, typer.Option("--scenario", help="Scenario: slug.")],
    lake: Annotated[Path, typer.Option("--lake", help="The lake's folder.")] = Path("lake"),
) -> None:
    """Show a frontier: turn latency against tasks an hour per GPU, with the configurations on it."""
    from pipelines.commands.tables import print_table
    from pipelines.lake.query import open_lake
    from schemas.errors import UserError

    with open_lake(lake) as connection:
        hardware, model, scenario = (
            _slug(
                [str(row[0]) for row in connection.query(f"select distinct {kind} from agent_points").rows()],
                given,
                kind,
            )
            for kind, given in (("hardware", hardware), ("model", model), ("scenario", scenario))
        )
        result = connection.query(_SQL, [hardware, model, scenario])
        points = [dict(zip(result.columns, row, strict=True)) for row in result.rows()]
    if not points:
        raise UserError(
            f"No feasible point of {model} on {hardware} at {scenario}; see why with: agent-pareto query "
            '"select infeasible_reason, count(*) from agent_points where '
            f"hardware = '{hardware}' and model = '{model}' and scenario = '{scenario}' group by 1\""
        )
    print_table(tuple(_COLUMNS.values()), ([_cell(point[name]) for name in _COLUMNS] for point in points))
    _plot(points, f"{hardware}, {model}, {scenario}")


def _slug(slugs: list[str], name: str, kind: str) -> str:
    """The slug in the lake that the name means: itself, or what the catalogue's alias stands for."""
    from pipelines.catalogues import load_hardware, load_models
    from schemas.errors import UserError
    from schemas.suggest import did_you_mean

    if name in slugs:
        return name
    found = load_hardware().lookup(name) if kind == "hardware" else None
    meant = load_models().lookup(name) if kind == "model" else found
    if meant is not None and meant.slug in slugs:
        return meant.slug
    raise UserError(f"The lake has no {kind} {name!r}.{did_you_mean(name, slugs)} It has: {', '.join(sorted(slugs))}.")


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return "-" if value is None else str(value)


def _plot(points: list[dict[str, object]], title: str) -> None:
    import plotext

    plotext.clear_figure()
    for dtype in sorted({str(point["weight_dtype"]) for point in points}):
        of_dtype = [point for point in points if point["weight_dtype"] == dtype]
        plotext.plot(
            [float(str(point["turn_latency_ms"])) / 1e3 for point in of_dtype],
            [float(str(point["tasks_per_hour_per_gpu"])) for point in of_dtype],
            label=dtype,
            marker="braille",
        )
    plotext.title(title)
    plotext.xlabel("turn latency, s")
    plotext.ylabel("tasks an hour per GPU")
    plotext.theme("clear")
    plotext.plot_size(100, 24)
    figure = plotext.build()
    print(figure if sys.stdout.isatty() else plotext.uncolorize(figure))
