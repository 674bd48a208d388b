"""How fast and in how much memory a large collection becomes a release, and how far from the machine's limit.

    python -m tests.bench.bench_scale --copies 6 57        # about 1 and 10 million agent points

Tables are the shipped AIConfigurator ones, copied and jittered: every copy is a version of its own, all times
stretched a little, so that all identities hold and no two rows are alike. Ten scenarios. Each size is built in a
process of its own, from files to a published release, without Prefect, on as many threads as the flow has.

The ratios compare the mapping with the same equations on one model's aggregated rows without scheduler columns,
which are one pass (the roofline's ratio, closed loop, memory): fused over NumPy arrays, over pandas columns, and one
point at a time in Python. What the mapping does beside the equations (choosing rows, curves, points at the KV wall,
percentiles, figures where all turns hit or miss, the frame) is in its time and not in theirs. Their seconds are those
of CPU, of all threads: what else runs on the machine does not lengthen them.
"""

import argparse
import itertools
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
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
from schemas.models import ModelSpec
from schemas.options import BuildOptions
from schemas.scenarios import Scenario
from tests.pipelines import builds
from transforms import numbers
from transforms.agent_points.carry import Setting, carry_prepared
from transforms.agent_points.columns import ROW_FIGURES
from transforms.agent_points.gpu import Gpu
from transforms.agent_points.pool_memory import Pool, weights_on_rank
from transforms.agent_points.prepare import prepare_points
from transforms.agent_points.private import add_private_columns
from transforms.agent_points.roofline_points import article_decode_s, article_prefill_s
from transforms.agent_points.roofline_replica import RooflineReplica
from transforms.agent_points.rows import Rows
from transforms.agent_points.workload import agent_workload
from transforms.equations import closed_loop as loop
from transforms.equations import kv_memory as kv
from transforms.equations.context import turn_profile
from transforms.frontier import mark_frontiers
from transforms.numbers import Number, maximum

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
COMPARED = (
    "ttft_ms", "tpot_ms", "turn_latency_ms", "first_turn_latency_ms", "last_turn_latency_ms", "serving_requests_per_s",
    "sessions", "activity_fraction", "turns_per_s", "task_time_s", "in_flight_requests", "turns_per_s_per_gpu",
    "tasks_per_s_per_gpu", "tasks_per_hour_per_gpu", "tasks_per_s_per_gpu_step9", "output_tokens_per_s_per_gpu",
    "decode_tokens_per_s_per_user", "e2e_tokens_per_s_per_user", "sessions_per_gpu", "kv_bytes_per_session_mean",
    "kv_bytes_per_session_peak", "kv_bytes_available", "kv_bytes_per_gpu", "max_sessions_mean_context",
    "max_sessions_p95_context", "max_sessions_peak_context", "kv_utilization_fraction",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints rates, seconds, memory, growth and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, nargs="*", default=[6, 57], help="of each shipped table; one build each")
    parser.add_argument("--ratio-rows", type=int, default=100_000, help="serving points of the comparison")
    parser.add_argument("--loop-rows", type=int, default=2_000, help="points of the Python loop")
    options = parser.parse_args([] if arguments is None else arguments)
    if options.ratio_rows:
        print_ratios(options.ratio_rows, options.loop_rows)
    results = [_in_child(copies) for copies in options.copies]
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
        _compare("GiB at the peak", results[-1]["peak_mib"] / 1024, 3.0)


def _compare(what: str, seen: float, target: float, *, at_least: bool = False) -> None:
    """A line that says whether a target is met."""
    met = seen >= target if at_least else seen <= target
    bound = "at least" if at_least else "at most"
    print(f"  {'met   ' if met else 'MISSED'} {what}: {seen:.2f}, target {bound} {target:g}", flush=True)


def _in_child(copies: int) -> dict[str, float]:
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=_build_and_send, args=(copies, send))
    child.start()
    send.close()
    result: dict[str, float] = json.loads(receive.recv())
    child.join()
    return result


