"""SGLang's ``bench_serving``: lines of JSON, one a run.

All latencies are ms, of completed requests, and begin when a request is sent. ``concurrency`` is what
was in flight on average (sum of latencies over duration); ``max_concurrency`` is only the most that
were let through. ``random_input_len`` and its like are arguments, not lengths of the requests. Newer
files carry ``server_info``: the arguments and the version of the server. Read from SGLang's
``python/sglang/bench_serving.py`` (``calculate_metrics``, ``benchmark``).
"""

from typing import Final

from transforms.sources.json_text import Document, first_record, read_json
from transforms.sources.measured import as_serving_rows, runs_frame, statistic_said
from transforms.sources.record import Record, ratio
from transforms.sources.rows import InputFile, Reading
from transforms.sources.settings import setting_text
from transforms.sources.vllm import STATISTICS, broken_row, model_name, most_failed

NAME: Final = "sglang"

#: The client's protocol -> the engine that it is for; the tool asks for the engine by this name.
_ENGINES: Final = {
    "sglang": "sglang", "sglang-native": "sglang", "sglang-oai": "sglang", "sglang-oai-chat": "sglang",
    "vllm": "vllm", "vllm-chat": "vllm", "trt": "trtllm",
}  # fmt: skip
_FP8_CACHES: Final = ("fp8_e4m3", "fp8_e5m2")
#: Loads whose prompts begin alike: how much of them the cache held, the file says only with ``--cache-report``.
_SHARED_PREFIXES: Final = ("generated-shared-prefix", "gsp", "mooncake")
#: Arguments of the server that change how fast it is, and are no dimension of its shape.
_FLAGS: Final = (
    "attention_backend", "chunked_prefill_size", "cuda_graph_max_bs", "disable_cuda_graph", "disable_overlap_schedule",
    "disable_radix_cache", "enable_dp_lm_head", "enable_hierarchical_cache", "enable_mixed_chunk",
    "enable_torch_compile", "enable_two_batch_overlap", "max_prefill_tokens", "max_running_requests",
    "mem_fraction_static", "moe_a2a_backend", "moe_runner_backend", "num_continuous_decode_steps", "page_size",
    "quantization", "sampling_backend", "schedule_conservativeness", "schedule_policy", "speculative_algorithm",
    "stream_interval",
)  # fmt: skip


def recognises(file: InputFile) -> bool:
    """A first record with the latencies that only this tool names so."""
    return {"completed", "duration", "mean_e2e_latency_ms", "mean_ttft_ms"} <= first_record(file.content).keys()


def read(file: InputFile) -> Reading:
    """One row for each run. Raises ``FileRejectedError``."""
    documents = read_json(file.content).documents
    said = statistic_said(file.sidecar)
    rows = [_row(document, number, said) for number, document in enumerate(documents, 1)]
    version = file.sidecar.tool_version if file.sidecar else None
    return Reading(NAME, "SGLang bench_serving", version, as_serving_rows(runs_frame(rows), NAME, file.sidecar))


def _row(document: Document, number: int, statistic: str) -> dict[str, object]:
    if not isinstance(document.value, dict):
        return broken_row(document, number)
    run = Record(document.value)
    completed = run.number("completed")
    # without a limit all requests are sent at once, each into a slot of its own
    slots = run.number("max_concurrency") or completed
    closed = run.get("request_rate") in ("inf", "Infinity", None)
    word = next(word for word, name in STATISTICS.items() if name == statistic)
    return run.row(
        number,
        {
            "backend": _ENGINES.get(run.text("backend") or ""),
            "isl_tokens": ratio(run.number("total_input_tokens"), completed),
            "osl_tokens": ratio(run.number("total_output_tokens"), completed),
            "concurrency_reported": slots if closed else None,
            "in_flight_stated": run.number("concurrency"),
            "ttft_ms": run.number(f"{word}_ttft_ms"),
            "tpot_ms": run.number(f"{word}_tpot_ms"),
            "itl_ms": run.number(f"{word}_itl_ms"),
            "request_latency_ms": run.number(f"{word}_e2e_latency_ms"),
            "latency_statistic": statistic,
            "requests_per_s": run.number("request_throughput"),
            "output_tokens_per_s": run.number("output_throughput"),
            "completed": completed,
            "wall_s": run.number("duration"),
            "failed": most_failed(run, 0.0),
            "prefix_tokens": ratio(run.number("cache_report", "total_cached_tokens"), completed),
            "shares_prefix": run.get("dataset_name") in _SHARED_PREFIXES,
            "setting": _setting(run),
            **_drafts(run),
            **_server(run),
        },
        run.scalars,
    )


def _setting(run: Record) -> str | None:
    """The label of the run and the arguments of its server."""
    flags = {name: run.get("server_info", name) for name in _FLAGS}
    given = {name: value for name, value in flags.items() if value is not False}
    return setting_text({"tag": run.get("tag"), **given})


def _drafts(run: Record) -> dict[str, object]:
    """Tokens that a verified step yields; the server says 0 or nothing where it drafts none."""
    accepted = run.number("accept_length")
    verified = run.number("server_info", "speculative_num_draft_tokens")
    drafts = verified - 1 if verified else None  # one of those verified is the target's own
    return {"accepted_tokens": accepted, "draft_tokens": drafts} if accepted else {}


def _server(run: Record) -> dict[str, object]:
    """Shape, model, version and cache of the server, where the file has them.

    With attention data parallelism ``tp_size`` counts all GPUs of the group, without it ``dp_size``
    counts whole replicas.
    """
    if not isinstance(run.get("server_info"), dict) or run.get("server_info", "tp_size") is None:
        return {}
    sizes = (run.number("server_info", f"{name}_size") for name in ("tp", "pp", "dp", "ep"))
    tp, pp, dp, ep = (1.0 if size is None else size for size in sizes)
    splits_sessions = run.get("server_info", "enable_dp_attention") is True
    shape = {
        "tp": ratio(tp, dp) if splits_sessions else tp,
        "pp": pp,
        "dp": dp if splits_sessions else 1.0,
        "replicas": 1.0 if splits_sessions else dp,
        "moe_ep": ep,
        "moe_tp": ratio(tp, ep),
    }
    # a server of a disaggregated deployment is one of its pools
    is_whole = run.text("server_info", "disaggregation_mode") in (None, "null")
    return {
        "model": model_name(run.text("server_info", "model_path")),
        "backend": "sglang",
        "backend_version": run.text("server_info", "version"),
        "precision_name": run.text("server_info", "quantization"),
        "stated_kv_dtype": run.text("server_info", "kv_cache_dtype"),
        # each rank of attention data parallelism keeps a cache of its own
        "kv_tokens": _times(run.number("server_info", "max_total_num_tokens"), dp if splits_sessions else 1.0),
        "kv_dtype": "fp8" if run.text("server_info", "kv_cache_dtype") in _FP8_CACHES else None,
        **(shape if is_whole else {}),
    }


def _times(count: float | None, ranks: float) -> float | None:
    return None if count is None else count * ranks
