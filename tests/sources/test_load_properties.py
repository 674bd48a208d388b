"""What must hold of a load test in every format: a wrong unit, a failed, ramped or doubled run is refused, or its
figures stay as they were."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.sources.results import (
    AIPERF_CSV,
    FACTS,
    GENAI_CSV,
    aiperf_summary,
    genai_summary,
    guidellm_benchmark,
    guidellm_csv,
    guidellm_report,
    inference_perf_report,
    llm_d_report,
    multi_turn_stats,
    sglang_record,
    vllm_record,
)
from tests.sources.test_measured import judged
from transforms.sources.rows import FileRejectedError

SAYS = f"{FACTS}prefix_tokens: 0\n"
FILES: dict[str, Any] = {
    "vllm": vllm_record(),
    "sglang": sglang_record(),
    "aiperf": aiperf_summary(),
    "genai-perf": genai_summary(),
    "guidellm": guidellm_report(),
    "inference-perf": inference_perf_report(),
    "llm-d": llm_d_report(),
    "vllm-multi-turn": multi_turn_stats(),
}
#: Words of the keys of latencies, in all formats.
LATENCIES = ("ttft", "tpot", "itl", "e2e", "latency")
FIGURES = ("isl_tokens", "osl_tokens", "ttft_ms", "tpot_ms", "request_latency_ms", "requests_per_s")


def outcome(content: object) -> list[tuple[Any, ...]]:
    """The figures that get through; none where the file or its rows are refused."""
    try:
        good, _ = judged(content, SAYS)
    except FileRejectedError:
        return []
    return good.select(FIGURES).rows()


def scaled(value: Any, factor: float, is_latency: Callable[[str], bool], under: bool = False) -> Any:
    """The record with the numbers of its latencies multiplied."""
    if isinstance(value, dict):
        return {key: scaled(item, factor, is_latency, under or is_latency(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [scaled(item, factor, is_latency, under) for item in value]
    return value * factor if under and isinstance(value, int | float) and not isinstance(value, bool) else value


def a_latency(key: str) -> bool:
    words = (*LATENCIES, "time_to_first", "time_per_output")
    return any(word in key for word in words) and "start" not in key


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("factor", [0.1, 0.5, 2.0, 10.0])
def test_latencies_scaled_and_rates_not(name: str, factor: float) -> None:
    if name == "vllm-multi-turn":
        pytest.skip("its rate is made of its latencies")
    assert outcome(FILES[name])
    assert outcome(scaled(FILES[name], factor, a_latency)) == []


def latency_keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            if a_latency(key):
                yield key
            yield from latency_keys(item)
    elif isinstance(value, list):
        yield from latency_keys(value[0] if value else None)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_the_unit_of_one_field_swapped(name: str, factor: float) -> None:
    before = outcome(FILES[name])
    assert before
    for field in set(latency_keys(FILES[name])) - {"latency"}:
        after = outcome(scaled(FILES[name], factor, field.__eq__))
        assert after in ([], before), field


def lens(record: dict[str, Any], zeros: int) -> dict[str, Any]:
    return record | {"output_lens": [0] * zeros + [101] * (200 - zeros)}


FAILED: dict[str, Any] = {
    "vllm": vllm_record(num_prompts=222),
    "vllm-counted": vllm_record(failed=20),
    "vllm-lengths": lens(vllm_record(), 20),
    "vllm-errors": vllm_record(errors=["", *["time out"] * 20]),
    "sglang-lengths": lens(sglang_record(), 20),
    "sglang-errors": sglang_record(errors=["", *["time out"] * 20]),
    "aiperf": aiperf_summary(error_request_count={"unit": "requests", "avg": 20.0}),
    "aiperf-cancelled": aiperf_summary(cancelled_request_count={"unit": "requests", "avg": 20.0}),
    "aiperf-summary": aiperf_summary(error_summary=[{"error_details": {"code": 500}, "count": 20}]),
    "aiperf-csv": AIPERF_CSV + "Error Request Count,20.00\n",
    "guidellm": guidellm_report(guidellm_benchmark(metrics=guidellm_benchmark()["metrics"] | {
        "request_totals": {"successful": 200, "errored": 20, "incomplete": 0, "total": 220}})),
    "guidellm-csv": guidellm_csv(errored=20),
    "inference-perf": inference_perf_report(failures={"count": 20}),
    "llm-d": llm_d_report(requests={"total": 220, "failures": 20, "input_length": {"units": "count", "mean": 1000.0},
                                    "output_length": {"units": "count", "mean": 101.0}}),
    "vllm-multi-turn": [request | {"output_num_tokens": 0 if at % 10 == 0 else 101}
                        for at, request in enumerate(multi_turn_stats())],
}  # fmt: skip


@pytest.mark.parametrize("name", FAILED)
def test_a_tenth_failed(name: str) -> None:
    good, bad = judged(FAILED[name], SAYS)
    assert good.is_empty()
    assert bad["reason"].to_list() == ["failed_requests"]


def phases(**load: Any) -> dict[str, Any]:
    warm_up = {
        "type": "concurrency",
        "concurrency": 16,
        "exclude_from_results": True,
        "concurrency_ramp": {"duration": 9},
    }
    return {"endpoint": {"streaming": True}, "phases": [warm_up, {"type": "concurrency", "concurrency": 16, **load}]}


CONFIG = {"endpoint": {"streaming": True}}
RAMPED: dict[str, Any] = {
    "vllm": vllm_record(ramp_up_strategy="linear"),
    "aiperf": aiperf_summary(input_config=CONFIG | {"loadgen": {"concurrency": 16, "concurrency_ramp_duration": 30.0}}),
    "aiperf-rate": aiperf_summary(input_config=CONFIG | {"loadgen": {
        "request_rate": 2, "request_rate_ramp_duration": 9}}),
    "aiperf-phases": aiperf_summary(input_config=phases(concurrency_ramp={"duration": 30.0})),
    "guidellm": guidellm_report(guidellm_benchmark(config={
        "strategy": {"type_": "concurrent", "streams": 16, "rampup_duration": 30.0}})),
    "guidellm-csv": guidellm_csv(profile='{"type_": "concurrent", "streams": [16], "rampup_duration": 30}'),
}  # fmt: skip


@pytest.mark.parametrize("name", RAMPED)
def test_a_stated_ramp(name: str) -> None:
    good, bad = judged(RAMPED[name], SAYS)
    assert good.is_empty()
    assert bad["reason"].to_list() == ["changing_load"]


def test_a_ramp_that_was_over_before_the_measurement() -> None:
    """In a warm-up, or in a thirtieth of the run."""
    ramp = {"strategy": {"type_": "concurrent", "streams": 16, "rampup_duration": 30.0}}
    assert outcome(guidellm_report(guidellm_benchmark(config=ramp, warmup_duration=30.0)))
    assert outcome(aiperf_summary(input_config=phases()))
    short = CONFIG | {"loadgen": {"concurrency": 16, "concurrency_ramp_duration": 3.0}}
    assert outcome(aiperf_summary(input_config=short, benchmark_duration={"unit": "sec", "avg": 100.0}))


@pytest.mark.parametrize("name", FILES)
def test_a_key_twice(name: str) -> None:
    text = json.dumps(FILES[name])
    first = text.index('"') if text.startswith("{") else text.index("{") + 1
    end = text.index(", ", first)
    assert outcome(f"{text[:end]}, {text[first:end]}{text[end:]}") == []


@pytest.mark.parametrize(("name", "text"), [("aiperf", AIPERF_CSV), ("genai-perf", GENAI_CSV)])
def test_a_metric_twice(name: str, text: str) -> None:
    lines = text.split("\n")
    assert outcome("\n".join([*lines[:2], lines[1], *lines[2:]])) == [], name


def test_a_column_twice() -> None:
    assert outcome(guidellm_csv())
    assert outcome(guidellm_csv(twice="Inter Token Latency")) == []
