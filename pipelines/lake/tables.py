"""What a release says about its tables: ``tables.json``, from which the views are made, now and after a
rollback.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.lake.layout import TABLES, read_json
from schemas.errors import UserError


@dataclass(frozen=True)
class Column:
    """A column as DuckDB names its type, with its description if there is one."""

    name: str
    type: str
    comment: str | None = None


@dataclass(frozen=True)
class Table:
    """A table of a release.

    ``files`` is a pattern of paths relative to the release (``agent_points/**/*.parquet``);
    ``partitioned_by`` names the columns that stand in the folder names; ``columns`` are all columns in order,
    those too.
    """

    name: str
    files: str
    partitioned_by: tuple[str, ...]
    columns: tuple[Column, ...]
    comment: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "files": self.files,
            "partitioned_by": list(self.partitioned_by),
            "comment": self.comment,
            "columns": [{"name": c.name, "type": c.type, "comment": c.comment} for c in self.columns],
        }

    @classmethod
    def from_json(cls, name: str, content: Mapping[str, Any]) -> "Table":
        return cls(
            name=name,
            files=content["files"],
            partitioned_by=tuple(content["partitioned_by"]),
            columns=tuple(Column(c["name"], c["type"], c["comment"]) for c in content["columns"]),
            comment=content["comment"],
        )


def read_tables(release: Path) -> list[Table]:
    """The tables of a release folder, in the order of their names."""
    path = release / TABLES
    content = read_json(path)
    try:
        return [Table.from_json(name, table) for name, table in sorted(content.items())]
    except (KeyError, TypeError) as error:
        raise UserError(f"{path} is not a description of tables: {error!r}.") from error