def _build_and_send(copies: int, send: Any) -> None:
    send.send(json.dumps(build_copies(copies)))


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
    c = pl.col
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
    points = pl.concat(copies)
    spec = shipped.models.get(MODEL)
    np.seterr(divide="ignore")  # where nothing fits
    settings = [Setting(scenario, spec, shipped.hardware) for scenario in _scenarios()]
    prepared, prepare_s = _best_of(1, lambda: prepare_points(points, spec, shipped.hardware))
    count, own_count = 0, 0
    mapping_s, frontier_s, fused_s, pandas_s = prepare_s, 0.0, 0.0, 0.0
    inputs: dict[str, Any] = {}
    for setting in settings:
        carried, seconds = _best_of(2, partial(carry_prepared, prepared, setting))
        mapping_s += seconds
        frontier_s += _best_of(2, partial(mark_frontiers, carried))[1]
        own = carried.filter(~c("interpolated"))
        count, own_count = count + carried.height, own_count + own.height
        if not inputs:  # all scenarios take the same rows
            taken = points.join(own.select("point_id"), on="point_id", maintain_order="right")
            inputs.update(equation_inputs(taken, setting))
        fused, seconds = _best_of(2, partial(agent_figures, inputs, setting.scenario, setting.spec))
        fused_s += seconds
        for name in COMPARED:
            there = own[name].is_not_null().to_numpy()
            np.testing.assert_allclose(fused[name][there], own[name].to_numpy()[there], rtol=1e-9, err_msg=name)
        pandas_s += _pandas_seconds(inputs, setting, fused)
    few = [{name: float(values[i]) for name, values in inputs.items()} for i in range(loop_rows)]
    one_by_one, loop_s = _best_of(1, lambda: [agent_figures(x, setting.scenario, setting.spec) for x in few])
    assert abs(one_by_one[-1]["sessions"] / fused["sessions"][loop_rows - 1] - 1) < 1e-12
    mapping, frontier = mapping_s / count, frontier_s / count
    fused_each, pandas_each, loop_each = fused_s / own_count, pandas_s / own_count, loop_s / loop_rows
    print(f"{points.height:,} rows of {MODEL} x {len(settings)}: {count:,} agent points, seconds of CPU a million")
    print(f"  mapping                {1e6 * mapping:10.3f}   of which preparing {1e6 * prepare_s / count:.3f}")
    print(f"  frontier               {1e6 * frontier:10.3f}")
    print(f"  fused NumPy pass       {1e6 * fused_each:10.3f}   (same figures)")
    print(f"  the same in pandas     {1e6 * pandas_each:10.3f}   the mapping takes {mapping / pandas_each:.2f}x")
    print(f"  one Python loop        {1e6 * loop_each:10.3f}")
    _compare("mapping over the fused NumPy pass", mapping / fused_each, 3.0)
    _compare("Python loop over the mapping", loop_each / mapping, 100.0, at_least=True)
    _compare("frontier over the mapping", frontier / mapping, 1.0)


def _scenarios() -> list[Scenario]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "scenarios.yaml")
        write_scenarios(path)
        return list(load_scenarios([str(path)]))


def equation_inputs(points: pl.DataFrame, setting: Setting) -> dict[str, Any]:
    """What the equations need of each row, as arrays."""
    rows = Rows(add_private_columns(points.rename(ROW_FIGURES), setting.spec, setting.hardware))
    pool, gpu = Pool.aggregated(rows), Gpu.of_rows(rows, "decode")
    replica = RooflineReplica.of_rows(rows, setting.spec, gpu, 1.0)
    names = (
        "row_ttft_ms", "row_tpot_ms", "row_latency_ms", "row_requests_per_s", "isl_tokens", "osl_tokens",
        "prefix_tokens", "batch_per_rank", "tp", "cp", "gpus_per_replica",
    )  # fmt: skip
    own = {name: rows[name] for name in names}
    own |= {"kv_element": rows["_kv_element_bytes"], "hbm_bytes": gpu.hbm_bytes, "weights": weights_on_rank(rows, pool)}
    return {**own, **{name: np.nan_to_num(values) for name, values in vars(replica).items()}}


