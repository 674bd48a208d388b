"""How fast and in how much memory a large collection becomes a release, and how far from the machine's limit.

    python -m tests.bench.bench_scale --copies 6 57        # about 1 and 10 million agent points

Tables are the shipped AIConfigurator ones, copied and jittered: every copy is a version of its own, all times
stretched a little, so that all identities hold and no two rows are alike. Ten scenarios. Each size is built in a
process of its own, from files to a published release, without Prefect, on as many threads as the flow has.

The ratios compare the mapping with the same equations on one model's aggregated rows, as they are and with their
scheduler columns taken away so that they are carried by ratio: fused over NumPy arrays, over pandas columns, and one
point at a time in Python (``references``), all figures asserted equal. What the mapping does beside the equations
(preparing and choosing rows, curves, points at the KV wall, the frame) is in its time and not in theirs. Their seconds
are those of CPU, of all threads: what else runs on the machine does not lengthen them. They run in a process whose BLAS
has one thread: a second one spins for a while after each product, which would count for whatever runs next.
"""

import argparse
import itertools
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from pipelines.building import build_inputs, carrying, stages
from pipelines.building.builder_lock import hold_lake
from pipelines.building.carrying import compute
from pipelines.lake.reader import current_release
from pipelines.lake.release import begin_release
from pipelines.runners.machine import build_threads
from schemas.options import BuildOptions
from tests.bench.collection import SCENARIOS, write_scenarios, write_tables
from tests.bench.ratios import print_ratios
from tests.bench.targets import compare

#: What the stages of a build call, by the name that is printed.
TIMED = {
    "reading": (build_inputs, "prepare_if_changed"),
    "preparing": (carrying, "prepare_points"),
    "mapping": (carrying, "carry_prepared"),
    "frontier": (carrying, "mark_frontiers"),
    "operating points": (carrying, "operating_points"),
    "validating": (carrying, "conform"),
    "facts aside": (carrying, "put_aside"),
    "writing": (carrying, "write_parts"),
    "publishing": (stages, "publish"),
}
END_TO_END = "end to end"
#: What the libraries that NumPy may come with read when they are loaded.
BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints rates, seconds, memory, growth and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, nargs="*", default=[6, 57], help="of each shipped table; one build each")
    parser.add_argument("--ratio-rows", type=int, default=100_000, help="serving points of the comparison")
    parser.add_argument("--loop-rows", type=int, default=2_000, help="points of the Python loop")
    options = parser.parse_args([] if arguments is None else arguments)
    if options.ratio_rows:
        with mock.patch.dict(os.environ, dict.fromkeys(BLAS_THREADS, "1")):
            _in_child(print_ratios, options.ratio_rows, options.loop_rows)
    results = [_in_child(build_copies, copies) for copies in options.copies]
    for one, other in itertools.pairwise(results):
        points, seconds, worked, memory = (
            other[name] / one[name] for name in ("agent_points", "seconds", "cpu_seconds", "peak_mib")
        )
        print(
            f"growth: {points:.1f}x the agent points, {seconds:.1f}x the time ({worked:.1f}x of CPU), "
            f"{memory:.2f}x the memory"
        )
        compare("growth in time over growth in points", seconds / points, 1.1)
        if points > 5:
            compare("growth in memory", memory, 3.0)
    if results and results[-1]["agent_points"] >= 8e6:
        at_ten_million = 1e7 / results[-1]["agent_points"]
        compare("seconds for 10 million points", results[-1]["seconds"] * at_ten_million, 60.0)
        compare("GB at the peak", results[-1]["peak_mib"] * 2**20 / 1e9, 3.0)


