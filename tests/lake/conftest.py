"""Child processes that start fast: forked from a server that has imported what they need but started no thread."""

import multiprocessing
from collections.abc import Callable
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def children() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.lake.factory"])
    return context


@pytest.fixture
def run_child(children: ForkServerContext) -> Callable[..., int | None]:
    """Run a function of ``tests.lake.factory`` in a child; its exit code, negative if a signal ended it."""

    def run(target: Callable[..., Any], *args: Any) -> int | None:
        process = children.Process(target=target, args=args)
        process.start()
        process.join(60)
        assert process.exitcode is not None, "the child hangs"
        return process.exitcode

    return run


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"
