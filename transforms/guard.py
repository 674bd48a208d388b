"""What every row must keep, whoever wrote it: identities of the field, each with its tolerance.

Tables print three decimals, so a rate of a few hundredths or a TPOT of a few ms carries up to 1-2 %;
what has more digits is held tighter.
"""

import polars as pl

from transforms.rules import Rule

#: Speed against TPOT, throughput against throughput: a TPOT of 0.5 ms printed to 0.001 is off by 0.1 %.
RATE_TOLERANCE = 0.01
#: Latency against its parts: all three are printed in ms with three decimals.
LATENCY_TOLERANCE = 0.005
#: Requests in flight by Little's law over the slots that a table states. AIConfigurator: 0.8 to 1.6
#: aggregated. Disaggregated slots count decoding alone: up to 4.8 where requests wait for prefill,
#: down to 0.1 where the prefill pool keeps the decode slots empty.
LITTLE_RANGE = {"agg": (0.5, 2.5), "disagg": (0.01, 8.0)}

_WHOLE = ("isl_tokens", "osl_tokens", "concurrency_reported")


def row_rules() -> list[Rule]:
    """The rules in the order in which they are tried."""
    return [*_presence_rules(), *_value_rules(), *_identity_rules()]


def _presence_rules() -> list[Rule]:
    needed = (
        "linear_dtype", "kv_dtype", "attention_dtype", "backend", "gpus_per_replica", "isl_tokens", "osl_tokens",
        "prefix_tokens", "concurrency_reported", "batch_per_rank", "ttft_ms", "tpot_ms", "request_latency_ms",
        "requests_per_s", "weight_dtype", "latency_statistic",
    )  # fmt: skip
    return [Rule("missing_value", pl.col(name).is_null(), pl.lit(f"{name} is not given")) for name in needed]


def _value_rules() -> list[Rule]:
    c = pl.col
    positive = ("isl_tokens", "ttft_ms", "request_latency_ms", "requests_per_s", "concurrency_reported",
                "batch_per_rank", "gpus_per_replica", "tp", "pp", "dp", "cp", "prefill_workers",
                "decode_workers", "prefill_batch")  # fmt: skip
    return [
        Rule(
            "no_decode",
            (c("tpot_ms") <= 0) & (c("osl_tokens") > 1),
            pl.format("tpot is {} ms although osl is {} tokens", "tpot_ms", "osl_tokens"),
        ),
        *(Rule("not_positive", ~(c(name) > 0), pl.format(name + " is {}, must be above 0", name)) for name in positive),
        Rule("not_positive", c("osl_tokens") < 1, pl.format("osl is {}, must be at least 1", "osl_tokens")),
        *(
            Rule("not_whole", c(name) != c(name).round(), pl.format(name + " is {}, not a whole number", name))
            for name in _WHOLE
        ),
        Rule(
            "prefix_not_below_input",
            (c("prefix_tokens") < 0) | (c("prefix_tokens") >= c("isl_tokens")),
            pl.format("the cached prefix of {} tokens is not within the input of {}", "prefix_tokens", "isl_tokens"),
        ),
    ]


def _identity_rules() -> list[Rule]:
    c = pl.col
    latency = c("ttft_ms") + c("tpot_ms") * (c("osl_tokens") - 1)
    tokens_per_s = c("stated_tokens_per_s_per_gpu") * c("stated_gpus")
    without_prefill_cp = c("prefill_workers") * c("prefill_tp") * c("prefill_pp") * c("prefill_dp") + c(
        "decode_workers"
    ) * c("decode_tp") * c("decode_pp") * c("decode_dp")
    little = c("requests_per_s") * c("request_latency_ms") / 1e3 / c("concurrency_reported")
    low, high = (c("serving_mode").replace_strict({mode: range_[end] for mode, range_ in LITTLE_RANGE.items()})
                 for end in (0, 1))  # fmt: skip
    return [
        Rule(
            "tpot_does_not_fit_speed",
            (c("tpot_ms") * c("tokens_per_s_per_user") / 1e3 - 1).abs() > RATE_TOLERANCE,
            pl.format(
                "a tpot of {} ms and {} tokens/s/user do not fit: their product must be 1000",
                "tpot_ms", "tokens_per_s_per_user",
            ),
        ),
        Rule(
            "latency_does_not_fit_parts",
            (c("request_latency_ms") / latency - 1).abs() > LATENCY_TOLERANCE,
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
            c("concurrency_reported") != c("batch_per_rank") * c("dp") * c("pp"),
            pl.format("a concurrency of {} is not bs * dp * pp", "concurrency_reported"),
        ),
        Rule(
            "throughput_does_not_fit",
            (tokens_per_s / (c("requests_per_s") * _counted_tokens()) - 1).abs() > RATE_TOLERANCE,
            pl.format("tokens/s/gpu * GPUs = {} is not the throughput stated", tokens_per_s),
        ),
        Rule(
            "breaks_littles_law",
            (little < low) | (little > high),
            pl.format("{} requests in flight for each one that the table counts", little.round(2)),
        ),
    ]  # fmt: skip


def _counted_tokens() -> pl.Expr:
    """Output tokens of a request as AIConfigurator counts them; only its rows state a throughput twice."""
    return pl.when(pl.col("serving_mode") == "agg").then(pl.col("osl_tokens") - 1).otherwise("osl_tokens")
