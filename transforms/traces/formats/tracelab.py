"""TraceLab: rounds as JSONL, with the prefix that the provider's own cache held, and the replay CSV."""

import csv
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from transforms.traces.formats.values import csv_text, json_rows, length, mappings, moment, number, scaled, whole
from transforms.traces.requests import Counts, PauseKind, Request

_INPUTS = ("user_message", "tool_result")

REPLAY_COLUMNS = frozenset({"session_id", "round_idx", "prefix_len", "input_len", "output_len"})


def is_round(row: Mapping[str, Any]) -> bool:
    """Whether a JSON object is a round."""
    return {"session_id", "round_index", "input_tokens_total"} <= row.keys()


def read_rounds(lines: Iterable[bytes], counts: Counts) -> Iterator[Request]:
    """A request a round. A pause for tools lasts as long as the slowest tool of the round before; for a person,
    from the last thing the model wrote to the next message."""
    last: dict[str, tuple[float | None, float | None]] = {}  # end of the last round, its longest tool call
    for row in json_rows(lines, counts):
        session = str(row.get("session_id"))
        events = [
            (moment(seen.get("timestamp")), seen.get("event_type")) for seen in mappings(row.get("timing_events"))
        ]
        inputs = [at for at, kind in events if at is not None and kind in _INPUTS]
        written = [at for at, kind in events if at is not None and kind not in (*_INPUTS, "usage_report")]
        begin, end = max(inputs, default=None), max(written, default=None)
        kind = _kind(row, events)
        last_end, tool_s = last.get(session, (None, None))
        pause = tool_s if kind == "tool" else None
        if pause is None and last_end is not None and inputs:
            pause = (max(inputs) if kind == "tool" else min(inputs)) - last_end
        yield Request(
            session=session,
            turn=whole(row.get("round_index")),
            start_s=begin,
            service_s=end - begin if begin is not None and end is not None else None,
            input_tokens=length(row, "input_tokens_total"),
            output_tokens=length(row, "output_tokens"),
            reused_tokens=number(row.get("prefix_tokens")),
            pause_s=pause,
            pause_kind=kind,
        )
        last[session] = (end, _longest_tool(row))


def read_replay(lines: Iterable[bytes], counts: Counts) -> Iterator[Request]:
    """A request a row: the input is prefix and new part together. It tells the pauses for tools only."""
    waits: dict[str, float | None] = {}
    for row in csv.DictReader(csv_text(lines)):
        session = str(row.get("session_id"))
        wait = waits.get(session)
        yield Request(
            session=session,
            turn=whole(row.get("round_idx")),
            input_tokens=length(row, "prefix_len") + length(row, "input_len"),
            output_tokens=length(row, "output_len"),
            reused_tokens=number(row.get("prefix_len")),
            pause_s=wait,
            pause_kind="tool",
        )
        waits[session] = scaled(row.get("tool_wait_after_ms"), 1e-3)


def _kind(row: Mapping[str, Any], events: list[tuple[float | None, Any]]) -> PauseKind | None:
    first = row.get("first_input_event_type") or next((kind for _, kind in events if kind in _INPUTS), None)
    kinds: dict[object, PauseKind] = {"tool_result": "tool", "user_message": "person"}
    return kinds.get(first)


def _longest_tool(row: Mapping[str, Any]) -> float | None:
    """Longest time from a tool's call to its result, in seconds."""
    spans = []
    for tool in mappings(row.get("tools")):
        called, answered = moment(tool.get("emitted_at")), moment(tool.get("result_at"))
        if called is not None and answered is not None:
            spans.append(answered - called)
    return max(spans, default=None)
