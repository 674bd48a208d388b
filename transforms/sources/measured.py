"""What measured runs share: from figures of a whole load to those of one replica, and what must hold.

A load generator measures a service from outside: latencies, rates and lengths of all that it loaded.
GPUs, shape, precisions and engine it does not know (``facts.py``).
"""

from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from schemas.sidecar import Sidecar
from transforms.serving_points.rules import Rule, flag_rows
from transforms.sources.facts import (
    COUNTS,
    LENGTHS,
    MEANS,
    NAMES,
    STATED,
    add_facts,
    fact_rules,
    fill_defaults,
    listed,
    missing_facts_rule,
)
from transforms.sources.rows import as_rows

#: Above this share of failed requests the figures are those of the survivors: the rate counts fewer
#: requests than the engine worked on, by about this share. The tolerance of rates.
FAILED_SHARE: Final = 0.01
#: Tools print rates, lengths and latencies with all digits; two decimals of small ones are off by 1 %.
RATE_TOLERANCE: Final = 0.01
#: Requests over the whole run's seconds against the stated rate: tools divide the one by the other.
WALL_TOLERANCE: Final = 0.02
#: Requests that were cut off at the end of a load without slots, over all: the rate misses them. Where there are
#: slots, what they held in flight says more.
INCOMPLETE_SHARE: Final = 0.1
#: Part of a run in which its load was still rising. The means are of several loads beyond.
RAMP_SHARE: Final = 0.05
#: Requests in flight over the slots of a closed loop, by statistic of the latencies. Above 1 it cannot be, but for
#: clocks that start and end a little apart; a steady loop with true counts is at 0.95 to 1, and one below 0.9 was
#: ramped, cut off or idle for a part of the run. Medians are of no one request and below the
#: means where a few wait long: 0.61 to 1.10 in 124 runs with long prompts.
SLOTS_RANGE: Final = {"mean": (0.9, 1.02), "p50": (0.5, 1.25)}
#: Latency against TTFT + TPOT * (tokens - 1), besides what the lengths' correlation with TPOT explains.
PARTS_TOLERANCE: Final = 0.01
#: No more than this is explained so: an ITL far above the TPOT is one of chunks of several tokens.
LARGEST_CORRELATION: Final = 0.09

#: Sources whose lengths are nominal, or whose rows a model may have made: the guard has bounds of its own for them.
_NO_TRUE_COUNTS: Final = ("generic", "inferencex")

#: Figures of all replicas together. ``concurrency_reported`` are the slots of a closed loop, NULL where
#: requests came at a rate of their own; ``in_flight_stated`` is what the tool itself counts in flight,
#: ``itl_ms`` the mean time between tokens over all tokens, where TPOT is a mean over requests. ``incomplete``
#: requests were cut off at the end; in the first ``ramp_s`` of ``duration_s`` the load was still rising. ``wall_s``
#: are the seconds that a tool divides its completed requests by for its rate.
_FIGURES: Final = (
    "ttft_ms", "tpot_ms", "itl_ms", "request_latency_ms", "requests_per_s", "output_tokens_per_s",
    "output_tokens_per_s_per_gpu", "tokens_per_s_per_user", "memory_bytes_per_gpu", "in_flight_stated",
    "completed", "failed", "incomplete", "ramp_s", "duration_s", "wall_s",
)  # fmt: skip

#: Columns of a run. All numbers are reals: a count is checked, not cut.
RUN_SCHEMA: Final[dict[str, pl.DataType]] = {
    "source_row": pl.Int64(),
    "raw": pl.String(),
    "reason": pl.String(),
    "detail": pl.String(),
    "measured_at": pl.String(),
    "latency_statistic": pl.String(),
    "setting": pl.String(),
    "shares_prefix": pl.Boolean(),
    **{name: pl.String() for name in STATED},
    **{name: pl.String() for name in NAMES},
    **{name: pl.Float64() for name in (*COUNTS, *MEANS, *LENGTHS.values(), *_FIGURES)},
}


def runs_frame(rows: Sequence[Mapping[str, object]]) -> pl.DataFrame:
    """Runs as a frame of ``RUN_SCHEMA``, what a run does not have NULL."""
    return pl.DataFrame(rows, schema=RUN_SCHEMA, orient="row")


