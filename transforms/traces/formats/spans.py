"""OpenTelemetry spans with ``gen_ai.*`` attributes: OTLP JSON, flat exports of span objects, Jaeger's JSON.

Attributes by the semantic conventions for generative AI 1.28 to 1.38, OpenLLMetry's and OpenInference's names. A span
counts once: of spans within each other that tell tokens (an agent's, a framework's, the client's) the innermost.
Sessions by ``gen_ai.conversation.id`` or ``session.id``, else each trace is one.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from transforms.traces.formats.columns import COLUMNS, normal
from transforms.traces.formats.table import flat, settle_rows
from transforms.traces.formats.values import json_rows, mappings, moment, number
from transforms.traces.requests import Asked, Counts, Reading

_NO_REQUESTS: Final = frozenset({"invoke_agent", "create_agent", "execute_tool", "invoke_workflow", "embeddings"})
_SESSIONS: Final = ("gen_ai.conversation.id", "session.id", "gen_ai.session.id", "langfuse.session.id", "thread.id")
_MANY: Final = ("resourceSpans", "scopeSpans", "instrumentationLibrarySpans", "spans", "batches", "data")
_ERROR_CODES: Final = (2, "2", "ERROR", "STATUS_CODE_ERROR", "StatusCode.ERROR", "error")


def is_spans(row: Mapping[str, Any]) -> bool:
    """Whether a JSON object is a span or holds spans."""
    return next(_spans(row), None) is not None


def settle_spans(lines: Iterable[bytes], asked: Asked) -> Reading:
    """How spans are read. Raises ``UnknownTraceError``."""
    return settle_rows(lines, asked, requests_of, title="trace of spans")


def requests_of(lines: Iterable[bytes], counts: Counts) -> Iterator[Mapping[str, Any]]:
    """One flat row for each span of a request to a model, in the order of their starts."""
    spans = [span for row in json_rows(lines, counts) for span in _spans(row)]
    rows = [(span, _attributes(span)) for span in spans]
    parents = {_id(span, "parent") for span, attributes in rows if _tells_tokens(attributes)}
    by_id = {_id(span, "span"): span for span in spans}
    for parent in list(parents):  # all that stand above a span of tokens
        above = by_id.get(parent or "")
        while above is not None and (name := _id(above, "parent")) not in parents:
            parents.add(name)
            above = by_id.get(name or "")
    kept = [
        _row(span, attributes)
        for span, attributes in rows
        if _tells_tokens(attributes)
        and _id(span, "span") not in parents
        and attributes.get("gen_ai.operation.name") not in _NO_REQUESTS
    ]
    yield from sorted(kept, key=lambda row: row["start_s"] or 0.0)


def _spans(value: object, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """The spans of an object: itself, or those that it holds."""
    if not isinstance(value, dict) or depth > 6:
        return
    if _is_span(value):
        yield value
        return
    for name in _MANY:
        for item in mappings(value.get(name)):
            yield from _spans(item, depth + 1)


def _is_span(value: Mapping[str, Any]) -> bool:
    has_attributes = isinstance(value.get("attributes"), list | dict) or isinstance(value.get("tags"), list)
    has_id = _id(value, "span") is not None or isinstance(value.get("context"), dict)
    return has_attributes and has_id and _start(value) is not None


def _attributes(span: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes by name: of OTLP's list of keys and typed values, Jaeger's tags, or a plain object."""
    given = span.get("attributes", span.get("tags"))
    if isinstance(given, dict):
        return flat(given)
    found = {}
    for item in mappings(given):
        value = item.get("value")
        if isinstance(value, dict):
            value = next(iter(value.values()), None)
        found[str(item.get("key"))] = value
    return found


def _tells_tokens(attributes: Mapping[str, Any]) -> bool:
    names = {normal(name) for name, value in attributes.items() if number(value) is not None}
    return bool(names & _INPUT_NAMES) and bool(names & _OUTPUT_NAMES)


_INPUT_NAMES: Final = {name for name in COLUMNS["input"] if "token" in name}
_OUTPUT_NAMES: Final = {name for name in COLUMNS["output"] if "token" in name}


def _id(span: Mapping[str, Any], which: str) -> str | None:
    """Id of the span, its parent or its trace, in the spelling of the export."""
    context = span.get("context")
    places = [span, context] if isinstance(context, dict) else [span]
    spellings = {
        "span": ("spanId", "span_id", "spanID"),
        "parent": ("parentSpanId", "parent_span_id", "parent_id", "parentSpanID"),
        "trace": ("traceId", "trace_id", "traceID"),
    }[which]
    found = next((str(place[name]) for place in places for name in spellings if place.get(name)), None)
    if found is None and which == "parent":  # Jaeger
        references = mappings(span.get("references"))
        found = next((str(each["spanID"]) for each in references if each.get("refType") == "CHILD_OF"), None)
    return found


def _start(span: Mapping[str, Any]) -> float | None:
    return _time(span, ("startTimeUnixNano", "start_time_unix_nano", "start_time", "startTime", "start"))


def _end(span: Mapping[str, Any], start: float | None) -> float | None:
    end = _time(span, ("endTimeUnixNano", "end_time_unix_nano", "end_time", "endTime", "end"))
    duration = number(span.get("duration")) if "traceID" in span else None  # Jaeger: microseconds
    return start + duration * 1e-6 if end is None and start is not None and duration is not None else end


def _time(span: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    """Seconds since 1970: nanoseconds, microseconds, milliseconds or seconds by their size, or a time in ISO 8601."""
    value = next((span[name] for name in names if span.get(name) is not None), None)
    at = moment(value)
    if at is not None:
        return at
    raw = number(value)
    if raw is None or raw <= 0:
        return None
    return next((raw * unit for unit in (1.0, 1e-3, 1e-6, 1e-9) if 1e9 <= raw * unit <= 4e9), None)


def _row(span: Mapping[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the table of requests: known attributes under the names of columns."""
    start = _start(span)
    end = _end(span, start)
    status = span.get("status")
    code = status.get("code", status.get("status_code")) if isinstance(status, dict) else status
    row: dict[str, Any] = {
        "session_id": next((attributes[name] for name in _SESSIONS if attributes.get(name)), _id(span, "trace")),
        "span_id": _id(span, "span"),
        "start_s": start,
        "service_s": None if start is None or end is None else end - start,
        "error": code in _ERROR_CODES or attributes.get("error.type"),
    }
    wanted = {"input", "output", "reused", "written", "total", "stream"}
    aliases = {name for held in wanted for name in COLUMNS[held]}
    return row | {name: value for name, value in attributes.items() if normal(name) in aliases}
