"""AIPerf's summaries in CSV and JSON, early and late, and the files that are none."""

import json
from pathlib import Path

import pytest

from pipelines.reading.catalogues import load_hardware, load_models
from pipelines.reading.gathering import FileAccount
from pipelines.reading.inputs import find_files
from pipelines.reading.read_inputs import read_inputs
from tests.sources.results import AIPERF_CSV, FACTS, RUN, aiperf_summary, input_file, perf_metrics, row_of
from tests.sources.whole import read_file
from transforms.sources.rows import FileRejectedError

FOLDER = Path("tables", "loadgen", "aiperf", "ai-dynamo+aiperf")


def test_a_summary_in_json() -> None:
    file = input_file(aiperf_summary())
    reading = read_file(file)
    (row,) = reading.rows.to_dicts()
    assert {name: row[name] for name in RUN} == RUN
    assert (reading.format, reading.tool_version, row["reason"]) == ("aiperf", "0.8.0", None)
    assert row["measured_at"] == "2026-03-01T12:00:00+00:00"


def test_a_summary_in_csv_does_not_say_its_slots() -> None:
    """16 in flight by Little's law: 2 requests/s x 8 s."""
    row = row_of(AIPERF_CSV)
    assert {name: pytest.approx(row[name]) for name in RUN} == RUN
    assert (row["source"], row["reason"]) == ("aiperf", None)


def test_the_output_counts_reasoning_tokens() -> None:
    """The block has 101 tokens of output, 61 of them visible."""
    assert row_of(AIPERF_CSV)["osl_tokens"] == 101


def early(**changes: object) -> dict[str, object]:
    """A summary of 0.1: metrics under ``records``, tags that are not the names of later ones."""
    tags = {"time_to_first_token": "ttft"}
    records = {
        tags.get(name, name): {"tag": tags.get(name, name), "header": name.replace("_", " ").title(), **metric}
        for name, metric in perf_metrics().items()
    }
    config = aiperf_summary()["input_config"]
    return {"records": records, "input_config": config, "was_cancelled": False, **changes}


def test_an_early_summary() -> None:
    row = row_of(early())
    assert {name: row[name] for name in RUN} == RUN


@pytest.mark.parametrize(
    ("phases", "concurrency"),
    [
        ([{"type": "concurrency", "concurrency": 20}], 20),
        ([{"type": "concurrency", "concurrency": 4, "exclude_from_results": True},
          {"type": "concurrency", "concurrency": 20}], 20),
        ([{"type": "poisson", "rate": 2.0, "concurrency": 256}], 16),
        ([{"type": "concurrency", "concurrency": 4}, {"type": "concurrency", "concurrency": 20}], 16),
    ],
)  # fmt: skip
def test_slots_of_late_summaries(phases: list[dict[str, object]], concurrency: float) -> None:
    config = {"models": {"items": [{"name": "m"}]}, "endpoint": {"streaming": True}, "phases": phases}
    assert row_of(aiperf_summary(input_config=config))["concurrency_reported"] == pytest.approx(concurrency)


