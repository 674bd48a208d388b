"""A build after which nothing has changed, against Prefect's own start-up: the end of a first flow in a new process.

Each round takes all three one after the other, so that a busy machine is busy for all of them; the database of
Prefect's runs has been made before. Processor time, of the server's process too, varies less than the clock.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
AS_IT_COMES = """
from prefect import flow

@flow
def nothing():
    return 1

nothing()
"""
AS_A_BUILD_HAS_IT = f"""
from pipelines.runners.prefect_runtime import start_in_background

server = start_in_background()
from prefect import flow

server.wait()
{AS_IT_COMES}"""
BUILD = "from pipelines.cli import main; main()"
PLAIN, OURS, NO_CHANGE = "Prefect as it comes, one flow", "Prefect as a build has it, one flow", "a build, no change"


class Taken(NamedTuple):
    """What a process took, its children's processor time counted."""

    seconds: float
    processor_s: float
    said: str


def take(home: Path, script: str, *arguments: str) -> Taken:
    """Runs a script with Prefect's database in ``home``."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    environment |= {"PYTHONPATH": str(ROOT), "PREFECT_HOME": str(home), "DO_NOT_TRACK": "1",
                    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120"}  # fmt: skip
    before, began = _processor_s(), time.perf_counter()
    done = subprocess.run([sys.executable, "-c", script, *arguments], env=environment, capture_output=True, text=True)
    seconds = time.perf_counter() - began
    if done.returncode:
        sys.exit(done.stderr)
    return Taken(seconds, _processor_s() - before, done.stdout)


def main(arguments: Sequence[str] = ()) -> None:
    """Prints medians, and what the build takes above Prefect."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lake", type=Path, help="a default lake of this code; without: one is built first")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(list(arguments))
    with tempfile.TemporaryDirectory() as folder:
        lake = options.lake or Path(folder, "lake")
        build = ("build", "--out", str(lake))
        runs: dict[str, tuple[str, tuple[str, ...]]] = {
            PLAIN: (AS_IT_COMES, ()), OURS: (AS_A_BUILD_HAS_IT, ()), NO_CHANGE: (BUILD, build)
        }  # fmt: skip
        homes = {name: Path(folder, f"prefect-{number}") for number, name in enumerate(runs)}
        for name, (script, given) in runs.items():  # makes the databases, and the lake
            first = take(homes[name], script, *given)
            print(f"{name}, the very first: {first.seconds:.1f} s")
        taken: dict[str, list[Taken]] = {name: [] for name in runs}
        for _ in range(options.rounds):
            for name, (script, given) in runs.items():
                taken[name].append(take(homes[name], script, *given))
        if not all("Nothing has changed" in run.said for run in taken[NO_CHANGE]):
            sys.exit("Something has changed: the code? Run it again.")
    clock = {name: statistics.median(run.seconds for run in those) for name, those in taken.items()}
    processor = {name: statistics.median(run.processor_s for run in those) for name, those in taken.items()}
    for name in runs:
        print(f"{name:36} {clock[name]:6.1f} s by the clock, {processor[name]:5.1f} s of processor")
    for name in (PLAIN, OURS):
        print(
            f"the build against {name[: name.index(',')]}: {clock[NO_CHANGE] - clock[name]:+.1f} s, "
            f"{clock[NO_CHANGE] / clock[name]:.2f} times by the clock; {processor[NO_CHANGE] - processor[name]:+.1f} s "
            "of processor"
        )


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main(sys.argv[1:])
