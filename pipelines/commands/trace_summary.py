"""The statistics of a fit on the terminal."""

from pipelines.terminal import print_table, say
from schemas.scenarios import Scenario
from schemas.trace_statistics import Spread, StepCounts, TraceStatistics

_SHARES = ("mean", "p10", "p50", "p90", "p99", "most")


def print_trace_summary(scenario: Scenario) -> None:
    """Print what a fit found: sizes, quantiles, pauses, hit rates, oddities. Nothing for other scenarios."""
    found = scenario.statistics
    if found is None:
        return
    say(
        f"{found.sessions:,} sessions, {found.requests:,} requests; {found.subagents:,} subagents,"
        f" {found.subagent_requests:,} requests; files: {len(found.files):,}, format {found.format}."
    )
    print_table(("", "n", *_SHARES), [_line(name, spread) for name, spread in _spreads(found) if spread is not None])
    _print_mixture(found)
    _print_hits(found)
    odd = [(name, count) for name, count in found.counts.model_dump().items() if count]
    if odd:
        told = {name: field.description or "" for name, field in StepCounts.model_fields.items()}
        print_table(
            ("rows and steps", "count", "what it is"),
            [(name.replace("_", " "), f"{count:,}", told[name]) for name, count in odd],
        )
    say(f"Cache of the scenario: {scenario.cache}; {scenario.source.partition('; means; ')[2]}.")
    for note in found.notes:
        say(f"Note: {note}")
    say(
        f"Scenario: N {scenario.turns:g}, Z {scenario.think_time_s:g} s, L0 {scenario.initial_prompt_tokens:,.0f},"
        f" dL {scenario.new_tokens_per_turn:,.0f}, OSL {scenario.output_tokens_per_turn:,.0f},"
        f" r {scenario.output_retention_fraction:g}, S {scenario.shared_prefix_tokens:,.0f},"
        f" h {scenario.cache}; mean context {scenario.mean_context_tokens:,.0f},"
        f" peak {scenario.peak_context_tokens:,.0f} tokens."
    )


def _spreads(found: TraceStatistics) -> tuple[tuple[str, Spread | None], ...]:
    return (
        ("turns [N]", found.turns),
        ("initial prompt, tokens [L0]", found.initial_prompt_tokens),
        ("input, tokens", found.input_tokens),
        ("new tokens a turn [dL]", found.new_tokens),
        ("output, tokens [OSL]", found.output_tokens),
        ("peak context, tokens [W]", found.peak_context_tokens),
        ("system and tools, tokens", found.system_and_tool_tokens),
        ("pause, s [Z]", found.pauses_s.all),
        ("  for tools", found.pauses_s.tool),
        ("  for people", found.pauses_s.person),
        ("  not told", found.pauses_s.unknown),
        ("service, s", found.service_s),
        ("subagent turns", found.subagent_turns),
    )


def _line(name: str, spread: Spread) -> tuple[str, ...]:
    return (name, f"{spread.count:,}", *(_number(getattr(spread, share)) for share in _SHARES))


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.4g}"


def _print_mixture(found: TraceStatistics) -> None:
    mixture = found.pauses_s.mixture
    if mixture is not None:
        parts = (
            f"{part.weight:.1%} median {part.median_s:.3g} s, sigma {part.sigma:.3g}" for part in mixture.log_normals
        )
        zero = f"; {mixture.zero_fraction:.1%} are 0" if mixture.zero_fraction else ""
        say(f"Pauses as log-normals: {'; '.join(parts)}{zero}.")


def _print_hits(found: TraceStatistics) -> None:
    cache = found.cache
    told = {"observed": "observed", "bounded": "ever", "assumed": "assumed: all of the turn before"}
    rows = [
        (f"{hit.timeout_s:g} s", f"{hit.token_hit_rate:.3f}", f"{hit.cache_hit_rate:.3f}") for hit in cache.by_timeout
    ]
    rows.append((told[cache.reuse], f"{cache.token_hit_rate:.3f}", f"{cache.cache_hit_rate:.3f}"))
    print_table(("cache hits, prefixes kept for", "of all input", "of reusable [h]"), rows)
