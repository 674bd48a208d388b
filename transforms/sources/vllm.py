"""vLLM's ``bench serve`` (``benchmark_serving.py`` before 0.9): one JSON object a run, or lines of them.

Keys end in ``_ms``; one family of files has the same keys in seconds, without the suffix. Lengths and
latencies are of completed requests; latencies begin when a request is sent, after any wait for a slot
of ``max_concurrency``. ``backend`` is the client's protocol, not the engine. Read from vLLM's
``vllm/benchmarks/serve.py`` (``calculate_metrics``, ``benchmark``, ``main_async``), 0.6 to 0.15. What a record
has beside its own keys is what the user or a sweep of server flags wrote into it (``setting``).
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from schemas.moments import as_text
from transforms.sources.json_text import Document, first_record, read_json
from transforms.sources.measured import as_serving_rows, runs_frame, statistic_said
from transforms.sources.record import Record, ratio
from transforms.sources.rows import InputFile, Reading
from transforms.sources.settings import other_settings
from transforms.sources.text import MAX_FIELD_CHARACTERS

NAME: Final = "vllm"
#: Word of a latency's key -> the statistic that it is.
STATISTICS: Final = {"mean": "mean", "median": "p50"}

_LATENCY: Final = re.compile(r"(mean|median)_(ttft|tpot|itl|e2el)(_ms)?")
#: Keys of the tool that say how it loaded the server, not how the server was set up.
_OWN_KEYS: Final = (
    "date", "endpoint_type", "backend", "model_id", "tokenizer_id", "num_prompts", "request_rate", "burstiness",
    "max_concurrency", "duration", "completed", "failed", "good_completed", "request_goodput", "request_goodput:",
    "max_output_tokens_per_s", "max_concurrent_requests", "best_of", "rtfx", "ramp_up_strategy", "ramp_up_start_rps",
    "ramp_up_end_rps", "spec_decode_acceptance_length", "spec_decode_draft_tokens", "spec_decode_accepted_tokens",
    "spec_decode_num_drafts", "input_len", "output_len",
)  # fmt: skip
_CACHED: Final = re.compile(r"(?:^|/)models--(?P<owner>[^/]+?)--(?P<name>[^/]+)(?:/snapshots(?:/.*)?)?/?$")


def recognises(file: InputFile) -> bool:
    """A first record with vLLM's counts of a run and at least one of its latencies."""
    record = first_record(file.content)
    return {"completed", "duration", "num_prompts"} <= record.keys() and any(map(_LATENCY.fullmatch, record))


def read(file: InputFile) -> Reading:
    """One row for each run. Raises ``FileRejectedError``."""
    said = statistic_said(file.sidecar)
    rows = [_row(document, number, said) for number, document in enumerate(read_json(file.content).documents, 1)]
    version = file.sidecar.tool_version if file.sidecar else None
    return Reading(NAME, "vLLM bench serve", version, as_serving_rows(runs_frame(rows), NAME, file.sidecar))


def _row(document: Document, number: int, statistic: str) -> dict[str, object]:
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
    failed = most_failed(run, failed)
    word = _word(document.value, statistic)
    drafts = run.number("spec_decode_num_drafts")
    drafted = ratio(run.number("spec_decode_draft_tokens"), drafts)
    return run.row(
        number,
        {
            "measured_at": _measured_at(run),
            "model": model_name(run.text("model_id")),
            "isl_tokens": ratio(run.number("total_input_tokens"), completed),
            "osl_tokens": ratio(run.number("total_output_tokens"), completed),
            # without a limit all requests are sent at once, each into a slot of its own
            "concurrency_reported": (run.number("max_concurrency") or prompts) if _is_closed_loop(run) else None,
            "ttft_ms": _latency_ms(run, document.value, f"{word}_ttft"),
            "tpot_ms": _latency_ms(run, document.value, f"{word}_tpot"),
            "itl_ms": _latency_ms(run, document.value, f"{word}_itl"),
            "request_latency_ms": _latency_ms(run, document.value, f"{word}_e2el"),
            "latency_statistic": STATISTICS[word],
            "setting": other_settings(document.value, _OWN_KEYS),
            "requests_per_s": run.number("request_throughput"),
            "output_tokens_per_s": run.number("output_throughput"),
            "draft_tokens": None if drafted is None else float(round(drafted)),
            "accepted_tokens": run.number("spec_decode_acceptance_length") if drafts else None,
            "completed": completed,
            "wall_s": run.number("duration"),
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


def _word(values: Mapping[str, object], statistic: str) -> str:
    """The word of the statistic that is read: the one that ``source.yaml`` says, else means before medians."""
    given = {match[1] for match in map(_LATENCY.fullmatch, values) if match}
    wanted = [word for word, name in STATISTICS.items() if name == statistic]
    return next((word for word in (*wanted, *STATISTICS) if word in given), "mean")


def _latency_ms(run: Record, values: dict[str, object], kind: str) -> float | None:
    in_ms, in_s = f"{kind}_ms", kind
    families = {key.endswith("_ms") for key in values if _LATENCY.fullmatch(key)}
    if len(families) > 1:
        run.flag("unknown_unit", "some latencies have the suffix _ms and some have none: their unit is not certain")
    seconds = run.number(in_s)
    return run.number(in_ms) if seconds is None else 1e3 * seconds


def most_failed(run: Record, failed: float | None) -> float | None:
    """The failed requests, counted by whichever of a record's lists tells of most: errors, or lengths of nothing."""
    counts = [] if failed is None else [failed]
    errors, lengths = run.get("errors"), run.get("output_lens")
    if isinstance(errors, list):
        counts.append(float(sum(1 for error in errors if error)))
    if isinstance(lengths, list):
        counts.append(float(sum(1 for length in lengths if length == 0)))
    return max(counts, default=None)


def model_name(name: str | None) -> str | None:
    """The model of a name or path; a path of the Hugging Face cache holds owner and name."""
    cached = _CACHED.search(name) if name else None
    return f"{cached['owner']}/{cached['name']}" if cached else name


def broken_row(document: Document, number: int) -> dict[str, object]:
    """A line that is no JSON object, as a flagged row."""
    fault = document.fault or f"line {document.line} is no JSON object"
    return {"source_row": number, "raw": document.text[:MAX_FIELD_CHARACTERS], "reason": "not_json", "detail": fault}
