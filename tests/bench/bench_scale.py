"""How fast and in how much memory a large collection becomes a release, and how far from the machine's limit.

    python -m tests.bench.bench_scale --copies 6 57        # about 1 and 10 million agent points

Tables are the shipped AIConfigurator ones, copied and jittered: every copy is a version of its own, all times
stretched a little, so that all identities hold and no two rows are alike. Ten scenarios. Each size is built in a
process of its own, from files to a published release, without Prefect, on as many threads as the flow has.

The ratios compare the mapping with the same equations on one model's aggregated rows, their scheduler columns taken
away so that they are carried by ratio: fused over NumPy arrays, over pandas columns, and one point at a time in
Python (``references.py``), all figures asserted equal. What the mapping does beside the equations (preparing and
choosing rows, curves, points at the KV wall, the frame) is in its time and not in theirs. Their seconds are those of
CPU, of all threads: what else runs on the machine does not lengthen them. They run in a process whose BLAS has one
thread: a second one spins for a while after each product, which would count for whatever runs next.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas
import polars as pl
import yaml

from pipelines import carrying, stages
from pipelines.builder_lock import hold_lake
from pipelines.carrying import compute
from pipelines.catalogues import SHIPPED, load_scenarios
from pipelines.flow import THREADS
from pipelines.lake.reader import current_release
from pipelines.lake.release import begin_release
from schemas.options import BuildOptions
from schemas.prices import Price, with_prices
from schemas.scenarios import Scenario
from tests.bench import references
from tests.pipelines import builds
from transforms.agent_points.carry import Setting, carry_prepared
from transforms.agent_points.labels import code
from transforms.agent_points.prepare import prepare_points
from transforms.configurations import in_curve_order
from transforms.frontier import mark_frontiers

SCENARIOS = 10
TIMES = ("ttft", "tpot", "request_latency")
RATES = ("request_rate", "seq/s", "seq/s/gpu", "tokens/s", "tokens/s/gpu", "tokens/s/user")
#: What the stages of a build call, by the name that is printed.
TIMED = {
    "reading": (stages, "prepare_if_changed"),
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
COPIES_A_FILE = 10
MODEL = "qwen3-32b"
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
        _compare("growth in time over growth in points", seconds / points, 1.1)
        if points > 5:
            _compare("growth in memory", memory, 3.0)
    if results and results[-1]["agent_points"] >= 8e6:
        at_ten_million = 1e7 / results[-1]["agent_points"]
        _compare("seconds for 10 million points", results[-1]["seconds"] * at_ten_million, 60.0)
        _compare("GB at the peak", results[-1]["peak_mib"] * 2**20 / 1e9, 3.0)


def _compare(what: str, seen: float, target: float, *, at_least: bool = False) -> None:
    """A line that says whether a target is met."""
    met = seen >= target if at_least else seen <= target
    bound = "at least" if at_least else "at most"
    print(f"  {'met   ' if met else 'MISSED'} {what}: {seen:.2f}, target {bound} {target:g}", flush=True)


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
    print(f"  {'':17}{'seconds':>10}{'rows/s':>12}   of {THREADS} threads together")
    for name, passed in clock.passed.items():
        done = rows["serving_points"] if name in ("reading", "preparing") else points
        print(f"  {name:17}{passed:10.1f}{done / passed:12,.0f}")
    print(f"  {'CPU, all':17}{clock.worked[END_TO_END]:10.1f}{points / clock.worked[END_TO_END]:12,.0f}")
    print(f"  peak memory {_peak_mib():,.0f} MiB, {before:,.0f} MiB before", flush=True)
    seconds, worked = clock.passed[END_TO_END], clock.worked[END_TO_END]
    return {"agent_points": points, "seconds": seconds, "cpu_seconds": worked, "peak_mib": _peak_mib()}


def _build(options: BuildOptions) -> int:
    """The stages of the flow, its jobs on as many threads as the flow has; gives the number of partitions."""
    prepared = stages.prepare_if_changed(options, None)
    assert prepared is not None
    with hold_lake(options.out, wait_s=60), begin_release(options.out) as release:
        division = stages.divide(prepared, stages.plan_partitions(stages.synthesize(prepared)), None, release)
        place = stages.workplace(prepared, release)
        shares = [division.jobs[start::THREADS] for start in range(THREADS)]
        with ThreadPoolExecutor(THREADS) as threads:
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


def write_tables(folder: Path, copies: int) -> None:
    """Each aggregated shipped table so many times, every copy a version of its own with other times.

    Copies of one table share files of some thousand rows, as a tool's sweeps do.
    """
    folder.mkdir()
    random = np.random.default_rng(20260417)
    for path in sorted(builds.CANDIDATES.glob("*__agg.csv.gz")):
        table = pl.read_csv(path, infer_schema_length=None)
        for file in range(0, copies, COPIES_A_FILE):
            jittered = [_jittered(table, copy, random) for copy in range(file, min(file + COPIES_A_FILE, copies))]
            pl.concat(jittered).write_csv(folder / f"{path.name.removesuffix('.csv.gz')}__{file:04}.csv")


def _jittered(table: pl.DataFrame, copy: int, random: np.random.Generator) -> pl.DataFrame:
    stretch = pl.Series(random.uniform(1.0, 1.02, table.height))
    return table.with_columns(
        *((pl.col(name) * stretch).round(3) for name in TIMES),
        *((pl.col(name) / stretch).round(6) for name in RATES),
        version=pl.col("version").cast(pl.String) + f".{copy}",
    )


def write_scenarios(path: Path) -> None:
    """The shipped scenarios with other pauses."""
    shipped = yaml.safe_load((SHIPPED / "scenarios.yaml").read_text(encoding="utf-8"))["scenarios"]
    scenarios = []
    for number in range(SCENARIOS):
        scenario = dict(shipped[number % len(shipped)])
        scenario |= {"slug": f"{scenario['slug']}-v{number}", "name": f"{scenario['name']} {number}"}
        scenario["think_time_s"] = scenario["think_time_s"] * (1 + number // len(shipped))
        scenarios.append(scenario)
    path.write_text(yaml.safe_dump({"scenarios": scenarios}), encoding="utf-8")


def print_ratios(rows: int, loop_rows: int) -> None:
    """The mapping against the same equations as one NumPy pass, in pandas, and one point at a time."""
    shipped = stages.prepare(BuildOptions())
    spec, c = shipped.models.get(MODEL), pl.col
    asked = {"usd_per_gpu_hour": 2.5, "source": "made up", "date": "2026-04-17"}
    prices = [Price.model_validate({"hardware": gpu.slug, **asked}) for gpu in shipped.hardware]
    hardware = with_prices(shipped.hardware, prices)
    points = shipped.inputs.serving_points.filter((c("model") == MODEL) & (c("serving_mode") == "agg"))
    points = points.with_columns(mixed_step_ms=pl.lit(None, pl.Float64), decode_step_ms=pl.lit(None, pl.Float64))
    copies = [
        points.with_columns(
            tool_version=pl.lit(f"copy-{number}"),
            point_id=c("point_id") + f"-{number}",
            ttft_ms=c("ttft_ms") * (1 + number * 1e-4),
        )
        for number in range(max(rows // points.height, 1))
    ]
    points = in_curve_order(pl.concat(copies))  # as they stand in a lake
    settings = [Setting(scenario, spec, hardware) for scenario in _scenarios()]
    for setting in settings:  # the scenarios' nodes are the same for all: found once, beforehand
        carry_prepared(prepare_points(copies[0], spec, hardware), setting)
    prepared, prepare_s = _best_of(2, lambda: prepare_points(points, spec, hardware))
    count, own_count = 0, 0
    mapping_s, frontier_s, pandas_s = prepare_s, 0.0, 0.0
    for setting in settings:
        carried, seconds = _best_of(3, partial(carry_prepared, prepared, setting))
        mapping_s += seconds
        frontier_s += _best_of(3, partial(mark_frontiers, carried))[1]
        own = carried.filter(~c("interpolated"))
        count, own_count = count + carried.height, own_count + own.height
        constants = references.Constants.of(setting.scenario, spec)
        if setting is settings[0]:  # all scenarios take the same rows
            inputs = references.inputs_of(
                points.join(own.select("point_id"), on="point_id", maintain_order="right"), setting
            )
            frame = pandas.DataFrame(inputs)
            fused, fused_s = _best_of(3, partial(references.FusedPass, inputs, spec))
        figures, seconds = _best_of(3, partial(fused.at, constants))
        fused_s += seconds
        _assert_same(figures, own)
        in_pandas, seconds = _best_of(2, partial(references.figures_in_pandas, frame, constants, spec))
        pandas_s += seconds
        _assert_same(in_pandas, own)
    few = [{name: float(values[i]) for name, values in inputs.items()} for i in range(loop_rows)]
    one_by_one, loop_s = _best_of(2, lambda: [references.figures_of_point(x, constants, spec) for x in few])
    _assert_same(pandas.DataFrame(one_by_one), own.head(loop_rows))
    mapping, frontier = mapping_s / count, frontier_s / count
    fused_each, pandas_each, loop_each = fused_s / own_count, pandas_s / own_count, loop_s / len(few)
    print(f"{points.height:,} rows of {MODEL} x {len(settings)}: {count:,} agent points, seconds of CPU a million")
    print(f"  mapping                {1e6 * mapping:10.3f}   of which preparing {1e6 * prepare_s / count:.3f}")
    print(f"  frontier               {1e6 * frontier:10.3f}")
    print(f"  fused NumPy pass       {1e6 * fused_each:10.3f}   the same {len(references.COMPARED)} figures and flags")
    print(f"  the same in pandas     {1e6 * pandas_each:10.3f}   the mapping takes {mapping / pandas_each:.2f}x")
    print(f"  one Python loop        {1e6 * loop_each:10.3f}")
    _compare("mapping over the fused NumPy pass", mapping / fused_each, 3.0)
    _compare("Python loop over the mapping", loop_each / mapping, 100.0, at_least=True)
    _compare("frontier over the mapping", frontier / mapping, 1.0)


def _assert_same(figures: Mapping[str, Any] | pandas.DataFrame, published: pl.DataFrame) -> None:
    """Raises ``AssertionError`` where a reference and the mapping differ."""
    for name in references.COMPARED:
        np.testing.assert_allclose(figures[name], published[name].to_numpy(), rtol=1e-9, err_msg=name)
    for name in ("feasible", "extrapolated"):
        np.testing.assert_array_equal(figures[name], published[name].to_numpy(), err_msg=name)
    # what only a whole curve tells is the mapping's alone
    reasons = published["infeasible_reason"].replace({"kv_capacity_below_table": "kv_capacity"})
    expected = [code("infeasible_reason", reason) for reason in reasons]
    np.testing.assert_array_equal(figures["infeasible_reason"], expected)


def _scenarios() -> list[Scenario]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "scenarios.yaml")
        write_scenarios(path)
        return list(load_scenarios([str(path)]))


def _best_of(times: int, run: Callable[[], Any]) -> tuple[Any, float]:
    """The result and the seconds of CPU of the fastest run."""
    best, result = float("inf"), None
    for _ in range(times):
        began = time.process_time()
        result = run()
        best = min(best, time.process_time() - began)
    return result, best


def _peak_mib() -> float:
    """The most memory that this process has had; not what the kernel counts for it from before it began."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) / 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


if __name__ == "__main__":
    main(sys.argv[1:])
