"""Whatever a file holds, a fit ends in a scenario file that can be read or in a sentence."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.reading.catalogues import load_scenarios
from pipelines.reading.traces import FitOptions, fit_scenario, write_scenario
from schemas.errors import UserError
from transforms.traces.formats import FORMATS

VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5_000), st.integers(10**11, 10**400), st.floats(), st.text(max_size=5),
    st.lists(st.integers(-2, 9), max_size=4), st.just("2026-06-01T05:00:00Z"), st.just({}), st.just([{}]),
)  # fmt: skip
NAMES = (
    "session_id", "round_index", "input_tokens_total", "prefix_tokens", "output_tokens", "timing_events", "tools",
    "input_length", "output_length", "hash_ids", "timestamp", "delay", "input", "output", "requests", "in", "out", "t",
    "api_time", "think_time", "stop", "block_size", "system_tokens",
)  # fmt: skip
ROWS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=12)
SESSIONS = st.builds(lambda row, requests: row | {"requests": requests}, ROWS, st.lists(ROWS, max_size=4))
#: One good row of each format of JSON; a test spoils some of its fields.
GOOD: tuple[dict[str, Any], ...] = (
    {"session_id": "s", "input_length": 700, "output_length": 9, "hash_ids": [1, 2], "delay": 5.0},
    {"timestamp": 4, "input_length": 700, "output_length": 9, "hash_ids": [1, 2]},
    {"session_id": "s", "timestamp": 10**15, "input": "abc", "output": "d"},
    {
        "session_id": "s", "round_index": 0, "input_tokens_total": 90, "prefix_tokens": 9, "output_tokens": 5,
        "timing_events": [{"event_type": "tool_result", "timestamp": "2026-06-01T05:00:00Z"}],
        "tools": [{"emitted_at": "2026-06-01T05:00:00Z", "result_at": "2026-06-01T05:00:04"}],
    },
    {"in": 130, "out": 10, "hash_ids": [1, 2, 3], "stop": "tool_use", "api_time": 2.5, "t": 0},
)  # fmt: skip
SPOILED = st.sampled_from(GOOD).flatmap(
    lambda good: st.lists(
        st.dictionaries(st.sampled_from([*good]), VALUES, max_size=2).map(lambda wrong: good | wrong), max_size=5
    )
)
CELLS = st.one_of(
    st.integers(0, 300).map(str),
    st.integers(0, 3_000).map(str),
    st.integers(-2, 3_000).map(str),
    st.floats().map(str),
    st.text("a,\"'\n\r é", max_size=4),
    st.just("1e300"),
)


def ends_well(path: Path, content: bytes, form: str | None) -> None:
    path.write_bytes(content)
    try:
        scenario = fit_scenario([path], FitOptions("any", format=form))
    except UserError:
        return
    out = path.with_suffix(".yaml")
    write_scenario(scenario, out)
    assert load_scenarios([str(out)]) == (scenario,)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("any") / "trace"


FORM = st.one_of(st.none(), st.sampled_from([*FORMATS]))
MODEST = settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow])


@MODEST
@given(st.lists(st.one_of(ROWS, SESSIONS), max_size=6), FORM)
def test_json(path: Path, rows: list[dict[str, Any]], form: str | None) -> None:
    ends_well(path, "\n".join(map(json.dumps, rows)).encode(), form)


@MODEST
@given(SPOILED, FORM)
def test_spoiled_rows(path: Path, rows: list[dict[str, Any]], form: str | None) -> None:
    whole = [{"requests": rows}] if rows and "in" in rows[0] else rows
    ends_well(path, "\n".join(map(json.dumps, whole)).encode(), form)


@MODEST
@given(st.lists(st.tuples(*[CELLS] * 7), max_size=6), FORM)
def test_tables(path: Path, rows: list[tuple[str, ...]], form: str | None) -> None:
    header = "session,turn,isl,osl,hit_tok,think,api\n"
    ends_well(path, (header + "\n".join(map(",".join, rows))).encode(), form)


@MODEST
@given(st.binary(max_size=60), FORM)
def test_bytes(path: Path, content: bytes, form: str | None) -> None:
    ends_well(path, content, form)
