"""GenAI-Perf's summaries in CSV and JSON: thousands, units in names, runs without streaming."""

from pathlib import Path

import pytest

from tests.sources.results import FACTS, GENAI_CSV, RUN, genai_summary, input_file, row_of
from tests.sources.whole import read_file
from transforms.sources.rows import FileRejectedError


def test_a_summary_in_json() -> None:
    row = row_of(genai_summary())
    assert {name: row[name] for name in RUN} == RUN
    assert (row["source"], row["reason"]) == ("genai-perf", None)


def test_a_summary_in_csv_with_thousands() -> None:
    row = row_of(GENAI_CSV)
    assert {name: pytest.approx(row[name]) for name in RUN} == RUN
    assert (row["source"], row["reason"]) == ("genai-perf", None)


def test_slots_that_the_csv_leaves_out_come_from_the_sidecar() -> None:
    assert row_of(GENAI_CSV, FACTS + "concurrency_reported: 20\n")["concurrency_reported"] == 20


def test_nested_arguments_of_late_releases() -> None:
    config = {"endpoint": {"streaming": True}, "model_names": ["m"], "perf_analyzer": {"stimulus": {"concurrency": 20}}}
    row = row_of(genai_summary(input_config=config), FACTS.replace("model: llama-3-1-70b\n", ""))
    assert (row["model_name"], row["concurrency_reported"]) == ("m", 20)


@pytest.mark.parametrize("config", [{"streaming": False}, {"endpoint": {"streaming": False}}])
def test_without_streaming_the_first_token_is_the_last(config: dict[str, object]) -> None:
    assert row_of(genai_summary(input_config=config))["reason"] == "not_streamed"


def test_a_csv_without_streaming_has_no_time_to_first_token() -> None:
    lines = [line for line in GENAI_CSV.splitlines() if not line.startswith(("Time To First", "Inter Token"))]
    row = row_of("\n".join(lines))
    assert row["reason"] == "missing_value"
    assert row["detail"] == "the file has no TTFT, TPOT, and nothing else can stand for it"


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        ('"1,146.31"', None),
        ("1146.31", None),
        ('"12,1146.31"', "not_a_number"),
        ('"1.146,31"', "not_a_number"),  # a decimal comma
        ('"1146,31"', "not_a_number"),
        ('"1,146"', "not_a_number"),  # one and a bit, or a thousand and more
        ("1_146.31", "not_a_number"),
        ("1e3", "not_a_number"),
        ("NaN", "not_a_number"),
        ("", "missing_value"),
    ],
)
def test_numbers_as_they_are_printed(printed: str, reason: str | None) -> None:
    row = row_of(GENAI_CSV.replace("Time To First Token (ms),500.00", f"Time To First Token (ms),{printed}"))
    assert row["reason"] == reason
    assert row["ttft_ms"] == (1146.31 if reason is None else None)


@pytest.mark.parametrize(("unit", "ttft"), [("s", 500_000), ("ms", 500), ("us", 0.5), ("ns", 0.0005)])
def test_the_unit_stands_in_the_name(unit: str, ttft: float) -> None:
    row = row_of(GENAI_CSV.replace("Time To First Token (ms)", f"Time To First Token ({unit})"))
    assert row["ttft_ms"] == pytest.approx(ttft)


@pytest.mark.parametrize("unit", ["min", "m", "MS", ""])
def test_a_unit_that_is_not_known(unit: str) -> None:
    row = row_of(GENAI_CSV.replace("Time To First Token (ms)", f"Time To First Token ({unit})"))
    assert row["reason"] == "unknown_unit"


def test_the_raw_export_is_refused_by_name() -> None:
    raw = {"service_kind": "openai", "endpoint": "v1/chat/completions", "experiments": []}
    with pytest.raises(FileRejectedError, match="single requests of a GenAI-Perf run"):
        read_file(input_file(raw))


def test_a_real_excerpt_without_its_second_block(shared: Path) -> None:
    """The lines with the rates and lengths are cut off: no rate can be told."""
    content = (shared / "tables" / "loadgen" / "genai_perf" / "profile_export_genai_perf_excerpt.csv").read_bytes()
    row = row_of(content, FACTS + "isl_tokens: 128\nosl_tokens: 174\nconcurrency_reported: 10\n")
    assert (row["ttft_ms"], row["tpot_ms"], row["request_latency_ms"]) == (1146.31, 30.35, 6406.20)
    assert row["reason"] == "missing_value"
    assert row["detail"].startswith("the file has no request rate")
