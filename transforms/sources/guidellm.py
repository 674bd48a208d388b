"""GuideLLM: a JSON report, one row for each of its benchmarks.

``request_latency`` is in seconds, what ends in ``_ms`` in ms; each metric is told apart by what became
of the requests, and the figures here are those of the successful ones. ``time_per_output_token_ms``
counts the first token's time too (or divides by one token too many, until 0.3): TPOT is
``inter_token_latency_ms``. ``requests_per_second`` leaves out the first request to finish, so the rate
is requests over duration. Read from GuideLLM's ``src/guidellm/benchmark`` and ``src/guidellm/schemas``.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from schemas.moments import as_text
from transforms.sources.json_text import first_record, read_json
from transforms.sources.measured import as_serving_rows, runs_frame, statistic_said
from transforms.sources.record import Record, as_json, ratio
from transforms.sources.rows import FileRejectedError, InputFile, Reading

NAME: Final = "guidellm"

#: Where releases keep a thing, the newest first.
_MODEL: Final = (("config", "backend", "model"), ("worker", "backend_model"))
_STRATEGY: Final = (("config", "strategy"), ("args", "strategy"))
_INCOMPLETE: Final = (("metrics", "request_totals", "incomplete"), ("request_totals", "incomplete"))
#: Of the requests that are sent at a rate, what a server that keeps up has done at the end of a run.
DONE_SHARE: Final = 0.8
_ERRORED: Final = (("metrics", "request_totals", "errored"), ("request_totals", "errored"))


def recognises(file: InputFile) -> bool:
    """A report with benchmarks that have metrics of requests by status."""
    return any("request_latency" in _object(_object(item), "metrics") for item in _benchmarks(file))


def read(file: InputFile) -> Reading:
    """One row for each benchmark. Raises ``FileRejectedError``."""
    documents = read_json(file.content).documents
    if len(documents) > 1:
        raise FileRejectedError(f"{len(documents)} records where GuideLLM writes one report")
    report = Record(first_record(file.content))
    said = statistic_said(file.sidecar)
    rows = [_row(item, report, number, said) for number, item in enumerate(_benchmarks(file), 1)]
    version = report.text("metadata", "guidellm_version") or (file.sidecar.tool_version if file.sidecar else None)
    return Reading(NAME, "GuideLLM", version, as_serving_rows(runs_frame(rows), NAME, file.sidecar))


def _row(item: object, report: Record, number: int, statistic: str) -> dict[str, object]:
    if not isinstance(item, dict):
        return {
            "source_row": number, "raw": as_json({"benchmark": item}), "reason": "not_json",
            "detail": f"benchmark {number} is no JSON object",
        }  # fmt: skip
    run = Record(item)

    def mean(metric: str) -> float | None:
        return run.number("metrics", metric, "successful", "mean")

    def latency(metric: str) -> float | None:
        return run.number("metrics", metric, "successful", "median" if statistic == "p50" else "mean")

    completed = run.number("metrics", "request_latency", "successful", "count")
    asked, done = _rate(run), ratio(completed, _duration_s(run))
    if asked is not None and done is not None and done < DONE_SHARE * asked:
        run.flag("load_not_steady", f"{done:g} requests/s were done of {asked:g} sent: the queue grew throughout")
    latency_s = latency("request_latency")
    model = next((name for path in _MODEL if (name := run.text(*path))), None) or report.text("args", "model")
    return run.row(
        number,
        {
            "measured_at": _measured_at(run),
            "model": model,
            "isl_tokens": mean("prompt_token_count"),
            "osl_tokens": mean("output_token_count"),
            "concurrency_reported": _slots(run),
            "ttft_ms": latency("time_to_first_token_ms"),
            "tpot_ms": latency("inter_token_latency_ms"),
            "itl_ms": latency("inter_token_latency_ms"),
            "latency_statistic": statistic,
            "request_latency_ms": None if latency_s is None else 1e3 * latency_s,
            "requests_per_s": ratio(completed, _duration_s(run)),
            "completed": completed,
            "failed": _first(run, _ERRORED) or 0.0,
            "incomplete": _first(run, _INCOMPLETE),
            "ramp_s": _ramp_s(run),
            "duration_s": _duration_s(run),
        },
    )


def _first(run: Record, paths: Sequence[tuple[str, ...]]) -> float | None:
    return next((count for path in paths if (count := run.number(*path)) is not None), None)


def _ramp_s(run: Record) -> float | None:
    """Seconds of the measured part in which streams were still being added: a warm-up before it is left out."""
    ramp = next((s for path in _STRATEGY if (s := run.number(*path, "rampup_duration")) is not None), None)
    return None if ramp is None else max(ramp - (run.number("warmup_duration") or 0.0), 0.0)


def _measured_at(run: Record) -> str | None:
    """When the measurement began: seconds since 1970."""
    start = run.number("start_time")
    try:
        return None if start is None else as_text(datetime.fromtimestamp(start, UTC))
    except (OverflowError, ValueError, OSError):
        return None


def _duration_s(run: Record) -> float | None:
    duration = run.number("duration")
    start, end = run.number("start_time"), run.number("end_time")
    if duration is None and start is not None and end is not None:
        return end - start
    return duration


def _rate(run: Record) -> float | None:
    """Requests a second that were sent at a rate of their own."""
    paced = [path for path in _STRATEGY if run.text(*path, "type_") in ("constant", "poisson")]
    return _first(run, [(*path, "rate") for path in paced])


def _slots(run: Record) -> float | None:
    """Slots of a closed loop: streams that wait for their answers. Other strategies send at a rate."""
    for path in _STRATEGY:
        kind = run.text(*path, "type_")
        if kind == "synchronous":
            return 1.0
        if kind == "concurrent":
            return run.number(*path, "streams")
    return None


def _benchmarks(file: InputFile) -> list[object]:
    found = first_record(file.content).get("benchmarks")
    return found if isinstance(found, list) else []


def _object(value: object, key: str | None = None) -> Mapping[str, object]:
    found = value.get(key) if key is not None and isinstance(value, Mapping) else value
    return found if isinstance(found, Mapping) else {}