def as_serving_rows(runs: pl.DataFrame, source: str, sidecar: Sidecar | None) -> pl.DataFrame:
    """Rows of the common shape (``ROW_SCHEMA``), of one replica, from runs (``RUN_SCHEMA``, some columns absent)."""
    absent = {name: pl.lit(None, dtype) for name, dtype in RUN_SCHEMA.items() if name not in runs.columns}
    runs = fill_defaults(add_facts(runs.with_columns(**absent), sidecar))
    runs = runs.with_columns(pl.col("latency_statistic").fill_null(statistic_said(sidecar)))
    c = pl.col
    decode_steps = c("osl_tokens") - 1
    recovered = c("tpot_ms").is_null() & (decode_steps > 0)
    runs = runs.with_columns(
        requests_per_s=pl.coalesce("requests_per_s", _tokens_per_s() / c("osl_tokens")),
        tpot_ms=pl.when(recovered).then((c("request_latency_ms") - c("ttft_ms")) / decode_steps).otherwise("tpot_ms"),
        request_latency_ms=pl.coalesce("request_latency_ms", c("ttft_ms") + c("tpot_ms") * decode_steps),
        tpot_source=pl.when(recovered).then(pl.lit("recovered")).otherwise(pl.lit("reported")),
    ).with_columns(in_flight=c("requests_per_s") * c("request_latency_ms") / 1e3)
    rules = [*_figure_rules(), *([] if source in _NO_TRUE_COUNTS else _slots_rules())]
    runs = flag_rows(runs, [*rules, *fact_rules(), missing_facts_rule()])
    disagg = c("serving_mode") == "disagg"
    stations = pl.when(disagg).then(c("decode_workers") * c("decode_dp") * c("decode_pp")).otherwise(c("dp") * c("pp"))
    concurrency = pl.coalesce("concurrency_reported", "in_flight") / c("replicas")
    return as_rows(
        runs.with_columns(
            source=pl.lit(source),
            hardware_name=pl.coalesce(
                "hardware", pl.concat_str("prefill_hardware", pl.lit(" and "), "decode_hardware")
            ),
            prefill_hardware_name=pl.coalesce("prefill_hardware", "hardware"),
            decode_hardware_name=pl.coalesce("decode_hardware", "hardware"),
            said_prefill_hardware=pl.coalesce("said_prefill_hardware", "said_hardware"),
            said_decode_hardware=pl.coalesce("said_decode_hardware", "said_hardware"),
            model_name="model",
            backend_name="backend",
            kv_dtype_source=pl.when(c("kv_dtype").is_not_null()).then(pl.lit("reported")),
            requests_per_s=c("requests_per_s") / c("replicas"),
            concurrency_reported=concurrency,
            batch_per_rank=concurrency / stations,
            decode_batch=pl.when(disagg).then(concurrency / stations),
            tokens_per_s_per_user=pl.coalesce(
                "tokens_per_s_per_user", pl.when(c("tpot_ms") > 0).then(1e3 / c("tpot_ms"))
            ),
        )
    )


def statistic_said(sidecar: Sidecar | None) -> str:
    """The statistic that ``source.yaml`` says the latencies are; means where it says nothing."""
    return (sidecar and sidecar.latency_statistic) or "mean"


def _tokens_per_s() -> pl.Expr:
    """Output tokens a second over all replicas; NULL where the run states none."""
    whole = pl.col("output_tokens_per_s_per_gpu") * gpus_of_replica() * pl.col("replicas")
    return pl.coalesce("output_tokens_per_s", whole)


def gpus_of_replica() -> pl.Expr:
    """GPUs of a replica by its shape."""

    def gpus(pool: str) -> pl.Expr:
        return pl.col(f"{pool}tp") * pl.col(f"{pool}pp") * pl.col(f"{pool}dp") * pl.col(f"{pool}cp")

    pools = pl.col("prefill_workers") * gpus("prefill_") + pl.col("decode_workers") * gpus("decode_")
    return pl.when(pl.col("serving_mode") == "disagg").then(pools).otherwise(gpus(""))


