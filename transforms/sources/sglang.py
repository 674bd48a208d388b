"""SGLang's ``bench_serving``: lines of JSON, one a run.

All latencies are ms, of completed requests, and begin when a request is sent. ``concurrency`` is what
was in flight on average (sum of latencies over duration); ``max_concurrency`` is only the most that
were let through. ``random_input_len`` and its like are arguments, not lengths of the requests. Newer
files carry ``server_info``: the arguments and the version of the server. Read from SGLang's
``python/sglang/bench_serving.py`` (``calculate_metrics``, ``benchmark``).
"""

from typing import Final

from transforms.sources.json_text import Document, first_record, read_json
from transforms.sources.measured import as_serving_rows, runs_frame
from transforms.sources.record import Record, ratio
from transforms.sources.rows import InputFile, Reading
from transforms.sources.vllm import broken_row, model_name

NAME: Final = "sglang"

#: The client's protocol -> the engine that it is for; the tool asks for the engine by this name.
_ENGINES: Final = {
    "sglang": "sglang", "sglang-native": "sglang", "sglang-oai": "sglang", "sglang-oai-chat": "sglang",
    "vllm": "vllm", "vllm-chat": "vllm", "trt": "trtllm",
}  # fmt: skip
_FP8_CACHES: Final = ("fp8_e4m3", "fp8_e5m2")


def recognises(file: InputFile) -> bool:
    """A first record with the latencies that only this tool names so."""
    return {"completed", "duration", "mean_e2e_latency_ms", "mean_ttft_ms"} <= first_record(file.content).keys()


def read(file: InputFile) -> Reading:
    """One row for each run. Raises ``FileRejectedError``."""
    documents = read_json(file.content).documents
    rows = [_row(document, number) for number, document in enumerate(documents, 1)]
    version = file.sidecar.tool_version if file.sidecar else None
    return Reading(NAME, "SGLang bench_serving", version, as_serving_rows(runs_frame(rows), NAME, file.sidecar))


def _row(document: Document, number: int) -> dict[str, object]:
    if not isinstance(document.value, dict):
        return broken_row(document, number)
    run = Record(document.value)
    completed = run.number("completed")
    slots = run.number("max_concurrency") if run.get("request_rate") in ("inf", "Infinity", None) else None
    return run.row(
        number,
        {
            "backend": _ENGINES.get(run.text("backend") or ""),
            "isl_tokens": ratio(run.number("total_input_tokens"), completed),
            "osl_tokens": ratio(run.number("total_output_tokens"), completed),
            "concurrency_reported": slots,
            "in_flight_stated": run.number("concurrency"),
            "ttft_ms": run.number("mean_ttft_ms"),
            "tpot_ms": run.number("mean_tpot_ms"),
            "itl_ms": run.number("mean_itl_ms"),
            "request_latency_ms": run.number("mean_e2e_latency_ms"),
            "requests_per_s": run.number("request_throughput"),
            "output_tokens_per_s": run.number("output_throughput"),
            "completed": completed,
            **_drafts(run),
            **_server(run),
        },
        run.scalars,
    )


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
    tp, pp, dp, ep = (run.number("server_info", f"{name}_size") or 1.0 for name in ("tp", "pp", "dp", "ep"))
    splits_sessions = run.get("server_info", "enable_dp_attention") is True
    shape = {
        "tp": tp / dp if splits_sessions else tp,
        "pp": pp,
        "dp": dp if splits_sessions else 1.0,
        "replicas": 1.0 if splits_sessions else dp,
        "moe_ep": ep,
        "moe_tp": tp / ep,
    }
    # a server of a disaggregated deployment is one of its pools
    is_whole = run.text("server_info", "disaggregation_mode") in (None, "null")
    return {
        "model": model_name(run.text("server_info", "model_path")),
        "backend": "sglang",
        "backend_version": run.text("server_info", "version"),
        "kv_dtype": "fp8" if run.text("server_info", "kv_cache_dtype") in _FP8_CACHES else None,
        **(shape if is_whole else {}),
    }
