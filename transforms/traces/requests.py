"""The common form of all traces: one request to the model, of a stream of a session."""

from collections import Counter
from typing import Literal, NamedTuple

PauseKind = Literal["tool", "person"]

#: Counts by the field names of ``StepCounts``.
Counts = Counter[str]


class Request(NamedTuple):
    """One request. Tokens and seconds; None where the trace does not say.

    A session's requests come in the order of its turns; those of several sessions may alternate.
    """

    session: str
    input_tokens: float  #: the whole input, reused parts included
    output_tokens: float
    stream: str = ""  #: empty: the session's main stream; else the subagent
    turn: int | None = None
    start_s: float | None = None
    service_s: float | None = None  #: start to end
    reused_tokens: float | None = None  #: part of the input that the cache held, or could have held
    pause_s: float | None = None  #: end of the stream's last request to the start of this one
    pause_kind: PauseKind | None = None
    system_tokens: float | None = None  #: system prompt and tool list; given once a session