def _slots_rules() -> list[Rule]:
    """Of a load generator, which counts what it completed: over the slots of a closed loop, and over the seconds."""
    c = pl.col
    in_flight, slots = c("in_flight"), c("concurrency_reported")
    return [
        Rule(
            "breaks_littles_law",
            in_flight > slots * _slots_bound(1),
            pl.format("requests/s times latency is {} requests in flight, the load had {} slots", in_flight, slots),
        ),
        Rule(
            "load_not_steady",
            in_flight < slots * _slots_bound(0),
            pl.format(
                "requests/s times latency is {} requests in flight of {} slots: the load was ramped, cut off or idle "
                "for a part of the run",
                in_flight.round(2), slots,
            ),
        ),
        Rule(
            "throughput_does_not_fit",
            (c("completed") / c("wall_s") / c("requests_per_s") - 1).abs() > WALL_TOLERANCE,
            pl.format("{} requests in {} s are not {} requests/s", _whole(c("completed")), "wall_s", "requests_per_s"),
        ),
        Rule(
            "load_not_steady",
            c("completed") + c("failed").fill_null(0.0) < c("concurrency_reported"),
            pl.format(
                "{} requests never filled {} slots", _whole(c("completed")), _whole(c("concurrency_reported")),
            ),
        ),
    ]  # fmt: skip


def _slots_bound(end: int) -> pl.Expr:
    bounds = {statistic: ends[end] for statistic, ends in SLOTS_RANGE.items()}
    return pl.col("latency_statistic").replace_strict(bounds, default=None, return_dtype=pl.Float64)


def _whole(count: pl.Expr) -> pl.Expr:
    """The count in words, without a fraction where it is of a size that counts have."""
    return pl.coalesce(count.cast(pl.Int64, strict=False).cast(pl.String), count.cast(pl.String))


def _figure_rules() -> list[Rule]:
    c = pl.col
    made = c("failed") + c("completed")
    no_rate = c("requests_per_s").is_null() & c("output_tokens_per_s").is_null()
    parts = c("ttft_ms") + c("tpot_ms") * (c("osl_tokens") - 1)
    # over requests, mean(tpot * n) / mean(n) is the mean over tokens: the ITL, where a chunk is a token
    correlation = (c("itl_ms") / c("tpot_ms") - 1).abs().clip(upper_bound=LARGEST_CORRELATION)
    lacks = {
        "TTFT": c("ttft_ms").is_null(),
        "TPOT": c("tpot_ms").is_null(),
        "request rate": no_rate & c("output_tokens_per_s_per_gpu").is_null(),
    }
    return [
        *(
            Rule("negative", c(name) < 0, pl.format(f"{name} is {{}} requests, cannot be below 0", _whole(c(name))))
            for name in ("completed", "failed")
        ),
        Rule(
            "failed_requests",
            c("failed") / made > FAILED_SHARE,
            pl.format(
                "{} of {} requests failed: rate and latencies are those of the others only",
                _whole(c("failed")), _whole(made),
            ),
        ),
        Rule(
            "incomplete_requests",
            c("concurrency_reported").is_null() & (c("incomplete") / (c("incomplete") + made) > INCOMPLETE_SHARE),
            pl.format(
                "{} of {} requests were cut off at the end of the run: the rate is too low by about as much",
                _whole(c("incomplete")), _whole(c("incomplete") + made),
            ),
        ),
        Rule(
            "changing_load",
            (c("ramp_s") > 0) & ~(c("ramp_s") <= RAMP_SHARE * c("duration_s")).fill_null(False),
            pl.format(
                "the load was ramped up over {} s of {}: the means are of no one load",
                "ramp_s", pl.concat_str("duration_s", pl.lit(" s")).fill_null("a run of unknown length"),
            ),
        ),
        Rule(
            "missing_value",
            pl.any_horizontal(lacks.values()),
            pl.format("the file has no {}, and nothing else can stand for it", listed(lacks)),
        ),
        Rule(
            "throughput_does_not_fit",
            (_tokens_per_s() / c("osl_tokens") / c("requests_per_s") - 1).abs() > RATE_TOLERANCE,
            pl.format(
                "{} requests/s of {} tokens are not {} output tokens/s",
                "requests_per_s", "osl_tokens", _tokens_per_s(),
            ),
        ),
        Rule(
            "latency_does_not_fit_parts",
            (c("latency_statistic") == "mean")
            & ((c("request_latency_ms") / parts - 1).abs() > PARTS_TOLERANCE + correlation),
            pl.format("a latency of {} ms is not ttft + tpot * (osl - 1) = {} ms", "request_latency_ms", parts),
        ),
        Rule(
            "breaks_littles_law",
            (c("latency_statistic") == "mean")
            & ((c("in_flight") / c("in_flight_stated") - 1).abs() > RATE_TOLERANCE),
            pl.format("requests/s times latency is {}, the file counts {} in flight", "in_flight", "in_flight_stated"),
        ),
    ]  # fmt: skip