def test_a_request_rate_leaves_the_concurrency_a_limit() -> None:
    config = {"loadgen": {"concurrency": 256, "request_rate": 2.0}}
    assert row_of(aiperf_summary(input_config=config))["concurrency_reported"] == pytest.approx(16)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"error_request_count": {"unit": "requests", "avg": 2}}, None),
        ({"error_request_count": {"unit": "requests", "avg": 3}}, "failed_requests"),
        ({"was_cancelled": True}, "cancelled_run"),
        ({"input_config": {"endpoint": {"streaming": False}}}, "not_streamed"),
        ({"time_to_first_token": {"unit": "minutes", "avg": 1}}, "unknown_unit"),
        ({"time_to_first_token": {"unit": "ms", "avg": None}}, "missing_value"),
        ({"time_to_first_token": {"unit": "ms", "avg": float("nan")}}, "not_a_number"),
        ({"time_to_first_token": {"unit": "ms", "avg": {"p50": 1}}}, "not_a_number"),
        ({"time_to_first_token": {"unit": "sec", "avg": 0.5}}, None),
        ({"request_throughput": {"unit": "requests/sec", "avg": 20.0}}, "throughput_does_not_fit"),
    ],
)
def test_what_is_wrong_with_a_summary(changes: dict[str, object], reason: str | None) -> None:
    row = row_of(aiperf_summary(**changes))
    assert row["reason"] == reason
    if reason is None:
        assert row["ttft_ms"] == 500


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"metadata": {"x_request_id": "a"}, "metrics": {}}, "single requests of an AIPerf run"),
        ({"aiperf_version": "1", "metadata": {"aggregation_type": "confidence"}}, "aggregate of several AIPerf runs"),
        ({"aiperf_version": "1", "timeslices": []}, "time slices"),
        ({"aiperf_version": "1", "summary": {}, "metrics": {}}, "without request latencies"),
        (f"{json.dumps(aiperf_summary())}\n{json.dumps(aiperf_summary())}", "2 records"),
        (AIPERF_CSV.replace("Request Latency", "Latency"), "without request latencies"),
        (AIPERF_CSV + "Request Count,200.00\n", "line 14 gives 'Request Count' a second time"),
        (AIPERF_CSV + "Request Rate,1.00,2.00\n", "line 14 has 3 cells, its block 2"),
    ],
)
def test_files_that_are_refused(content: object, sentence: str) -> None:
    with pytest.raises(FileRejectedError, match=sentence):
        read_file(input_file(content))


def test_gpu_measurements_below_the_blocks_are_left_alone() -> None:
    power = "\n\nEndpoint,GPU_Index,GPU_Name,GPU_UUID,Metric,avg\ndcgm,0,H100,GPU-1,Request Latency (ms),1.00\n"
    assert row_of(AIPERF_CSV + power)["request_latency_ms"] == 8000


def folder_of_both(tmp_path: Path, summary: dict[str, object]) -> list[FileAccount]:
    (tmp_path / "source.yaml").write_text(FACTS)
    (tmp_path / "profile_export_aiperf.csv").write_text(AIPERF_CSV)
    (tmp_path / "profile_export_aiperf.json").write_text(json.dumps(summary))
    return list(read_inputs(find_files([tmp_path]), load_hardware(), load_models()).accounts)


def test_one_run_in_two_files_counts_once(tmp_path: Path) -> None:
    accounts = folder_of_both(tmp_path, aiperf_summary())
    assert [(account.rows_accepted, account.rows_duplicate) for account in accounts] == [(1, 0), (0, 1)]


def test_two_runs_in_two_files_count_twice(tmp_path: Path) -> None:
    """The JSON's TTFT is 510 ms, the CSV's 500."""
    accounts = folder_of_both(tmp_path, aiperf_summary(time_to_first_token={"unit": "ms", "avg": 510.0}))
    assert [(account.rows_accepted, account.rows_duplicate) for account in accounts] == [(1, 0), (1, 0)]


def test_a_real_run_with_failures(shared: Path) -> None:
    """11 of 100 requests were cancelled, as its command line asked."""
    facts = FACTS.replace("model: llama-3-1-70b\n", "")
    row = row_of((shared / FOLDER / "examples__artifacts__run1__profile_export_aiperf.json").read_bytes(), facts)
    assert row["reason"] == "failed_requests"
    assert row["detail"].startswith("11 of 100 requests failed")
    assert (row["model_name"], row["concurrency_reported"]) == ("openai/gpt-oss-20b", 100)
    assert row["ttft_ms"] == 2343.219436988764
    assert row["tpot_ms"] == 27.763065454471807
    printed = row_of((shared / FOLDER / "examples__artifacts__run1__profile_export_aiperf.csv").read_bytes())
    assert printed["reason"] == "failed_requests"
    for name in ("isl_tokens", "osl_tokens", "ttft_ms", "tpot_ms", "request_latency_ms", "requests_per_s"):
        assert printed[name] == pytest.approx(row[name], rel=3e-4)


def test_the_real_file_of_single_requests(shared: Path) -> None:
    content = (shared / FOLDER / "examples__artifacts__run1__profile_export.jsonl").read_bytes()
    with pytest.raises(FileRejectedError, match=r"single requests .* profile_export_aiperf\.json"):
        read_file(input_file(content))
