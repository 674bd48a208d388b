"""Follows the sessions of a stream of requests and measures their steps. Memory grows with the sessions that are
open, not with the requests."""

import math
from array import array
from collections.abc import Iterable
from typing import Final

import numpy as np

from schemas.arrays import Array
from transforms.traces.histogram import Histogram
from transforms.traces.requests import Counts, Request

#: Time-outs of a forgetting cache whose hit rates are always measured, in seconds.
TIMEOUTS_S: Final = (10.0, 30.0, 60.0, 300.0, 600.0, 3600.0)
#: A context that shrinks by this share or more was compacted; by less, trimmed.
COMPACTION_SHARE: Final = 0.1
#: What was compacted to the session's first input, times these, may be another task's beginning.
RESTART_RANGE: Final = (0.5, 1.1)
#: Beyond these a unit was mistaken; a scenario takes no more either.
LONGEST_PAUSE_S: Final = 1e7
MOST_TOKENS: Final = 1e9
_BUFFERED = 8_192


class _Stream:
    """What must be remembered of a stream between two of its requests."""

    __slots__ = ("first_tokens", "input_tokens", "output_tokens", "peak", "requests", "service_s", "start_s", "turn")

    def __init__(self) -> None:
        self.requests = 0
        self.peak = 0.0
        self.first_tokens = 0.0
        self.input_tokens = 0.0
        self.output_tokens = 0.0
        self.start_s: float | None = None
        self.service_s: float | None = None
        self.turn: int | None = None


class ReuseByPause:
    """Tokens reused and reusable, and how many of them after pauses no longer than each time-out."""

    def __init__(self, timeouts_s: Iterable[float]) -> None:
        self.timeouts_s = np.array(sorted(set(timeouts_s)))
        self.reusable = 0.0
        self.reused = 0.0
        self._within: Array = np.zeros(len(self.timeouts_s))
        self._pauses = array("d")
        self._tokens = array("d")

    def add(self, reusable: float, reused: float, pause_s: float) -> None:
        self.reusable += reusable
        self.reused += reused
        self._pauses.append(pause_s)
        self._tokens.append(reused)
        if len(self._pauses) >= _BUFFERED:
            self._flush()

    @property
    def rate(self) -> float:
        """Share found by a cache that never forgets; 1 where nothing could be reused."""
        return self.reused / self.reusable if self.reusable else 1.0

    @property
    def rate_within(self) -> Array:
        """Share found by a cache that forgets after each of the time-outs."""
        self._flush()
        return self._within / self.reusable if self.reusable else np.ones(len(self.timeouts_s))

    def _flush(self) -> None:
        pauses, tokens = np.frombuffer(self._pauses), np.frombuffer(self._tokens)
        self._within = self._within + (tokens[:, None] * (pauses[:, None] <= self.timeouts_s)).sum(axis=0)
        self._pauses, self._tokens = array("d"), array("d")


