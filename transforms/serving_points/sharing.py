"""Rows of models of one architecture serve each other: a model under another name runs no faster and no slower."""

from collections.abc import Sequence

import polars as pl

from schemas.catalogue import ModelCatalogue
from schemas.models import ModelSpec
from transforms.serving_points.judge import point_ids

#: What tells a model's name, not its architecture.
NAMES = ("slug", "name", "aliases", "source", "not_counted")


def share_rows(points: pl.DataFrame, models: ModelCatalogue) -> pl.DataFrame:
    """Rows of ``serving_points``, and those of each model once more for every other model of its architecture.

    A shared row says in ``shared_from`` which model it was measured on, and has keys of its own. So the models of one
    architecture have the same rows under each name.
    """
    measured = set(points["model"].unique())
    shared = []
    for specs in one_architecture(models):
        for spec in specs:
            others = [other.slug for other in specs if other.slug in measured - {spec.slug}]
            if others:
                shared.append(_under_name(points.filter(pl.col("model").is_in(others)), spec))
    return pl.concat([points, *shared])


def one_architecture(models: ModelCatalogue) -> list[Sequence[ModelSpec]]:
    """The models of the catalogue whose sheets are alike in all but names: groups of two or more, in its order."""
    groups: dict[str, list[ModelSpec]] = {}
    for spec in models:
        groups.setdefault(spec.model_dump_json(exclude=set(NAMES)), []).append(spec)
    return [specs for specs in groups.values() if len(specs) > 1]


def _under_name(points: pl.DataFrame, spec: ModelSpec) -> pl.DataFrame:
    """The rows as rows of that model."""
    named = points.with_columns(shared_from="model", model=pl.lit(spec.slug), model_name=pl.lit(spec.name))
    keys = point_ids(named, without=("source_file", "source_row", "database_mode"))
    return named.with_columns(keys).select(points.columns)
