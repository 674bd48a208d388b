"""What every row must keep, whoever wrote it: identities of the field, each with its tolerance.

AIConfigurator prints three decimals: a figure of a few hundredths is off by percents, which is added to
the tolerance where such a figure can stand.
"""

from functools import cache
from typing import Final

import polars as pl

from transforms.serving_points.rules import Rule, rounding_error
from transforms.serving_points.schema_rules import LARGEST
from transforms.sources.rows import ROW_SCHEMA

#: Speed against TPOT, throughput against throughput, besides the rounding.
RATE_TOLERANCE = 0.01
#: Of a rate of requests that is printed with three decimals.
RATE_ROUNDING: Final = 0.001
#: Latency against its parts: all three are printed in ms with three decimals.
LATENCY_TOLERANCE = 0.005
#: The same where they were measured on requests of different lengths. mean(tpot * n) and mean(tpot) * mean(n)
#: differ by at most the product of the variations of tpot and n, about 0.2 * 0.5; medians need not add up at all.
MEASURED_LATENCY_TOLERANCE: Final = {"mean": 0.10, "p50": 0.25}
#: Requests in flight by Little's law over the slots that a table states, by source and mode; "" where
#: none is named. AIConfigurator: 0.8 to 1.6 aggregated; disaggregated slots count decoding alone: up to
#: 4.8 where requests wait for prefill, down to 0.1 where the prefill pool keeps the decode slots empty.
#: InferenceX holds ``conc`` requests in flight but for the start and the end of a run: 0.94-1.00 with
#: means, 0.84-1.09 with medians; rows beyond count GPUs wrong or lost part of their run.
LITTLE_RANGE: Final = {
    "": {"agg": (0.5, 2.5), "disagg": (0.01, 8.0)},
    "inferencex": {"agg": (0.8, 1.15), "disagg": (0.8, 1.15)},
}

_POSITIVE: Final = (
    "isl_tokens", "ttft_ms", "request_latency_ms", "requests_per_s", "concurrency_reported", "batch_per_rank",
    "gpus_per_replica", "prefill_batch", "decode_batch", "context_requests_per_step", "context_tokens_per_step",
    "isl_nominal_tokens", "osl_nominal_tokens",
)  # fmt: skip
_DIMENSIONS: Final = ("tp", "pp", "dp", "cp", "moe_tp", "moe_ep")
_SHAPE: Final = (
    *_DIMENSIONS, *(f"{pool}_{name}" for pool in ("prefill", "decode") for name in ("workers", *_DIMENSIONS)),
)  # fmt: skip
_NOT_NEGATIVE: Final = ("tpot_ms", "tokens_per_s_per_user", "memory_bytes_per_gpu", "draft_tokens")
_REALS: Final = tuple(name for name, dtype in ROW_SCHEMA.items() if dtype == pl.Float64())
#: A modelled table is of one exact workload; measured lengths are means.
_WHOLE: Final = ("isl_tokens", "osl_tokens", "concurrency_reported")


@cache
def row_rules() -> tuple[Rule, ...]:
    """The rules in the order in which they are tried."""
    return (*_presence_rules(), *_value_rules(), *_identity_rules())


def _presence_rules() -> list[Rule]:
    needed = (
        "linear_dtype", "kv_dtype", "attention_dtype", "backend", "gpus_per_replica", "isl_tokens", "osl_tokens",
        "prefix_tokens", "concurrency_reported", "batch_per_rank", "ttft_ms", "tpot_ms", "request_latency_ms",
        "requests_per_s", "weight_dtype", "latency_statistic",
    )  # fmt: skip
    return [Rule("missing_value", pl.col(name).is_null(), pl.lit(f"{name} is not given")) for name in needed]


def _value_rules() -> list[Rule]:
    c = pl.col
    return [
        Rule(
            "no_decode",
            (c("tpot_ms") <= 0) & (c("osl_tokens") > 1),
            pl.format("tpot is {} ms although osl is {} tokens", "tpot_ms", "osl_tokens"),
        ),
        *(
            Rule("not_positive", ~((c(name) > 0) & c(name).is_finite()), _stated(name, "must be above 0"))
            for name in (*_POSITIVE, *_SHAPE)
        ),
        *(Rule("negative", c(name) < 0, _stated(name, "cannot be below 0")) for name in _NOT_NEGATIVE),
        Rule(
            "not_positive",
            (c("tokens_per_s_per_user") == 0) & (c("tpot_ms") > 0),
            _stated("tokens_per_s_per_user", "must be above 0"),
        ),
        Rule("not_positive", c("osl_tokens") < 1, pl.format("osl is {}, must be at least 1", "osl_tokens")),
        *(Rule("out_of_range", ~(c(name).abs() <= LARGEST), _stated(name, "cannot be so large")) for name in _REALS),
        *(
            Rule(
                "not_whole",
                (c("source") == "aiconfigurator") & (c(name) != c(name).round()),
                _stated(name, "must be a whole number"),
            )
            for name in _WHOLE
        ),
        Rule(
            "drafts_do_not_fit",
            (c("accepted_tokens") < 1) | (c("accepted_tokens") > (c("draft_tokens") + 1) * (1 + RATE_TOLERANCE)),
            pl.format(
                "a step yields {} tokens and drafts {}: it must yield from 1 to one more than it drafts",
                "accepted_tokens",
                "draft_tokens",
            ),
        ),
        Rule(
            "prefix_not_below_input",
            (c("prefix_tokens") < 0) | (c("prefix_tokens") >= c("isl_tokens")),
            pl.format("the cached prefix of {} tokens is not within the input of {}", "prefix_tokens", "isl_tokens"),
        ),
    ]


