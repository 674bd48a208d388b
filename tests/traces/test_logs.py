"""OpenTelemetry spans and Claude Code's session logs by small files whose requests are worked out by hand."""

import json
from typing import Any

import pytest

from tests.traces.reading import detected, reading_of, requests_of
from transforms.traces.formats import UnknownTraceError

NANO = 1_760_000_000_000_000_000

Attributes = dict[str, Any]


def chat(span: str, start: float, end: float, tokens: tuple[int, int, int], **more: Any) -> dict[str, Any]:
    """A span of one request to a model, its attributes as a plain object."""
    given, output, cached = tokens
    return {
        "trace": "t" + span[0], "span": span, "parent": more.pop("parent", None), "start": start, "end": end,
        "error": more.pop("error", False),
        "attributes": {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": given,
                       "gen_ai.usage.output_tokens": output, "gen_ai.usage.cache_read.input_tokens": cached,
                       "gen_ai.conversation.id": "c1"} | more,
    }  # fmt: skip


SPANS = [
    chat("a1", 40, 45, (1500, 60, 1024)),  # not in the order of time
    chat("a0", 0, 10, (1000, 100, 0), parent="root"),
    {"trace": "ta", "span": "root", "parent": None, "start": 0, "end": 99, "error": False,
     "attributes": {"gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": 2500,
                    "gen_ai.usage.output_tokens": 160}},
    {"trace": "ta", "span": "wrap", "parent": None, "start": 39, "end": 46, "error": False,
     "attributes": {"gen_ai.usage.input_tokens": 1500, "gen_ai.usage.output_tokens": 60}},
    {"trace": "ta", "span": "tool", "parent": "root", "start": 11, "end": 12, "error": False,
     "attributes": {"gen_ai.operation.name": "execute_tool"}},
    chat("a9", 50, 51, (1500, 0, 0), error=True),
]  # fmt: skip
SPANS[0]["parent"] = "wrap"


def typed(value: Any) -> dict[str, Any]:
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}


def otlp(span: dict[str, Any]) -> dict[str, Any]:
    return {
        "traceId": span["trace"], "spanId": span["span"], "parentSpanId": span["parent"] or "", "name": "chat",
        "startTimeUnixNano": str(NANO + int(span["start"] * 1e9)),
        "endTimeUnixNano": str(NANO + int(span["end"] * 1e9)),
        "status": {"code": 2} if span["error"] else {},
        "attributes": [{"key": name, "value": typed(value)} for name, value in span["attributes"].items()],
    }  # fmt: skip


def console(span: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": "chat", "context": {"trace_id": span["trace"], "span_id": span["span"]}, "parent_id": span["parent"],
        "start_time": f"2026-06-01T05:00:{span['start']:02d}.000000Z",
        "end_time": f"2026-06-01T05:0{span['end'] // 60}:{span['end'] % 60:02d}.000000Z",
        "status": {"status_code": "ERROR" if span["error"] else "UNSET"}, "attributes": span["attributes"],
    }  # fmt: skip


def jaeger(span: dict[str, Any]) -> dict[str, Any]:
    parent = [{"refType": "CHILD_OF", "traceID": span["trace"], "spanID": span["parent"]}] if span["parent"] else []
    return {
        "traceID": span["trace"], "spanID": span["span"], "references": parent,
        "startTime": NANO // 1000 + span["start"] * 1_000_000, "duration": (span["end"] - span["start"]) * 1_000_000,
        "tags": [{"key": name, "type": "string", "value": value} for name, value in span["attributes"].items()]
        + ([{"key": "error.type", "value": "timeout"}] if span["error"] else []),
    }  # fmt: skip


OTLP = {"resourceSpans": [{"scopeSpans": [{"spans": [otlp(span) for span in SPANS]}]}]}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(OTLP),
        json.dumps(OTLP, indent=1),
        "".join(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [otlp(s)]}]}]}) + "\n" for s in SPANS),
        "".join(json.dumps(console(span)) + "\n" for span in SPANS),
        json.dumps([console(span) for span in SPANS]),
        json.dumps({"data": [{"traceID": "ta", "spans": [jaeger(span) for span in SPANS]}]}),
    ],
)
def test_each_request_of_spans_counts_once(text: str) -> None:
    assert detected(text).name == "spans"
    requests, counts = requests_of(text)
    assert [(r.session, r.input_tokens, r.output_tokens, r.reused_tokens) for r in requests] == [
        ("c1", 1000, 100, 0),
        ("c1", 1500, 60, 1024),
    ]
    assert [r.service_s for r in requests] == [10, 5]
    assert requests[1].start_s == pytest.approx((requests[0].start_s or 0) + 40)
    assert counts["failed_rows"] == 1
    assert reading_of(text).reuse == "observed"