def agent_figures(x: dict[str, Any], scenario: Scenario, spec: ModelSpec) -> dict[str, Number]:
    """An agent point's figures from one row's: floats, arrays or columns. The options are the defaults."""
    groups, output = spec.attention, scenario.output_tokens_per_turn
    workload = agent_workload(scenario, groups)
    replica = RooflineReplica(**{name: x[name] for name in RooflineReplica.__dataclass_fields__})

    def tpot_s(context: Number) -> Number:
        read = kv.kv_read_bytes_per_gpu(groups, context, x["kv_element"], x["tp"])
        return article_decode_s(replace(replica, kv_bytes=read), x["batch_per_rank"], spec)

    prefill_before = article_prefill_s(replica, x["isl_tokens"] - x["prefix_tokens"], spec)
    mean, first, last = (
        x["row_ttft_ms"] * article_prefill_s(replica, prefill.new_tokens, spec) / prefill_before
        for prefill in (workload.mean, workload.first, workload.last)
    )
    tpot = x["row_tpot_ms"] * tpot_s(workload.decode_context_tokens) / tpot_s(x["isl_tokens"] + x["osl_tokens"] / 2)
    decode = tpot * (output - 1.0)
    latency = mean + decode
    latency_s, think_s, gpus, ranks = latency / 1e3, scenario.think_time_s, x["gpus_per_replica"], x["dp"]
    rate = x["row_requests_per_s"] * x["row_latency_ms"] / latency
    rho = loop.activity_fraction(latency_s, think_s)
    sessions = loop.sessions_that_fill(loop.in_flight_per_station(rate, latency_s, ranks), rho, ranks)
    turns = loop.turns_per_s(sessions, latency_s, think_s)
    per_gpu = turns / gpus
    element, tp, shared_tokens = x["kv_element"], x["tp"], scenario.shared_prefix_tokens
    at_mean, at_peak = (
        kv.session_bytes_on_rank(groups, tokens, element, tp, shared_tokens=shared_tokens, paged=True)
        for tokens in (scenario.mean_context_tokens, scenario.peak_context_tokens)
    )
    slope = kv.kv_slope_bytes_per_token(groups, scenario.mean_context_tokens, element, tp, paged=True)
    shared = kv.kv_bytes_on_rank(groups, shared_tokens, element, tp, paged=True)
    available = kv.available_bytes_per_rank(gpus / ranks, x["hbm_bytes"], 0.10, x["weights"])
    left = maximum(available - shared, 0.0)
    fit = kv.max_sessions(left, at_mean, ranks)
    return {
        "ttft_ms": mean,
        "tpot_ms": tpot,
        "turn_latency_ms": latency,
        "first_turn_latency_ms": first + decode,
        "last_turn_latency_ms": last + decode,
        "serving_requests_per_s": rate,
        "sessions": sessions,
        "activity_fraction": rho,
        "turns_per_s": turns,
        "task_time_s": loop.task_time_s(scenario.turns, latency_s, think_s),
        "in_flight_requests": sessions * rho,
        "turns_per_s_per_gpu": per_gpu,
        "tasks_per_s_per_gpu": per_gpu / scenario.turns,
        "tasks_per_hour_per_gpu": 3600 * per_gpu / scenario.turns,
        "tasks_per_s_per_gpu_step9": loop.tasks_per_s_step9(rate, scenario.turns, rho) / gpus,
        "output_tokens_per_s_per_gpu": per_gpu * output,
        "decode_tokens_per_s_per_user": 1e3 / tpot,
        "e2e_tokens_per_s_per_user": output / latency_s,
        "sessions_per_gpu": sessions / gpus,
        "kv_bytes_per_session_mean": at_mean,
        "kv_bytes_per_session_peak": at_peak,
        "kv_bytes_available": ranks * available,
        "kv_bytes_per_gpu": (sessions * at_mean + ranks * shared) / gpus,
        "max_sessions_mean_context": fit,
        "max_sessions_p95_context": ranks
        * kv.sessions_p95_per_rank(left, at_mean, slope * turn_profile(scenario).context_sd),
        "max_sessions_peak_context": kv.max_sessions(left, at_peak, ranks),
        "kv_utilization_fraction": sessions / fit,
        "feasible": (available > 0) & (sessions <= fit * (1 + 1e-9)),
    }


def _pandas_seconds(inputs: dict[str, Any], setting: Setting, expected: dict[str, Number]) -> float:
    """Seconds of the equations over the columns of a pandas frame."""
    frame = pandas.DataFrame(inputs)
    columns = {name: frame[name] for name in frame.columns}

    def is_vector(values: tuple[Number, ...]) -> bool:
        return any(isinstance(value, np.ndarray | pandas.Series) for value in values)

    with (
        mock.patch.object(numbers, "_any_array", is_vector),
        mock.patch.object(kv, "floor", np.floor),
        mock.patch.object(kv, "sqrt", np.sqrt),
    ):
        figures, seconds = _best_of(2, lambda: pandas.DataFrame(agent_figures(columns, setting.scenario, setting.spec)))
    np.testing.assert_allclose(figures["sessions"], expected["sessions"], rtol=1e-12)
    return seconds


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