def _stated(name: str, demand: str) -> pl.Expr:
    return pl.format(f"{name} is {{}}, {demand}", name)


def _identity_rules() -> list[Rule]:
    c = pl.col
    latency = c("ttft_ms") + c("tpot_ms") * (c("osl_tokens") - 1)
    tokens_per_s = c("stated_tokens_per_s_per_gpu") * c("stated_gpus")
    without_prefill_cp = c("prefill_workers") * c("prefill_tp") * c("prefill_pp") * c("prefill_dp") + c(
        "decode_workers"
    ) * c("decode_tp") * c("decode_pp") * c("decode_dp")
    little = c("requests_per_s") * c("request_latency_ms") / 1e3 / c("concurrency_reported")
    low, high = _little_range(0), _little_range(1)
    return [
        Rule(
            "tpot_does_not_fit_speed",
            (c("tpot_ms") * c("tokens_per_s_per_user") / 1e3 - 1).abs()
            > RATE_TOLERANCE + rounding_error("tpot_ms") + rounding_error("tokens_per_s_per_user"),
            pl.format(
                "a tpot of {} ms and {} tokens/s/user do not fit: their product must be 1000",
                "tpot_ms", "tokens_per_s_per_user",
            ),
        ),
        Rule(
            "latency_does_not_fit_parts",
            (c("request_latency_ms") / latency - 1).abs() > _latency_tolerance(),
            pl.format("a latency of {} ms is not ttft + tpot * (osl - 1) = {} ms", "request_latency_ms", latency),
        ),
        Rule(
            "gpus_do_not_fit_shape",
            # releases before 0.10 left context parallelism out of a disaggregated count
            (c("stated_gpus") != c("gpus_per_replica")) & (c("stated_gpus") != without_prefill_cp).fill_null(True),
            pl.format("{} GPUs stated, {} by the parallel dimensions", "stated_gpus", "gpus_per_replica"),
        ),
        Rule(
            "experts_do_not_fit_gpus",
            c("expert_dtype").is_not_null()
            & (c("moe_tp") * c("moe_ep") != c("tp") * c("dp") * c("cp")),
            pl.format("moe_tp * moe_ep = {} is not tp * dp * cp", c("moe_tp") * c("moe_ep")),
        ),
        Rule(
            "concurrency_does_not_fit_batch",
            (c("concurrency_reported") / (c("batch_per_rank") * c("dp") * c("pp")) - 1).abs() > 1e-9,
            pl.format("a concurrency of {} is not bs * dp * pp", "concurrency_reported"),
        ),
        Rule(
            "throughput_does_not_fit",
            (tokens_per_s / (c("requests_per_s") * _counted_tokens()) - 1).abs()
            > RATE_TOLERANCE + rounding_error("stated_tokens_per_s_per_gpu"),
            pl.format("tokens/s/gpu * GPUs = {} is not the throughput stated", tokens_per_s),
        ),
        Rule(
            "throughput_does_not_fit",
            # three decimals: the rate of a slow replica is printed as 0
            (c("stated_requests_per_s") - c("requests_per_s")).abs()
            > RATE_TOLERANCE * c("requests_per_s") + RATE_ROUNDING,
            pl.format(
                "{} requests/s stated, {} by the tokens/s and the output length",
                "stated_requests_per_s", "requests_per_s",
            ),
        ),
        Rule(
            "breaks_littles_law",
            (little < low) | (little > high),
            pl.format("{} requests in flight for each one that the table counts", little.round(2)),
        ),
    ]  # fmt: skip


def _latency_tolerance() -> pl.Expr:
    measured = pl.col("latency_statistic").replace_strict(
        MEASURED_LATENCY_TOLERANCE, default=None, return_dtype=pl.Float64
    )
    return pl.when(pl.col("source") == "aiconfigurator").then(LATENCY_TOLERANCE).otherwise(measured)


def _little_range(end: int) -> pl.Expr:
    mode, by_source = pl.col("serving_mode"), pl.lit(None, pl.Float64)
    for source, ranges in LITTLE_RANGE.items():
        bounds = mode.replace_strict({name: bounds[end] for name, bounds in ranges.items()}, return_dtype=pl.Float64)
        by_source = pl.when(pl.col("source") == source).then(bounds).otherwise(by_source) if source else bounds
    return by_source


def _counted_tokens() -> pl.Expr:
    """Output tokens of a request as AIConfigurator counts them; only its rows state a throughput twice."""
    return pl.when(pl.col("serving_mode") == "agg").then(pl.col("osl_tokens") - 1).otherwise("osl_tokens")
