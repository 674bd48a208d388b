"""Private columns of the mapping: the row's own figures beside those of the agent point."""

from collections.abc import Mapping

import polars as pl

from transforms.numbers import Number

#: The table's figures, kept under these names while the agent's take theirs.
ROW_FIGURES = {
    "ttft_ms": "row_ttft_ms",
    "tpot_ms": "row_tpot_ms",
    "request_latency_ms": "row_latency_ms",
    "requests_per_s": "row_requests_per_s",
}


#: The agent's figures of a turn, in ms.
TURN_FIGURES = ("ttft_ms", "tpot_ms", "turn_latency_ms", "first_turn_latency_ms", "last_turn_latency_ms")
#: What goes with a hit rate, of one number for all rows or of each row; between two rows of a curve straight.
HIT_RATE_FIGURES = (
    "cache_hit_rate", "cache_reload_fraction", "prefix_kept_s", "prefill_tokens_per_turn",
    "turn_latency_all_hits_ms", "turn_latency_all_misses_ms", "serving_requests_per_s_all_hits",
    "serving_requests_per_s_all_misses",
)  # fmt: skip

#: Between two rows whose hit rates differ by more the cache falls over its cliff: nothing there is on a straight line.
CLIFF_OF_HIT_RATE = 0.25

#: What a turn's own prefill takes, in ms: of a new token, and of a FLOP of its attention.
PREFILL_SLOPES = ("_prefill_ms_per_token", "_prefill_ms_per_flop")
#: ``unmeasured_load`` of loads that a calibrated engine fills in: between measured loads, or beyond the highest.
BETWEEN_MEASURED, BEYOND_MEASURED = "between", "beyond"
#: Standard deviations of the logarithm of turn latency and of TTFT, of calibrated rows.
DEVIATIONS = ("_latency_deviation", "_ttft_deviation")
#: The rate of a row, and what it is at all hits and at all misses.
RATE = "serving_requests_per_s"
RATES = (RATE, f"{RATE}_all_hits", f"{RATE}_all_misses")
#: What is read on a straight line between two rows of a curve; of the rates see ``with_own_rate``.
BETWEEN_ROWS = (*TURN_FIGURES, *PREFILL_SLOPES, *DEVIATIONS, *HIT_RATE_FIGURES, RATE)


def turn_figures(
    mean_ttft: Number, first_ttft: Number, last_ttft: Number, tpot: Number, output_tokens: float
) -> dict[str, Number]:
    """TTFT, TPOT and the latencies of the mean, first and last turn, in ms: R = TTFT + TPOT * (OSL - 1)."""
    decode = tpot * (output_tokens - 1.0)
    latency = mean_ttft + decode
    return {
        "ttft_ms": mean_ttft,
        "tpot_ms": tpot,
        "turn_latency_ms": latency,
        "first_turn_latency_ms": latency if first_ttft is mean_ttft else first_ttft + decode,
        "last_turn_latency_ms": latency if last_ttft is mean_ttft else last_ttft + decode,
    }


def with_own_rate(line: Mapping[str, Number], requests_per_s: Number) -> dict[str, Number]:
    """The ``RATES`` of a point between two rows of a curve.

    ``line``: the same on the straight line between the rows. The point's own rate follows from its sessions and R,
    not from the line. Those at all hits and all misses leave the line by the same factor: it stays between them.
    """
    factor = requests_per_s / line[RATE]
    return {name: requests_per_s if name == RATE else line[name] * factor for name in RATES}


def by_dtype(column: str, values: Mapping[str, float]) -> pl.Expr:
    """What a number format named in a column stands for; NULL where the column is."""
    return pl.col(column).replace_strict(values, return_dtype=pl.Float64)
