"""Private columns of what the engine of each row leaves for KV by its own defaults (model.md 4)."""

from typing import Final

import polars as pl

from schemas.catalogue import HardwareCatalogue
from schemas.models import ModelSpec
from schemas.options import Pool
from transforms.equations import kv_room

#: Engines whose rule is known.
ENGINES_WITH_RULE: Final = ("vllm", "sglang", "trtllm")
#: Of vLLM where a row does not say: newer than all thresholds.
NEWEST_VLLM: Final = 99
#: GPUs of any memory that vLLM gives the step of a small one, by a word of their name.
SMALL_FOR_VLLM: Final = "a100"


def room_columns(spec: ModelSpec, hardware: HardwareCatalogue) -> dict[str, pl.Expr]:
    """``_prefill_usable_bytes`` and ``_decode_usable_bytes`` of a GPU without weights, ``_usable_by_weights``: what a
    byte of weights takes of them, and whether they follow the engine's rule.

    Needs the columns of ``add_gpu_columns``. Other engines and rooflines keep a tenth of the memory.
    """
    has_rule = pl.col("backend").is_in(ENGINES_WITH_RULE)
    of_weights = pl.when(pl.col("backend") == "trtllm").then(kv_room.TRTLLM_FREE_FRACTION).otherwise(1.0)
    return {
        "_prefill_usable_bytes": _usable("prefill", spec, hardware),
        "_decode_usable_bytes": _usable("decode", spec, hardware),
        "_usable_by_weights": of_weights,
        "_has_room_rule": has_rule,
    }


def _usable(pool: Pool, spec: ModelSpec, hardware: HardwareCatalogue) -> pl.Expr:
    c = pl.col
    tp, pp, dp, cp = (pl.coalesce(c(name), c(f"{pool}_{name}")).cast(pl.Float64) for name in ("tp", "pp", "dp", "cp"))
    memory, gpu = c(f"_{pool}_hbm_bytes"), c(f"{pool}_hardware")
    offers_less = gpu.is_in([each.slug for each in hardware if each.vendor == "NVIDIA"])
    offered = memory * pl.when(offers_less).then(kv_room.OFFERED_BY_CUDA).otherwise(1.0)
    is_small = gpu.is_in([each.slug for each in hardware if SMALL_FOR_VLLM in each.slug])
    gpus = tp * pp * dp * cp
    vocabulary = spec.parameters.embedding / spec.hidden_size
    experts = 0.0 if spec.moe is None else float(spec.moe.experts_per_token)
    mlp_width = spec.parameters.dense_mlp / spec.layers / spec.hidden_size if spec.moe is None else 0.0

    def forward(tokens: pl.Expr | float) -> pl.Expr:
        activations: pl.Expr = kv_room.forward_bytes(tokens, float(spec.hidden_size), experts, mlp_width, tp)
        return activations

    version = c("backend_version").str.extract(r"^\D*0\.(\d+)").cast(pl.Int64, strict=False).fill_null(NEWEST_VLLM)
    vllm = kv_room.vllm_usable_bytes(
        offered, version, forward(kv_room.vllm_step_tokens(offered, is_small)),
        kv_room.vllm_requests(offered, is_small), vocabulary, gpus,
    )  # fmt: skip
    is_latent = any(group.kind in ("mla", "sparse_mla", "compressed") for group in spec.attention)

    def sglang(role: str) -> pl.Expr:
        fraction = kv_room.sglang_static_fraction(offered, tp * dp * cp, pp, dp, is_latent, role)
        usable: pl.Expr = kv_room.sglang_usable_bytes(offered, fraction, gpus)
        return usable

    trtllm = kv_room.trtllm_usable_bytes(offered, forward(kv_room.TRTLLM_MAX_TOKENS), vocabulary, gpus)
    is_agg = c("serving_mode") == "agg"
    return (
        pl.when(c("backend") == "vllm")
        .then(vllm)
        .when((c("backend") == "sglang") & is_agg)
        .then(sglang("agg"))
        .when(c("backend") == "sglang")
        .then(sglang(pool))
        .when(c("backend") == "trtllm")
        .then(trtllm)
        .otherwise(memory * (1.0 - kv_room.ASSUMED_RESERVE))
    )
