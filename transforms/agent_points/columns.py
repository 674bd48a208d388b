"""Private columns of the mapping: the row's own figures beside those of the agent point."""

from collections.abc import Mapping

import polars as pl

from schemas.dtypes import BYTES_PER_KV_ELEMENT
from schemas.hardware import Hardware
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


def kv_element_bytes() -> pl.Expr:
    """Bytes of one element of the row's KV cache."""
    return by_dtype("kv_dtype", BYTES_PER_KV_ELEMENT)


def attention_flops_per_s(gpu: Hardware) -> pl.Expr:
    """Peak FLOP/s of the row's prefill attention on one GPU."""
    rates = {"bf16": gpu.flops_per_s.bf16, "fp8": gpu.flops_per_s.fp8 or gpu.flops_per_s.bf16}
    return by_dtype("attention_dtype", rates)


def turn_figures(
    mean_ttft: Number, first_ttft: Number, last_ttft: Number, tpot: Number, output_tokens: float
) -> dict[str, Number]:
    """TTFT, TPOT and the latencies of the mean, first and last turn, in ms: R = TTFT + TPOT * (OSL - 1)."""
    decode = tpot * (output_tokens - 1.0)
    return {
        "ttft_ms": mean_ttft,
        "tpot_ms": tpot,
        "turn_latency_ms": mean_ttft + decode,
        "first_turn_latency_ms": first_ttft + decode,
        "last_turn_latency_ms": last_ttft + decode,
    }


def by_dtype(column: str, values: Mapping[str, float]) -> pl.Expr:
    """What a number format named in a column stands for; NULL where the column is."""
    return pl.col(column).replace_strict(values, return_dtype=pl.Float64)
