"""What a build did, for its summary."""

from dataclasses import dataclass

from pipelines.building.incremental import PartitionRecord
from pipelines.reading.read_inputs import Inputs


@dataclass(frozen=True)
class BuildReport:
    """What a build did. Where nothing had changed, ``release`` is the one that stays and the rest is empty."""

    release: str
    published: bool
    inputs: Inputs | None = None
    shared: int = 0
    synthesized: int = 0
    partitions: tuple[PartitionRecord, ...] = ()
    computed: int = 0
    damaged: int = 0
    pruned: tuple[str, ...] = ()
    unpriced: tuple[str, ...] = ()

    @property
    def rows_computed(self) -> int:
        """Agent points of the partitions that were computed; those come first."""
        return sum(record.agent_points for record in self.partitions[: self.computed])

    @property
    def rows_carried_over(self) -> int:
        """Agent points of the partitions that are as in the release before."""
        return sum(record.agent_points for record in self.partitions[self.computed :])
