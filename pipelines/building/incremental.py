"""What has changed since the current release: which partitions are computed, and which are carried over.

A partition (hardware, model, scenario) depends on its own serving points, the scenario, the catalogue's rows of
its hardware and model, the mapping options, the code and the schema version: one hash stands for all of that.
Configurations and frontiers never span hardware, so a partition computed alone is as one computed with all.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
from pydantic import BaseModel

from pipelines.lake.layout import Lake, read_json_file
from pipelines.lake.parts import Part
from pipelines.lake.reader import Release, current_id
from pipelines.lake.verify import is_trusted, seems_whole
from pipelines.reading.engines import PRIORS_FILE
from schemas.catalogue import HardwareCatalogue, ModelCatalogue
from schemas.engines import NO_ENGINES, EnginesFile
from schemas.errors import UserError
from schemas.options import BuildOptions, LiveOptions, MappingOptions
from schemas.prices import Price
from schemas.scenarios import Scenario
from schemas.tables import SCHEMA_VERSION
from transforms.sources.rows import FileRejectedError

if TYPE_CHECKING:
    from pipelines.reading.inputs import FoundFile

PARTITIONS_FILE = "partitions.json"
#: Of the options, what changes no row of a release.
NOT_CONTENT = ("out", "runner", "strict", *LiveOptions.model_fields)
#: Files: what they say counts, not where they lie.
FILES = ("tables", "evaluation", "hardware", "models", "prices", "engines")
#: A change of these may move the last digits.
LIBRARIES = ("agent-pareto", "numpy", "polars")
CODE_FOLDERS = ("pipelines", "schemas", "transforms")


class Key(NamedTuple):
    """A partition; without a scenario one of the serving points."""

    hardware: str
    model: str
    scenario: str | None = None

    def __str__(self) -> str:
        return "/".join(part for part in self if part is not None)


@dataclass(frozen=True)
class PartitionRecord:
    """What a release says about one partition: its inputs, its files, and the figures of the summary."""

    hardware: str
    model: str
    scenario: str | None
    inputs_sha256: str
    parts: tuple[Part, ...]
    agent_points: int = 0
    feasible: int = 0
    frontier: int = 0
    best_tasks_per_hour_per_gpu: float | None = None
    best_weight_dtype: str | None = None

    @property
    def key(self) -> Key:
        return Key(self.hardware, self.model, self.scenario)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "PartitionRecord":
        return cls(**{**content, "parts": tuple(Part(**part) for part in content["parts"])})


@dataclass(frozen=True)
class Previous:
    """The current release, as far as the next one can use it."""

    release: Release
    inputs_sha256: str
    faults: int
    records: dict[Key, PartitionRecord] = field(repr=False)
    #: Hash of the file of each fact table.
    facts: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def is_whole(self) -> bool:
        """Whether nothing of it is missing, added or changed, as far as can be told without reading large files."""
        parts = {part.path: part.bytes for record in self.records.values() for part in record.parts}
        return seems_whole(self.release, parts)


def load_previous(lake_path: Path) -> Previous | None:
    """The current release of the lake; None where there is none that says, as it was written, what it was made from."""
    lake = Lake.at(lake_path)
    try:
        release_id = current_id(lake)
        if release_id is None:
            return None
        release = Release(release_id, lake.release(release_id))
        if not is_trusted(release, PARTITIONS_FILE):
            return None
        content = read_json_file(release.path / PARTITIONS_FILE)
        records = [PartitionRecord.from_json(item) for item in content["partitions"]]
        sha256, faults = str(release.manifest["inputs_sha256"]), int(release.manifest["faults"])
        facts = dict(content["facts"])
    except (UserError, KeyError, TypeError, ValueError):
        return None
    return Previous(release, sha256, faults, {record.key: record for record in records}, facts)


def seen_files(files: "Iterable[FoundFile]") -> dict[str, tuple[Any, ...]]:
    """Hashes of each file and of what is read beside it, by the file's name; or why it cannot be read."""
    return {file.shown: _of_file(file) for file in files}


