"""Agent runs from a log of their turns: sessions, pauses, lengths, latencies and cache hits, as the run had them.

What a load generator logs of each request is enough to know the run as a replay needs it: nothing is assumed of the
pauses, which are the time between a turn's end and the next one's start. GPUs, shape, precisions and engine stand in
``source.yaml``, as for standard rows.
"""

from collections.abc import Sequence
from typing import Final

import polars as pl

from schemas.sidecar import Sidecar
from transforms.serving_points.rules import flag_rows
from transforms.sources.agentic import AGENTIC_SCHEMA
from transforms.sources.facts import add_facts, fact_rules, fill_defaults, missing_facts_rule
from transforms.sources.measured import FAILED_SHARE, gpus_of_replica, runs_frame
from transforms.sources.record import Record, as_json, is_storable
from transforms.sources.rows import FileRejectedError, Reading, as_rows

#: One row a turn, times in seconds on one clock. ``cached_tokens`` of the prompt were found by the server, NULL where
#: it did not tell; ``history_tokens`` came before in the session, NULL where the log does not say. A failed turn has a
#: start alone.
TURN_SCHEMA: Final[dict[str, pl.DataType]] = {
    "session": pl.String(),
    **{name: pl.Float64() for name in ("start_s", "latency_s", "ttft_s", "input_tokens", "output_tokens",
                                       "cached_tokens", "history_tokens")},
    "failed": pl.Boolean(),
}  # fmt: skip
#: On average so many of the most sessions at once must be alive: else the run is of no one load.
ALIVE_SHARE: Final = 0.8
#: A turn may begin so long before the one before it ends: clocks of clients.
OVERLAP_S: Final = 0.05
_PERCENTILES: Final = {"_p50": 0.5, "_p90": 0.9, "_p99": 0.99}


def turns_frame(rows: Sequence[Sequence[object]]) -> pl.DataFrame:
    """Turns as a frame of ``TURN_SCHEMA``. Raises ``FileRejectedError`` where there is none."""
    if not rows:
        raise FileRejectedError("the file holds no turn of the measured part of a run")
    for number, row in enumerate(rows, 1):
        if not is_storable(str(row[0])):
            raise FileRejectedError(f"turn {number} has a session whose name is no text: half of a character pair")
    return pl.DataFrame(rows, schema=TURN_SCHEMA, orient="row")


def agent_run_reading(
    turns: pl.DataFrame, source: str, tool: str, sidecar: Sidecar | None, model: str | None = None
) -> Reading:
    """The one run that the turns of a file are."""
    version = sidecar.tool_version if sidecar else None
    row = agent_run(turns, source, sidecar, model)
    return Reading(source, tool, version, as_rows(runs_frame([])), row)


def agent_run(turns: pl.DataFrame, source: str, sidecar: Sidecar | None, model: str | None = None) -> pl.DataFrame:
    """One row of ``AGENTIC_SCHEMA``, of one replica, flagged where the log is of no run that can be used."""
    figures = figures_of_turns(turns)
    run = Record(figures)
    _check(run, turns, figures)
    stated = _hit_rate_said(sidecar, figures["mean_input_tokens"])
    if stated is not None and figures["server_gpu_cache_hit_rate"] is not None:
        run.flag("sidecar_disagrees", "the run itself says what its cache held: leave it out of source.yaml")
    lengths = {"isl_tokens": figures["mean_input_tokens"], "osl_tokens": figures["mean_output_tokens"]}
    known = runs_frame([run.row(1, {**lengths, "prefix_tokens": 0.0, "model": model}, as_json(figures))])
    said = sidecar.model_copy(update={"prefix_tokens": None}) if sidecar else None
    facts = fill_defaults(add_facts(known, said))
    facts = flag_rows(facts, [*fact_rules(), missing_facts_rule()])
    replicas, gpus = pl.col("replicas"), gpus_of_replica()
    per_replica = ("sessions", "requests_total", "requests_successful", "requests_per_s",
                   *(f"{kind}_tokens_per_s" for kind in _KINDS))  # fmt: skip
    rates = {f"{kind}_tokens_per_s_per_gpu": figures[f"{kind}_tokens_per_s"] for kind in _KINDS}
    named = facts.with_columns(
        **{name: pl.lit(value, pl.Float64) for name, value in figures.items()},
        **{name: pl.lit(value, pl.Float64) / replicas / gpus for name, value in rates.items()},
        source=pl.lit(source),
        hardware_name="hardware",
        model_name="model",
        precision_name=pl.coalesce("expert_dtype", "weight_dtype", "linear_dtype"),
        linear_precision_name="linear_dtype",
        cache_precision_name="kv_dtype",
        backend_name="backend",
        gpus_per_replica=gpus,
    )
    named = named.with_columns(
        *(pl.col(name) / replicas for name in per_replica),
        server_gpu_cache_hit_rate=pl.col("server_gpu_cache_hit_rate").fill_null(pl.lit(stated, pl.Float64)),
    )
    return named.select(
        pl.col(name).cast(dtype, strict=False) if name in named.columns else pl.lit(None, dtype).alias(name)
        for name, dtype in AGENTIC_SCHEMA.items()
    )


