"""Builds of one lake exclude each other; dead ones block nobody; two lakes have nothing to do with each other."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.building import builder_lock
from pipelines.building.builder_lock import LOCK_FILE, hold_lake
from pipelines.lake.locks import boot_id
from pipelines.lake.reader import list_releases
from pipelines.lake.release import begin_release
from schemas.errors import UserError
from tests.lake.factory import FIELDS, seen_by_database, seen_by_query, write_release

ROOT = Path(__file__).parents[3]
HOLD = """
import sys, time
from pathlib import Path
from pipelines.building.builder_lock import hold_lake
with hold_lake(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""
COUNT = """
import sys, time
from pathlib import Path
from pipelines.building.builder_lock import hold_lake
folder = Path(sys.argv[1])
for _ in range(int(sys.argv[2])):
    with hold_lake(folder, wait_s=60):
        number = int((folder / "number").read_text())
        time.sleep(0.01)
        (folder / "number").write_text(str(number + 1))
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a script as a process; what still runs after the test is ended."""
    started: list[subprocess.Popen[str]] = []

    def start_script(script: str, *arguments: object) -> "subprocess.Popen[str]":
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", script, *map(str, arguments)],
                cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
            )
        )  # fmt: skip
        return started[-1]

    yield start_script
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def held(start: Start, tmp_path: Path) -> "subprocess.Popen[str]":
    """Another process that holds the lock of ``tmp_path / "lake"``."""
    process = start(HOLD, tmp_path / "lake")
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_build_is_told_who_holds_the_lake_and_since_when(
    held: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    words = (
        rf"{tmp_path}/lake is being built by process {held.pid} of \S+ on {socket.gethostname()} since 20\d\d-.* UTC"
    )
    with pytest.raises(UserError, match=words), hold_lake(tmp_path / "lake"):
        pass
    with pytest.raises(UserError, match="Wait until that build has ended, or stop it"), hold_lake(tmp_path / "lake"):
        pass


def test_two_lakes_do_not_exclude_each_other(held: "subprocess.Popen[str]", tmp_path: Path) -> None:
    with hold_lake(tmp_path / "other"):
        assert held.poll() is None


def test_one_lake_by_two_paths_is_one_lake(held: "subprocess.Popen[str]", tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    with pytest.raises(UserError, match=f"process {held.pid}"), hold_lake(tmp_path / "link"):
        pass


def test_a_waiting_build_goes_on_when_the_first_has_ended(held: "subprocess.Popen[str]", tmp_path: Path) -> None:
    said: list[str] = []

    def end_the_other(sentence: str) -> None:
        said.append(sentence)
        os.kill(held.pid, signal.SIGTERM)

    with hold_lake(tmp_path / "lake", wait_s=30, on_wait=end_the_other):
        pass
    assert len(said) == 1
    assert f"process {held.pid}" in said[0]


def test_a_killed_build_blocks_nobody(held: "subprocess.Popen[str]", tmp_path: Path) -> None:
    os.kill(held.pid, signal.SIGKILL)
    held.wait()
    with hold_lake(tmp_path / "lake"):
        pass


def test_a_stopped_build_loses_the_lock_when_it_expires(
    held: "subprocess.Popen[str]", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.kill(held.pid, signal.SIGSTOP)
    with pytest.raises(UserError, match=f"process {held.pid}"), hold_lake(tmp_path / "lake"):
        pass
    monkeypatch.setattr(builder_lock, "EXPIRES_S", 0.5)
    with hold_lake(tmp_path / "lake", wait_s=30) as mine:
        owner = json.loads((tmp_path / "lake" / LOCK_FILE).read_text())
        assert owner["pid"] == os.getpid()
        mine.check()


def test_a_build_that_lost_the_lock_stops_before_publishing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder_lock, "HEARTBEAT_S", 3600.0)
    with hold_lake(tmp_path) as first:
        first.check()
        monkeypatch.setattr(builder_lock, "EXPIRES_S", 0.3)
        with hold_lake(tmp_path, wait_s=30) as second:
            with pytest.raises(UserError, match="another one has taken over"):
                first.check()
            second.check()
            first.renew()  # a late sign of life reaches its own file only
            assert json.loads((tmp_path / LOCK_FILE).read_text())["number"] == second.number == first.number + 1
            monkeypatch.setattr(builder_lock, "EXPIRES_S", 120.0)
            with pytest.raises(UserError, match="is being built"), hold_lake(tmp_path):
                pass
    assert not (tmp_path / LOCK_FILE).exists()


@pytest.mark.slow
def test_a_live_holder_keeps_the_lock_beyond_its_expiry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder_lock, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(builder_lock, "EXPIRES_S", 5.0)
    with hold_lake(tmp_path) as lock:
        with pytest.raises(UserError, match="is being built"), hold_lake(tmp_path, wait_s=6.0):
            pass
        lock.check()


def owner(**other: object) -> str:
    now = time.time()
    given = {"user": "ann", "host": "far-away", "boot_id": "its own", "pid": 7, "since": now, "number": 3, "beats": 9}
    return json.dumps({**given, **other})


@pytest.mark.parametrize(
    ("said", "free"),
    [
        ({}, False),  # another machine, whose locks cannot be seen: nobody has watched it yet
        ({"since": time.time() - 1e6}, False),  # whatever the clocks say
        ({"since": 1e300}, False),
        ({"host": socket.gethostname()}, True),  # of this machine, and it holds no lock: dead
        ({"host": "container", "boot_id": boot_id() or "none"}, boot_id() is not None),
        ("", True),  # died before its first word
        ("{", True),
        ("[]", True),
        ('{"pid": 3}', True),
        (owner(host=socket.gethostname(), since="noon"), True),
        (owner(pid=None), True),
        ("[" * 4000, True),
        ('{"a":' * 2000, True),
    ],
)
def test_a_lock_file_that_nobody_holds(tmp_path: Path, said: dict[str, Any] | str, free: bool) -> None:
    if isinstance(said, dict):
        said = owner(**said)
    (tmp_path / LOCK_FILE).write_text(said)
    if free:
        with hold_lake(tmp_path):
            assert json.loads((tmp_path / LOCK_FILE).read_text())["pid"] == os.getpid()
    else:
        with pytest.raises(UserError, match="process 7 of ann on far-away"), hold_lake(tmp_path):
            pass


@pytest.mark.parametrize("jump_s", [-86_400.0, 86_400.0])
def test_a_clock_that_jumps_neither_steals_a_live_lock_nor_keeps_a_dead_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump_s: float
) -> None:
    monkeypatch.setattr(builder_lock, "EXPIRES_S", 0.8)
    monkeypatch.setattr(builder_lock, "HEARTBEAT_S", 0.05)
    now = time.time
    with hold_lake(tmp_path / "live") as held:
        monkeypatch.setattr(time, "time", lambda: now() + jump_s)
        with pytest.raises(UserError, match="is being built"), hold_lake(tmp_path / "live", wait_s=1.2):
            pass
        held.check()
    (tmp_path / LOCK_FILE).write_text(owner())
    with hold_lake(tmp_path, wait_s=30) as taken:
        assert taken.number == 4  # one more than the dead holder's


def test_a_builder_that_comes_back_publishes_nothing_over_the_one_that_took_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the other is still at work, has published, or has given up without publishing."""
    lake = tmp_path / "lake"
    for other_publishes in (True, False):
        monkeypatch.setattr(builder_lock, "HEARTBEAT_S", 3600.0)
        monkeypatch.setattr(builder_lock, "EXPIRES_S", 0.3)
        with hold_lake(lake) as first, begin_release(lake, first) as old:
            write_release(old, 1)
            with hold_lake(lake, wait_s=30) as second, begin_release(lake, second) as new:
                write_release(new, 2)
                with pytest.raises(UserError, match="another one has taken over"):
                    old.publish(**FIELDS)
                if other_publishes:
                    new.publish(**FIELDS)
            with pytest.raises(UserError, match="another one has taken over"):
                old.publish(**FIELDS)
        assert seen_by_query(lake) == seen_by_database(lake) == 2
    assert len(list_releases(lake)) == 1


def test_the_pointer_refuses_a_builder_of_before_the_last_one(tmp_path: Path) -> None:
    """Also where its lock cannot tell: a lake copied back, or a lock file put in place by hand."""
    lake = tmp_path / "lake"
    with hold_lake(lake) as builder, begin_release(lake, builder) as release:
        write_release(release, 1)
        release.publish(**FIELDS)
    pointer = json.loads((lake / "current.json").read_text())
    assert pointer["builder"] == builder.number == 1
    with hold_lake(lake) as builder, begin_release(lake, builder) as release:
        assert builder.number == 2
        (lake / "current.json").write_text(json.dumps(pointer | {"builder": 7}))
        write_release(release, 2)
        with pytest.raises(UserError, match=r"Builder 7 of .* has published since this one, number 2, began"):
            release.publish(**FIELDS)
    assert seen_by_query(lake) == 1
    with hold_lake(lake) as builder:
        assert builder.number == 8


ENDED = """
import sys, time
from pathlib import Path
from pipelines import cli
from pipelines.building.builder_lock import hold_lake
def hold():
    with hold_lake(Path(sys.argv[1])):
        print("held", flush=True)
        time.sleep(60)
cli.app = hold
cli.main()
"""


def test_a_builder_that_is_terminated_gives_the_lock_back_and_says_so(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ENDED, str(tmp_path / "lake")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        process.terminate()
        _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert said.startswith("Ended by a termination signal.")
    assert not (tmp_path / "lake" / LOCK_FILE).exists()


def test_increments_of_three_processes_and_a_thread_are_not_lost(start: Start, tmp_path: Path) -> None:
    (tmp_path / "number").write_text("0")
    processes = [start(COUNT, tmp_path, 8) for _ in range(3)]

    def count() -> None:
        for _ in range(8):
            with hold_lake(tmp_path, wait_s=60):
                number = int((tmp_path / "number").read_text())
                time.sleep(0.01)
                (tmp_path / "number").write_text(str(number + 1))

    thread = threading.Thread(target=count)
    thread.start()
    thread.join()
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert (tmp_path / "number").read_text() == "32"


def test_a_lake_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be written: Not a directory"), hold_lake(tmp_path / "file" / "lake"):
        pass
