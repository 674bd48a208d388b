"""Small results of each load generator, all of one imaginary run whose figures follow from each other.

200 requests of 1,000 + 101 tokens kept 16 in flight for 100 s: 2 requests/s, latency 8 s = 0.5 s to the
first token and 100 steps of 75 ms.
"""

import csv
import hashlib
import io
import json
from typing import Any

from pipelines.reading.sidecars import parse_sidecar
from schemas.sidecar import Sidecar
from tests.sources.whole import read_file
from transforms.sources.rows import InputFile

#: What no load generator knows.
FACTS = "hardware: h100-sxm\nmodel: llama-3-1-70b\nweight_dtype: fp8\nkv_dtype: bf16\nbackend: vllm\ntp: 8\n"

#: The run as a row of one replica.
RUN = {
    "isl_tokens": 1000.0,
    "osl_tokens": 101.0,
    "ttft_ms": 500.0,
    "tpot_ms": 75.0,
    "request_latency_ms": 8000.0,
    "requests_per_s": 2.0,
    "concurrency_reported": 16.0,
}


def sidecar(text: str) -> Sidecar:
    """The ``source.yaml`` of this text."""
    return parse_sidecar(text.encode())[0]


def input_file(content: bytes | str | object, says: str | None = FACTS, path: str = "result") -> InputFile:
    """A file of this content (objects become JSON) beside a ``source.yaml`` of this text."""
    if not isinstance(content, bytes | str):
        content = json.dumps(content)
    raw = content.encode() if isinstance(content, str) else content
    return InputFile(path, raw, hashlib.sha256(raw).hexdigest(), {}, None if says is None else sidecar(says))


def vllm_record(**changes: Any) -> dict[str, Any]:
    """A record as ``vllm bench serve`` writes it; a change to ``...`` takes the key away."""
    record = {
        "date": "20260301-120000",
        "backend": "openai",
        "model_id": "served-name",
        "num_prompts": 200,
        "request_rate": "inf",
        "burstiness": 1.0,
        "max_concurrency": 16,
        "duration": 100.0,
        "completed": 200,
        "total_input_tokens": 200_000,
        "total_output_tokens": 20_200,
        "request_throughput": 2.0,
        "request_goodput:": None,
        "output_throughput": 202.0,
        "total_token_throughput": 2202.0,
        "mean_ttft_ms": 500.0,
        "median_ttft_ms": 490.0,
        "mean_tpot_ms": 75.0,
        "median_tpot_ms": 75.0,
        "mean_itl_ms": 75.0,
        "mean_e2el_ms": 8000.0,
        "p99_e2el_ms": 9000.0,
    }
    return _changed(record, changes)


def sglang_record(**changes: Any) -> dict[str, Any]:
    """A record as ``sglang.bench_serving`` writes it."""
    record = {
        "backend": "sglang",
        "dataset_name": "random",
        "request_rate": float("inf"),
        "max_concurrency": 16,
        "random_input_len": 4096,
        "random_output_len": 512,
        "duration": 100.0,
        "completed": 200,
        "total_input_tokens": 200_000,
        "total_output_tokens": 20_200,
        "total_output_tokens_retokenized": 20_100,
        "request_throughput": 2.0,
        "input_throughput": 2000.0,
        "output_throughput": 202.0,
        "mean_e2e_latency_ms": 8000.0,
        "median_e2e_latency_ms": 7900.0,
        "mean_ttft_ms": 500.0,
        "mean_tpot_ms": 75.0,
        "mean_itl_ms": 75.0,
        "concurrency": 16.0,
        "accept_length": None,
    }
    return _changed(record, changes)


def _metric(unit: str, mean: float) -> dict[str, Any]:
    return {"unit": unit, "avg": mean, "p50": mean}


def perf_metrics() -> dict[str, Any]:
    """The metrics that AIPerf and GenAI-Perf write in JSON."""
    return {
        "request_throughput": _metric("requests/sec", 2.0),
        "request_latency": _metric("ms", 8000.0),
        "request_count": _metric("requests", 200.0),
        "time_to_first_token": _metric("ms", 500.0),
        "inter_token_latency": _metric("ms", 75.0),
        "output_token_throughput": _metric("tokens/sec", 202.0),
        "output_sequence_length": _metric("tokens", 101.0),
        "input_sequence_length": _metric("tokens", 1000.0),
    }


def aiperf_summary(**changes: Any) -> dict[str, Any]:
    """A summary as AIPerf writes it from 0.3 on."""
    summary = {
        "schema_version": "1.0",
        "aiperf_version": "0.8.0",
        **perf_metrics(),
        "input_config": {
            "endpoint": {"model_names": ["served-name"], "streaming": True},
            "loadgen": {"concurrency": 16},
        },
        "was_cancelled": False,
        "start_time": "2026-03-01T12:00:00.5",
    }
    return _changed(summary, changes)


