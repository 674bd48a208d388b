"""From measured sessions to the statistics and the means of a scenario."""

from collections.abc import Sequence
from typing import Final, Literal

from pydantic import ValidationError

from schemas.caches import Cache, FixedCache, LeastRecentlyUsedCache
from schemas.distributions import Distribution, Distributions
from schemas.scenarios import Scenario
from schemas.trace_statistics import (
    CacheHits,
    Pauses,
    Spread,
    StepCounts,
    TimeoutHitRate,
    TraceFile,
    TraceStatistics,
)
from transforms.traces.histogram import significant
from transforms.traces.log_normals import fit_pauses
from transforms.traces.requests import Reuse
from transforms.traces.sessions import Sessions

#: The linear context of a scenario is remarked on where it is further than this from the traces' own mean.
_CONTEXT_OFF_BY: Final = 0.1
_DIGITS: Final = 4


#: Restarts for each session from which they are said.
_RESTARTS_SAID: Final = 0.1


class NothingToFitError(Exception):
    """The traces hold no session; the message is a sentence."""


def trace_statistics(
    sessions: Sessions, format_name: str, reuse: Reuse, files: Sequence[TraceFile], notes_of_reading: Sequence[str] = ()
) -> TraceStatistics:
    """The statistics of finished sessions. Raises ``NothingToFitError`` where no usable request was read."""
    turns, initial = sessions.turns.spread(), sessions.initial_prompt.spread()
    inputs, outputs, peaks = sessions.input.spread(), sessions.output.spread(), sessions.peak.spread()
    if turns is None or initial is None or inputs is None or outputs is None or peaks is None:
        raise NothingToFitError(
            f"no usable request of a session's main stream was read ({_counted(sessions) or 'no rows'})."
        )
    retention = significant(sessions.output_retention_fraction)
    growth = sessions.new_tokens.mean + retention * sessions.output.mean
    linear = significant(sessions.initial_prompt.mean + (sessions.turns.mean - 1) / 2 * growth)
    notes = list(notes_of_reading)
    if abs(linear / inputs.mean - 1) > _CONTEXT_OFF_BY:
        notes.append(
            f"Contexts that grow evenly from N, L0, dL, OSL and r have a mean of {linear:,.0f} tokens; the"
            f" traces' requests have {inputs.mean:,.0f}: contexts grow unevenly, or long sessions are unlike short"
            " ones."
        )
    pauses, from_arrivals = sessions.pauses["all"].count, sessions.counts["pauses_from_arrivals"]
    if from_arrivals:
        share = "Pauses" if from_arrivals >= pauses else f"{from_arrivals:,} of {pauses:,} pauses"
        notes.append(f"{share} go from arrival to arrival and contain the service time: upper bounds.")
    if pauses == 0 and sessions.turns.mean > 1:
        notes.append("The trace tells no pauses: the pause of the scenario is 0.")
    restarts = sessions.counts["restarts"]
    if restarts > _RESTARTS_SAID * sessions.turns.count:
        notes.append(
            f"In {restarts:,} steps the context falls back to what its session began with: where that is another task"
            " under the same id, turns a task are fewer and contexts shorter than fitted; give each task its own id."
        )
    return TraceStatistics(
        format=format_name,
        files=tuple(files),
        sessions=sessions.turns.count,
        requests=sessions.requests,
        turns=turns,
        initial_prompt_tokens=initial,
        input_tokens=inputs,
        peak_context_tokens=peaks,
        output_tokens=outputs,
        new_tokens=sessions.new_tokens.spread(),
        output_retention_fraction=retention,
        system_and_tool_tokens=sessions.system.spread(),
        service_s=sessions.service.spread(),
        pauses_s=_pauses(sessions),
        cache=_cache_hits(sessions, reuse),
        subagents=sessions.subagent_turns.count,
        subagent_requests=sessions.subagent_requests,
        subagent_turns=sessions.subagent_turns.spread(),
        linear_mean_context_tokens=linear,
        counts=StepCounts.model_validate(dict(sessions.counts)),
        notes=tuple(notes),
    )


def scenario_from(
    sessions: Sessions,
    statistics: TraceStatistics,
    *,
    slug: str,
    name: str | None = None,
    timeout_s: float | None = None,
) -> Scenario:
    """The scenario of these statistics: means, to four digits, and how the quantities vary about them.

    S is what a session's first request found of other sessions' input. h is the share of what later turns could
    reuse that a cache finds, one that forgets after ``timeout_s`` (a time-out that was measured) or never.
    """
    cache, of_cache = chosen_cache(statistics.cache, timeout_s)
    new_tokens = 0.0 if statistics.new_tokens is None else statistics.new_tokens.mean
    initial = _rounded(statistics.initial_prompt_tokens.mean)
    shared = min(_rounded(sessions.first_reused.mean), initial - 1)
    many = statistics.turns.mean > 1
    files = ", ".join(file.name for file in statistics.files[:3]) + (" and others" if len(statistics.files) > 3 else "")
    return Scenario(
        slug=slug,
        name=name or slug,
        source=f"fitted to {statistics.sessions:,} sessions, {statistics.requests:,} requests of {files};"
        f" means; {of_cache}",
        turns=_rounded(statistics.turns.mean),
        think_time_s=_rounded(_mean(statistics.pauses_s.all)),
        initial_prompt_tokens=initial,
        new_tokens_per_turn=max(_rounded(new_tokens), 1.0 if many else 0.0),
        output_tokens_per_turn=max(_rounded(statistics.output_tokens.mean), 1.0),
        output_retention_fraction=_rounded(statistics.output_retention_fraction),
        shared_prefix_tokens=max(shared, 0.0),
        first_turn_new_tokens=initial - max(shared, 0.0),
        cache=cache,
        distributions=_distributions(statistics),
        statistics=statistics,
    )


