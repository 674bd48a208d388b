"""Good files mutated: no uncaught exception, no NaN or infinity, no row lost without a reason.

``AGENT_PARETO_FUZZ`` is the number of inputs, 600 if it is not set.
"""

import csv
import json
import os
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import polars as pl
import pytest

from schemas.frames import conform, empty_frame
from tests.sources import results
from tests.sources.judging import judged_rows, judged_runs
from tests.sources.mutations import ANY, CSV_MUTATIONS, JSON_MUTATIONS, SAME, TEXT_MUTATIONS, Mutation
from tests.sources.test_aiconfigurator import AGG_ROW, DISAGG_ROW, MTP_TEXT
from tests.sources.test_inferencex import AGENTIC_ROW, API_ROW, api
from tests.sources.test_inferencex import DISAGG_ROW as API_DISAGG_ROW
from tests.sources.whole import read_file
from tests.transforms.factory import aic_row, csv_text
from transforms.sources.rows import FileRejectedError, InputFile

INPUTS = int(os.environ.get("AGENT_PARETO_FUZZ", "600"))
SEED = 20260301

_ROWS = [
    AGG_ROW,
    aic_row(bs=56, ttft=2000.0, tpot=16.0, request_latency=10000.0, **{
        "seq/s": 5.6, "seq/s/gpu": 1.4, "tokens/s": 2800.0, "tokens/s/gpu": 700.0, "tokens/s/user": 62.5}),
    aic_row(bs=8, ttft=500.0, tpot=10.0, request_latency=5500.0, **{
        "seq/s": 1.455, "seq/s/gpu": 0.364, "tokens/s": 727.273, "tokens/s/gpu": 181.818, "tokens/s/user": 100.0}),
]  # fmt: skip
#: Name -> good file (its content, its source.yaml, mutations that suit its kind).
FILES: dict[str, tuple[bytes, str | None, tuple[Mutation, ...]]] = {
    "agg": (csv_text(_ROWS).encode(), None, CSV_MUTATIONS),
    "disagg": (csv_text([DISAGG_ROW, DISAGG_ROW]).encode(), None, CSV_MUTATIONS),
    "mtp": (MTP_TEXT.encode(), None, CSV_MUTATIONS),
    "api": (json.dumps([API_ROW, API_DISAGG_ROW, api(spec_method="mtp")]).encode(), None, JSON_MUTATIONS),
    "agentic": (json.dumps([AGENTIC_ROW, API_ROW]).encode(), None, JSON_MUTATIONS),
    "vllm": (json.dumps(results.vllm_record()).encode(), results.FACTS, JSON_MUTATIONS),
    "sglang": (json.dumps(results.sglang_record()).encode(), results.FACTS, JSON_MUTATIONS),
    "aiperf": (json.dumps(results.aiperf_summary()).encode(), results.FACTS, JSON_MUTATIONS),
    "guidellm": (json.dumps(results.guidellm_report(results.guidellm_benchmark())).encode(), results.FACTS,
                 JSON_MUTATIONS),
    "aiperf csv": (results.AIPERF_CSV.encode(), results.FACTS, TEXT_MUTATIONS),
    "genai-perf csv": (results.GENAI_CSV.encode(), results.FACTS, TEXT_MUTATIONS),
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """Points, agent runs and quarantined rows of a file, and the rows read."""

    points: pl.DataFrame
    runs: pl.DataFrame
    bad: pl.DataFrame
    rows_read: int


def outcome(content: bytes, says: str | None = None) -> Outcome | None:
    """What the file says; None if it is rejected, in words."""
    try:
        reading = read_file(InputFile("mutated", content, "", {}, results.sidecar(says) if says else None))
    except FileRejectedError:
        return None
    good, bad = judged_rows(reading.rows, "mutated", reading.tool_version)
    runs = empty_frame("measured_agentic")
    if reading.agentic is not None:
        runs, bad_runs = judged_runs(reading.agentic, "mutated", None)
        bad = pl.concat([bad, bad_runs])
    assert bad.select("source_row", "reason", "detail", "raw").null_count().sum_horizontal().item() == 0
    assert bad["source_row"].n_unique() == bad.height
    assert reading.rows_read == good.height + runs.height + bad.height
    return Outcome(good, runs, bad, reading.rows_read)


def check_tables(found: Sequence[Outcome]) -> None:
    """Every value of every table is what the dictionary of fields allows: finite, in range, a known word."""
    for table, frames in (
        ("serving_points", [one.points for one in found]),
        ("measured_agentic", [one.runs for one in found]),
        ("quarantine", [one.bad for one in found]),
    ):
        frame = pl.concat([empty_frame(table), *frames])
        if table == "quarantine":
            frame = frame.with_columns(source_row=pl.int_range(1, pl.len() + 1, dtype=pl.Int64))
        else:
            frame = frame.unique("point_id")
        conform(frame, table)


def figures(points: pl.DataFrame) -> list[tuple[object, ...]]:
    return points.drop("point_id", "source_file", "source_row", "tool_version").rows()


@pytest.mark.parametrize("name", list(FILES))
def test_mutated_files(name: str) -> None:
    content, says, mutations = FILES[name]
    good = outcome(content, says)
    assert good is not None
    assert good.bad.is_empty()
    tally: Counter[str] = Counter()
    all_found = []
    for number in range(INPUTS // len(FILES)):
        rng = random.Random(f"{SEED} {name} {number}")
        mutation = mutations[number % len(mutations)]
        mutated, promise = mutation(content, rng)
        if rng.random() < 0.2 and promise != SAME:
            # the first one may have left nothing that the second can work on
            with suppress(ValueError, IndexError, csv.Error):
                mutated, promise = rng.choice(mutations)(mutated, rng)[0], ANY
        found = outcome(mutated, says)
        where = f"{name} {number} {mutation.__name__}"
        if promise == SAME:
            assert found is not None, where
            assert figures(found.points) == figures(good.points), where
        elif promise != ANY and found is not None:
            assert found.rows_read == good.rows_read, where
        tally["rejected" if found is None else "quarantined" if found.bad.height else "accepted"] += 1
        all_found += [] if found is None else [found]
    check_tables(all_found)
    print(f"{name}: {sum(tally.values())} inputs, {dict(tally)}")
    assert min(tally.values()) > 0
    assert sum(tally.values()) == INPUTS // len(FILES)


#: Columns that no other one can do without: in a wrong unit or of a wrong scope a row must not pass.
HELD = (
    "ttft", "tpot", "request_latency", "tokens/s", "tokens/s/gpu", "tokens/s/user", "concurrency", "num_total_gpus",
    "bs", "tp", "osl",
)  # fmt: skip


@pytest.mark.parametrize("column", HELD)
@pytest.mark.parametrize("factor", [1e-3, 1e3, 8.0])
def test_a_wrong_unit_is_noticed(column: str, factor: float) -> None:
    """Seconds for ms, a replica for a cluster, one GPU for eight."""
    for row in _ROWS:
        value = float(row[column]) * factor
        found = outcome(csv_text([{**row, column: repr(int(value) if value == int(value) else value)}]).encode())
        assert found is not None
        assert found.points.is_empty(), f"{column} times {factor:g} was accepted"


@pytest.mark.parametrize("key", ["mean_ttft", "mean_tpot", "mean_e2el", "mean_intvty", "conc", "osl"])
@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_a_wrong_unit_of_a_measured_row_is_noticed(key: str, factor: float) -> None:
    value = {**API_ROW, **API_ROW["metrics"]}[key] * factor
    found = outcome(json.dumps([api(**{key: value})]).encode())
    assert found is not None
    assert found.points.is_empty(), f"{key} times {factor:g} was accepted"


def test_output_given_as_input_and_output_is_noticed() -> None:
    found = outcome(json.dumps([api(output_tput_per_gpu=1311.0)]).encode())
    assert found is not None
    assert found.points.is_empty()