def genai_summary(**changes: Any) -> dict[str, Any]:
    """A summary as GenAI-Perf writes it."""
    metrics = {name: metric for name, metric in perf_metrics().items() if name != "request_count"}
    config = {"model": ["served-name"], "streaming": True, "concurrency": 16, "request_rate": None, "backend": "vllm"}
    return _changed({**metrics, "input_config": config}, changes)


GENAI_CSV = """\
Metric,avg,min,max,p99,p95,p90,p75,p50,p25
Time To First Token (ms),500.00,400.00,600.00,600.00,600.00,600.00,600.00,500.00,400.00
Inter Token Latency (ms),75.00,70.00,80.00,80.00,80.00,80.00,80.00,75.00,70.00
Request Latency (ms),"8,000.00","7,000.00","9,000.00",1.0,1.0,1.0,1.0,1.0,1.0
Output Sequence Length,101.00,101.00,101.00,101.00,101.00,101.00,101.00,101.00,101.00
Input Sequence Length,"1,000.00",1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0

Metric,Value
Output Token Throughput (per sec),202.00
Request Throughput (per sec),2.00
"""

AIPERF_CSV = """\
Metric,avg,min,max,p1,p5,p25,p50,p75,p90,p95,p99,std
Input Sequence Length (tokens),1000.00,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,0.00
Inter Token Latency (ms),75.00,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,0.00
Output Sequence Length (tokens),101.00,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,0.00
Output Token Count (tokens),61.00,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,0.00
Request Latency (ms),8000.00,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,0.00
Time to First Token (ms),500.00,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,0.00

Metric,Value
Benchmark Duration (sec),100.00
Output Token Throughput (tokens/sec),202.00
Request Count,200.00
Request Throughput (requests/sec),2.00
"""


def _by_status(mean: float, count: int = 200) -> dict[str, Any]:
    """A metric of GuideLLM: what did not succeed has figures of its own."""
    other = {"mean": 9e9, "count": 3}
    return {"successful": {"mean": mean, "count": count}, "errored": other, "incomplete": other, "total": other}


def guidellm_benchmark(**changes: Any) -> dict[str, Any]:
    """One benchmark of a GuideLLM report (0.4 and later)."""
    benchmark = {
        "type_": "generative_benchmark",
        "config": {"strategy": {"type_": "concurrent", "streams": 16}, "backend": {"model": "served-name"}},
        "start_time": 1772366400.0,
        "end_time": 1772366500.0,
        "duration": 100.0,
        "metrics": {
            "request_totals": {"successful": 200, "errored": 0, "incomplete": 16, "total": 216},
            "requests_per_second": _by_status(1.99),
            "request_concurrency": _by_status(16.0),
            "request_latency": _by_status(8.0),
            "prompt_token_count": _by_status(1000.0),
            "output_token_count": _by_status(101.0),
            "time_to_first_token_ms": _by_status(500.0),
            "time_per_output_token_ms": _by_status(8000.0 / 101, 20_200),
            "inter_token_latency_ms": _by_status(75.0, 20_000),
        },
    }
    return _changed(benchmark, changes)


def guidellm_report(*benchmarks: dict[str, Any]) -> dict[str, Any]:
    """A GuideLLM report of these benchmarks."""
    return {
        "metadata": {"version": "1", "guidellm_version": "0.5.0"},
        "args": {"model": "served-name"},
        "benchmarks": list(benchmarks or (guidellm_benchmark(),)),
    }


def _changed(record: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**record, **changes}.items() if value is not ...}


def rows_of(content: bytes | str | object, says: str | None = FACTS) -> list[dict[str, Any]]:
    """The rows of a file of this content, by whatever format recognises it."""
    return read_file(input_file(content, says)).rows.to_dicts()


def row_of(content: bytes | str | object, says: str | None = FACTS) -> dict[str, Any]:
    """The only row of a file of this content."""
    (row,) = rows_of(content, says)
    return row


def _summary(mean: float) -> dict[str, float]:
    return {"mean": mean, "min": mean, "median": mean, "p99": mean, "max": mean}


def inference_perf_report(**changes: Any) -> dict[str, Any]:
    """A stage of inference-perf 0.6: a load of 16 slots. All latencies are seconds."""
    latency = {"request_latency": 8.0, "time_per_output_token": 0.075, "time_to_first_token": 0.5,
               "inter_token_latency": 0.075, "normalized_time_per_output_token": 8 / 101}  # fmt: skip
    report = {
        "benchmark_time_seconds": 100.0,
        "load_summary": {"count": 200, "send_duration": 92.0, "requested_rate": 2.0, "achieved_rate": 2.17,
                         "concurrency": 16},
        "successes": {
            "count": 200,
            "latency": {name: _summary(value) for name, value in latency.items()},
            "throughput": {"output_tokens_per_sec": 202.0, "requests_per_sec": 2.0},
            "prompt_tokens": {"total": 200_000.0, "cached": 0.0, "uncached": 200_000.0, **_summary(1000.0)},
            "output_len": _summary(101.0),
        },
        "failures": {"count": 0, "request_latency": None},
    }  # fmt: skip
    return _changed(report, changes)


