"""Catalogues: entries that are found by slug, by name or by any alias.

A name matches whole and exactly, upper and lower case alike. An unknown name is an error that names
the nearest known one; it is never taken for it.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Generic, Protocol, Self, TypeVar

from schemas.errors import UserError
from schemas.hardware import Hardware
from schemas.models import ModelSpec
from schemas.suggest import did_you_mean


class Named(Protocol):
    """What an entry must have to stand in a catalogue."""

    @property
    def slug(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def aliases(self) -> tuple[str, ...]: ...


EntryT = TypeVar("EntryT", bound=Named)


def _folded(name: str) -> str:
    return " ".join(name.split()).casefold()


@dataclass(frozen=True)
class Catalogue(Generic[EntryT]):
    """Entries in the order given. Raises ``UserError`` where two of them claim one slug or name."""

    kind: ClassVar[str]  #: what an entry is called in messages
    remedy: ClassVar[str]  #: how to add one's own
    listed_by: ClassVar[str]  #: the command that lists them

    entries: tuple[EntryT, ...]
    _by_slug: dict[str, EntryT] = field(init=False, repr=False, compare=False)
    _by_name: dict[str, EntryT] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_slug: dict[str, EntryT] = {}
        by_name: dict[str, EntryT] = {}
        for entry in self.entries:
            if entry.slug in by_slug:
                raise UserError(f"{self.kind} {entry.slug!r} is defined twice, with different figures.")
            by_slug[entry.slug] = entry
            for name in (entry.slug, entry.name, *entry.aliases):
                other = by_name.setdefault(_folded(name), entry)
                if other is not entry:
                    both = f"{self.kind} {entry.slug!r} and {self.kind} {other.slug!r}"
                    raise UserError(f"{both} both claim the name {name!r}.")
        object.__setattr__(self, "_by_slug", by_slug)
        object.__setattr__(self, "_by_name", by_name)

    def __iter__(self) -> Iterator[EntryT]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def extended(self, added: Iterable[EntryT]) -> Self:
        """This catalogue and the added entries; an entry equal to one that it has is not added again.

        Raises ``UserError`` where an added entry claims a slug or name of a different entry.
        """
        new = tuple(entry for entry in added if self._by_slug.get(entry.slug) != entry)
        return type(self)(self.entries + new)

    def lookup(self, name: str) -> EntryT | None:
        """The entry of this slug, name or alias; None if there is none."""
        return self._by_name.get(_folded(name))

    def find(self, name: str) -> EntryT:
        """As ``lookup``, but an unknown name raises ``UserError`` with the nearest known one."""
        entry = self.lookup(name)
        if entry is None:
            known = [known for entry in self.entries for known in (entry.slug, entry.name, *entry.aliases)]
            raise UserError(self._unknown(name, known))
        return entry

    def get(self, slug: str) -> EntryT:
        """The entry of exactly this slug; raises ``UserError`` if there is none."""
        if slug not in self._by_slug:
            raise UserError(self._unknown(slug, self._by_slug))
        return self._by_slug[slug]

    def _unknown(self, name: str, known: Iterable[str]) -> str:
        shown = name if len(name) <= 80 else name[:77] + "..."
        few = len(self._by_slug) <= 15
        command = f"`agent-pareto {self.listed_by}` lists the known ones"
        listed = f"Known: {', '.join(self._by_slug)}" if few else command
        return f"Unknown {self.kind} {shown!r}.{did_you_mean(name, known)} {listed}; {self.remedy}."


class HardwareCatalogue(Catalogue[Hardware]):
    """The hardware catalogue.

    A benchmark runner's name may carry the scope ``cluster:`` before it and the runner's index after
    it (``cluster:h200-nv``, ``h200-dgxc-slurm_5``). Both are dropped before the name is looked up;
    the host part (``-nv``) must itself stand in the table.
    """

    kind = "hardware"
    remedy = "add your own with --hardware FILE"
    listed_by = "hardware list"

    _INDEXED_RUNNER = re.compile(r"(?P<runner>[^\s_]+-[^\s_]+)_\d{1,4}")

    def lookup(self, name: str) -> Hardware | None:
        """The entry of this slug, name, alias or runner; None if there is none."""
        bare = name.strip().casefold().removeprefix("cluster:")
        indexed = self._INDEXED_RUNNER.fullmatch(bare)
        return super().lookup(bare) or (super().lookup(indexed["runner"]) if indexed else None)


class ModelCatalogue(Catalogue[ModelSpec]):
    """The model catalogue."""

    kind = "model"
    remedy = "add your own with --models FILE (write it with `agent-pareto models add`)"
    listed_by = "models list"
