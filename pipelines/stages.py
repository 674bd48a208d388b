"""The stages of a build, each a plain function: prepare, synthesize, carry, publish. No Prefect here."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata

import polars as pl

from pipelines.carrying import Carried, Partition, carry_partition, split_partitions, synthesize_missing
from pipelines.catalogue_tables import hardware_table, models_table, scenarios_table
from pipelines.catalogues import SHIPPED, load_hardware, load_models, load_scenarios
from pipelines.evaluations import load_evaluation
from pipelines.inputs import find_files
from pipelines.lake.release import ReleaseWriter
from pipelines.progress import progress
from pipelines.reading import Inputs, read_inputs
from schemas.catalogue import HardwareCatalogue, ModelCatalogue
from schemas.dictionary import column_comments, render_dictionary
from schemas.errors import UserError
from schemas.frames import conform
from schemas.options import BuildOptions
from schemas.scenarios import Scenario
from schemas.tables import SCHEMA_VERSION, TABLES

SHIPPED_TABLES = SHIPPED / "tables"
#: Agent points that are validated and written together.
BATCH_ROWS = 100_000
READING, CARRYING = "Reading tables", "Carrying points to agents"


class Prepared:
    """All that a build needs from files, read and judged."""

    def __init__(
        self,
        options: BuildOptions,
        hardware: HardwareCatalogue,
        models: ModelCatalogue,
        scenarios: Sequence[Scenario],
        inputs: Inputs,
    ) -> None:
        self.options = options
        self.hardware = hardware
        self.models = models
        self.scenarios = tuple(scenarios)
        self.inputs = inputs


@dataclass(frozen=True)
class PartitionSummary:
    """What one partition gave at one scenario."""

    hardware: str
    model: str
    scenario: str
    agent_points: int
    feasible: int
    frontier: int
    best_tasks_per_hour_per_gpu: float | None


def prepare(options: BuildOptions) -> Prepared:
    """Catalogues, scenarios and tables. Raises ``UserError`` where nothing can be built from them."""
    if options.evaluation is not None:
        load_evaluation(options.evaluation)  # a wrong file is said before the work begins
    hardware, models = load_hardware(options.hardware), load_models(options.models)
    scenarios = load_scenarios(options.scenarios)
    files = find_files(options.tables or (SHIPPED_TABLES,))
    progress().start(READING, len(files))
    inputs = read_inputs(files, hardware, models, on_file=lambda shown: progress().advance(READING))
    if options.strict and inputs.faults:
        raise UserError(f"Nothing was published, because of --strict:\n{faults_in_words(inputs)}")
    if inputs.serving_points.is_empty():
        raise UserError(f"No row of the tables can be used; nothing was published.\n{faults_in_words(inputs)}")
    return Prepared(options, hardware, models, scenarios, inputs)


def synthesize(prepared: Prepared) -> pl.DataFrame:
    """The serving points of the tables, and roofline points where the options ask for them."""
    options, points = prepared.options, prepared.inputs.serving_points
    wanted = not options.tables if options.synthesize is None else options.synthesize
    if not wanted:
        return points
    return pl.concat([points, synthesize_missing(points, prepared.hardware, prepared.models, options.roofline)])


def plan_partitions(points: pl.DataFrame) -> list[Partition]:
    """The partitions to carry, announced to the display."""
    partitions = split_partitions(points)
    progress().start(CARRYING, len(partitions))
    return partitions


def carry(prepared: Prepared, partitions: Sequence[Partition], release: ReleaseWriter) -> list[PartitionSummary]:
    """Carries the partitions to every scenario and writes them into the release, in batches of rows."""
    summaries: list[PartitionSummary] = []
    batch: list[Carried] = []
    for partition in partitions:
        release.write_partitioned("serving_points", partition.points, by=TABLES["serving_points"].partitions)
        batch.extend(
            carry_partition(partition, prepared.scenarios, prepared.hardware, prepared.models, prepared.options.mapping)
        )
        progress().advance(CARRYING)
        if sum(carried.agent_points.height for carried in batch) >= BATCH_ROWS:
            summaries += _write_batch(batch, release)
            batch.clear()
    return summaries + _write_batch(batch, release)


def _write_batch(batch: Sequence[Carried], release: ReleaseWriter) -> list[PartitionSummary]:
    """Validates and writes; a partition is in one batch with all its rows."""
    if not batch:
        return []
    agents = conform(pl.concat([carried.agent_points for carried in batch]), "agent_points")
    frontier = agents.filter(pl.col("on_frontier") | pl.col("on_frontier_3d"))
    operating = conform(pl.concat([carried.operating_points for carried in batch]), "operating_points")
    for table, frame in (("agent_points", agents), ("agent_frontier", frontier), ("operating_points", operating)):
        release.write_partitioned(table, frame, by=TABLES[table].partitions)
    summary = agents.group_by("hardware", "model", "scenario", maintain_order=True).agg(
        agent_points=pl.len().cast(pl.Int64),
        feasible=pl.col("feasible").sum().cast(pl.Int64),
        frontier=pl.col("on_frontier").sum().cast(pl.Int64),
        best_tasks_per_hour_per_gpu=pl.col("tasks_per_hour_per_gpu").filter("feasible").max(),
    )
    return [PartitionSummary(**row) for row in summary.to_dicts()]


def publish(prepared: Prepared, release: ReleaseWriter) -> str:
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
    release.write_text("DATA_DICTIONARY.md", render_dictionary())
    published = release.publish(
        config=options.model_dump(mode="json"),
        code_version=metadata.version("agent-pareto"),
        schema_version=SCHEMA_VERSION,
        inputs=[
            {"path": account.path, "sha256": account.sha256, "format": account.format} for account in inputs.accounts
        ],
        table_comments={name: table.description for name, table in TABLES.items()},
        column_comments={name: column_comments(name) for name in TABLES},
    )
    return published.id


def faults_in_words(inputs: Inputs, at_most: int = 10) -> str:
    """What is not used: a line a file, and a line for the rows of a file that have one fault in common."""
    lines = [
        f"  {account.path}: {account.rejected_reason}"
        for account in inputs.accounts
        if account.rejected_reason is not None
    ]
    alike = inputs.quarantine.group_by("source_file", "reason", "detail", maintain_order=True).agg("source_row")
    lines += [
        f"  {file} {_rows_in_words(rows)}: {detail} ({reason})" for file, reason, detail, rows in alike.iter_rows()
    ]
    more = [f"  ... and {len(lines) - at_most:,} more faults"] if len(lines) > at_most else []
    return "\n".join(lines[:at_most] + more)


def _rows_in_words(rows: Sequence[int]) -> str:
    shown = ", ".join(str(row) for row in rows[:5])
    more = f" and {len(rows) - 5:,} more" if len(rows) > 5 else ""
    return f"row{'s' if len(rows) > 1 else ''} {shown}{more}"
