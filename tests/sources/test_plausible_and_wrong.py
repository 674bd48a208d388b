"""Ten results that look right and are not, thought up as a person would make them: each is refused, or read rightly."""

from typing import Any

import pytest

from tests.sources.results import (
    FACTS,
    GENAI_CSV,
    aiperf_summary,
    guidellm_benchmark,
    guidellm_report,
    inference_perf_report,
    llm_d_report,
    sglang_record,
    vllm_record,
)
from tests.sources.test_measured import judged

PER_GPU = {"request_throughput": 2.0 / 8, "output_throughput": 202.0 / 8}
#: The latency as if a streamed run had been waited for whole.
WHOLE = {"unit": "ms", "avg": 8000.0}


def two_engines() -> dict[str, Any]:
    """One load over two engines, whose report was edited to name one of them."""
    report = llm_d_report()
    report["scenario"]["stack"][0]["standardized"]["accelerator"]["count"] = 16
    return report


def one_stream() -> dict[str, Any]:
    """A sweep's rows copied under the strategy of its first."""
    return guidellm_report(guidellm_benchmark(config={"strategy": {"type_": "synchronous"}}))


WRONG: dict[str, tuple[object, str, str]] = {
    "rates written down per GPU": (vllm_record(**PER_GPU), FACTS, "load_not_steady"),
    "the figures of the run before pasted over the latencies": (
        vllm_record(mean_e2el_ms=4000.0, mean_ttft_ms=250.0, mean_tpot_ms=37.5), FACTS, "load_not_steady",
    ),
    "seconds under keys that say ms": (
        vllm_record(mean_ttft_ms=0.5, mean_tpot_ms=0.075, mean_itl_ms=0.075, mean_e2el_ms=8.0), FACTS,
        "load_not_steady",
    ),
    "a run whose client was throttled at its end": (sglang_record(concurrency=9.0), FACTS, "breaks_littles_law"),
    "a sidecar copied from a folder of another model": (
        vllm_record(model_id="openai/gpt-oss-120b"), FACTS, "sidecar_disagrees",
    ),
    "an FP8 checkpoint under a sidecar of BF16": (
        vllm_record(model_id="org/Llama-3.1-70B-Instruct-FP8"), FACTS.replace("fp8", "bf16"), "sidecar_disagrees",
    ),
    "a run that did not stream": (
        aiperf_summary(time_to_first_token=WHOLE, inter_token_latency={"unit": "ms", "avg": 0.0}), FACTS, "no_decode",
    ),
    "requests dropped by a proxy": (inference_perf_report(failures={"count": 9}), FACTS, "failed_requests"),
    "a count of accelerators of the whole cluster": (two_engines(), FACTS, "gpus_do_not_fit_shape"),
    "streams of another row of the sweep": (one_stream(), FACTS, "breaks_littles_law"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_is_refused(name: str) -> None:
    content, says, reason = WRONG[name]
    good, bad = judged(content, says)
    assert good.is_empty()
    assert bad["reason"].to_list() == [reason]


def test_drafts_that_were_never_accepted_are_what_they_are() -> None:
    """One token a step in spite of two drafts: slow, and possible."""
    good, _ = judged(vllm_record(), f"{FACTS}draft_tokens: 2\naccepted_tokens: 1.0\n")
    assert good.select("draft_tokens", "accepted_tokens").row(0) == (2, 1.0)


MORE_WRONG: dict[str, tuple[object, str]] = {
    "the duration of another run": (vllm_record(duration=1000.0), "throughput_does_not_fit"),
    "the same of SGLang": (sglang_record(duration=250.0), "throughput_does_not_fit"),
    "fewer requests than slots": (
        vllm_record(num_prompts=8, completed=8, duration=4.0, total_input_tokens=8000, total_output_tokens=808),
        "load_not_steady",
    ),
    "a run over two models": (
        aiperf_summary(
            input_config={
                "endpoint": {"model_names": ["meta-llama/Llama-3.1-70B-Instruct", "Qwen/Qwen3-32B"], "streaming": True},
                "loadgen": {"concurrency": 16},
            }
        ),
        "several_models",
    ),
    "requests sent faster than the server answers": (
        guidellm_report(guidellm_benchmark(config={"strategy": {"type_": "poisson", "rate": 5.0}})), "load_not_steady",
    ),
    "answers of one token": (
        vllm_record(
            total_output_tokens=200, output_throughput=2.0, mean_tpot_ms=0.0, mean_itl_ms=0.0, mean_e2el_ms=500.0,
            total_token_throughput=2002.0,
        ),
        "load_not_steady",
    ),
    "a first token later than the whole answer": (vllm_record(mean_ttft_ms=9000.0), "latency_does_not_fit_parts"),
    "a latency in us beside the others in ms": (
        GENAI_CSV.replace("Request Latency (ms)", "Request Latency (us)"), "latency_does_not_fit_parts",
    ),
    "TTFT and ITL under each other's names": (
        GENAI_CSV.replace("Time To First Token (ms)", "_")
        .replace("Inter Token Latency (ms)", "Time To First Token (ms)")
        .replace("_", "Inter Token Latency (ms)"),
        "latency_does_not_fit_parts",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MORE_WRONG)
def test_more_is_refused(name: str) -> None:
    content, reason = MORE_WRONG[name]
    good, bad = judged(content, FACTS)
    assert good.is_empty()
    assert bad["reason"].to_list() == [reason]


def test_a_prefix_as_long_as_the_input_is_refused() -> None:
    good, bad = judged(vllm_record(), f"{FACTS}prefix_tokens: 1000\n")
    assert good.is_empty()
    assert bad["reason"].to_list() == ["prefix_not_below_input"]


def test_requests_at_a_rate_that_is_served_are_read() -> None:
    """2 requests/s sent and done: a load at a rate, its concurrency what is in flight."""
    for content in (
        guidellm_report(guidellm_benchmark(config={"strategy": {"type_": "poisson", "rate": 2.0}})),
        vllm_record(max_concurrency=None, request_rate=2.0),
    ):
        good, _ = judged(content, FACTS)
        assert good["concurrency_reported"].to_list() == [pytest.approx(16.0)]
