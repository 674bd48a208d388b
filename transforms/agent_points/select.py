"""One row for each configuration, load and scenario, from tables of several workloads (MODEL 5.9)."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from schemas.scenarios import Scenario
from transforms.cache import constant_hit_rate
from transforms.configurations import SCHEDULE_ID
from transforms.equations.context import turn_profile

#: Tables state whole tokens.
TOKEN_TOLERANCE = 0.5
_LOAD = (SCHEDULE_ID, "batch_per_rank")


@dataclass(frozen=True)
class OwnWorkload:
    """The agent's own workload in whole tokens: the prompt, the output, what is cached on a hit and on a miss."""

    isl_tokens: int
    osl_tokens: int
    prefixes: tuple[int, ...]


def own_workload(scenario: Scenario, serving_mode: str) -> OwnWorkload:
    """What a tool must be asked so that rows of this serving mode are direct (MODEL 5.1); hit first."""
    isl = round(scenario.mean_context_tokens)
    hit = max(isl - round(_new_on_hit(scenario, serving_mode)), 0)
    prefixes = (hit,) if scenario.cache_hit_rate == 1.0 else (hit, round(scenario.shared_prefix_tokens))
    return OwnWorkload(isl, round(scenario.output_tokens_per_turn), tuple(dict.fromkeys(prefixes)))


def select_rows(points: pl.DataFrame, scenario: Scenario) -> pl.DataFrame:
    """The rows to carry, one workload for each configuration and load, with ``_is_direct``.

    A row at the agent's own effective workload comes first (MODEL 5.1), with ``_miss_*`` figures of
    the row that prices a miss where the scenario has misses; else the workload whose context is
    nearest (as a ratio). Rows that are alike in all of this are all kept.
    """
    marked = _mark_direct(points, scenario)
    target = scenario.mean_context_tokens + scenario.output_tokens_per_turn / 2
    context = pl.col("isl_tokens") + pl.col("osl_tokens") / 2
    distance = pl.when("_is_direct").then(-1.0).otherwise((context / target).log().abs().round(9))
    chosen = marked.with_columns(_distance=distance).filter(
        pl.col("_distance") == pl.col("_distance").min().over(_LOAD)
    )
    for name in ("isl_tokens", "osl_tokens", "prefix_tokens"):
        chosen = chosen.filter(pl.col(name) == pl.col(name).max().over(_LOAD))
    return chosen.drop("_distance")


def apply_direct(points: pl.DataFrame, scenario: Scenario) -> pl.DataFrame:
    """Direct rows with the table's own figures for hit and miss, mixed h : 1-h.

    Takes rows that were carried; what the first and last turn differ from the mean is kept.
    """
    c, hit = pl.col, constant_hit_rate(scenario)
    direct = c("_is_direct")
    ttft = hit * c("row_ttft_ms") + (1 - hit) * c("_miss_ttft_ms")
    tpot = hit * c("row_tpot_ms") + (1 - hit) * c("_miss_tpot_ms")
    latency = ttft + tpot * (scenario.output_tokens_per_turn - 1)
    seconds_a_request = hit / c("row_requests_per_s") + (1 - hit) / c("_miss_requests_per_s")
    shift = latency - c("turn_latency_ms")
    return points.with_columns(
        ttft_ms=pl.when(direct).then(ttft).otherwise("ttft_ms"),
        tpot_ms=pl.when(direct).then(tpot).otherwise("tpot_ms"),
        turn_latency_ms=pl.when(direct).then(latency).otherwise("turn_latency_ms"),
        first_turn_latency_ms=c("first_turn_latency_ms") + pl.when(direct).then(shift).otherwise(0.0),
        last_turn_latency_ms=c("last_turn_latency_ms") + pl.when(direct).then(shift).otherwise(0.0),
        serving_requests_per_s=pl.when(direct).then(1 / seconds_a_request).otherwise("serving_requests_per_s"),
        transfer_method=pl.when(direct).then(pl.lit("direct")).otherwise("transfer_method"),
    )


def _mark_direct(points: pl.DataFrame, scenario: Scenario) -> pl.DataFrame:
    """Adds ``_is_direct`` and the ``_miss_*`` figures (the row's own where nothing misses)."""
    c = pl.col
    agg, disagg = (_new_on_hit(scenario, mode) for mode in ("agg", "disagg"))
    new_on_hit = pl.when(c("serving_mode") == "agg").then(agg).otherwise(disagg)
    at_context = _near(c("isl_tokens"), scenario.mean_context_tokens) & _near(
        c("osl_tokens"), scenario.output_tokens_per_turn
    )
    is_hit = at_context & _near(c("isl_tokens") - c("prefix_tokens"), new_on_hit) & (c("source") != "roofline")
    if constant_hit_rate(scenario) == 1.0:
        return points.with_columns(
            _is_direct=is_hit,
            _miss_ttft_ms="row_ttft_ms",
            _miss_tpot_ms="row_tpot_ms",
            _miss_requests_per_s="row_requests_per_s",
        )
    misses = (
        points.filter(at_context & _near(c("prefix_tokens"), scenario.shared_prefix_tokens))
        .unique(_LOAD, keep="first", maintain_order=True)
        .select(
            *_LOAD,
            _miss_ttft_ms="row_ttft_ms",
            _miss_tpot_ms="row_tpot_ms",
            _miss_requests_per_s="row_requests_per_s",
        )
    )
    joined = points.join(misses, on=_LOAD, how="left", nulls_equal=True, maintain_order="left")
    return joined.with_columns(_is_direct=is_hit & c("_miss_ttft_ms").is_not_null())


def _new_on_hit(scenario: Scenario, serving_mode: str) -> float:
    """Tokens that a turn prefills on a hit, mean over the turns. A disaggregated pool computes the last output too."""
    return float(np.mean(turn_profile(scenario, prefill_sees_output=serving_mode == "agg").new_on_hit))


def _near(value: pl.Expr, target: pl.Expr | float) -> pl.Expr:
    return (value - target).abs() <= TOKEN_TOLERANCE
