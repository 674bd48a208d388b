"""What two releases of a lake do not have in common: points gained, lost and moved, by how much and because of what.

A point is the same in both when its configuration, load and scenario are: versions of tools and the file that it
stands in may differ. It has moved when a coordinate has. Partitions that were made from the same inputs are not
read at all.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.lake.diff_causes import Causes, causes, files_of_groups
from pipelines.lake.layout import MANIFEST, damaged
from pipelines.lake.places import register_store
from pipelines.lake.reader import Release, find_release
from pipelines.lake.tables import PublishedTable, read_published_tables
from pipelines.lake.views import quote_name, scan_sql
from schemas.errors import UserError

if TYPE_CHECKING:
    import duckdb

POINT_TABLES = ("agent_points", "agent_frontier", "operating_points")
IDENTITY = (
    "source", "hardware", "prefill_hardware", "decode_hardware", "model", "weight_dtype", "expert_dtype",
    "linear_dtype", "kv_dtype", "attention_dtype", "backend", "serving_mode", "tp", "pp", "dp", "cp", "moe_tp",
    "moe_ep", "prefill_workers", "prefill_tp", "prefill_pp", "prefill_dp", "prefill_cp", "prefill_moe_tp",
    "prefill_moe_ep", "prefill_batch", "decode_workers", "decode_tp", "decode_pp", "decode_dp", "decode_cp",
    "decode_moe_tp", "decode_moe_ep", "decode_batch", "gpus_per_replica", "concurrency_reported", "batch_per_rank",
    "interpolated", "scenario",
)  # fmt: skip
COORDINATES = ("turn_latency_ms", "turns_per_s_per_gpu", "kv_bytes_per_gpu", "sessions")
RELATIVE_TOLERANCE = 1e-9
#: What points are compared by, and what says which of them is best.
GROUP = ("hardware", "model", "scenario")
BEST = {"tasks_per_hour_per_gpu": "DOUBLE", "feasible": "BOOLEAN"}
SIDES = ("old", "new")


@dataclass(frozen=True)
class TableDiff:
    """Rows of one table in both releases, and points that only one has or that have moved."""

    table: str
    rows_before: int
    rows_after: int
    gained: int = 0
    lost: int = 0
    moved: int = 0


@dataclass(frozen=True)
class GroupDiff:
    """Agent points of one GPU, model and scenario: what was gained, lost and moved, by how much, and because of what.

    ``turn_latency_change``: the largest relative change of a point that both have; ``best_*``: tasks an hour per GPU.
    """

    hardware: str
    model: str
    scenario: str
    gained: int
    lost: int
    moved: int
    turn_latency_change: float | None
    best_before: float | None
    best_after: float | None
    because: list[str]

    @property
    def best_change(self) -> float | None:
        """By how much the best has changed, relatively; None where one of them has none."""
        if not self.best_before or self.best_after is None:
            return None
        return self.best_after / self.best_before - 1.0


@dataclass(frozen=True)
class LostRows:
    """An input file that gives fewer usable rows than before; none where it is no longer there."""

    path: str
    tool: str | None
    rows_before: int
    rows_after: int


@dataclass(frozen=True)
class ReleaseDiff:
    """Everything that differs; ``lost_rows`` is the alarm."""

    before: str
    after: str
    partitions_changed: int | None
    tables: list[TableDiff]
    lost_rows: list[LostRows]
    causes: list[str]
    groups: list[GroupDiff]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def diff_releases(lake_path: Path, before_id: str, after_id: str) -> ReleaseDiff:
    """Compare two releases of a lake. Raises ``UserError`` where one is not there or cannot be read."""
    import duckdb

    before, after = find_release(lake_path, before_id), find_release(lake_path, after_id)
    connection = duckdb.connect(":memory:")
    try:
        register_store(connection, after.path)
        changed = _changed_partitions(before, after)
        differing = causes(before, after)
        groups: list[GroupDiff] = []
        tables = []
        for name in POINT_TABLES:
            tables.append(_diff_table(connection, before, after, name, changed))
            if name == "agent_points" and tables[0] is not None:
                groups = _groups(connection, before, after, differing)
        lost = _lost_rows(connection, before, after)
    except duckdb.Error as error:
        raise UserError(f"Releases {before.id} and {after.id} cannot be compared: {error}") from error
    finally:
        connection.close()
    number = None if changed is None else len(changed)
    compared = [table for table in tables if table is not None]
    return ReleaseDiff(before.id, after.id, number, compared, lost, differing.sentences(), groups)


def _changed_partitions(before: Release, after: Release) -> set[str] | None:
    """Folders of the partitions whose inputs differ; None where a release does not say what it was made from."""
    old, new = (release.manifest.get("partitions") for release in (before, after))
    if not isinstance(old, dict) or not isinstance(new, dict):
        return None
    differing = {key for key in {*old, *new} if old.get(key) != new.get(key)}
    names = ("hardware", "model", "scenario")
    keys = [key.split("/") for key in differing if key.count("/") == len(names) - 1]
    return {"/".join(f"{name}={value}" for name, value in zip(names, key, strict=True)) for key in keys}


def _diff_table(
    connection: duckdb.DuckDBPyConnection, before: Release, after: Release, name: str, changed: set[str] | None
) -> TableDiff | None:
    rows = [_rows(release, name) for release in (before, after)]
    if rows[0] is None or rows[1] is None:
        return None
    # of releases of two schema versions, what both have
    there = {column.name for column in _table(before, name).columns} & {c.name for c in _table(after, name).columns}
    identity = [column for column in IDENTITY if column in there]
    coordinates = [column for column in COORDINATES if column in there]
    for side, release in zip(SIDES, (before, after), strict=True):
        points = _points_sql(release, name, changed, identity, coordinates, there)
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {side} AS {points}")
    moved = " OR ".join(
        f"old.{column} IS DISTINCT FROM new.{column} AND coalesce(abs(old.{column} - new.{column}) > "
        f"{RELATIVE_TOLERANCE} * greatest(abs(old.{column}), abs(new.{column})), true)"
        for column in coordinates
    )
    there_in_both = f"old.point IS NOT NULL AND new.point IS NOT NULL AND ({moved})"
    group = ", ".join(f"coalesce(old.{key}, new.{key}) AS {key}" for key in GROUP)
    best = ", ".join(f"max({side}.tasks_per_hour_per_gpu) FILTER ({side}.feasible) AS best_{side}" for side in SIDES)
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE groups AS SELECT {group}, "
        "count(*) FILTER (old.point IS NULL) AS gained, count(*) FILTER (new.point IS NULL) AS lost, "
        f"count(*) FILTER ({there_in_both}) AS moved, "
        f"max(abs(new.turn_latency_ms / old.turn_latency_ms - 1)) AS turn_latency_change, {best} "
        "FROM old FULL JOIN new ON old.point = new.point AND old.number = new.number GROUP BY ALL"
    )
    counted = connection.execute("SELECT sum(gained), sum(lost), sum(moved) FROM groups").fetchall()[0]
    return TableDiff(name, rows[0], rows[1], *(int(count or 0) for count in counted))


def _groups(
    connection: duckdb.DuckDBPyConnection, before: Release, after: Release, differing: Causes
) -> list[GroupDiff]:
    """Groups of the table compared last in which something differs, the largest change of the best first."""
    rows = connection.execute(
        "SELECT hardware, model, scenario, gained, lost, moved, turn_latency_change, best_old, best_new FROM groups "
        "WHERE gained + lost + moved > 0 "
        "ORDER BY abs(best_new / best_old - 1) DESC NULLS LAST, gained + lost + moved DESC, hardware, model, scenario"
    ).fetchall()
    read = [files_of_groups(connection, release) for release in (before, after)]
    groups = []
    for hardware, model, scenario, gained, lost, moved, latency_change, best_old, best_new in rows:
        files = frozenset().union(*(side.get((hardware, model), frozenset()) for side in read))
        because = differing.of_group(hardware, model, scenario, files)
        counts = gained, lost, moved
        groups.append(GroupDiff(hardware, model, scenario, *counts, latency_change, best_old, best_new, because))
    return groups


def _rows(release: Release, name: str) -> int | None:
    """Rows of a table; None where the release does not have it. Raises ``UserError`` for a damaged manifest."""
    try:
        table = release.manifest["tables"].get(name)
        return None if table is None else int(table["rows"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(release.path / MANIFEST, f"is no manifest ({error!r})") from error


def _points_sql(
    release: Release,
    name: str,
    changed: set[str] | None,
    identity: Sequence[str],
    coordinates: Sequence[str],
    there: Collection[str],
) -> str:
    """Identity, as a hash, coordinates, group, and what says which is best, of the points in the changed partitions.

    ``number`` tells rows apart that are alike in all that identifies them.
    """
    table = _table(release, name)
    types = dict.fromkeys(GROUP, "VARCHAR") | dict.fromkeys(COORDINATES, "DOUBLE") | BEST
    read = [column for column in dict.fromkeys((*identity, *coordinates, *types)) if column in there]
    scans = [scan_sql(release.path, files, table.partitioned_by, read) for files in _files(release, table, changed)]
    if not scans:
        nothing = ", ".join(f"NULL::{kind} AS {column}" for column, kind in types.items())
        return f"SELECT NULL::UBIGINT AS point, NULL::BIGINT AS number, {nothing} WHERE false"
    point = f"hash({', '.join(map(quote_name, identity))})"
    columns = ", ".join(column if column in there else f"NULL::{kind} AS {column}" for column, kind in types.items())
    return (
        f"SELECT {point} AS point, row_number() OVER (PARTITION BY {point} ORDER BY {', '.join(coordinates)}) "
        f"AS number, {columns} FROM ({' UNION ALL '.join(scans)})"
    )


def _files(release: Release, table: PublishedTable, changed: set[str] | None) -> list[str]:
    if changed is None or not table.partitioned_by:
        return [table.files]
    folders = (f"{table.name}/{folder}" for folder in sorted(changed))
    return [f"{folder}/*.parquet" for folder in folders if (release.path / folder).is_dir()]


def _table(release: Release, name: str) -> PublishedTable:
    return next(table for table in read_published_tables(release.path) if table.name == name)


def _lost_rows(connection: duckdb.DuckDBPyConnection, before: Release, after: Release) -> list[LostRows]:
    """Files that give fewer usable rows. A file that has another name now has lost nothing."""
    old, new = (
        f"(SELECT path, tool, sha256, rows_read - rows_quarantined AS usable FROM {scan})"
        for scan in (_sources_sql(before), _sources_sql(after))
    )
    found = connection.execute(
        f"SELECT old.path, old.tool, old.usable, coalesce(new.usable, 0) "
        f"FROM {old} old LEFT JOIN {new} new USING (path) WHERE coalesce(new.usable, 0) < old.usable "
        f"AND NOT (new.path IS NULL AND old.sha256 IN (SELECT sha256 FROM {new})) ORDER BY old.path"
    ).fetchall()
    return [LostRows(*row) for row in found]


def _sources_sql(release: Release) -> str:
    columns = ("path", "tool", "sha256", "rows_read", "rows_quarantined")
    return f"({scan_sql(release.path, _table(release, 'sources').files, (), columns)})"
