"""The GPU that each row runs on, and what its engine leaves of it for KV by its own defaults (model.md 4), as columns:
one frame may hold rows of any hardware."""

from typing import Final

import numpy as np
import polars as pl

from schemas.catalogue import HardwareCatalogue
from schemas.dtypes import BYTES_PER_WEIGHT, SERVED_WITH_FP4, SERVED_WITHOUT_FP4
from schemas.hardware import Hardware
from schemas.models import ModelSpec
from schemas.options import Pool
from transforms.agent_points.rows.rows import LookedUp, Rows
from transforms.equations import kv_room

POOLS: Final[tuple[Pool, ...]] = ("prefill", "decode")


class Gpu:
    """The GPU of one pool of each row; an aggregated replica has the same in both.

    Figures are those of ``schemas.hardware.Hardware``, of one GPU; ``article_flops_per_s`` computes the
    row's weights by the article's rule, ``linear_`` and ``expert_flops_per_s`` as engines do, ``attention_``
    its prefill attention: in 16 bits where the GPU has no FP8.
    """

    hbm_bytes = LookedUp[np.float64]()
    hbm_bandwidth_bytes_per_s = LookedUp[np.float64]()
    bf16_flops_per_s = LookedUp[np.float64]()
    fp8_flops_per_s = LookedUp[np.float64]()
    fastest_flops_per_s = LookedUp[np.float64]()
    scale_up_gpus = LookedUp[np.float64]()
    scale_up_bytes_per_s = LookedUp[np.float64]()
    scale_out_bytes_per_s = LookedUp[np.float64]()
    host_link_bytes_per_s = LookedUp[np.float64]()
    article_flops_per_s = LookedUp[np.float64]()
    linear_flops_per_s = LookedUp[np.float64]()
    expert_flops_per_s = LookedUp[np.float64]()
    attention_flops_per_s = LookedUp[np.float64]()
    usable_bytes = LookedUp[np.float64]()  #: without weights, by the engine's rule; others keep a tenth of the memory

    def __init__(self, rows: Rows, pool: Pool) -> None:
        """Of rows with the columns of ``add_gpu_columns``."""
        self.rows, self.prefix = rows, f"_{pool}_"


def add_gpu_columns(points: pl.DataFrame, hardware: HardwareCatalogue) -> pl.DataFrame:
    """The points with the private columns that ``Gpu`` reads; their slugs stand in the catalogue."""
    figures = pl.DataFrame([_figures(gpu) for gpu in hardware])
    rates = pl.DataFrame([rate for gpu in hardware for rate in _rates(gpu)])
    for pool in POOLS:
        key = f"{pool}_hardware"
        points = points.join(figures.select(pl.all().name.prefix(f"_{pool}_")), left_on=key, right_on=f"_{pool}_gpu",
                             how="left", maintain_order="left")  # fmt: skip
        for dtype, kind, name in (
            ("weight_dtype", "article", "article_flops_per_s"),
            ("linear_dtype", "served", "linear_flops_per_s"),
            ("expert_dtype", "served", "expert_flops_per_s"),
        ):
            wanted = rates.select(pl.col("gpu").alias(key), pl.col("dtype").alias(dtype),
                                  pl.col(kind).alias(f"_{pool}_{name}"))  # fmt: skip
            points = points.join(wanted, on=[key, dtype], how="left", maintain_order="left")
        fp8, bf16 = pl.col(f"_{pool}_fp8_flops_per_s"), pl.col(f"_{pool}_bf16_flops_per_s")
        attention = pl.when(pl.col("attention_dtype") == "fp8").then(fp8).otherwise(bf16)
        points = points.with_columns(attention.alias(f"_{pool}_attention_flops_per_s"))
    return points


def _figures(gpu: Hardware) -> dict[str, object]:
    rates = [gpu.flops_per_s.bf16, gpu.flops_per_s.fp8, gpu.flops_per_s.fp4]
    return {
        "gpu": gpu.slug,
        "hbm_bytes": float(gpu.hbm_bytes),
        "hbm_bandwidth_bytes_per_s": gpu.hbm_bandwidth_bytes_per_s,
        "bf16_flops_per_s": gpu.flops_per_s.bf16,
        "fp8_flops_per_s": gpu.flops_per_s.fp8 or gpu.flops_per_s.bf16,
        "fastest_flops_per_s": max(rate for rate in rates if rate is not None),
        "scale_up_gpus": gpu.scale_up_gpus,
        "scale_up_bytes_per_s": gpu.scale_up_bytes_per_s,
        "scale_out_bytes_per_s": gpu.scale_out_bytes_per_s,
        "host_link_bytes_per_s": gpu.host_link_bytes_per_s,
    }


def _rates(gpu: Hardware) -> list[dict[str, object]]:
    served = SERVED_WITHOUT_FP4 if gpu.flops_per_s.fp4 is None else SERVED_WITH_FP4
    return [
        {
            "gpu": gpu.slug,
            "dtype": dtype,
            "article": gpu.compute_flops_per_s(dtype),
            "served": next(rate for rate in (getattr(gpu.flops_per_s, c) for c in served[dtype]) if rate is not None),
        }
        for dtype in BYTES_PER_WEIGHT
    ]


#: Engines whose rule is known.
ENGINES_WITH_RULE: Final = ("vllm", "sglang", "trtllm")
#: Of vLLM where a row does not say: newer than all thresholds.
NEWEST_VLLM: Final = 99
#: GPUs of any memory that vLLM gives the step of a small one, by a word of their name.
SMALL_FOR_VLLM: Final = "a100"


def room_columns(spec: ModelSpec, hardware: HardwareCatalogue) -> dict[str, pl.Expr]:
    """``Gpu.usable_bytes`` of both pools. Needs the columns of ``add_gpu_columns``."""
    return {f"_{pool}_usable_bytes": _usable(pool, spec, hardware) for pool in POOLS}


def usable_by_weights() -> pl.Expr:
    """What a byte of weights takes of the usable bytes."""
    return pl.when(pl.col("backend") == "trtllm").then(kv_room.TRTLLM_FREE_FRACTION).otherwise(1.0)


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
