"""The star of a release (``schemas/star.py``): its dimensions from the catalogues, its facts from what was computed.

When a release is published its facts lie scattered over some thousand files. So whoever computes points puts their
keys and measures aside, in few files of a hidden folder of the release being written, and those of unchanged
partitions are taken from the release before.
"""

import hashlib
import os
import shutil
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import polars as pl

from pipelines.building.catalogue_tables import hardware_table, models_table, scenarios_table
from pipelines.building.incremental import Key, PartitionRecord, Previous, content_sha256
from pipelines.lake.durable import disk_failures_explained
from pipelines.lake.parts import encode
from pipelines.lake.release import ReleaseWriter
from schemas.catalogue import HardwareCatalogue, ModelCatalogue
from schemas.frames import conform, empty_frame, in_columns_of
from schemas.scenarios import Scenario
from schemas.star import STORED_FACTS
from schemas.tables import TABLES
from transforms.configurations import deployments

_ASIDE: Final = ".facts"
_ORDER: Final = ("hardware", "model", "scenario", "configuration_id", "turn_latency_ms", "point_id")

#: Primary keys of the tables whose rows the DuckDB file holds itself. The facts declare none, and no foreign keys
#: either: indexes over them would be half as large as their rows.
STORED: Final = {name: () if name in STORED_FACTS else table.key for name, table in TABLES.items() if table.stored}
#: Views of some columns of a table.
COLUMNS_OF: Final = {
    name: (table.rows_of, table.field_names) for name, table in TABLES.items() if table.rows_of is not None
}


def write_dimensions(
    points: pl.DataFrame,
    hardware: HardwareCatalogue,
    models: ModelCatalogue,
    scenarios: Iterable[Scenario],
    release: ReleaseWriter,
) -> None:
    """Writes the dimensions; ``points`` are all serving points of the release."""
    frames = {
        "dim_hardware": with_pairs(hardware_table(hardware), points),
        "dim_model": models_table(models),
        "dim_scenario": scenarios_table(scenarios),
        "dim_configuration": deployments(points),
    }
    for name, frame in frames.items():
        release.write_table(name, conform(frame, name))


def put_aside(release: Path, table: str, rows: pl.DataFrame) -> None:
    """Keys and measures of rows of a table. The same rows given again replace themselves."""
    for fact in (fact for fact, wide in STORED_FACTS.items() if wide == table):
        frame = in_columns_of(rows, fact)
        path = release / _ASIDE / fact / f"{content_sha256(frame)}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{uuid.uuid4().hex}")  # others may be writing rows alike, none for instance
        unfinished.write_bytes(encode(frame))
        os.replace(unfinished, path)


def put_aside_again(records: Sequence[PartitionRecord], previous: Previous, release: Path) -> None:
    """The facts of partitions that are carried over from the release before."""
    keys = pl.DataFrame([record.key for record in records if record.key.scenario], Key._fields, orient="row")
    if keys.is_empty():
        return
    for fact, wide in STORED_FACTS.items():
        rows = _facts_before(fact, previous)
        if rows is None:  # made by an earlier version, or damaged; the parts themselves have been looked at
            parts = [(record.key, part.path) for record in records for part in record.parts if part.table == wide]
            rows = pl.concat([empty_frame(fact), *(_facts_of_part(release / path, key, fact) for key, path in parts)])
        put_aside(release, wide, rows.join(keys, on=Key._fields, how="semi"))


def write_facts(release: ReleaseWriter) -> dict[str, str]:
    """Writes the facts that were put aside; the hash of each file. Raises ``ValueError`` if some are missing."""
    hashes = {}
    for fact, wide in STORED_FACTS.items():
        files = sorted((release.staging / _ASIDE / fact).glob("*.parquet"))
        rows = pl.concat([empty_frame(fact), *(pl.read_parquet(file, glob=False) for file in files)])
        rows = rows.unique(TABLES[fact].key, keep="any").sort(_ORDER)
        if rows.height != release.rows(wide):
            raise ValueError(f"{fact}: {rows.height} rows, but {release.rows(wide)} in {wide}")
        release.write_table(fact, rows)
        hashes[fact] = hashlib.sha256((release.staging / f"{fact}.parquet").read_bytes()).hexdigest()
    with disk_failures_explained(release.lake.root):
        shutil.rmtree(release.staging / _ASIDE, ignore_errors=True)
    return hashes


def with_pairs(gpus: pl.DataFrame, points: pl.DataFrame) -> pl.DataFrame:
    """The hardware table with a row for each pair of GPUs that serves together; its figures are the decoding GPU's."""
    pools = ("hardware", "prefill_hardware", "decode_hardware")
    pairs = (
        points.select(pools).unique().filter(pl.col("prefill_hardware") != pl.col("decode_hardware")).sort("hardware")
    )
    names = gpus.select(prefill_hardware="hardware", _prefill_name="hardware_name")
    decoding = gpus.rename({"hardware": "decode_hardware"})
    named = pairs.join(decoding, on="decode_hardware", maintain_order="left").join(names, on="prefill_hardware")
    both = named.with_columns(hardware_name=pl.format("{} and {}", "_prefill_name", "hardware_name"))
    alone = gpus.with_columns(prefill_hardware="hardware", decode_hardware="hardware")
    columns = TABLES["dim_hardware"].field_names
    return pl.concat([alone.select(columns), both.select(columns)])


def _facts_before(fact: str, previous: Previous) -> pl.DataFrame | None:
    """The facts of the release before; None where they are not what was written."""
    try:
        content = (previous.release.path / f"{fact}.parquet").read_bytes()
    except OSError:
        return None
    is_whole = hashlib.sha256(content).hexdigest() == previous.facts.get(fact)
    return pl.read_parquet(content) if is_whole else None


def _facts_of_part(path: Path, key: Key, fact: str) -> pl.DataFrame:
    frame = pl.read_parquet(path, glob=False, hive_partitioning=False)
    return in_columns_of(frame.with_columns(pl.lit(value).alias(name) for name, value in key._asdict().items()), fact)
