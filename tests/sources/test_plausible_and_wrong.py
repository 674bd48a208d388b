"""Ten results that look right and are not, thought up as a person would make them: each is refused, or read rightly."""

from typing import Any

import pytest

from tests.sources.results import (
    FACTS,
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
