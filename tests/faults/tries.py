"""How often a fault is tried, by which seed, and the line that says at the end what was tried and what failed."""

import os
import random
from collections import Counter
from collections.abc import Callable

TIMES = int(os.environ.get("AGENT_PARETO_FAULTS", "1"))
SEED = int(os.environ.get("AGENT_PARETO_FAULTS_SEED", "13"))
#: The property of a test's report that ``tests/conftest.py`` prints after the run.
TRIED = "tried"


def dice(name: str) -> random.Random:
    """Random numbers for one test, the same in every run with one seed."""
    return random.Random(f"{SEED} {name}")


class Tally:
    """Counts what was tried, by kind, and keeps what failed: one failure does not end the others."""

    def __init__(self, record: Callable[[str, object], None], name: str) -> None:
        self._record = record
        self._name = name
        self.tried: Counter[str] = Counter()
        self.failed: list[str] = []

    def trial(self, kind: str, attempt: Callable[[], object], about: str = "") -> None:
        self.tried[kind] += 1
        try:
            attempt()
        except Exception as error:
            self.failed.append(f"{kind} {about}: {type(error).__name__}: {error}")

    def finish(self) -> None:
        """Says what was tried, and fails where anything failed."""
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in self.tried.items())
        self._record(TRIED, f"{self._name} (seed {SEED}): {kinds}; {len(self.failed):,} failed")
        assert not self.failed, "\n".join(self.failed[:20])
