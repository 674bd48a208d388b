"""The columns of a table of requests: what each holds, by the names that exports give it.

Names are compared in lower case with ``_`` between their parts: ``Session ID``, ``sessionId`` and ``session.id`` are
one name. A nested field is known by its own name, or with those of its parents before it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

#: What a column holds: the names it may have, the first that a table has is read.
COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "session": (
        "session", "session_id", "trace", "conversation_id", "gen_ai_conversation_id", "chat_session_id", "thread_id",
        "conversation", "conv_id", "langfuse_session_id", "sessionid", "conversationid",
    ),
    "stream": ("stream", "agent", "agent_id", "agent_name", "gen_ai_agent_id", "gen_ai_agent_name"),
    "turn": ("turn", "k", "turn_index", "round_index", "round_idx", "turn_id", "turn_idx", "turn_number", "step_index"),
    "start": (
        "start_s", "t", "time_s", "start_ms", "time_ms", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_us",
        "timestamp_ns", "start_time_s", "start_time_ms", "start_time_us", "start_time_ns", "start_time_unix_nano",
        "start_time", "started_at", "arrival_time", "arrival_time_s", "arrival_time_ms", "arrival_timestamp",
        "arrived_at", "request_time", "request_timestamp", "created_at", "created", "datetime", "time", "ts",
        "arrival_s", "arrival_ms", "starttime",
    ),
    "input": (
        "input_tokens", "isl", "input", "prompt_tokens", "total_input_tokens", "input_length", "uncached_input_tokens",
        "tokens_in", "context_tokens", "request_tokens", "prompt_token_count", "num_prompt_tokens", "input_num_tokens",
        "input_len", "prompt_len", "prompt_length", "input_token_count", "llm_token_count_prompt", "n_prompt_tokens",
        "gen_ai_usage_input_tokens", "gen_ai_usage_prompt_tokens",
    ),
    "output": (
        "output_tokens", "osl", "output", "completion_tokens", "output_length", "response_tokens", "generated_tokens",
        "tokens_out", "candidates_token_count", "num_output_tokens", "output_num_tokens", "output_len",
        "completion_length", "output_token_count", "llm_token_count_completion", "num_generation_tokens",
        "gen_ai_usage_output_tokens", "gen_ai_usage_completion_tokens",
    ),
    "reused": (
        "reused_tokens", "hit_tok", "cached_tokens", "prefix_tokens", "cache_read_input_tokens", "cache_read_tokens",
        "cache_read", "cached_input_tokens", "prompt_cache_hit_tokens", "cached_content_token_count",
        "cached_prompt_tokens", "gen_ai_usage_cache_read_input_tokens", "prompt_cached_tokens", "input_cached_tokens",
        "gen_ai_usage_cached_tokens", "llm_token_count_prompt_details_cache_read", "cache_hit_tokens",
        "num_cached_tokens", "input_cached",
    ),
    "reused_percent": ("approx_cached_percent", "cached_percent", "cached_pct"),
    "written": (
        "cache_creation_input_tokens", "cache_creation_tokens", "cache_write_tokens", "cache_write", "cache_creation",
        "cache_write_input_tokens", "gen_ai_usage_cache_creation_input_tokens",
        "llm_token_count_prompt_details_cache_write",
    ),
    "total": ("total_tokens", "total_token_count", "llm_token_count_total", "tokens_total"),
    "pause": ("pause_s", "think", "think_time_s", "pause_ms", "think_time_ms", "delay_ms", "delay_s"),
    "service": (
        "service_s", "api", "service_time_s", "service_ms", "duration_s", "duration_ms", "latency_s", "latency_ms",
        "e2e_latency_s", "e2e_latency_ms", "elapsed_time", "api_time", "request_latency_ms", "request_latency_s",
        "duration_us", "duration_ns", "latency_us", "elapsed_ms", "elapsed_s", "service_time_ms",
    ),
    "pause_kind": ("pause_kind",),
    "stop": ("prev_stop",),
    "input_types": ("inp", "input_types"),
    "request_id": ("request_id", "requestid", "response_id", "gen_ai_response_id", "generation_id", "span_id"),
    "error": ("error", "error_type", "error_message", "is_error"),
    "status": ("status", "status_code", "http_status", "http_status_code"),
}  # fmt: skip
REQUIRED: Final = ("session", "input", "output")
#: What a server's own cache held, under its usual names; the others are bounds that a trace's maker worked out.
BOUNDS: Final = frozenset({"reused_tokens", "hit_tok"})
#: Inputs whose name says whether they hold what was cached.
HOLDS_CACHED: Final = {"total_input_tokens": True, "uncached_input_tokens": False}
#: Names of the API that leaves cached input out of its input, and of those whose exporters hold it or leave it out.
EITHER_MEANING: Final = frozenset(
    {
        "cache_read_input_tokens", "cache_read_tokens", "cache_read", "cache_creation_input_tokens",
        "cache_creation_tokens", "cache_write_tokens", "cache_write", "cache_creation", "cache_write_input_tokens",
    }
)  # fmt: skip
#: A name by itself that is too short to be known below parents.
_TOO_SHORT_BELOW: Final = frozenset(
    {"session", "trace", "t", "k", "time", "created", "input", "output", "api", "think", "turn", "error", "status",
     "agent", "stream", "ts", "cache_creation", "conversation"}
)  # fmt: skip
_NOT_COUNTS: Final = ("cost", "price", "usd", "rate_limit", "limit", "budget")
_UNITS: Final = {"_ms": 1e-3, "_us": 1e-6, "_ns": 1e-9, "_nano": 1e-9, "_s": 1.0}
#: Names of seconds that do not end in ``_s``.
_SECONDS: Final = frozenset({"api", "think", "elapsed_time", "api_time"})
_LIKELY: Final = {
    "the tokens read from or written to a cache": re.compile(
        r"cache.*(tok|block|rate|ratio|percent|pct)|tok.*cache|cache_(read|writ|hit|creat)"
    ),
    "a time of arrival": re.compile(r"(^|_)(time|timestamp|date|datetime|arriv\w*|when|ts)(_|$)"),
}


def normal(name: str) -> str:
    """A name in lower case, its parts joined by ``_``."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    return re.sub(r"[^a-z0-9]+", "_", parted.lower()).strip("_")


