"""GuideLLM's reports: seconds beside ms, what became of the requests, a TPOT that is none."""

import json
from pathlib import Path

import pytest

from tests.sources.results import FACTS, RUN, guidellm_benchmark, guidellm_report, input_file, row_of, rows_of
from tests.sources.whole import read_file
from transforms.sources.rows import FileRejectedError


def test_a_benchmark() -> None:
    """Its time_per_output_token_ms is 8000/101 = 79.2 with the first token's wait; a step takes 75 ms.

    Its requests_per_second leaves out the first of 200 requests.
    """
    reading = read_file(input_file(guidellm_report()))
    (row,) = reading.rows.to_dicts()
    assert {name: row[name] for name in RUN} == RUN
    assert (reading.format, reading.tool_version, row["reason"]) == ("guidellm", "0.5.0", None)
    assert row["measured_at"] == "2026-03-01T12:00:00+00:00"


def test_a_report_has_a_row_for_each_benchmark() -> None:
    strategies = [{"type_": "synchronous"}, {"type_": "concurrent", "streams": 16}, {"type_": "constant", "rate": 2}]
    benchmarks = [guidellm_benchmark(config={"strategy": strategy}) for strategy in strategies]
    rows = rows_of(guidellm_report(*benchmarks))
    assert [row["source_row"] for row in rows] == [1, 2, 3]
    assert [row["concurrency_reported"] for row in rows] == [1, 16, 16]
    # one stream cannot have sixteen in flight
    assert [row["reason"] for row in rows] == ["breaks_littles_law", None, None]


def test_a_benchmark_of_an_early_release() -> None:
    """0.2 and 0.3 keep strategy, totals and model elsewhere and write no duration."""
    benchmark = guidellm_benchmark(config=..., duration=...)
    del benchmark["metrics"]["request_totals"]
    benchmark |= {
        "args": {"strategy": {"type_": "concurrent", "streams": 16}},
        "worker": {"backend_model": "early-name"},
        "request_totals": {"successful": 200, "errored": 0, "incomplete": 16},
    }
    row = row_of({"benchmarks": [benchmark]}, FACTS.replace("model: llama-3-1-70b\n", ""))
    assert {name: row[name] for name in RUN} == RUN
    assert (row["model_name"], row["reason"]) == ("early-name", None)


def changed_metric(name: str, **changes: object) -> dict[str, object]:
    benchmark = guidellm_benchmark()
    benchmark["metrics"][name]["successful"].update(changes)
    return benchmark


@pytest.mark.parametrize(
    ("benchmark", "reason"),
    [
        (changed_metric("time_to_first_token_ms", mean=None), "missing_value"),
        (changed_metric("time_to_first_token_ms", mean="500"), "not_a_number"),
        (changed_metric("request_latency", mean=8000.0), "latency_does_not_fit_parts"),  # ms where seconds belong
        (guidellm_benchmark(duration=0.0), "missing_value"),
        ([1, 2], "not_json"),
        (7, "not_json"),
    ],
)
def test_what_is_wrong_with_a_benchmark(benchmark: object, reason: str) -> None:
    report = guidellm_report()
    report["benchmarks"].append(benchmark)
    good, bad = rows_of(report)
    assert good["reason"] is None
    assert bad["reason"] == reason


def test_requests_cut_off_at_the_end_are_no_failures_and_errors_are() -> None:
    errors = guidellm_benchmark()
    errors["metrics"]["request_totals"]["errored"] = 3
    assert [row["reason"] for row in rows_of(guidellm_report(guidellm_benchmark(), errors))] == [
        None,
        "failed_requests",
    ]


def test_two_reports_in_one_file() -> None:
    line = json.dumps(guidellm_report())
    with pytest.raises(FileRejectedError, match="2 records"):
        read_file(input_file(f"{line}\n{line}"))


def test_a_real_report(shared: Path) -> None:
    """Four requests of 99 + 1024 tokens together: 4 / 24.9096 s = 0.16058 requests/s x 24.9087 s = 4 in flight."""
    (path,) = (shared / "tables" / "loadgen" / "guidellm").rglob("*.json")
    facts = FACTS.replace("model: llama-3-1-70b\n", "").replace("tp: 8", "tp: 4")
    row = row_of(path.read_bytes(), facts)
    assert row["reason"] is None
    assert (row["model_name"], row["concurrency_reported"]) == ("Qwen/Qwen3-4B-Thinking-2507", 4)
    assert (row["isl_tokens"], row["osl_tokens"]) == (99, 1024)
    assert row["ttft_ms"] == 171.7655062675476
    assert row["tpot_ms"] == 24.17877651496134
    assert row["request_latency_ms"] == pytest.approx(24908.65981578827)
    assert row["requests_per_s"] == pytest.approx(4 / 24.909644603729248)
    assert row["ttft_ms"] + row["tpot_ms"] * 1023 == pytest.approx(row["request_latency_ms"], rel=1e-3)
