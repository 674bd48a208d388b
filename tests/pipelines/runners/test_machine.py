"""How many threads a build has: the machine's cores, as far as its memory lasts."""

import os
import pickle
from pathlib import Path

import pytest

from pipelines.building.held_lake import HeldLake, hold
from pipelines.runners import machine
from pipelines.runners.machine import build_threads, memory_bytes
from schemas.options import BuildOptions, RunOptions
from tests.pipelines.builds import write_small_tables

GIB = 2**30


@pytest.mark.parametrize(
    ("cores", "memory", "threads"), [(2, 24 * GIB, 2), (64, 16 * GIB, 16), (8, GIB // 2, 1), (1, 64 * GIB, 1)]
)
def test_threads(monkeypatch: pytest.MonkeyPatch, cores: int, memory: int, threads: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)), raising=False)
    monkeypatch.setattr(machine, "memory_bytes", lambda: memory)
    assert build_threads() == threads


@pytest.mark.parametrize(("limit", "counts"), [("2147483648\n", True), ("max\n", False), (None, False)])
def test_a_container_may_have_less_memory_than_its_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, limit: str | None, counts: bool
) -> None:
    monkeypatch.setattr(machine, "_CGROUP_LIMITS", (tmp_path / "memory.max",))
    whole = memory_bytes()
    if limit is not None:
        (tmp_path / "memory.max").write_text(limit)
    assert memory_bytes() == (2 * GIB if counts else whole)


def test_a_held_lake_reads_once_and_stays_in_its_process(tmp_path: Path) -> None:
    """Prefect pickles a flow's arguments for the workers of a cluster: a lock and gigabytes must not go along."""
    options = BuildOptions(tables=(write_small_tables(tmp_path / "tables"),), out=tmp_path / "lake")
    with hold(options, RunOptions(threads=1)) as lake:
        prepared = lake.prepared()
        assert prepared is not None
        assert lake.prepared() is prepared
        assert lake.threads == 1
        assert not isinstance(pickle.loads(pickle.dumps(lake)), HeldLake)
        assert not hasattr(lake, "__dict__")
