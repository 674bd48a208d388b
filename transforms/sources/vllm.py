"""vLLM's ``bench serve`` (``benchmark_serving.py`` before 0.9): one JSON object a run, or lines of them.

Keys end in ``_ms``; one family of files has the same keys in seconds, without the suffix. Lengths and
latencies are of completed requests; latencies begin when a request is sent, after any wait for a slot
of ``max_concurrency``. ``backend`` is the client's protocol, not the engine. Read from vLLM's
``vllm/benchmarks/serve.py`` (``calculate_metrics``, ``benchmark``, ``main_async``).
"""

import re
from datetime import UTC, datetime
from typing import Final

from schemas.moments import as_text
from transforms.sources.json_text import Document, first_record, read_json
from transforms.sources.measured import as_serving_rows, runs_frame
from transforms.sources.record import Record, ratio
from transforms.sources.rows import InputFile, Reading
from transforms.sources.text import MAX_FIELD_CHARACTERS

NAME: Final = "vllm"

_LATENCY: Final = re.compile(r"(mean|median)_(ttft|tpot|itl|e2el)(_ms)?")
_CACHED: Final = re.compile(r"(?:^|/)models--(?P<owner>[^/]+?)--(?P<name>[^/]+)(?:/snapshots(?:/.*)?)?/?$")


def recognises(file: InputFile) -> bool:
    """A first record with vLLM's counts of a run and at least one of its latencies."""
    record = first_record(file.content)
    return {"completed", "duration", "num_prompts"} <= record.keys() and any(map(_LATENCY.fullmatch, record))


def read(file: InputFile) -> Reading:
    """One row for each run. Raises ``FileRejectedError``."""
    rows = [_row(document, number) for number, document in enumerate(read_json(file.content).documents, 1)]
    version = file.sidecar.tool_version if file.sidecar else None
    return Reading(NAME, "vLLM bench serve", version, as_serving_rows(runs_frame(rows), NAME, file.sidecar))


def _row(document: Document, number: int) -> dict[str, object]:
    if not isinstance(document.value, dict):
        return broken_row(document, number)
    run = Record(document.value)
    if run.get("ramp_up_strategy") is not None:
        run.flag("changing_load", "the request rate was ramped up: the means are of no one load")
    if "total_input_sequences" in document.value:
        run.flag("no_decode", "a run of a pooling model: it generates no tokens")
    completed, failed = run.number("completed"), run.number("failed")
    prompts = run.number("num_prompts")
    if failed is None and prompts is not None and completed is not None:
        failed = max(prompts - completed, 0.0)
    drafts = run.number("spec_decode_num_drafts")
    drafted = ratio(run.number("spec_decode_draft_tokens"), drafts)
    return run.row(
        number,
        {
            "measured_at": _measured_at(run),
            "model": model_name(run.text("model_id")),
            "isl_tokens": ratio(run.number("total_input_tokens"), completed),
            "osl_tokens": ratio(run.number("total_output_tokens"), completed),
            "concurrency_reported": run.number("max_concurrency") if _is_closed_loop(run) else None,
            "ttft_ms": _latency_ms(run, document.value, "ttft"),
            "tpot_ms": _latency_ms(run, document.value, "tpot"),
            "itl_ms": _latency_ms(run, document.value, "itl"),
            "request_latency_ms": _latency_ms(run, document.value, "e2el"),
            "requests_per_s": run.number("request_throughput"),
            "output_tokens_per_s": run.number("output_throughput"),
            "draft_tokens": None if drafted is None else float(round(drafted)),
            "accepted_tokens": run.number("spec_decode_acceptance_length") if drafts else None,
            "completed": completed,
            "failed": failed,
        },
        run.scalars,
    )


def _measured_at(run: Record) -> str | None:
    """The client's clock at the end of the run; its zone is not in the file and taken for UTC."""
    try:
        return as_text(datetime.strptime(run.text("date") or "", "%Y%m%d-%H%M%S").replace(tzinfo=UTC))
    except ValueError:
        return None


def _is_closed_loop(run: Record) -> bool:
    """Whether the slots alone set the pace: requests are sent at no rate of their own."""
    return run.get("request_rate") in ("inf", "Infinity", None)


def _latency_ms(run: Record, values: dict[str, object], kind: str) -> float | None:
    in_ms, in_s = f"mean_{kind}_ms", f"mean_{kind}"
    families = {key.endswith("_ms") for key in values if _LATENCY.fullmatch(key)}
    if len(families) > 1:
        run.flag("unknown_unit", "some latencies have the suffix _ms and some have none: their unit is not certain")
    seconds = run.number(in_s)
    return run.number(in_ms) if seconds is None else 1e3 * seconds


def model_name(name: str | None) -> str | None:
    """The model of a name or path; a path of the Hugging Face cache holds owner and name."""
    cached = _CACHED.search(name) if name else None
    return f"{cached['owner']}/{cached['name']}" if cached else name


def broken_row(document: Document, number: int) -> dict[str, object]:
    """A line that is no JSON object, as a flagged row."""
    fault = document.fault or f"line {document.line} is no JSON object"
    return {"source_row": number, "raw": document.text[:MAX_FIELD_CHARACTERS], "reason": "not_json", "detail": fault}
