"""What a release says about its tables: ``tables.json``, from which the views are made, now and after a
rollback.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipelines.lake.layout import TABLES, damaged, read_json_file


@dataclass(frozen=True)
class Column:
    """A column as DuckDB names its type, with its description if there is one."""

    name: str
    type: str
    comment: str | None = None


@dataclass(frozen=True)
class PublishedTable:
    """A table of a release.

    ``files`` is a pattern of paths relative to the release (``agent_points/**/*.parquet``);
    ``partitioned_by`` names the columns that stand in the folder names; ``columns`` are all columns in order,
    those too. ``stored`` is the primary key of a table whose rows the DuckDB file holds itself, empty where none is
    declared; None where the file has a view.
    """

    name: str
    files: str
    partitioned_by: tuple[str, ...]
    columns: tuple[Column, ...]
    comment: str | None = None
    stored: tuple[str, ...] | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "files": self.files,
            "partitioned_by": list(self.partitioned_by),
            "comment": self.comment,
            "stored": None if self.stored is None else list(self.stored),
            "columns": [{"name": c.name, "type": c.type, "comment": c.comment} for c in self.columns],
        }

    @classmethod
    def from_json(cls, name: str, content: Mapping[str, Any]) -> "PublishedTable":
        stored = content.get("stored")  # releases of the first builds do not say it
        table = cls(
            name=name,
            files=content["files"],
            partitioned_by=tuple(content["partitioned_by"]),
            columns=tuple(Column(c["name"], c["type"], c["comment"]) for c in content["columns"]),
            comment=content["comment"],
            stored=None if stored is None else tuple(stored),
        )
        texts = [name, table.files, *table.partitioned_by, *(table.stored or ())]
        texts += [text for column in table.columns for text in (column.name, column.type)]
        comments = [table.comment, *(column.comment for column in table.columns)]
        if not all(isinstance(text, str) for text in texts) or not all(isinstance(c, str | None) for c in comments):
            raise TypeError(f"table {name}: not all names are texts")
        if not table.columns or ".." in table.files.split("/") or table.files.startswith("/"):
            raise TypeError(f"table {name}: no columns, or files outside the release")
        return table


def read_published_tables(release: Path) -> list[PublishedTable]:
    """The tables of a release folder, in the order of their names."""
    path = release / TABLES
    content = read_json_file(path)
    try:
        return [PublishedTable.from_json(name, table) for name, table in sorted(content.items())]
    except (KeyError, TypeError, AttributeError) as error:
        raise damaged(path, f"is not a description of tables ({error})") from error


def narrow_tables(
    tables: Iterable[PublishedTable],
    table_comments: Mapping[str, str],
    column_comments: Mapping[str, Mapping[str, str]],
    columns_of: Mapping[str, tuple[str, Sequence[str]]],
) -> list[PublishedTable]:
    """Tables of some columns of another one, for those of which the release has that one."""
    by_name = {table.name: table for table in tables}
    narrow = []
    for name, (wide, columns) in columns_of.items():
        if wide in by_name:
            found = {column.name: column for column in by_name[wide].columns}
            described = commented([found[column] for column in columns], column_comments.get(name, {}))
            narrow.append(replace(by_name[wide], name=name, columns=described, comment=table_comments.get(name)))
    return narrow


def commented(columns: Iterable[Column], comments: Mapping[str, str]) -> tuple[Column, ...]:
    """The columns with these comments beside them."""
    return tuple(Column(column.name, column.type, comments.get(column.name)) for column in columns)
