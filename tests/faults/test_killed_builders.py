"""Builders that are killed, that meet, that are stopped and resumed: readers see whole releases and nothing else."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import pytest

from pipelines.lake.layout import Lake
from pipelines.lake.reader import current_release, last_builder, list_releases
from pipelines.lake.retention import prune
from tests.faults import builders, tries
from tests.lake.factory import publish_number, seen_by_database, seen_by_polars, seen_by_query
from tests.pipelines.builds import build

pytestmark = pytest.mark.slow

KILLED_BUILDS = 120 * tries.TIMES
KILLED_PUBLICATIONS = 100 * tries.TIMES
MEETINGS = 12 * tries.TIMES
STOPS = 14 * tries.TIMES
#: A builder that shows no sign of life for so long is taken for dead in these tests.
EXPIRES_S = 1.0


@pytest.fixture
def tally(record_property: Callable[[str, object], None], request: pytest.FixtureRequest) -> tries.Tally:
    return tries.Tally(record_property, request.node.name.removeprefix("test_").replace("_", " "))


@pytest.fixture(scope="module")
def forks() -> ForkServerContext:
    import multiprocessing

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.faults.builders"])
    return context


class Child:
    """A builder in a process of its own, which tells how far it has come."""

    def __init__(self, forks: ForkServerContext, target: Callable[..., None], *arguments: Any) -> None:
        self._told, tell = forks.Pipe(duplex=False)
        self.process = forks.Process(target=target, args=[tell if item is TELL else item for item in arguments])
        self.process.start()
        tell.close()

    def wait_for(self, word: str) -> None:
        while self._told.poll(60) and self._told.recv() != word:
            pass

    def end(self, how: signal.Signals) -> None:
        assert self.process.pid is not None
        with suppress(ProcessLookupError):  # it has ended by itself
            os.kill(self.process.pid, how)

    def exit_code(self) -> int | None:
        self.process.join(120)
        assert self.process.exitcode is not None, "the builder hangs"
        self._told.close()
        return self.process.exitcode


TELL = object()


def known_figures(folder: Path) -> tuple[dict[tuple[object, ...], int], float]:
    """The figures of each version's release, by which it is told, and how long a build takes."""
    known = {}
    took = 0.0
    for version in range(len(builders.VERSIONS)):
        began = time.monotonic()
        build(builders.small_options(folder, version), full=True)
        took = time.monotonic() - began
        known[builders.figures(folder / "lake")] = version
    assert len(known) == len(builders.VERSIONS)
    return known, took


def test_whole_builds_killed_at_random_times(tmp_path: Path, forks: ForkServerContext, tally: tries.Tally) -> None:
    known, took = known_figures(tmp_path)
    dice = tries.dice("whole builds")
    lake = tmp_path / "lake"

    def kill_one() -> None:
        before = builders.assert_whole(lake, known)
        version = dice.randrange(len(builders.VERSIONS))
        child = Child(forks, builders.build_in_child, builders.small_options(tmp_path, version), TELL)
        child.wait_for("begins")
        time.sleep(dice.uniform(0.0, 0.9 * took))
        child.end(signal.SIGKILL)
        was_killed = child.exit_code() == -signal.SIGKILL
        assert builders.assert_whole(lake, known) in ((before, version) if was_killed else (version,))

    def build_one() -> None:
        version = dice.randrange(len(builders.VERSIONS))
        build(builders.small_options(tmp_path, version), full=True)
        assert builders.assert_whole(lake, known) == version
        builders.assert_tidy(lake)
        prune(lake, keep=2)

    for number in range(KILLED_BUILDS):
        tally.trial("killed builds", kill_one, str(number))
        if number % 10 == 9:
            tally.trial("builds after them", build_one, str(number))
    tally.finish()


