"""Predicted memory against AIConfigurator's own.

    python -m tests.bench memory

AIConfigurator's ``memory`` is weights + KV + activations + NCCL + the runtime's own, GiB per GPU. The
last three are taken out with the figures of its system files and its activation rule (package
aiconfigurator-core 0.12.0: 3.5 GiB for the runtime, 342-392 MiB for NCCL, ``2 * tokens * heads *
head_dim * coefficient``), so that weights + KV stand against weights + KV.
"""

import polars as pl

from pipelines.reading.catalogues import SHIPPED_TABLES, load_hardware, load_models
from pipelines.reading.inputs import find_files
from pipelines.reading.read_inputs import read_inputs
from schemas.dtypes import BYTES_PER_KV_ELEMENT
from schemas.models import ModelSpec
from transforms.equations import kv_memory as kv

GIB = 2.0**30
RUNTIME_GIB = 3.5
NCCL_GIB = {1: 0.0, 2: 342 / 1024, 4: 392 / 1024, 8: 392 / 1024}


def main() -> None:
    """Median error of predicted weights + KV on every aggregated TRT-LLM row, by model."""
    models = load_models()
    points = read_inputs(find_files([SHIPPED_TABLES]), load_hardware(), models).serving_points
    rows = points.filter((pl.col("serving_mode") == "agg") & (pl.col("backend") == "trtllm"))
    print("Weights + KV per GPU against AIConfigurator's `memory` column, medians in GiB, aggregated TRT-LLM rows")
    print(f"{'model':18}{'rows':>7}{'memory':>9}{'predicted':>11}{'its rest':>10}{'error':>8}{'of 95 %':>9}")
    for model, part in sorted(rows.partition_by("model", as_dict=True).items()):
        spec = models.get(str(model[0]))
        its_rest = RUNTIME_GIB + pl.col("tp").clip(1, 8).replace_strict(NCCL_GIB, return_dtype=pl.Float64)
        figures = part.select(
            memory=pl.col("memory_bytes_per_gpu") / GIB,
            predicted=_weights_and_kv_gib(spec),
            rest=its_rest + _activations_gib(spec),
        ).with_columns(error=pl.col("predicted") / (pl.col("memory") - pl.col("rest")) - 1)
        medians = figures.median().row(0, named=True)
        most = figures["error"].abs().quantile(0.95)
        print(
            f"{spec.slug:18}{part.height:7,}{medians['memory']:9.1f}{medians['predicted']:11.1f}{medians['rest']:10.2f}"
            f"{medians['error']:8.1%}{most:9.1%}"
        )
    print("its rest = runtime, NCCL and activations by its own rule; error = predicted / (memory - rest) - 1\n")


def _activations_gib(spec: ModelSpec) -> pl.Expr:
    """AIConfigurator's rule for TRT-LLM: ``2 * tokens * heads * head_dim * coefficient``, and for MLA models
    the workspace that dispatches tokens to experts."""
    c = pl.col
    is_mla = spec.attention[0].kind == "mla"
    width = spec.hidden_size if is_mla else spec.attention[0].flops_per_pair // 4
    coefficients = {1: 22.0, 2: 13.0, 4: 10.0, 8: 10.0} if spec.moe else {1: 11.0, 2: 6.5, 4: 5.0, 8: 5.0}
    decoding = (
        pl.when(c("batch_per_rank") > 1).then(c("batch_per_rank") - c("context_requests_per_step")).otherwise(0.0)
    )
    tokens = c("context_tokens_per_step") + decoding
    bytes_ = 2.0 * tokens * width * c("tp").clip(1, 8).replace_strict(coefficients, return_dtype=pl.Float64)
    if is_mla and spec.moe:
        routed = spec.moe.experts * spec.moe.experts_per_token
        bytes_ = bytes_ + tokens * spec.hidden_size * c("dp") * routed / c("moe_ep") / 128 * 4
    return pl.max_horizontal(bytes_, pl.lit(70.0 * 2**20)) / GIB


def _weights_and_kv_gib(spec: ModelSpec) -> pl.Expr:
    """Bytes of weights and of the KV of ``bs`` requests at isl + osl, on one GPU."""
    c = pl.col
    dtypes = c("linear_dtype"), c("expert_dtype")
    non_expert = dtypes[0].map_elements(spec.non_expert_bytes, return_dtype=pl.Float64)
    experts = dtypes[1].map_elements(spec.expert_bytes, return_dtype=pl.Float64).fill_null(0.0)
    weights = non_expert / (c("tp") * c("pp")) + experts / (c("tp") * c("pp") * c("dp"))
    element = c("kv_dtype").replace_strict(BYTES_PER_KV_ELEMENT, return_dtype=pl.Float64)
    tokens = c("isl_tokens") + c("osl_tokens")
    on_rank = kv.kv_bytes_on_rank(spec.attention, tokens, element, c("tp"))
    per_gpu: pl.Expr = (weights + c("batch_per_rank") * on_rank / c("tp")) / GIB
    return per_gpu


if __name__ == "__main__":
    main()