_KINDS: Final = ("input", "output", "total")


def figures_of_turns(turns: pl.DataFrame) -> dict[str, float | None]:
    """The figures of ``measured_agentic`` that the turns tell, of all replicas together."""
    c = pl.col
    turns = turns.sort("start_s")
    answered = turns.filter(~c("failed"))
    spans = answered.group_by("session").agg(begin=c("start_s").min(), end=(c("start_s") + c("latency_s")).max())
    history = pl.coalesce("history_tokens", _tokens_before()).clip(0.0)
    ends = c("start_s") + c("latency_s").fill_null(0.0)
    seconds = turns.select(ends.max() - c("start_s").min()).item()
    sums = answered.with_columns(history=pl.min_horizontal(history, "input_tokens")).select(
        "input_tokens", "output_tokens", "latency_s", "history", decode_s=c("latency_s") - c("ttft_s"),
        later_tokens=(c("output_tokens") - 1.0).clip(0.0),
    ).sum().row(0, named=True)  # fmt: skip
    count = answered.height
    tokens = {"input": sums["input_tokens"], "output": sums["output_tokens"]}
    tokens["total"] = tokens["input"] + tokens["output"]
    paused_s = spans.select((c("end") - c("begin")).sum()).item() - sums["latency_s"]
    return {
        "sessions": float(_most_alive(spans)),
        "duration_s": seconds,
        "requests_total": float(turns.height),
        "requests_successful": float(count),
        "failed_fraction": 1.0 - count / turns.height,
        "requests_per_s": _over(count, seconds),
        "mean_input_tokens": _over(tokens["input"], count),
        "mean_output_tokens": _over(tokens["output"], count),
        **{f"{kind}_tokens_per_s": _over(of_kind, seconds) for kind, of_kind in tokens.items()},
        "pause_s": _over(max(paused_s, 0.0), count),
        "turns_per_session": _over(count, spans.height),
        "context_spread_fraction": answered.select(c("input_tokens").std(ddof=0) / c("input_tokens").mean()).item(),
        "server_gpu_cache_hit_rate": _hit_rate(answered),
        "theoretical_cache_hit_rate": _over(sums["history"], tokens["input"]),
        "itl_ms": _over(1e3 * sums["decode_s"], sums["later_tokens"]),
        **_latencies_ms(answered, "ttft", "ttft_s"),
        **_latencies_ms(answered, "turn_latency", "latency_s"),
    }  # fmt: skip


def _latencies_ms(answered: pl.DataFrame, name: str, column: str) -> dict[str, float | None]:
    values = 1e3 * answered[column]
    found: dict[str, float | None] = {f"{name}_ms": _number(values.mean())}
    for suffix, quantile in _PERCENTILES.items():
        found[f"{name}{suffix}_ms"] = _number(values.quantile(quantile, "linear"))
    return found


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _over(value: float, by: float) -> float | None:
    return value / by if by > 0 else None