@dataclass(frozen=True)
class Columns:
    """The columns of one table: of each thing that is read, the name as the table writes it, and in normal form."""

    given: Mapping[str, str]
    known: Mapping[str, str]
    unread: tuple[str, ...]

    def unit_of(self, held: str) -> float | None:
        """Seconds per unit, where the column's name states it."""
        name = self.known.get(held, "")
        if name in _SECONDS:
            return 1.0
        return next((seconds for suffix, seconds in _UNITS.items() if name.endswith(suffix)), None)

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple(held for held in REQUIRED if held not in self.known)

    @property
    def likely(self) -> tuple[tuple[str, str], ...]:
        """Columns that are not read and may hold what the table otherwise lacks: the name and what it may be."""
        looked_for = []
        if "reused" not in self.known and "reused_percent" not in self.known:
            looked_for.append("the tokens read from or written to a cache")
        if "start" not in self.known and "pause" not in self.known:
            looked_for.append("a time of arrival")
        return tuple(
            (name, meaning) for meaning in looked_for for name in self.unread if _LIKELY[meaning].search(normal(name))
        )


#: Tokens that an output may hold or leave out.
THOUGHTS: Final = re.compile(r"(reasoning|thinking|thoughts?)_.*tok|tok.*(reasoning|thinking|thoughts?)")


def columns_of(header: Iterable[str]) -> Columns:
    """The columns of a header. The parts of a nested field are parted by dots."""
    names = [name for name in header if name]
    by_form: dict[str, str] = {}
    for name in sorted(names, key=lambda name: name.count(".")):
        form = _form(name)
        if form is not None:
            by_form.setdefault(form, name)
    known, given = {}, {}
    for held, aliases in COLUMNS.items():
        form = next((alias for alias in aliases if alias in by_form), None)
        if form is not None:
            known[held], given[held] = form, by_form[form]
    taken = set(given.values())
    return Columns(given, known, tuple(name for name in names if name not in taken))


def rivals(columns: Columns, held: str, header: Iterable[str]) -> tuple[str, ...]:
    """Further columns whose names say that they hold the same."""
    return tuple(name for name in header if name != columns.given.get(held) and _form(name) in COLUMNS[held])


def _form(name: str) -> str | None:
    """The known name that a column has, with as many of its parents as a known name has."""
    whole = normal(name)
    if set(_NOT_COUNTS) & set(whole.split("_")):
        return None
    parts = name.split(".")
    for at in range(len(parts)):
        form = normal(".".join(parts[at:]))
        if form in _ALIASES and not (at and form in _TOO_SHORT_BELOW):
            above = set(normal(".".join(parts[:at])).split("_"))
            return None if above & _OTHER_TOKENS and "cache" not in form else form
    return None


_ALIASES: Final = frozenset(alias for aliases in COLUMNS.values() for alias in aliases)
#: Tokens below one of these are not all of the input or output.
_OTHER_TOKENS: Final = frozenset({"cache", "cached", "reasoning", "audio", "image", "video", "max", "average", "avg"})
