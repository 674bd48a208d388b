"""Mean error of the turn latency that the evaluation found, by method, serving mode and batch of a rank.

From ``python -m tests.bench.bench_evaluation FOLDER``: AIConfigurator 0.12.0's own estimates of nine agent turns,
carried from one standard table of 4000/1000 tokens. Aggregated, 18,235 points of 13 deployments: Llama 3.1 8B, 70B
and 405B, Qwen3 32B and 235B-A22B, gpt-oss-120b and DeepSeek-V3 on H100, H200, B200 and GB200 under TensorRT-LLM,
vLLM and SGLang. Latent attention (MLA) by itself, 3,004 points of five turns: DeepSeek-V3 on H200 under TensorRT-LLM
and SGLang and on H100 under SGLang. Disaggregated, 288 points of Qwen3 32B and 235B-A22B and Llama 3.1 8B and 70B on
H100, H200, B200 and GB200 under the same engines. The README has the error of each. To be renewed when the mapping
changes.
"""

from typing import Final

import polars as pl

#: Batches of one rank that the evaluation tells apart: label and largest batch.
BATCH_RANGES: Final = (("1", 1.0), ("2-4", 4.0), ("5-16", 16.0), ("17-64", 64.0))
ABOVE: Final = "65 and more"
ANY: Final = "any"

#: The ranges of a batch in order, rows without a known batch last.
RANGES: Final = (*(label for label, _ in BATCH_RANGES), ABOVE, ANY)


def _by_batch(*errors: float) -> dict[str, float]:
    return dict(zip(RANGES, errors, strict=True))


def _flat(error: float) -> dict[str, float]:
    return dict.fromkeys(RANGES, error)


#: (method, serving mode) -> mean error in each range of batches and over all, for rows without a known batch.
#: A roofline's method is named with its preset and the kind of model; its errors are those of
#: ``python -m tests.bench roofline``: against AIConfigurator's rows of ten systems at their own workload, 10,990
#: aggregated of dense models and 20,843 of mixtures of experts, 1,168 and 1,101 disaggregated.
EXPECTED_ERRORS: Final = {
    ("transfer", "agg"): _by_batch(0.019, 0.024, 0.025, 0.030, 0.038, 0.027),
    # models of latent attention, whose kernels differ most; of batches above 64 there is no reference row
    ("transfer latent", "agg"): _by_batch(0.057, 0.076, 0.085, 0.101, 0.101, 0.084),
    ("transfer", "disagg"): _by_batch(0.033, 0.028, 0.030, 0.026, 0.027, 0.028),
    ("ratio", "agg"): _by_batch(0.089, 0.162, 0.239, 0.355, 0.515, 0.286),
    ("ratio", "disagg"): _by_batch(0.299, 0.201, 0.265, 0.394, 0.254, 0.295),
    ("roofline article dense", "agg"): _flat(0.393),
    ("roofline article experts", "agg"): _flat(0.424),
    ("roofline calibrated dense", "agg"): _flat(0.136),
    ("roofline calibrated experts", "agg"): _flat(0.288),
    ("roofline article dense", "disagg"): _flat(0.632),
    ("roofline article experts", "disagg"): _flat(0.495),
    ("roofline calibrated dense", "disagg"): _flat(0.056),
    ("roofline calibrated experts", "disagg"): _flat(0.225),
}
#: What the turns span: the new tokens of a prefill, the longest context of a decode, the output of a turn.
EVALUATED_NEW_TOKENS: Final = (600.0, 18_198.0)
EVALUATED_CONTEXT_TOKENS: Final = 74_656.0
EVALUATED_OUTPUT_TOKENS: Final = (64.0, 4_096.0)
EVALUATED_SOURCES: Final = ("aiconfigurator",)
EVALUATED_BACKENDS: Final = ("trtllm", "vllm", "sglang")


def batch_range() -> pl.Expr:
    """The range that a row's ``batch_per_rank`` lies in; NULL where it is not known."""
    number = batch_range_number()
    labels = dict(enumerate(RANGES[:-1]))
    return number.replace_strict(labels, default=None, return_dtype=pl.String)


def batch_range_number() -> pl.Expr:
    """The place in ``RANGES`` of the range that a row's ``batch_per_rank`` lies in."""
    batch = pl.col("batch_per_rank")
    above = pl.sum_horizontal((batch > highest).cast(pl.Int32) for _, highest in BATCH_RANGES)
    return pl.when(batch.is_null()).then(len(RANGES) - 1).otherwise(above)


def is_evaluated() -> pl.Expr:
    """Whether a row's source and engine are those of the reference sets; measured rows and rooflines are not."""
    of_reference = pl.col("source").is_in(EVALUATED_SOURCES) & pl.col("backend").is_in(EVALUATED_BACKENDS)
    return of_reference.fill_null(False)
