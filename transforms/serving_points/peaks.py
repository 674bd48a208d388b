"""No row may read memory or compute faster than its GPUs can: rows that do are wrong, not fast."""

import polars as pl

from schemas.catalogue import HardwareCatalogue, ModelCatalogue
from schemas.dtypes import BYTES_PER_WEIGHT
from schemas.hardware import Hardware
from schemas.models import ModelSpec
from transforms.numbers import Number
from transforms.serving_points.rules import Rule, flag_rows

#: Rows print three decimals and data sheets round their peaks.
PEAK_TOLERANCE = 0.03


def flag_above_peak(rows: pl.DataFrame, hardware: HardwareCatalogue, models: ModelCatalogue) -> pl.DataFrame:
    """Rows flagged whose TPOT, TTFT or throughput implies more than the peak of their GPUs.

    All are lower bounds on the work: every decode step reads the weights that one token uses, and every
    request computes its new tokens once, before its first token on the GPUs of one worker at most.
    """
    if rows.is_empty():
        return rows
    keys = ["prefill_hardware", "decode_hardware", "model"]
    parts = []
    for (prefill, decode, model), part in rows.group_by(keys, maintain_order=True):
        if None in (prefill, decode, model):
            parts.append(part)
            continue
        rules = _peak_rules(hardware.get(str(prefill)), hardware.get(str(decode)), models.get(str(model)))
        parts.append(flag_rows(part, rules))
    return pl.concat(parts)


def fastest_flops_per_s(*gpus: Hardware) -> float:
    """The highest rate of any arithmetic on any of the GPUs."""
    rates = [rate for gpu in gpus for rate in (gpu.flops_per_s.bf16, gpu.flops_per_s.fp8, gpu.flops_per_s.fp4)]
    return max(rate for rate in rates if rate is not None)


def least_flops_per_s(spec: ModelSpec, tokens: Number, requests_per_s_per_gpu: Number) -> Number:
    """FLOP/s of one GPU for requests of so many computed tokens: the matrix products alone."""
    looked_up = spec.parameters.embedding if spec.parameters.output_head else 0
    return 2.0 * (spec.parameters_active - looked_up) * tokens * requests_per_s_per_gpu


def _peak_rules(prefill_gpu: Hardware, decode_gpu: Hardware, spec: ModelSpec) -> list[Rule]:
    c = pl.col
    linear = spec.parameters.attention + spec.parameters.dense_mlp + spec.parameters.shared_experts
    expert = spec.parameters_per_expert * (spec.moe.experts_per_token if spec.moe else 0)
    tp = pl.coalesce("tp", "decode_tp")
    ranks = pl.coalesce("dp", "decode_dp") * pl.coalesce("cp", "decode_cp")
    read = linear * _bytes("linear_dtype") / tp + (expert * _bytes("expert_dtype")).fill_null(0.0) / (tp * ranks)
    decode_s = read / decode_gpu.hbm_bandwidth_bytes_per_s
    fastest = fastest_flops_per_s(prefill_gpu, decode_gpu)
    new_tokens = c("isl_tokens") - c("prefix_tokens") + c("osl_tokens") - 1
    flops_per_s = least_flops_per_s(spec, new_tokens, c("requests_per_s") / c("gpus_per_replica"))
    worker = c("prefill_tp") * c("prefill_pp") * c("prefill_dp") * c("prefill_cp")
    prompt = c("isl_tokens") - c("prefix_tokens")
    prefill_s = least_flops_per_s(spec, prompt, 1.0 / pl.coalesce(worker, "gpus_per_replica")) / fastest
    return [
        Rule(
            "above_peak_bandwidth",
            decode_s > c("tpot_ms") * c("accepted_tokens") / 1e3 * (1 + PEAK_TOLERANCE),
            pl.format(
                "reading the weights of one token takes {} ms at peak bandwidth, the tpot is {} ms",
                (decode_s * 1e3).round(3), "tpot_ms",
            ),
        ),
        Rule(
            "above_peak_flops",
            prefill_s > c("ttft_ms") / 1e3 * (1 + PEAK_TOLERANCE),
            pl.format(
                "computing the prompt takes {} ms at peak, the ttft is {} ms", (prefill_s * 1e3).round(3), "ttft_ms"
            ),
        ),
        Rule(
            "above_peak_flops",
            flops_per_s > fastest * (1 + PEAK_TOLERANCE),
            pl.format("the throughput takes {} FLOP/s on each GPU, its peak is {}", flops_per_s, pl.lit(fastest)),
        ),
    ]  # fmt: skip


def _bytes(dtype_column: str) -> pl.Expr:
    return pl.col(dtype_column).replace_strict(BYTES_PER_WEIGHT, default=None, return_dtype=pl.Float64)