def chosen_cache(hits: CacheHits, timeout_s: float | None = None) -> tuple[Cache, str]:
    """The cache of a scenario that these hits ask for, and why in a few words.

    Where the hits depend on how long a prefix is kept, a cache that evicts what was used longest ago: what it keeps
    is an outcome of memory and load. Else, and where the time it keeps is given, a fixed hit rate.
    """
    if timeout_s is not None:
        at = next(found for found in hits.by_timeout if found.timeout_s == timeout_s)
        return (
            FixedCache(hit_rate=_rounded(at.cache_hit_rate)),
            f"{hits.reuse} cache hits, prefixes kept {timeout_s:g} s",
        )
    most, shortest = hits.cache_hit_rate, hits.by_timeout[0] if hits.by_timeout else None
    if shortest is not None and most - shortest.cache_hit_rate > _FORGETTING:
        return (
            LeastRecentlyUsedCache(most_hit_rate=most),
            f"{hits.reuse} cache hits: {shortest.cache_hit_rate:.0%} where prefixes are kept"
            f" {shortest.timeout_s:g} s, {most:.0%} for ever, so a cache that forgets (lru)",
        )
    return FixedCache(hit_rate=_rounded(most)), f"{hits.reuse} cache hits"


#: Hits that gain more than this from keeping prefixes for ever rest on how long they are kept.
_FORGETTING: Final = 0.01


def _distributions(statistics: TraceStatistics) -> Distributions | None:
    """The quantities of the scenario that vary in the traces; pauses as log-normals, the others by their quantiles."""
    pauses = statistics.pauses_s
    found = Distributions(
        turns=_varying(statistics.turns, at_least=1.0),
        think_time_s=_varying(pauses.all) and _of_pauses(pauses, capped=statistics.counts.pauses_capped > 0),
        initial_prompt_tokens=_varying(statistics.initial_prompt_tokens),
        new_tokens_per_turn=_varying(statistics.new_tokens),
        output_tokens_per_turn=_varying(statistics.output_tokens, at_least=1.0),
    )
    return None if found == Distributions() else found


def _varying(spread: Spread | None, at_least: float = 0.0) -> Distribution | None:
    if spread is None or spread.least == spread.most or spread.mean <= at_least:
        return None
    return spread.as_distribution(at_least)


def _of_pauses(pauses: Pauses, *, capped: bool) -> Distribution | None:
    """The fitted mixture within the longest pause seen; the quantiles where a cap has cut the pauses, or the mixture
    is wider than a scenario may be."""
    if pauses.mixture is None or pauses.all is None:
        return None
    if capped:
        return pauses.all.as_distribution()
    try:
        mixture = pauses.mixture.as_distribution()
    except ValidationError:
        return pauses.all.as_distribution()
    return mixture.model_copy(update={"most": pauses.all.most})


def _pauses(sessions: Sessions) -> Pauses:
    pauses = sessions.pauses
    return Pauses(
        all=pauses["all"].spread(),
        tool=pauses["tool"].spread(),
        person=pauses["person"].spread(),
        unknown=pauses["unknown"].spread(),
        mixture=fit_pauses(pauses["all"]),
    )


def _cache_hits(sessions: Sessions, stated: Reuse) -> CacheHits:
    reuse: Literal["observed", "bounded", "assumed"] = stated if sessions.with_reuse else "assumed"
    tokens, own = sessions.all_reuse, sessions.own_reuse
    timeouts: tuple[TimeoutHitRate, ...] = ()
    if sessions.pauses["all"].count and reuse != "observed":
        timeouts = tuple(
            TimeoutHitRate(timeout_s=float(at), token_hit_rate=_share(of_all), cache_hit_rate=_share(of_own))
            for at, of_all, of_own in zip(tokens.timeouts_s, tokens.rate_within, own.rate_within, strict=True)
        )
    return CacheHits(
        reuse=reuse, token_hit_rate=_share(tokens.rate), cache_hit_rate=_share(own.rate), by_timeout=timeouts
    )


def _share(value: float) -> float:
    """Sums in floating point can end a hair above 1."""
    return significant(min(value, 1.0))


def _mean(spread: Spread | None) -> float:
    return 0.0 if spread is None else spread.mean


def _rounded(value: float) -> float:
    return significant(value, _DIGITS)


def _counted(sessions: Sessions) -> str:
    return ", ".join(f"{name.replace('_', ' ')}: {count}" for name, count in sorted(sessions.counts.items()) if count)