def llm_d_report(**changes: Any) -> dict[str, Any]:
    """A benchmark report of version 0.2: one engine of TP8 under 16 slots. ``changes`` are of its aggregate."""
    engine = {
        "kind": "inference_engine", "tool": "vllm", "tool_version": "0.15.0", "role": "replica", "replicas": 1,
        "model": {"name": "served-name"},
        "accelerator": {"model": "NVIDIA-H100-80GB-HBM3", "count": 8,
                        "parallelism": {"tp": 8, "dp": 1, "pp": 1, "ep": 1}},
    }  # fmt: skip
    aggregate = {
        "requests": {"total": 200, "failures": 0, "input_length": {"units": "count", "mean": 1000.0},
                     "output_length": {"units": "count", "mean": 101.0}},
        "latency": {"time_to_first_token": {"units": "s", "mean": 0.5},
                    "time_per_output_token": {"units": "ms/token", "mean": 75.0},
                    "request_latency": {"units": "s", "mean": 8.0}},
        "throughput": {"output_token_rate": {"units": "tokens/s", "mean": 202.0},
                       "request_rate": {"units": "queries/s", "mean": 2.0}},
    }  # fmt: skip
    return {
        "version": "0.2",
        "run": {"uid": "r1", "time": {"start": "2026-03-01T12:00:00Z"}},
        "scenario": {
            "stack": [{"metadata": {"label": "vllm-0"}, "standardized": engine,
                       "native": {"args": {"--max-num-seqs": 256, "--port": 8000}}}],
            "load": {"standardized": {"tool": "guidellm", "tool_version": "0.7.3", "concurrency": 16}},
        },
        "results": {"request_performance": {"aggregate": _changed(aggregate, changes)}},
    }  # fmt: skip


def guidellm_csv(*, drop: tuple[str, ...] = (), twice: str | None = None, **changes: object) -> str:
    """The CSV that GuideLLM 0.7 writes beside its report; a change is of a column by its field."""
    profile = '{"type_": "concurrent", "streams": [16], "rampup_duration": 0.0}'
    columns: list[tuple[str, str, str, object]] = [
        ("Run Info", "Profile", "", profile),
        ("Run Info", "Backend", "", '{"kind": "openai_http", "model": "served-name"}'),
        ("Benchmark", "Type", "", "generative_benchmark"),
        ("Benchmark", "Strategy", "", "concurrent"),
        ("Timings", "Duration", "Sec", 100.0),
        ("Timings", "Warmup", "Sec", 0.0),
        ("Request Counts", "Successful", "", 200),
        ("Request Counts", "Incomplete", "", 16),
        ("Request Counts", "Errored", "", 0),
        ("Request Latency", "Successful Sec", "Mean", 8.0),
        ("Request Latency", "Successful Sec", "Median", 7.9),
        ("Time to First Token", "Successful ms", "Mean", 500.0),
        ("Time per Output Token", "Successful ms", "Mean", 79.2),
        ("Inter Token Latency", "Successful ms", "Mean", 75.0),
        ("Token Metrics", "Successful Input Tokens", "Mean", 1000.0),
        ("Token Metrics", "Successful Output Tokens", "Mean", 101.0),
        ("Runtime Info", "Metadata", "", '{"guidellm_version": "0.7.3"}'),
    ]
    kept = [column for column in columns if column[0] not in drop]
    kept += [column for column in kept if column[0] == twice]
    rows = [[column[line] for column in kept] for line in range(3)]
    values = [changes.get(column[0].replace(" ", "_").lower(), changes.get(column[1].lower(), column[3]))
              for column in kept]  # fmt: skip
    text = io.StringIO()
    csv.writer(text).writerows([*rows, values])
    return text.getvalue()


def multi_turn_stats(**changes: Any) -> list[dict[str, Any]]:
    """Requests of vLLM's multi-turn benchmark: 16 clients, each twelve turns one after the other."""
    return [
        {
            "ttft_ms": 500.0, "tpot_ms": 75.0, "latency_ms": 8000.0, "start_time_ms": 8000.0 * turn,
            "input_num_turns": 2 * turn + 1, "input_num_tokens": 1000, "output_num_tokens": 101,
            "output_num_chunks": 100, "output_num_first_chunk_tokens": 1, "approx_cached_percent": 60.0,
            "conversation_id": f"c{client}", "client_id": client, **changes,
        }
        for client in range(16) for turn in range(12)
    ]  # fmt: skip
