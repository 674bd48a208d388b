"""The identity scenario gives the rows of every source their own figures back (model.md 5.8).

AIConfigurator's tables and the roofline have theirs in ``test_identity``. The other sources' rows state no
scheduler: they are carried by ratio, and as they are where they stand at the agent's own workload.
"""

import polars as pl
import pytest

from pipelines.building.build_inputs import engine_library
from pipelines.reading.catalogues import load_hardware, load_models
from schemas.engines import NO_ENGINES
from schemas.fields import SOURCES
from schemas.models import ModelSpec
from tests.properties.test_identity import carried_by, parts
from tests.sources.results import (
    FACTS,
    aiperf_summary,
    genai_summary,
    guidellm_report,
    inference_perf_report,
    input_file,
    llm_d_report,
    multi_turn_stats,
    sglang_record,
    vllm_record,
)
from tests.sources.test_further_forms import CACHED
from tests.sources.test_generic import ROW, SAYS
from tests.sources.test_generic import csv as generic_csv
from tests.sources.test_inferencex import API_ROW, DISAGG_ROW, api
from tests.transforms.factory import agent_points, judged
from transforms.agent_points.carriers.measured_rows import EngineRows, StepModelRatio, engine_rows
from transforms.agent_points.carriers.ratio import RatioRows
from transforms.agent_points.rows.rows import Rows
from transforms.serving_points.judge import new_points

#: Files of each source, with what the user says beside them.
FILES: dict[str, list[tuple[object, str | None]]] = {
    "inferencex": [([API_ROW, api(base=DISAGG_ROW)], None)],
    "vllm": [(vllm_record(), FACTS)],
    "sglang": [(sglang_record(), FACTS)],
    "aiperf": [(aiperf_summary(), FACTS)],
    "genai-perf": [(genai_summary(), FACTS)],
    "guidellm": [(guidellm_report(), FACTS)],
    "inference-perf": [(inference_perf_report(), FACTS)],
    "llm-d": [(llm_d_report(), FACTS)],
    "vllm-multi-turn": [(multi_turn_stats(), CACHED)],
    "generic": [(generic_csv(ROW, {**ROW, "users": 8, "tok/s": 101.0}), SAYS)],
}
FIGURES = {"ttft_ms": "ttft_ms", "tpot_ms": "tpot_ms", "turn_latency_ms": "request_latency_ms"}
#: Generators state rounded means of requests of different lengths: the latency is theirs, its parts add up to this.
PARTS_TOLERANCE = 1e-3


def points_of(source: str) -> pl.DataFrame:
    good = []
    for content, says in FILES[source]:
        points, bad = judged(input_file(content, says))
        assert bad["detail"].to_list() == []
        good.append(new_points(points, set()))
    frame = pl.concat(good)
    assert set(frame["source"]) == {source}
    return frame


def test_every_source_has_its_identity() -> None:
    """A log of turns holds runs of agents alone, which are no serving points."""
    assert {*FILES, "aiconfigurator", "roofline", "turn-log"} == set(SOURCES)


@pytest.mark.parametrize("source", FILES)
def test_as_they_are(source: str) -> None:
    for rows, shared in parts(points_of(source)):
        points = agent_points(rows, shared).filter(~pl.col("interpolated"))
        assert points.height == rows.height
        assert set(points["transfer_method"]) == {"direct"}
        assert_own_figures(points, rows)
        rates = points.join(rows.select("point_id", "requests_per_s"), on="point_id", maintain_order="left")
        for name in ("serving_requests_per_s", "turns_per_s"):
            assert rates[name].to_list() == pytest.approx(rates["requests_per_s"].to_list(), rel=1e-9)
        assert points["activity_fraction"].to_list() == [1.0] * points.height


@pytest.mark.parametrize("source", FILES)
def test_by_ratio(source: str) -> None:
    for (mode,), points in points_of(source).partition_by("serving_mode", as_dict=True).items():
        for rows, shared in parts(points):
            carried = carried_by(RatioRows, rows, shared, str(mode))
            assert_own_figures(carried, rows)
            rate = carried["serving_requests_per_s"].to_list()
            assert rate == pytest.approx(carried["row_requests_per_s"].to_list(), rel=PARTS_TOLERANCE)


@pytest.mark.parametrize("source", FILES)
def test_by_the_ratio_of_the_step_model(source: str) -> None:
    engines = engine_library(NO_ENGINES, load_hardware(), load_models())
    for rows, shared in parts(points_of(source).filter(serving_mode="agg")):

        def expected(of: Rows, spec: ModelSpec) -> StepModelRatio:
            found = engine_rows(of, spec, engines)
            assert len(found.expected) == len(of)
            return StepModelRatio(EngineRows(of, found.engines, found.number))

        assert_own_figures(carried_by(expected, rows.with_columns(lockstep=False), shared, "agg"), rows)


def assert_own_figures(carried: pl.DataFrame, rows: pl.DataFrame) -> None:
    stated = rows.select("point_id", **{f"_{name}": row for name, row in FIGURES.items()})
    both = carried.join(stated, on="point_id", how="left", maintain_order="left")
    for name in FIGURES:
        tolerance = PARTS_TOLERANCE if name == "turn_latency_ms" else 1e-9
        assert both[name].to_list() == pytest.approx(both[f"_{name}"].to_list(), rel=tolerance)
