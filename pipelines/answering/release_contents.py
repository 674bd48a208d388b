"""A release read back: the catalogues and options that it was built with, and single partitions of its tables.

Reads the files of the partitions themselves: the views of all tables take a second to make, and a command that answers
in seconds needs a few files of thousands.
"""

from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import polars as pl
from pydantic import BaseModel, RootModel, ValidationError

from pipelines.building.build_inputs import ENGINES_FILE
from pipelines.lake.names import slug_in_lake
from pipelines.lake.parts import read_file
from pipelines.lake.reader import Release, current_release
from schemas.catalogue import HardwareCatalogue, ModelCatalogue
from schemas.engines import NO_ENGINES, EnginesFile
from schemas.errors import UserError
from schemas.hardware import Hardware
from schemas.models import ModelSpec
from schemas.options import MappingOptions
from schemas.prices import PricedHardware
from schemas.scenarios import Scenario
from schemas.tables import TABLES

EntryT = TypeVar("EntryT", bound=BaseModel)


class _HardwareEntry(RootModel[PricedHardware | Hardware]):
    """A GPU with its price or without one."""


class ReleaseContents:
    """What a release was built with, and its partitions. Made by ``open_contents``."""

    def __init__(self, release: Release) -> None:
        self.release = release

    @cached_property
    def options(self) -> MappingOptions:
        """The mapping's options of the build."""
        config: dict[str, Any] = self.release.manifest.get("config", {})
        return MappingOptions.model_validate(
            {name: config[name] for name in MappingOptions.model_fields if name in config}
        )

    @cached_property
    def hardware(self) -> HardwareCatalogue:
        """The GPUs, each with its price where the build had one."""
        return HardwareCatalogue(tuple(entry.root for entry in self._entries("hardware", _HardwareEntry)))

    @cached_property
    def models(self) -> ModelCatalogue:
        return ModelCatalogue(self._entries("models", ModelSpec))

    @cached_property
    def scenarios(self) -> dict[str, Scenario]:
        return {scenario.slug: scenario for scenario in self._entries("scenarios", Scenario)}

    @cached_property
    def engines(self) -> EnginesFile:
        """The engines that were fitted to the release's measured rows, or given to its build."""
        path = self.release.path / ENGINES_FILE
        return EnginesFile.model_validate_json(path.read_bytes()) if path.exists() else NO_ENGINES

    def model_slug(self, name: str) -> str:
        """The model of the release that a slug, name or alias means. Raises ``UserError`` if there is none."""
        meant = self.models.lookup(name)
        there = self._folders("agent_points", "*", "model=")
        return slug_in_lake(there, name, None if meant is None else meant.slug, "model")

    def scenario(self, name: str) -> Scenario:
        """The scenario of the release with this slug. Raises ``UserError`` if there is none."""
        return self.scenarios[slug_in_lake(sorted(self.scenarios), name, None, "scenario")]

    def hardware_slugs(self, names: Sequence[str], model: str) -> list[str]:
        """The hardware that the names mean, each once; all that has the model where no name is given.

        Raises ``UserError`` for a name that is not in the release or has no point of the model.
        """
        there = [path.name.removeprefix("hardware=") for path in self._glob("agent_points", "hardware=*")]
        with_model = self.hardware_with(model)
        chosen = []
        for name in names:
            meant = self.hardware.lookup(name)
            slug = slug_in_lake(there, name, None if meant is None else meant.slug, "hardware")
            if slug not in with_model:
                raise UserError(f"The lake has no point of {model} on {slug}; it has it on {', '.join(with_model)}.")
            chosen.append(slug)
        return list(dict.fromkeys(chosen)) or with_model

    def hardware_with(self, model: str) -> list[str]:
        """The hardware that has points of the model."""
        there = self._glob("agent_points", f"hardware=*/model={model}")
        return [path.parent.name.removeprefix("hardware=") for path in there]

    def read(
        self,
        table: str,
        hardware: Sequence[str],
        model: str,
        scenario: str | None = None,
        needed: Collection[str] | None = None,
    ) -> pl.DataFrame:
        """The table's partitions of the hardware, model and scenario, in the table's columns.

        Columns that came after the release are NULL. Empty where there is no partition. Raises ``UserError`` where the
        release lacks columns that are ``needed``: all that always say something, where none are named.
        """
        columns = TABLES[table].field_names
        nothing = {field.name: pl.lit(None, field.dtype).alias(field.name) for field in TABLES[table].fields}
        if needed is None:
            needed = {field.name for field in TABLES[table].fields if not field.nullable}
        frames = []
        for slug in hardware:
            keys = {"hardware": slug, "model": model} | ({} if scenario is None else {"scenario": scenario})
            folder = "/".join(f"{key}={value}" for key, value in keys.items())
            for path in self._glob(table, f"{folder}/*.parquet"):
                frame = read_file(path)
                frame = frame.with_columns(pl.lit(value).alias(key) for key, value in keys.items())
                missing = set(columns) - set(frame.columns)
                if without := missing & set(needed):
                    raise self._too_old(table, min(without))
                frame = frame.with_columns(nothing[name] for name in missing)
                frames.append(frame.select(columns))
        if frames:
            return pl.concat(frames)
        return pl.DataFrame(schema={field.name: field.dtype for field in TABLES[table].fields})

    def read_precision(
        self,
        table: str,
        named: Sequence[str],
        model: str,
        scenario: str | None,
        weight_dtype: str | None,
        needed: Collection[str] | None = None,
    ) -> pl.DataFrame:
        """As ``read``, of the hardware that the names mean and of one weight precision, where one is given.

        Raises ``UserError`` where named hardware, or all of it where none is named, lacks the precision.
        """
        hardware = self.hardware_slugs(named, model)
        points = self.read(table, hardware, model, scenario, needed)
        if weight_dtype is None:
            return points
        chosen = points.filter(weight_dtype=weight_dtype)
        lacking = set(hardware) - set(chosen["hardware"].unique())
        if chosen.is_empty() or (named and lacking):
            there = ", ".join(points["weight_dtype"].unique().sort())
            raise UserError(
                f"The lake has no point of {model} with weights in {weight_dtype} on {', '.join(sorted(lacking))}. "
                f"Precisions of {model}: {there}."
            )
        return chosen

    def _entries(self, table: str, kind: type[EntryT]) -> tuple[EntryT, ...]:
        frame = read_file(self.release.path / f"{table}.parquet")
        if "definition" not in frame.columns:
            raise self._too_old(table, "definition")
        try:
            return tuple(kind.model_validate_json(text) for text in frame["definition"])
        except ValidationError:
            raise self._too_old(table, "definition") from None

    def _too_old(self, table: str, column: str) -> UserError:
        return UserError(
            f"Release {self.release.id} was published by another version of the program: its table {table} lacks "
            f"{column} as this version has it. Run `agent-pareto build` on the lake again."
        )

    def _glob(self, table: str, pattern: str) -> list[Path]:
        return sorted((self.release.path / table).glob(pattern))

    def _folders(self, table: str, above: str, prefix: str) -> list[str]:
        return sorted({path.name.removeprefix(prefix) for path in self._glob(table, f"{above}/{prefix}*")})


def open_contents(lake_path: Path) -> ReleaseContents:
    """The current release of a lake. Raises ``UserError`` where there is none."""
    return ReleaseContents(current_release(lake_path))
