"""What the page is told of a release before it fetches any rows: what there is to choose, and what to show first."""

from pathlib import Path
from typing import Any, Final

from pipelines.lake.query import LakeQuery, open_lake
from pipelines.lake.reader import Release
from schemas.errors import UserError

#: GPUs that the page overlays where the reader has not chosen.
_FIRST_GPUS: Final = 4
_ROWS = "select model, scenario, hardware, count(*) from agent_points group by all order by all"
_SERVING = "select model, hardware, count(*) from serving_points group by all order by all"
#: GPUs with rows from tables, by model: what rooflines alone cover is not shown first.
_TABLES = """
    select model, hardware, count(*) as rows from serving_points where source <> 'roofline'
    group by all order by hardware
"""


def read_index(lake_path: Path, release: Release) -> dict[str, Any]:
    """The index of the release, ready for JSON. Raises ``UserError`` where it has no agent points."""
    with open_lake(lake_path) as lake:
        agents: dict[str, dict[str, dict[str, int]]] = {}
        for model, scenario, hardware, rows in lake.query(_ROWS).rows():
            agents.setdefault(model, {}).setdefault(scenario, {})[hardware] = rows
        if not agents:
            raise UserError(f"Release {release.id} has no agent points: there is nothing to explore.")
        serving: dict[str, dict[str, int]] = {}
        for model, hardware, rows in lake.query(_SERVING).rows():
            serving.setdefault(model, {})[hardware] = rows
        return {
            "release": release.id,
            "created_at": release.manifest["created_at"],
            "closed_loop": release.manifest.get("config", {}).get("closed_loop", "arrival"),
            "hardware": _named(lake, "hardware", {gpu for of in serving.values() for gpu in of}),
            "models": _named(lake, "model", set(agents)),
            "scenarios": _records(lake, "select * from scenarios"),
            "agent_points": agents,
            "serving_points": serving,
            "first": _first(lake, agents),
        }


def _named(lake: LakeQuery, kind: str, slugs: set[str]) -> list[dict[str, str]]:
    """The slugs with the names of the catalogue; a pair of GPUs (``-and-``) has none of its own."""
    table = "hardware" if kind == "hardware" else "models"
    names: dict[str, str] = dict(lake.query(f"select {kind}, {kind}_name from {table}").rows())

    def name_of(slug: str) -> str:
        return " and ".join(names.get(part, part) for part in slug.split("-and-"))

    order = {slug: place for place, slug in enumerate(names)}
    ordered = sorted(slugs, key=lambda slug: (order.get(slug, len(order)), slug))
    return [{kind: slug, f"{kind}_name": name_of(slug)} for slug in ordered]


def _records(lake: LakeQuery, sql: str) -> list[dict[str, Any]]:
    result = lake.query(sql)
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows()]


def _first(lake: LakeQuery, agents: dict[str, dict[str, dict[str, int]]]) -> dict[str, Any]:
    """The model that tables cover on most GPUs (of equals, the one with most rows), its first scenario."""
    covered: dict[str, dict[str, int]] = {}
    for model, hardware, rows in lake.query(_TABLES).rows():
        covered.setdefault(model, {})[hardware] = rows
    covered = {model: gpus for model, gpus in covered.items() if model in agents} or {
        model: next(iter(scenarios.values())) for model, scenarios in agents.items()
    }
    model = max(covered, key=lambda name: (len(covered[name]), sum(covered[name].values())))
    scenarios = [str(row[0]) for row in lake.query("select scenario from scenarios").rows()]
    scenario = next(slug for slug in (*scenarios, *agents[model]) if slug in agents[model])
    catalogue = [str(row[0]) for row in lake.query("select hardware from hardware").rows()]
    order = {gpu: place for place, gpu in enumerate(catalogue)}
    there = [gpu for gpu in covered[model] if gpu in agents[model][scenario]] or list(agents[model][scenario])
    hardware = sorted(there, key=lambda gpu: (order.get(gpu, len(order)), gpu))
    return {"model": model, "scenario": scenario, "hardware": hardware[:_FIRST_GPUS]}