def test_spans_of_an_api_that_leaves_cached_input_out() -> None:
    spans = [chat("a0", 0, 10, (4, 100, 0)), chat("a1", 40, 45, (6, 60, 18_000))]
    for span, written in zip(spans, (18_000, 1_200), strict=True):
        span["attributes"]["gen_ai.usage.cache_creation.input_tokens"] = written
    requests, _ = requests_of("".join(json.dumps(console(span)) + "\n" for span in spans))
    assert [r.input_tokens for r in requests] == [18_004, 19_206]


def test_spans_without_a_conversation_are_of_their_trace() -> None:
    spans = [console(chat(name, at, at + 1, (900, 9, 0))) for at, name in ((0, "a0"), (9, "b0"))]
    for span in spans:
        del span["attributes"]["gen_ai.conversation.id"]
    requests, _ = requests_of("".join(json.dumps(span) + "\n" for span in spans))
    assert [r.session for r in requests] == ["ta", "tb"]


def line(kind: str, second: float, message: dict[str, Any], **more: Any) -> dict[str, Any]:
    uuid = f"{kind}{second}"
    return {
        "type": kind, "uuid": uuid, "parentUuid": None, "sessionId": "s", "isSidechain": False,
        "timestamp": f"2026-06-01T05:00:{second:06.3f}Z", "message": message,
    } | more  # fmt: skip


def answer(name: str, second: float, usage: tuple[int, int, int, int], **more: Any) -> dict[str, Any]:
    new, written, read, output = usage
    told = {"input_tokens": new, "cache_creation_input_tokens": written, "cache_read_input_tokens": read,
            "output_tokens": output}  # fmt: skip
    return line("assistant", second, {"id": name, "role": "assistant", "usage": told}, **more)


def result(second: float, **more: Any) -> dict[str, Any]:
    return line("user", second, {"role": "user", "content": [{"type": "tool_result", "content": "x"}]}, **more)


LOG = [
    {"type": "summary", "summary": "x", "leafUuid": "z"},
    line("user", 1, {"role": "user", "content": "do it"}),
    answer("m1", 3, (4, 18_000, 0, 1)),
    answer("m1", 4, (4, 18_000, 0, 1)),  # a further block of the same answer
    answer("m1", 5, (4, 18_000, 0, 310)),
    line("user", 5.5, {"role": "user", "content": "find"}, isSidechain=True, agentId="a"),
    answer("n1", 6, (9, 5_000, 0, 40), isSidechain=True, agentId="a"),
    result(7),
    result(8),
    answer("m2", 10, (5, 1_295, 18_000, 120)),
    line("user", 40, {"role": "user", "content": "and then?"}),
    line("assistant", 41, {"id": "e", "model": "<synthetic>", "usage": {"input_tokens": 0, "output_tokens": 0}}),
    answer("m3", 45, (5, 2_095, 19_295, 480)),
]


def test_claude_code_counts_an_answer_once() -> None:
    text = "".join(json.dumps(row) + "\n" for row in LOG)
    assert detected(text).name == "claude-code"
    requests, counts = requests_of(text)
    main = [r for r in requests if not r.stream]
    assert [(r.input_tokens, r.output_tokens, r.reused_tokens) for r in main] == [
        (18_004, 310, 0),
        (19_300, 120, 18_000),
        (21_395, 480, 19_295),
    ]
    assert [(r.pause_s, r.pause_kind) for r in main] == [(None, "person"), (3, "tool"), (30, "person")]
    assert [r.service_s for r in main] == [4, 2, 5]
    assert [(r.stream, r.input_tokens) for r in requests if r.stream] == [("a", 5_009)]
    assert counts["failed_rows"] == 1


def test_a_tool_may_answer_before_the_last_block() -> None:
    rows = [LOG[1], LOG[2], result(4.5), LOG[4], LOG[9]]
    requests, _ = requests_of("".join(json.dumps(row) + "\n" for row in rows))
    assert [(r.output_tokens, r.pause_s) for r in requests] == [(310, None), (120, 0)]


def test_requests_without_a_session_are_refused() -> None:
    with pytest.raises(UnknownTraceError, match="has requests without a session"):
        detected(json.dumps({"model": "m", "usage": {"input_tokens": 5, "output_tokens": 6}}))
