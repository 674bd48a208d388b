"""What a table of a lake is."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from schemas.fields import FIELDS, Field


@dataclass(frozen=True)
class Table:
    """One table: its fields in order, what makes a row unique, and its partition columns.

    ``rows_of``: the table is a view of some columns of that one and has no files. ``stored``: the DuckDB file holds
    the rows itself, and does not read them from the release's files. ``references``: column to the table that it is
    the key of.
    """

    name: str
    description: str
    field_names: tuple[str, ...]
    key: tuple[str, ...]
    partitions: tuple[str, ...] = ()
    rows_of: str | None = None
    stored: bool = False
    references: Mapping[str, str] = field(default_factory=dict)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields, in the order of the columns."""
        return tuple(FIELDS[name] for name in self.field_names)