def _in_child(run: Callable[..., dict[str, float] | None], *arguments: int) -> dict[str, float]:
    """What the function gives in a process of its own."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=_run_and_send, args=(send, run, *arguments))
    child.start()
    send.close()
    result: dict[str, float] = receive.recv() or {}
    child.join()
    return result


def _run_and_send(send: Any, run: Callable[..., dict[str, float] | None], *arguments: int) -> None:
    send.send(run(*arguments))


def build_copies(copies: int) -> dict[str, float]:
    """Builds a lake from so many copies of the tables; prints and gives the figures."""
    with tempfile.TemporaryDirectory() as folder:
        tables, scenarios, lake = (Path(folder, name) for name in ("tables", "scenarios.yaml", "lake"))
        write_tables(tables, copies)
        write_scenarios(scenarios)
        before = _peak_mib()
        with _timed() as clock, clock.times(END_TO_END):
            computed = _build(BuildOptions(tables=(tables,), scenarios=(str(scenarios),), out=lake))
        release = current_release(lake)
        rows = {name: table["rows"] for name, table in release.manifest["tables"].items()}
        mib = sum(table["bytes"] for table in release.manifest["tables"].values()) / 2**20
    points = rows["agent_points"]
    print(
        f"{rows['serving_points']:,} serving points x {SCENARIOS} scenarios: {points:,} agent points in "
        f"{computed:,} partitions, {mib:,.0f} MiB"
    )
    print(f"  {'':17}{'seconds':>10}{'rows/s':>12}   of {build_threads()} threads together")
    for name, passed in clock.passed.items():
        done = rows["serving_points"] if name in ("reading", "preparing") else points
        print(f"  {name:17}{passed:10.1f}{done / passed:12,.0f}")
    print(f"  {'CPU, all':17}{clock.worked[END_TO_END]:10.1f}{points / clock.worked[END_TO_END]:12,.0f}")
    print(f"  peak memory {_peak_mib():,.0f} MiB, {before:,.0f} MiB before", flush=True)
    seconds, worked = clock.passed[END_TO_END], clock.worked[END_TO_END]
    return {"agent_points": points, "seconds": seconds, "cpu_seconds": worked, "peak_mib": _peak_mib()}


def _build(options: BuildOptions) -> int:
    """The stages of the flow, its jobs on as many threads as the flow has; gives the number of partitions."""
    prepared = build_inputs.prepare_if_changed(options, None)
    assert prepared is not None
    with hold_lake(options.out, wait_s=60), begin_release(options.out) as release:
        partitions = stages.plan_partitions(build_inputs.synthesize(prepared))
        prepared.let_go_of_points()
        division = stages.divide(prepared, partitions, None, release)
        place = stages.workplace(prepared, release)
        number = build_threads()
        shares = [division.jobs[start::number] for start in range(number)]
        with ThreadPoolExecutor(number) as threads:
            computed = list(itertools.chain(*threads.map(partial(compute, place=place), shares)))
        stages.adopt(computed + division.records, release)
        stages.publish(prepared, release, computed + division.records)
    return len(computed)


class _Clock:
    """Seconds of this process: that passed, and that its threads worked, which other processes do not lengthen."""

    def __init__(self) -> None:
        self.passed: Counter[str] = Counter()
        self.worked: Counter[str] = Counter()

    @contextmanager
    def times(self, name: str) -> Iterator[None]:
        passed, worked = time.perf_counter(), time.process_time()
        yield
        self.passed[name] += time.perf_counter() - passed  # type: ignore[assignment]
        self.worked[name] += time.process_time() - worked  # type: ignore[assignment]


@contextmanager
def _timed() -> Iterator[_Clock]:
    """What the stages of a build take, while the block runs."""
    clock = _Clock()

    def timed(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            with clock.times(name):
                return original(*args, **kwargs)

        return call

    with ExitStack() as stack:
        for shown, (module, name) in TIMED.items():
            stack.enter_context(mock.patch.object(module, name, timed(shown, getattr(module, name))))
        yield clock


def _peak_mib() -> float:
    """The most memory that this process has had; not what the kernel counts for it from before it began."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) / 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


if __name__ == "__main__":
    main(sys.argv[1:])