def fingerprint(
    seen: Mapping[str, Sequence[Any]],
    hardware: HardwareCatalogue,
    models: ModelCatalogue,
    scenarios: Sequence[Scenario],
    options: BuildOptions,
    prices: Sequence[Price] = (),
    engines: EnginesFile = NO_ENGINES,
) -> str:
    """A hash of everything that a release is made from; ``seen`` are the files, by ``seen_files``."""
    chosen = options.model_dump(mode="json", exclude={*NOT_CONTENT, *FILES})
    evaluation = options.evaluation.read_bytes() if options.evaluation is not None else b""
    return _sha256_of(
        [
            code_sha256(),
            priors_sha256(),
            SCHEMA_VERSION,
            {**chosen, "scenarios": [_dump(scenario) for scenario in scenarios]},
            options.synthesize is None and options.uses_shipped_tables,
            options.share is None and options.uses_shipped_tables,
            hashlib.sha256(evaluation).hexdigest(),
            [_dump(gpu) for gpu in hardware],
            [_dump(spec) for spec in models],
            [_dump(price) for price in prices],
            _dump(engines),
            sorted(seen.items()),
        ]
    )


class PartitionHasher:
    """Hashes the inputs of partitions; what all of them share is hashed once."""

    def __init__(
        self,
        hardware: HardwareCatalogue,
        models: ModelCatalogue,
        scenarios: Sequence[Scenario],
        options: MappingOptions,
        engines: EnginesFile = NO_ENGINES,
    ) -> None:
        self._common = [code_sha256(), SCHEMA_VERSION, priors_sha256()]
        self._engines = engines.engines
        self._scenarios = {
            scenario.slug: _sha256_of([*self._common, _dump(options), _dump(scenario)]) for scenario in scenarios
        }
        self._gpus = {gpu.slug: _sha256_of([_dump(gpu)]) for gpu in hardware}
        self._models = {spec.slug: _sha256_of([_dump(spec)]) for spec in models}

    def hashes(self, points: pl.DataFrame) -> dict[Key, str]:
        """The hash of every partition of these serving points, those of the serving points among them."""
        hashes = {}
        for (gpu, model), part in points.partition_by("hardware", "model", as_dict=True, maintain_order=True).items():
            content = content_sha256(part)
            pools = sorted({*part["prefill_hardware"].unique(), *part["decode_hardware"].unique()})
            catalogue = [self._models[model], *(self._gpus[pool] for pool in pools)]
            of_both = {"hardware": gpu, "model": model}.items()
            catalogue += [_dump(engine) for engine in self._engines if of_both <= engine.deployment.items()]
            hashes[Key(gpu, model)] = _sha256_of([*self._common, content])
            for scenario, sha256 in self._scenarios.items():
                hashes[Key(gpu, model, scenario)] = _sha256_of([content, catalogue, sha256])
        return hashes


def content_sha256(frame: pl.DataFrame) -> str:
    """A hash of a frame's columns, types and cells in their order, however they lie in memory.

    Columns of text, numbers and booleans.
    """
    digest = hashlib.sha256()
    for column in frame.rechunk():
        digest.update(f"{column.name}\0{column.dtype}\0{len(column)}\0".encode())
        if nulls := column.null_count():
            digest.update(np.packbits(column.is_null().to_numpy()).tobytes())
        if nulls == len(column):
            continue
        if column.dtype == pl.String:
            lengths = column.fill_null("").str.len_bytes()
            letters = column.fill_null("").to_arrow(compat_level=pl.CompatLevel.oldest()).buffers()[2]
            digest.update(lengths.to_numpy().tobytes())
            digest.update(memoryview(letters)[: int(lengths.sum())])
        else:
            digest.update(column.fill_null(False if column.dtype == pl.Boolean else 0).to_numpy().tobytes())
    return digest.hexdigest()


@cache
def code_sha256() -> str:
    """A hash of the source code of this package and of the versions of the libraries that compute."""
    return _sha256_of(code_files())


@cache
def code_files() -> dict[str, str]:
    """The first digits of a hash of each source file, and the version of each library that computes."""
    root = Path(__file__).parents[2]
    paths = [path for folder in CODE_FOLDERS for path in sorted((root / folder).rglob("*.py"))]
    hashes = {path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in paths}
    return hashes | {name: metadata.version(name) for name in LIBRARIES}


def priors_sha256() -> str:
    """A hash of what is expected of engines without a row of theirs."""
    return hashlib.sha256(PRIORS_FILE.read_bytes()).hexdigest()


def _of_file(found: "FoundFile") -> tuple[Any, ...]:
    from pipelines.reading.inputs import open_file  # with every format: what reads a lake needs none of them

    try:
        file = open_file(found)
    except FileRejectedError as error:
        return "", str(error)
    beside = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(file.beside.items())}
    return file.sha256, beside, None if file.sidecar is None else _dump(file.sidecar)


def _dump(model: BaseModel) -> Any:
    return model.model_dump(mode="json")


def _sha256_of(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
