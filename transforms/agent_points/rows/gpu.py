"""Figures of the GPU that each row runs on, as columns: one frame may hold rows of any hardware."""

from dataclasses import dataclass
from typing import Final

import polars as pl

from schemas.catalogue import HardwareCatalogue
from schemas.dtypes import BYTES_PER_WEIGHT, SERVED_WITH_FP4, SERVED_WITHOUT_FP4
from schemas.hardware import Hardware
from schemas.options import Pool
from transforms.agent_points.rows.rows import Rows
from transforms.numbers import Number

POOLS: Final[tuple[Pool, ...]] = ("prefill", "decode")


@dataclass(frozen=True)
class Gpu:
    """The GPU of one pool of each row; an aggregated replica has the same in both.

    Figures are those of ``schemas.hardware.Hardware``, of one GPU; ``article_flops_per_s`` computes the
    row's weights by the article's rule, ``linear_`` and ``expert_flops_per_s`` as engines do, ``attention_``
    its prefill attention: in 16 bits where the GPU has no FP8.
    """

    hbm_bytes: Number
    hbm_bandwidth_bytes_per_s: Number
    bf16_flops_per_s: Number
    fp8_flops_per_s: Number
    fastest_flops_per_s: Number
    scale_up_gpus: Number
    scale_up_bytes_per_s: Number
    scale_out_bytes_per_s: Number
    host_link_bytes_per_s: Number
    article_flops_per_s: Number
    linear_flops_per_s: Number
    expert_flops_per_s: Number

    attention_flops_per_s: Number

    @classmethod
    def of_rows(cls, rows: Rows, pool: Pool) -> "Gpu":
        """The columns that ``add_gpu_columns`` made for that pool."""
        return cls(**{name: rows[f"_{pool}_{name}"] for name in cls.__dataclass_fields__})


def add_gpu_columns(points: pl.DataFrame, hardware: HardwareCatalogue) -> pl.DataFrame:
    """The points with the private columns that ``Gpu.of_rows`` reads; their slugs stand in the catalogue."""
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