def _tokens_before() -> pl.Expr:
    """Prompt and answer of the session's turn before: what a cache without end still has of it."""
    before = (pl.col("input_tokens") + pl.col("output_tokens")).shift(1, fill_value=0.0)
    return before.over("session", order_by="start_s")


def _hit_rate(answered: pl.DataFrame) -> float | None:
    """Share of the prompts' tokens that the server found; None where it does not tell.

    Servers leave the count out where nothing was found: a session's first turn may lack it, a later one not.
    """
    c = pl.col
    first = c("start_s") == c("start_s").min().over("session")
    told = answered.with_columns(told=c("cached_tokens").is_not_null(), first=first)
    if not told["told"].any() or told.filter(~c("told") & ~c("first")).height:
        return None
    sums = told.select(c("cached_tokens").fill_null(0.0).sum(), c("input_tokens").sum()).row(0)
    return _over(*sums)


def _most_alive(spans: pl.DataFrame) -> int:
    """Sessions alive at once: from its first turn's start to its last one's end."""
    begun = spans.select(at="begin", change=pl.lit(1))
    ended = spans.select(at="end", change=pl.lit(-1))
    changes = pl.concat([begun, ended]).sort("at", "change")
    return changes.select(pl.col("change").cum_sum().max().fill_null(0)).item()  # type: ignore[no-any-return]


def _hit_rate_said(sidecar: Sidecar | None, input_tokens: float | None) -> float | None:
    """What ``source.yaml`` says of the cache: a share, or the mean tokens of a prompt."""
    if sidecar is None:
        return None
    if sidecar.cache_hit_rate is not None:
        return sidecar.cache_hit_rate
    if sidecar.prefix_tokens is None or not input_tokens:
        return None
    return sidecar.prefix_tokens / input_tokens


def _check(run: Record, turns: pl.DataFrame, figures: dict[str, float | None]) -> None:
    """Figures that can be of no run, sessions that overlap themselves, a load that was no one load."""
    c = pl.col
    answered = turns.filter(~c("failed"))
    if answered.is_empty():
        run.flag("failed_requests", f"0 of {turns.height:,} turns were answered: there is no result")
        return
    if turns.height - answered.height > FAILED_SHARE * turns.height:
        run.flag(
            "failed_requests",
            f"{turns.height - answered.height:,} of {turns.height:,} turns failed: rate and latencies are those of "
            "the others only",
        )
    wrong = {
        "latency_s is not above 0": c("latency_s") <= 0,
        "ttft_s is not between 0 and latency_s": ~c("ttft_s").is_between(0, c("latency_s") + 1e-9),
        "input_tokens is below 1": c("input_tokens") < 1,
        "output_tokens is below 1": c("output_tokens") < 1,
        "cached_tokens is not between 0 and input_tokens": ~c("cached_tokens").is_between(0, c("input_tokens")),
    }
    for words, broken in wrong.items():
        count = answered.filter(broken).height
        if count:
            run.flag("out_of_range", f"{words} in {count:,} turn{'s' * (count != 1)}")
            return
    ends = (c("start_s") + c("latency_s")).shift(1).over("session", order_by="start_s")
    early = answered.filter(c("start_s") < ends - OVERLAP_S).height
    if early > FAILED_SHARE * answered.height:
        run.flag(
            "turns_overlap",
            f"{early:,} turns begin before their session's last one ends: a session takes its turns one by one",
        )
    if answered["session"].n_unique() == answered.height:
        run.flag("no_agent_run", "no session has a second turn: these are single requests, not a run of agents")
    alive = figures["requests_successful"] or 0.0
    alive *= ((figures["pause_s"] or 0.0) + (figures["turn_latency_ms"] or 0.0) / 1e3) / (figures["duration_s"] or 1.0)
    if alive < ALIVE_SHARE * (figures["sessions"] or 0.0):
        run.flag(
            "load_not_steady",
            f"on average {alive:.1f} of {figures['sessions']:.0f} sessions were there: the run is of no one load",
        )
