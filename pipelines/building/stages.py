"""The stages of a build after its inputs are read, each a plain function: divide, publish. No Prefect here.

What comes before is ``build_inputs.py``; what stands between, carrying the points, is ``carrying.py``.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata

import polars as pl

from pipelines.building.build_inputs import ENGINES_FILE, Prepared
from pipelines.building.carrying import (
    CARRYING,
    Job,
    Partition,
    Workplace,
    split_partitions,
)
from pipelines.building.catalogue_tables import hardware_table, models_table, prices_table, scenarios_table
from pipelines.building.incremental import (
    PARTITIONS_FILE,
    Key,
    PartitionHasher,
    PartitionRecord,
    Previous,
    code_files,
)
from pipelines.building.star import COLUMNS_OF, STORED, put_aside_again, write_dimensions, write_facts
from pipelines.lake.durable import disk_failures_explained
from pipelines.lake.parts import DamagedPartError, link_part, write_parts
from pipelines.lake.release import ReleaseWriter
from pipelines.progress import progress
from pipelines.reading.evaluations import load_evaluation
from schemas.dictionary import column_comments, dictionary_table, render_dictionary
from schemas.frames import empty_frame
from schemas.tables import SCHEMA_VERSION, TABLES
from transforms.configurations import in_curve_order

PARTITIONED = ("serving_points", "agent_points", "agent_frontier", "operating_points", "mix_components")
#: Files that are linked or copied at a time: a file system answers several as fast as one.
LINKING_THREADS = 8


@dataclass(frozen=True)
class Division:
    """The release to come: partitions that stand in it already, and the jobs that give the others."""

    records: list[PartitionRecord]
    jobs: list[Job]
    damaged: int


def plan_partitions(points: pl.DataFrame) -> list[Partition]:
    """The points by model, largest first."""
    return split_partitions(points)


def divide(
    prepared: Prepared, partitions: Sequence[Partition], previous: Previous | None, release: ReleaseWriter
) -> Division:
    """Puts into the release what is as in ``previous``, and the other serving points; the rest are jobs."""
    every_point = pl.concat([partition.points for partition in partitions])
    write_dimensions(every_point, prepared.hardware, prepared.models, prepared.scenarios, release)
    hasher = PartitionHasher(
        prepared.hardware, prepared.models, prepared.scenarios, prepared.options.mapping, prepared.engines
    )
    hashes = {partition.model: hasher.hashes(partition.points) for partition in partitions}
    every = {key: sha256 for of_model in hashes.values() for key, sha256 in of_model.items()}
    kept: list[PartitionRecord] = []
    damaged = 0
    if previous is not None:
        kept, damaged = _link_unchanged(every, previous, release)
        put_aside_again(kept, previous, release.staging)
    there = {record.key for record in kept}
    jobs = []
    for partition in partitions:
        missing = {key: sha256 for key, sha256 in hashes[partition.model].items() if key not in there}
        kept += _write_serving_points(partition, missing, release)
        wanted = {key: sha256 for key, sha256 in missing.items() if key.scenario is not None}
        if wanted:
            jobs.append(Job(partition.model, wanted))
    progress().start(CARRYING, len(jobs))
    return Division(kept, jobs, damaged)


def _write_serving_points(
    partition: Partition, missing: Mapping[Key, str], release: ReleaseWriter
) -> list[PartitionRecord]:
    """Writes the serving points of each GPU that the release does not have yet."""
    gpus = [key.hardware for key in missing if key.scenario is None]
    if not gpus:
        return []
    points = in_curve_order(partition.points.filter(pl.col("hardware").is_in(gpus)))
    with disk_failures_explained(release.lake.root):
        parts = write_parts(release.staging, "serving_points", points, TABLES["serving_points"].partitions)
    keys = {f"hardware={gpu}/model={partition.model}": Key(gpu, partition.model) for gpu in gpus}
    return [
        PartitionRecord(*keys[part.folder], inputs_sha256=missing[keys[part.folder]], parts=(part,)) for part in parts
    ]


def _link_unchanged(
    hashes: Mapping[Key, str], previous: Previous, release: ReleaseWriter
) -> tuple[list[PartitionRecord], int]:
    """Links the unchanged partitions; gives their records, and how many of them turned out to be damaged."""
    same = [record for key, record in previous.records.items() if hashes.get(key) == record.inputs_sha256]

    def link_partition(record: PartitionRecord) -> PartitionRecord | None:
        try:
            for part in record.parts:
                link_part(part, previous.release.path, release.staging)
        except DamagedPartError:
            for part in record.parts:
                (release.staging / part.path).unlink(missing_ok=True)
            return None
        return record

    with disk_failures_explained(release.lake.root), ThreadPoolExecutor(LINKING_THREADS) as threads:
        carried = [record for record in threads.map(link_partition, same) if record is not None]
    return carried, len(same) - len(carried)


def workplace(prepared: Prepared, release: ReleaseWriter) -> Workplace:
    """What the jobs of this build need."""
    return Workplace(
        release.staging,
        prepared.hardware,
        prepared.models,
        prepared.scenarios,
        prepared.options.mapping,
        prepared.engines,
    )


def adopt(records: Iterable[PartitionRecord], release: ReleaseWriter) -> None:
    """Makes the files of the records part of the release."""
    parts = [part for record in records for part in record.parts]
    for table in PARTITIONED:
        schema, by = empty_frame(table).schema, TABLES[table].partitions
        release.adopt(table, schema, by, (part for part in parts if part.table == table))


def publish(prepared: Prepared, release: ReleaseWriter, records: Sequence[PartitionRecord] = ()) -> str:
    """Writes the tables that have no partitions and publishes; gives the release's id."""
    inputs, options = prepared.inputs, prepared.options
    release.write_table("quarantine", inputs.quarantine, folder=True)
    release.write_table("sources", inputs.sources, folder=True)
    if not inputs.measured_agentic.is_empty():
        release.write_table("measured_agentic", inputs.measured_agentic)
    if options.evaluation is not None:
        release.write_table("evaluation", load_evaluation(options.evaluation))
    release.write_table("hardware", hardware_table(prepared.hardware))
    release.write_table("models", models_table(prepared.models))
    release.write_table("scenarios", scenarios_table(prepared.scenarios))
    release.write_table("prices", prices_table(prepared.prices))
    release.write_table("data_dictionary", dictionary_table())
    facts = write_facts(release)
    release.write_text("DATA_DICTIONARY.md", render_dictionary())
    if prepared.engines.engines:
        release.write_text(ENGINES_FILE, prepared.engines.model_dump_json())
    extra: dict[str, object] = {
        "faults": inputs.faults,
        "code": code_files(),
        "prices": [price.model_dump(mode="json") for price in prepared.prices],
    }
    if records and prepared.inputs_sha256 is not None:  # the next build may start from this release
        records = sorted(records, key=lambda record: str(record.key))
        extra["inputs_sha256"] = prepared.inputs_sha256
        extra["partitions"] = {str(record.key): record.inputs_sha256 for record in records}
        content = {"partitions": [record.to_json() for record in records], "facts": facts}
        release.write_text(PARTITIONS_FILE, json.dumps(content))
    published = release.publish(
        config=options.model_dump(mode="json"),
        code_version=metadata.version("agent-pareto"),
        schema_version=SCHEMA_VERSION,
        inputs=[
            {"path": account.path, "sha256": account.sha256, "format": account.format} for account in inputs.accounts
        ],
        table_comments={name: table.description for name, table in TABLES.items()},
        column_comments={name: column_comments(name) for name in TABLES},
        stored=STORED,
        columns_of=COLUMNS_OF,
        extra=extra,
    )
    return published.id
