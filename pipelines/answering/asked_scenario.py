"""The scenario of a question: one of the release, or one that it does not have, carried at reading time."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from pipelines.answering.release_contents import ReleaseContents
from schemas.errors import UserError
from schemas.scenarios import Scenario


def asked_scenario(contents: ReleaseContents, name: str) -> Scenario:
    """The release's scenario of this slug, else a shipped one's, else the one of a YAML file.

    Raises ``UserError`` where it is none of them, and for a file of several.
    """
    from pipelines.reading.catalogues import load_scenarios, shipped_scenarios

    if name in contents.scenarios:
        return contents.scenarios[name]
    if name not in {scenario.slug for scenario in shipped_scenarios()} and not Path(name).is_file():
        return contents.scenario(name)
    found = load_scenarios((name,))
    if len(found) > 1:
        slugs = ", ".join(scenario.slug for scenario in found)
        raise UserError(f"{name} has {len(found)} scenarios ({slugs}): give a file of one.")
    return found[0]


def points_at(
    contents: ReleaseContents,
    hardware: Sequence[str],
    model: str,
    scenario: Scenario,
    weight_dtype: str | None,
    needed: Sequence[str],
    point_ids: pl.Series | None = None,
) -> pl.DataFrame:
    """The agent points of a model at a scenario: those published, else the serving points carried as a build would.

    ``point_ids``: of these serving points alone.
    """
    if point_ids is None and contents.scenarios.get(scenario.slug) == scenario:
        return contents.read_precision("agent_points", hardware, model, scenario.slug, weight_dtype, needed)
    from pipelines.building.carrying import Partition, carry_partition

    points = contents.read_precision("serving_points", hardware, model, None, weight_dtype)
    if point_ids is not None:
        points = points.filter(pl.col("point_id").is_in(point_ids.to_list()))
    (carried,) = carry_partition(
        Partition(model, points), [scenario], contents.hardware, contents.models, contents.options, contents.engines
    )
    return carried.agent_points
