"""The common form of all traces: one request to the model, of a stream of a session."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

PauseKind = Literal["tool", "person"]
Reuse = Literal["observed", "bounded"]

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
    request_id: str | None = None  #: of the same id only the first is counted


Reader = Callable[[Iterable[bytes], Counts], Iterator[Request]]


@dataclass(frozen=True)
class Reading:
    """How one file is read, its dialect settled: the reader, what its reused tokens are, and what must be said."""

    read: Reader
    reuse: Reuse = "bounded"
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Asked:
    """What a user says of traces that do not say it themselves."""

    time_unit: Literal["s", "ms", "us", "ns"] | None = None
    characters_per_token: float = 4.0
