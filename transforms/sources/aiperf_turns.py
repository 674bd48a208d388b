"""AIPerf's file of single requests (``profile_export.jsonl``) as turns of sessions.

A record has ``metadata`` (session, turn, clocks in ns, phase), ``metrics`` with units, and ``error``. A session is what
shares ``x_correlation_id``. ``usage_prompt_cache_read_tokens`` is what the server found of the prompt; servers leave it
out where that is nothing. Requests of the warm-up do not count. Read from AIPerf's documentation of its export files,
0.1 to 0.14.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from transforms.sources.agent_turns import turns_frame
from transforms.sources.record import Record
from transforms.sources.rows import FileRejectedError

_TO_S: Final = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0}
_TOKENS: Final = {"tokens": 1.0, "": 1.0}
_METRICS: Final = {
    "request_latency": _TO_S, "time_to_first_token": _TO_S, "input_sequence_length": _TOKENS,
    "output_sequence_length": _TOKENS, "usage_prompt_cache_read_tokens": _TOKENS,
}  # fmt: skip
_MEASURED: Final = ("profiling", None)


def is_request(record: object) -> bool:
    """Whether it is the record of one request."""
    if not isinstance(record, Mapping) or not {"metadata", "metrics"} <= record.keys():
        return False
    return isinstance(record["metadata"], Mapping) and "x_request_id" in record["metadata"]


def is_run_of_turns(records: Sequence[object]) -> bool:
    """Whether they are requests of sessions that have a second turn."""
    if not all(map(is_request, records)):
        return False
    return any((record.number("metadata", "turn_index") or 0) > 0 for record in map(_record, records))


def turns_of(records: Sequence[object]) -> pl.DataFrame:
    """The measured turns. Raises ``FileRejectedError`` where a record lacks what every turn has."""
    numbered = enumerate(map(_record, records), 1)
    return turns_frame([_turn(record, number) for number, record in numbered if _phase(record) in _MEASURED])


def _record(values: object) -> Record:
    return Record(values if isinstance(values, Mapping) else {})


def _phase(record: Record) -> str | None:
    return record.text("metadata", "benchmark_phase") or record.text("metadata", "credit_phase")


def _turn(record: Record, number: int) -> tuple[object, ...]:
    session = record.text("metadata", "x_correlation_id") or record.text("metadata", "conversation_id")
    start = record.number("metadata", "request_start_ns")
    start = record.number("metadata", "timestamp_ns") if start is None else start
    failed = record.get("error") is not None
    if session is None or start is None:
        raise FileRejectedError(f"request {number} has no session (x_correlation_id) or no start (request_start_ns)")
    if failed or record.get("metadata", "was_cancelled") is True:
        return (session, start / 1e9, *[None] * 6, True)
    values = {name: _value(record, name, units, number) for name, units in _METRICS.items()}
    lacks = [name for name, value in values.items() if value is None and name != "usage_prompt_cache_read_tokens"]
    if lacks:
        raise FileRejectedError(f"request {number} has no {', '.join(lacks)}: run AIPerf with --streaming")
    if record.problem is not None:
        raise FileRejectedError(f"request {number}: {record.problem[1]}")
    latency, ttft, prompt, output, cached = values.values()
    return (session, start / 1e9, latency, ttft, prompt, output, cached, None, False)


def _value(record: Record, name: str, units: Mapping[str, float], number: int) -> float | None:
    value = record.number("metrics", name, "value")
    if value is None:
        return None
    unit = record.text("metrics", name, "unit") or ""
    if unit not in units:
        raise FileRejectedError(f"request {number} gives {name} in {unit!r}, not one of {', '.join(map(repr, units))}")
    return value * units[unit]
