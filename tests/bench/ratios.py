"""The mapping against the same equations as one NumPy pass, in pandas, and one point at a time."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np
import pandas
import polars as pl

from pipelines.building import build_inputs
from schemas.options import BuildOptions, MappingOptions
from schemas.prices import Price, with_prices
from tests.bench.collection import scenarios
from tests.bench.references.figures import COMPARED, Constants, Inputs
from tests.bench.references.fused import FusedPass
from tests.bench.references.plain import InPandas, OneByOne
from tests.bench.targets import compare
from transforms.agent_points.carry import Setting, carry_prepared
from transforms.agent_points.prepare import prepare_points
from transforms.agent_points.rows.rows import code
from transforms.configurations import in_curve_order
from transforms.frontier import mark_frontiers

MODEL: Final = "qwen3-32b"


def print_ratios(rows: int, loop_rows: int) -> None:
    """Of so many serving points as they are, carried by their engine steps, and without these, carried by ratio."""
    shipped = build_inputs.read(build_inputs.find(BuildOptions()))
    asked = {"usd_per_gpu_hour": 2.5, "source": "made up", "date": "2026-04-17"}
    prices = [Price.model_validate({"hardware": gpu.slug, **asked}) for gpu in shipped.hardware]
    hardware, c = with_prices(shipped.hardware, prices), pl.col
    settings = [
        # the references keep one share of the memory, whatever the engine
        Setting(scenario, shipped.models.get(MODEL), hardware, MappingOptions(reserve_fraction=0.1))
        for scenario in scenarios()
    ]
    told = (c("model") == MODEL) & (c("serving_mode") == "agg") & c("mixed_step_ms").is_not_null()
    points = shipped.inputs.serving_points.filter(told)
    without = points.with_columns(mixed_step_ms=pl.lit(None, pl.Float64), decode_step_ms=pl.lit(None, pl.Float64))
    _print_ratios_of(points, "engine steps", settings, rows, loop_rows)
    _print_ratios_of(without, "ratio", settings, rows, loop_rows)


def _print_ratios_of(points: pl.DataFrame, method: str, settings: list[Setting], rows: int, loop_rows: int) -> None:
    c, spec, hardware = pl.col, settings[0].spec, settings[0].hardware
    copies = [
        points.with_columns(
            c("ttft_ms", "mixed_step_ms") * (1 + number * 1e-4),
            tool_version=pl.lit(f"copy-{number}"),
            point_id=c("point_id") + f"-{number}",
        )
        for number in range(max(rows // points.height, 1))
    ]
    points = in_curve_order(pl.concat(copies))  # as they stand in a lake
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
        constants = Constants.of(setting.scenario, spec)
        if setting is settings[0]:  # all scenarios take the same rows
            taken = points.join(own.select("point_id"), on="point_id", maintain_order="right")
            inputs = Inputs.of_points(taken, setting, prepared)
            fused, fused_s = _best_of(3, partial(FusedPass, inputs))
            in_pandas = InPandas(inputs)
        figures, seconds = _best_of(3, partial(fused.at, constants))
        fused_s += seconds
        assert_same(figures, own)
        figures, seconds = _best_of(2, partial(in_pandas.at, constants))
        pandas_s += seconds
        assert_same(figures, own)
    few = [{name: float(values[i]) for name, values in inputs.x.items()} for i in range(loop_rows)]
    one_by_one = OneByOne(inputs)
    figures, loop_s = _best_of(2, lambda: [one_by_one.of_point(x, constants) for x in few])
    assert_same(pandas.DataFrame(figures), own.head(loop_rows))
    mapping, frontier = mapping_s / count, frontier_s / count
    fused_each, pandas_each, loop_each = fused_s / own_count, pandas_s / own_count, loop_s / len(few)
    print(f"{points.height:,} rows of {MODEL} by {method} x {len(settings)}: {count:,} agent points")
    print("  seconds of CPU a million")
    print(f"  mapping                {1e6 * mapping:10.3f}   of which preparing {1e6 * prepare_s / count:.3f}")
    print(f"  frontier               {1e6 * frontier:10.3f}")
    print(f"  fused NumPy pass       {1e6 * fused_each:10.3f}   the same {len(COMPARED)} figures and flags")
    print(f"  the same in pandas     {1e6 * pandas_each:10.3f}   the mapping takes {mapping / pandas_each:.2f}x")
    print(f"  one Python loop        {1e6 * loop_each:10.3f}")
    compare("mapping over the fused NumPy pass", mapping / fused_each, 3.0)
    compare("Python loop over the mapping", loop_each / mapping, 100.0, at_least=True)
    compare("frontier over the mapping", frontier / mapping, 1.0)


def assert_same(figures: Mapping[str, Any] | pandas.DataFrame, published: pl.DataFrame) -> None:
    """Raises ``AssertionError`` where a reference and the mapping differ."""
    for name in COMPARED:
        np.testing.assert_allclose(figures[name], published[name].to_numpy(), rtol=1e-9, err_msg=name)
    for name in ("feasible", "extrapolated"):
        np.testing.assert_array_equal(figures[name], published[name].to_numpy(), err_msg=name)
    # what only a whole curve tells is the mapping's alone
    reasons = published["infeasible_reason"].replace({"kv_capacity_below_table": "kv_capacity"})
    expected = [code("infeasible_reason", reason) for reason in reasons]
    np.testing.assert_array_equal(figures["infeasible_reason"], expected)


def _best_of(times: int, run: Callable[[], Any]) -> tuple[Any, float]:
    """The result and the seconds of CPU of the fastest run."""
    best, result = float("inf"), None
    for _ in range(times):
        began = time.process_time()
        result = run()
        best = min(best, time.process_time() - began)
    return result, best
