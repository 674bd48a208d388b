"""vLLM's multi-turn benchmark: the JSON of ``--stats-json-output``, all requests of one run: one row, or an agent run.

Clients each keep one request in flight, so they are the slots. Every turn repeats the conversation before it;
``approx_cached_percent`` is history over input, a property of the conversations and not what the cache held: what
was read from it must be said (``prefix_tokens``). As a run of agents (``agent_run``) each conversation is a session,
and ``cache_hit_rate`` says what the cache held. Read from vLLM's
``benchmarks/multi_turn/benchmark_serving_multi_turn.py`` (``RequestStats``) of 2026.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from transforms.sources.agent_turns import agent_run_reading, turns_frame
from transforms.sources.json_text import first_record, looks_like_json, read_json
from transforms.sources.measured import as_serving_rows, runs_frame, statistic_said
from transforms.sources.record import Record, as_json, to_number
from transforms.sources.rows import FileRejectedError, InputFile, Reading

NAME: Final = "vllm-multi-turn"

_FIGURES: Final = (
    "ttft_ms", "tpot_ms", "latency_ms", "start_time_ms", "input_num_tokens", "output_num_tokens", "client_id",
)  # fmt: skip
_KEYS: Final = {*_FIGURES, "conversation_id"}


def recognises(file: InputFile) -> bool:
    """Records of requests with the benchmark's names."""
    return looks_like_json(file.content) and first_record(file.content).keys() >= _KEYS


def read(file: InputFile) -> Reading:
    """The one row of the run. Raises ``FileRejectedError``."""
    values = [document.value for document in read_json(file.content).documents]
    requests = _requests(values)
    if file.is_agent_run:
        return agent_run_reading(_turns(values), NAME, "vLLM multi-turn benchmark", file.sidecar)
    statistic = statistic_said(file.sidecar)
    row = _row(requests, statistic)
    version = file.sidecar.tool_version if file.sidecar else None
    return Reading(NAME, "vLLM multi-turn benchmark", version, as_serving_rows(runs_frame([row]), NAME, file.sidecar))


def _requests(values: Sequence[object]) -> pl.DataFrame:
    rows = []
    for number, value in enumerate(values, 1):
        found = [to_number(value.get(name)) for name in _FIGURES] if isinstance(value, Mapping) else [None]
        if any(figure is None for figure in found):
            raise FileRejectedError(f"request {number} has no number for one of {', '.join(_FIGURES)}")
        rows.append(found)
    return pl.DataFrame(rows, schema=dict.fromkeys(_FIGURES, pl.Float64), orient="row")


def _turns(values: Sequence[object]) -> pl.DataFrame:
    """The requests as turns of their conversations; ``approx_cached_percent`` is the history's share of the prompt."""
    rows = []
    for number, value in enumerate(values, 1):
        request = Record(value if isinstance(value, Mapping) else {})
        session, output = request.get("conversation_id"), request.number("output_num_tokens") or 0.0
        if session is None:
            raise FileRejectedError(f"request {number} names no conversation: a session of agents is one")
        start, latency, ttft = (request.number(name) for name in ("start_time_ms", "latency_ms", "ttft_ms"))
        prompt, percent = request.number("input_num_tokens"), request.number("approx_cached_percent")
        history = None if percent is None or prompt is None else prompt * percent / 100.0
        if request.problem is not None:
            raise FileRejectedError(f"request {number}: {request.problem[1]}")
        seconds = [None if each is None else each / 1e3 for each in (start, latency, ttft)]
        rows.append((str(session), *seconds, prompt, output, None, history, output == 0))
    return turns_frame(rows)


def _row(requests: pl.DataFrame, statistic: str) -> dict[str, object]:
    c = pl.col
    middle = pl.Expr.mean if statistic == "mean" else pl.Expr.median
    begin = requests.select(c("start_time_ms").min()).item()
    end = requests.select((c("start_time_ms") + c("latency_ms")).max()).item()
    figures = requests.select(
        isl_tokens=c("input_num_tokens").mean(),
        osl_tokens=c("output_num_tokens").mean(),
        ttft_ms=middle(c("ttft_ms")),
        tpot_ms=middle(c("tpot_ms")),
        request_latency_ms=middle(c("latency_ms")),
        concurrency_reported=c("client_id").n_unique().cast(pl.Float64),
        failed=(c("output_num_tokens") == 0).sum().cast(pl.Float64),
    ).row(0, named=True)
    run = Record(figures)
    return run.row(
        1,
        {
            **figures,
            "latency_statistic": statistic,
            "requests_per_s": requests.height / (end - begin) * 1e3 if end > begin else None,
            "shares_prefix": True,
            "completed": float(requests.height),
        },
        as_json(figures),
    )
