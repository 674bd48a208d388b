"""Requests from the text of a trace, as the pipeline reads them."""

from collections import Counter

from transforms.traces.formats import TraceFormat, detect_format
from transforms.traces.requests import Asked, Counts, Reading, Request
from transforms.traces.sessions import Sessions


def lines_of(text: str) -> list[bytes]:
    return text.encode().splitlines(keepends=True)


def detected(text: str) -> TraceFormat:
    lines = lines_of(text)
    return detect_format(lines[0] if lines else b"", text.encode)


def reading_of(text: str) -> Reading:
    return detected(text).settle(lines_of(text), Asked())


def requests_of(text: str) -> tuple[list[Request], Counts]:
    counts: Counts = Counter()
    return list(reading_of(text).read(lines_of(text), counts)), counts


def measured(*requests: Request, cap_pauses_s: float | None = None) -> Sessions:
    sessions = Sessions(Counter(), cap_pauses_s=cap_pauses_s)
    for request in requests:
        sessions.add(request)
    sessions.finish()
    return sessions