def test_publications_killed_at_random_times(tmp_path: Path, forks: ForkServerContext, tally: tries.Tally) -> None:
    lake = tmp_path / "lake"
    dice = tries.dice("publications")
    began = time.monotonic()
    publish_number(lake, 0)
    took = time.monotonic() - began
    number = 0

    def kill_one() -> None:
        nonlocal number
        before = seen_by_query(lake)
        number += 1
        child = Child(forks, builders.publish_in_child, lake, number, TELL)
        child.wait_for("publishes")
        time.sleep(dice.uniform(0.0, took))
        child.end(signal.SIGKILL)
        child.exit_code()
        seen = seen_by_query(lake)
        assert seen in (before, number)
        assert seen_by_polars(lake) == seen
        assert seen_by_database(lake) in (before, seen)

    def publish_one() -> None:
        nonlocal number
        number += 1
        publish_number(lake, number)
        assert seen_by_query(lake) == seen_by_database(lake) == seen_by_polars(lake) == number
        prune(lake, keep=2)

    for trial in range(KILLED_PUBLICATIONS):
        tally.trial("killed publications", kill_one, str(trial))
        if trial % 10 == 9:
            tally.trial("publications after them", publish_one, str(trial))
    tally.finish()


def test_two_and_three_builders_at_once(tmp_path: Path, forks: ForkServerContext, tally: tries.Tally) -> None:
    """All want to build at one moment; in every other meeting one is killed."""
    known, took = known_figures(tmp_path)
    dice = tries.dice("meetings")
    lake = tmp_path / "lake"

    def meet(kill: bool) -> None:
        before = last_builder(Lake.at(lake))
        there = len(list_releases(lake))
        versions = [dice.randrange(len(builders.VERSIONS)) for _ in range(dice.choice((2, 3)))]
        options = [builders.small_options(tmp_path, version) for version in versions]
        children = [Child(forks, builders.build_in_child, each, TELL) for each in options]
        if kill:
            children[0].wait_for("begins")
            time.sleep(dice.uniform(0.0, took))
            children[0].end(signal.SIGKILL)
        codes = [child.exit_code() for child in children]
        assert set(codes[1:]) == {0}, codes
        assert codes[0] == 0 or kill
        assert builders.assert_whole(lake, known) in versions
        releases = list_releases(lake)
        assert 0 <= len(releases) - there - codes.count(0) <= int(kill)
        if not kill:  # nobody published over another's head
            new = releases[there:]
            assert [after.manifest["previous"] for after in new[1:]] == [release.id for release in new[:-1]]
        assert last_builder(Lake.at(lake)) >= before + codes.count(0)
        assert current_release(lake) == releases[-1]

    for number in range(MEETINGS):
        kill = number % 2 == 1
        tally.trial("meetings, one killed" if kill else "meetings", partial(meet, kill), str(number))
    build(builders.small_options(tmp_path, 0), full=True)
    builders.assert_tidy(lake)
    tally.finish()


def test_builders_stopped_and_resumed(tmp_path: Path, forks: ForkServerContext, tally: tries.Tally) -> None:
    """What a builder has made that was stopped for long never comes over the release of the one after it."""
    known, took = known_figures(tmp_path)
    dice = tries.dice("stops")
    lake = tmp_path / "lake"

    def stop_one() -> None:
        old, new = dice.sample(range(len(builders.VERSIONS)), 2)
        first = Child(forks, builders.build_in_child, builders.small_options(tmp_path, old), TELL, EXPIRES_S)
        first.wait_for(dice.choice(("begins", "publishes")))
        time.sleep(dice.uniform(0.0, 0.5 * took))
        first.end(signal.SIGSTOP)
        second = Child(forks, builders.build_in_child, builders.small_options(tmp_path, new), TELL, EXPIRES_S)
        try:
            builders.wait_until(lambda: not second.process.is_alive(), dice.choice((0.5, EXPIRES_S, 4.0, 8.0)))
        finally:
            first.end(signal.SIGCONT)
        codes = first.exit_code(), second.exit_code()
        assert set(codes) <= {0, builders.REFUSED}, codes
        assert 0 in codes
        # the second began later: where both have published, it stands
        assert builders.assert_whole(lake, known) == (new if codes[1] == 0 else old)

    for number in range(STOPS):
        tally.trial("stopped builders", stop_one, str(number))
    build(builders.small_options(tmp_path, 0), full=True)
    builders.assert_tidy(lake)
    tally.finish()
