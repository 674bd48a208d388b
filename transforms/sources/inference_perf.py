"""inference-perf: ``stage_N_lifecycle_metrics.json``, one load of one rate or concurrency a file.

Latencies are SECONDS, of the requests that succeeded. A run that did not stream has no TTFT. The summary of all
stages is of no one load and refused by name. Read from inference-perf 0.6.1, ``inference_perf/reportgen/base.py``
(``summarize_requests``); 0.2 to 0.5 write ``prompt_len`` where later releases write ``prompt_tokens``.

Until its issue 564 was mended the tool counted a token too many in each chunk: TPOT and ITL are about half of what
they are then. Latency and TTFT are clocks: where the TPOT does not fit them it is taken from them (``tpot_source``
recovered).
"""

from typing import Final

from transforms.serving_points.guard import MEASURED_LATENCY_TOLERANCE
from transforms.sources.json_text import first_record, read_json
from transforms.sources.measured import as_serving_rows, runs_frame, statistic_said
from transforms.sources.record import Record, ratio
from transforms.sources.rows import FileRejectedError, InputFile, Reading

NAME: Final = "inference-perf"

_WORDS: Final = {"mean": "mean", "p50": "median"}
#: Rate that was sent over the rate asked for: below, the load fell behind and its queue grew.
SENT_SHARE: Final = 0.9


def recognises(file: InputFile) -> bool:
    """A report of one load, or of all stages: both have these parts."""
    return {"load_summary", "successes", "failures"} <= first_record(file.content).keys()


def read(file: InputFile) -> Reading:
    """The file's one row. Raises ``FileRejectedError``."""
    documents = read_json(file.content).documents
    values = documents[0].value
    if len(documents) > 1 or not isinstance(values, dict):
        raise FileRejectedError(f"{len(documents)} records where inference-perf writes one; give each stage its file")
    run = Record(values)
    row = _row(run, statistic_said(file.sidecar))
    version = file.sidecar.tool_version if file.sidecar else None
    return Reading(NAME, "inference-perf", version, as_serving_rows(runs_frame([row]), NAME, file.sidecar))


def _row(run: Record, statistic: str) -> dict[str, object]:
    asked, sent = run.number("load_summary", "requested_rate"), run.number("load_summary", "achieved_rate")
    slots = run.number("load_summary", "concurrency")
    if asked is None and sent is None and slots is None:
        run.flag("changing_load", "a summary of all stages is of no one load; give stage_0_lifecycle_metrics.json, ...")
    share = ratio(sent, asked)
    if slots is None and share is not None and share < SENT_SHARE:
        run.flag("load_not_steady", f"{sent:g} requests/s were sent of {asked:g} asked for: the queue grew throughout")
    completed = run.number("successes", "count")

    def latency_ms(name: str) -> float | None:
        seconds = run.number("successes", "latency", name, _WORDS[statistic])
        return None if seconds is None else 1e3 * seconds

    ttft = latency_ms("time_to_first_token")
    if ttft is None:
        run.flag("not_streamed", "the run did not stream: it has no time to the first token; run it with streaming")
    latency, tpot = latency_ms("request_latency"), latency_ms("time_per_output_token")
    isl = run.number("successes", "prompt_tokens", "mean")
    osl = run.number("successes", "output_len", "mean")
    osl = run.number("successes", "output_tokens", "mean") if osl is None else osl
    counted = counts_tokens(tpot, ttft, latency, osl, statistic)
    cached = run.number("successes", "prompt_tokens", "cached")
    columns = {
        "isl_tokens": run.number("successes", "prompt_len", "mean") if isl is None else isl,
        "osl_tokens": osl,
        "concurrency_reported": slots,
        "ttft_ms": ttft,
        "tpot_ms": tpot if counted else None,
        "itl_ms": latency_ms("inter_token_latency") if counted else None,
        "request_latency_ms": latency,
        "latency_statistic": statistic,
        "requests_per_s": run.number("successes", "throughput", "requests_per_sec"),
        "output_tokens_per_s": run.number("successes", "throughput", "output_tokens_per_sec"),
        # 0 where the server does not say what it read from its cache
        "prefix_tokens": ratio(cached, completed) if cached else None,
        "completed": completed,
        "failed": run.number("failures", "count") or 0.0,
    }
    return run.row(1, columns)


def counts_tokens(
    tpot_ms: float | None, ttft_ms: float | None, latency_ms: float | None, osl: float | None, statistic: str
) -> bool:
    """Whether this TPOT is one of tokens: with TTFT and length it makes the latency, as far as means and medians do."""
    if tpot_ms is None or ttft_ms is None or latency_ms is None or osl is None:
        return True  # what is missing is told elsewhere
    made = ttft_ms + tpot_ms * (osl - 1.0)
    return made > 0 and abs(latency_ms / made - 1.0) <= MEASURED_LATENCY_TOLERANCE[statistic]
