"""Small real builds without Prefect, and what a lake holds as one hash. Importable without pytest."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from pipelines.building import build_inputs, stages
from pipelines.building.builder_lock import hold_lake
from pipelines.building.carrying import compute
from pipelines.building.incremental import PartitionRecord, content_sha256, load_previous
from pipelines.lake.reader import current_release
from pipelines.lake.release import ReleaseWriter, begin_release
from pipelines.reading.catalogues import SHIPPED
from schemas.options import BuildOptions
from schemas.tables import TABLES

CANDIDATES = SHIPPED / "tables" / "aiconfigurator" / "candidates"
#: Name of a small table, and the shipped one whose first rows it has.
SMALL = {
    "h200-qwen.csv": "h200_sxm__qwen3-32b__isl4000_osl1000__agg.csv.gz",
    "h100-qwen.csv": "h100_sxm__qwen3-32b__isl1024_osl1024__agg.csv.gz",
    "h200-llama.csv": "h200_sxm__llama-3.1-8b__isl4000_osl1000__agg.csv.gz",
}


@dataclass(frozen=True)
class Built:
    """What a build did; ``release`` is None where nothing had changed."""

    release: str | None
    computed: list[PartitionRecord]
    carried_over: list[PartitionRecord]
    damaged: int


def write_small_tables(folder: Path, rows: int = 25) -> Path:
    """The small tables in a new folder."""
    folder.mkdir(parents=True)
    for name in SMALL:
        write_small_table(folder, name, rows)
    return folder


def write_small_table(folder: Path, name: str, rows: int) -> None:
    """The first rows of a shipped table."""
    pl.read_csv(CANDIDATES / SMALL[name], infer_schema_length=None).head(rows).write_csv(folder / name)


def build(options: BuildOptions, full: bool = False) -> Built:
    """The stages of the flow one after the other."""
    with hold_lake(options.out, wait_s=60) as lock:
        previous = None if full else load_previous(options.out)
        prepared = build_inputs.prepare_if_changed(options, previous)
        if prepared is None:
            return Built(None, [], [], 0)
        with begin_release(options.out, lock) as release:
            partitions = stages.plan_partitions(build_inputs.synthesize(prepared))
            prepared.let_go_of_points()
            division = stages.divide(prepared, partitions, previous, release)
            computed = compute(division.jobs, stages.workplace(prepared, release))
            stages.adopt(computed + division.records, release)
            release_id = stages.publish(prepared, release, computed + division.records)
    carried = [record for record in division.records if record.key.scenario is not None]
    return Built(release_id, computed, carried, division.damaged)


def carry_all(prepared: build_inputs.Prepared, release: ReleaseWriter) -> None:
    """Computes all partitions and puts them into the release."""
    partitions = stages.plan_partitions(build_inputs.synthesize(prepared))
    prepared.let_go_of_points()
    division = stages.divide(prepared, partitions, None, release)
    stages.adopt(division.records + compute(division.jobs, stages.workplace(prepared, release)), release)


def release_content(lake: Path) -> dict[str, str]:
    """A hash of the sorted content of each table of the current release."""
    folder = current_release(lake).path
    content = {}
    for path in sorted(folder.iterdir()):
        name = path.name.removesuffix(".parquet")
        if name not in TABLES:
            continue
        hive = bool(TABLES[name].partitions) and path.is_dir()
        files = "/**/*.parquet" if path.is_dir() else ""
        schema = {key: pl.String() for key in TABLES[name].partitions}
        frame = pl.read_parquet(f"{path}{files}", hive_partitioning=hive, hive_schema=schema if hive else None)
        frame = frame.select(sorted(frame.columns)).sort(TABLES[name].key)
        content[name] = content_sha256(frame)
    return content


def file_hashes(folder: Path) -> dict[str, str]:
    """The hash of every Parquet file of a release."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*.parquet"))
    }
