"""Every figure of agent points against the same equations written again: of one row in floats, in pandas, and fused.

The references are those that benchmarks measure the mapping against (``tests/bench/references``).
"""

import pandas
import polars as pl
import pytest

from schemas.options import MappingOptions
from schemas.scenarios import Scenario
from tests.bench.collection import scenarios
from tests.bench.ratios import assert_same
from tests.bench.references.figures import Constants, Inputs, Method
from tests.bench.references.fused import FusedPass
from tests.bench.references.plain import InPandas, OneByOne
from tests.transforms.agent_points.judgement.test_cost import PRICED
from tests.transforms.factory import MIXED_BACKENDS, model, shipped_points
from transforms.agent_points.carry import Setting, carry_prepared
from transforms.agent_points.prepare import prepare_points


def points(method: Method) -> pl.DataFrame:
    """Aggregated rows of three engines, with their steps or without."""
    rows = shipped_points(MIXED_BACKENDS).filter(
        (pl.col("serving_mode") == "agg") & pl.col("mixed_step_ms").is_not_null()
    )
    assert set(rows["backend"]) == {"trtllm", "sglang", "vllm"}
    if method == "transfer":
        return rows
    return rows.with_columns(pl.lit(None, pl.Float64).alias(name) for name in ("mixed_step_ms", "decode_step_ms"))


@pytest.mark.parametrize("scenario", scenarios()[:3], ids=lambda scenario: scenario.slug)
@pytest.mark.parametrize("method", ["transfer", "ratio"])
def test_written_three_times(method: Method, scenario: Scenario) -> None:
    # the references keep one share of the memory, whatever the engine
    options = MappingOptions(reserve_fraction=0.1)
    rows, setting = points(method), Setting(scenario, model("llama-3-1-8b"), PRICED, options)
    prepared = prepare_points(rows, setting.spec, setting.hardware)
    published = carry_prepared(prepared, setting).filter(~pl.col("interpolated"))
    assert published["transfer_method"].unique().to_list() == [method]
    taken = rows.join(published.select("point_id"), on="point_id", maintain_order="right")
    inputs, constants = Inputs.of_points(taken, setting, prepared), Constants.of(scenario, setting.spec)
    assert_same(FusedPass(inputs).at(constants), published)
    assert_same(InPandas(inputs).at(constants), published)
    one_by_one = OneByOne(inputs)
    each = [{name: float(values[row]) for name, values in inputs.x.items()} for row in range(taken.height)]
    assert_same(pandas.DataFrame([one_by_one.of_point(x, constants) for x in each]), published)