class Sessions:
    """Takes requests one by one and measures; after ``finish`` the measures are complete.

    ``cap_pauses_s`` cuts longer pauses. ``one_by_one``: a session's requests come together, so that a session
    is forgotten when the next begins.
    """

    def __init__(
        self,
        counts: Counts,
        *,
        timeouts_s: Iterable[float] = TIMEOUTS_S,
        cap_pauses_s: float | None = None,
        one_by_one: bool = False,
    ) -> None:
        timeouts = tuple(timeouts_s)
        self.counts = counts
        self.turns, self.initial_prompt, self.input, self.output = (Histogram() for _ in range(4))
        self.peak, self.new_tokens, self.service, self.system = (Histogram() for _ in range(4))
        self.pauses = {kind: Histogram() for kind in ("all", "tool", "person", "unknown")}
        self.subagent_turns = Histogram()
        self.first_reused = Histogram()  #: reused by a session's first request: what sessions share
        self.all_reuse = ReuseByPause(timeouts)  #: of all input of all streams
        self.own_reuse = ReuseByPause(timeouts)  #: of what a later turn of a main stream could reuse
        self.requests = 0
        self.subagent_requests = 0
        self.with_reuse = 0
        self._output_seen = 0.0
        self._output_kept = 0.0
        self._cap = math.inf if cap_pauses_s is None else cap_pauses_s
        self._one_by_one = one_by_one
        self._open: dict[tuple[int, str, str], _Stream] = {}
        self._session: tuple[int, str] | None = None
        self._seen: set[str] = set()

    def add(self, request: Request, file: int = 0) -> None:
        """Measure one request and the step that leads to it; sessions of different files are different."""
        if not _possible(request):
            self.counts["impossible_rows"] += 1
            return
        if request.request_id is not None:
            if request.request_id in self._seen:
                self.counts["repeated_requests"] += 1
                return
            self._seen.add(request.request_id)
        if self._one_by_one and (file, request.session) != self._session:
            self._close_all()
            self._session = (file, request.session)
        key = (file, request.session, request.stream)
        stream = self._open.get(key)
        if stream is None:
            stream = self._open[key] = _Stream()
        main = not request.stream
        pause = self._step(request, stream, main) if stream.requests else None
        self._measure(request, stream, main, pause)
        if not stream.requests:
            stream.first_tokens = request.input_tokens
        stream.requests += 1
        stream.peak = max(stream.peak, request.input_tokens + request.output_tokens)
        stream.input_tokens, stream.output_tokens = request.input_tokens, request.output_tokens
        stream.start_s, stream.service_s, stream.turn = request.start_s, request.service_s, request.turn

    def finish(self) -> None:
        """No more requests: close the sessions that are open."""
        self._close_all()

    @property
    def output_retention_fraction(self) -> float:
        """Share of the outputs that the growth of the context leaves room for; 1 where no step says."""
        return self._output_kept / self._output_seen if self._output_seen else 1.0

    def _measure(self, request: Request, stream: _Stream, main: bool, pause: float | None) -> None:
        if request.output_tokens == 0:
            self.counts["rows_without_output"] += 1
        if request.reused_tokens is not None:
            self.with_reuse += 1
        self.all_reuse.add(request.input_tokens, self._reused(request, stream), pause or 0.0)
        if not main:
            self.subagent_requests += 1
            return
        self.requests += 1
        self.input.add(request.input_tokens)
        self.output.add(request.output_tokens)
        if request.service_s is not None and request.service_s >= 0:
            self.service.add(request.service_s)
        if not stream.requests:
            self.initial_prompt.add(request.input_tokens)
            self.first_reused.add(self._reused(request, stream))
            if request.system_tokens is not None and request.system_tokens > 0:
                self.system.add(request.system_tokens)

    def _step(self, request: Request, stream: _Stream, main: bool) -> float | None:
        """Measure what lies between two requests of a stream; the pause, where it is known."""
        if request.turn is not None and stream.turn is not None and request.turn <= stream.turn:
            self.counts["turns_out_of_order"] += 1
            return None
        pause = self._pause(request, stream)
        if pause is not None and pause > self._cap:
            self.counts["pauses_capped"] += 1
            pause = self._cap
        if not main:
            return pause
        if pause is not None:
            self.pauses["all"].add(pause)
            self.pauses[request.pause_kind or "unknown"].add(pause)
        growth = request.input_tokens - stream.input_tokens
        if growth <= -COMPACTION_SHARE * stream.input_tokens:
            self.counts["compactions"] += 1
            least, most = (factor * stream.first_tokens for factor in RESTART_RANGE)
            if least <= request.input_tokens <= most < stream.input_tokens:
                self.counts["restarts"] += 1
        else:
            if growth < 0:
                self.counts["trims"] += 1
            elif growth < stream.output_tokens:
                self.counts["growth_below_output"] += 1
            growth = max(growth, 0.0)
            self._output_seen += stream.output_tokens
            self._output_kept += min(growth, stream.output_tokens)
            self.new_tokens.add(max(growth - stream.output_tokens, 0.0))
        reusable = min(request.input_tokens, stream.input_tokens)
        self.own_reuse.add(reusable, min(self._reused(request, stream, count=False), reusable), pause or 0.0)
        return pause

    def _pause(self, request: Request, stream: _Stream) -> float | None:
        pause = request.pause_s
        if pause is None:
            if request.start_s is None or stream.start_s is None:
                return None
            pause = request.start_s - stream.start_s
            if pause < 0:
                self.counts["time_reversals"] += 1
                return None
            if stream.service_s is None:
                self.counts["pauses_from_arrivals"] += 1
            else:
                pause -= stream.service_s
        if pause < 0:
            self.counts["overlapping_steps"] += 1
            return None
        if not pause <= LONGEST_PAUSE_S:
            self.counts["impossible_pauses"] += 1
            return None
        return pause

    def _reused(self, request: Request, stream: _Stream, count: bool = True) -> float:
        reused = request.reused_tokens
        if reused is None:
            return min(stream.input_tokens, request.input_tokens) if stream.requests else 0.0
        if reused > request.input_tokens:
            self.counts["reused_more_than_input"] += count
            return request.input_tokens
        return max(reused, 0.0)

    def _close_all(self) -> None:
        for (_, _, name), stream in self._open.items():
            (self.subagent_turns if name else self.turns).add(stream.requests)
            if not name:
                self.peak.add(stream.peak)
        self._open.clear()


def _possible(request: Request) -> bool:
    lengths = (request.input_tokens, request.output_tokens, request.reused_tokens or 0.0)
    return all(0 <= tokens <= MOST_TOKENS for tokens in lengths) and request.input_tokens > 0
