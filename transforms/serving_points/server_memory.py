"""No server's KV cache may hold several times what its GPUs can: a figure that says so is of something else."""

from typing import Final

import polars as pl

from schemas.catalogue import HardwareCatalogue, ModelCatalogue
from schemas.dtypes import BYTES_PER_KV_ELEMENT, BYTES_PER_WEIGHT
from schemas.hardware import Hardware
from schemas.models import ModelSpec
from transforms.equations.kv_memory import kv_bytes_on_rank, weights_bytes_per_rank
from transforms.numbers import largest
from transforms.serving_points.rules import Rule, flag_rows

#: A figure may be so many times what is reckoned: formats and layouts of a cache differ by as much.
MOST_TIMES: Final = 3.0
#: Share of the memory that counts as room for KV at least: what weights take is known to some percent.
LEAST_ROOM: Final = 0.1
#: Context whose KV tells what a token takes where the model names no longest one.
LONG_CONTEXT: Final = 131_072


def flag_kv_tokens(rows: pl.DataFrame, hardware: HardwareCatalogue, models: ModelCatalogue) -> pl.DataFrame:
    """Rows flagged whose ``kv_tokens`` take several times the memory that the weights leave; aggregated ones alone.

    A token counts at the least that any layout takes of it, in the row's own format.
    """
    stated = pl.col("kv_tokens").is_not_null() & (pl.col("serving_mode") == "agg")
    if rows.is_empty() or not rows.select(stated.any()).item():
        return rows
    parts = []
    for (gpu, model), part in rows.group_by("decode_hardware", "model", maintain_order=True):
        known = gpu is not None and model is not None
        rules = [_rule(hardware.get(str(gpu)), models.get(str(model)))] if known else []
        parts.append(flag_rows(part, rules))
    return pl.concat(parts)


def _rule(gpu: Hardware, spec: ModelSpec) -> Rule:
    c = pl.col

    def by_format(column: str, values: dict[str, float]) -> pl.Expr:
        return c(column).replace_strict(values, default=None, return_dtype=pl.Float64)

    linear = by_format("linear_dtype", {dtype: spec.non_expert_bytes(dtype) for dtype in BYTES_PER_WEIGHT})
    experts = by_format("expert_dtype", {dtype: spec.expert_bytes(dtype) for dtype in BYTES_PER_WEIGHT}).fill_null(0.0)
    memory = c("gpus_per_replica") * float(gpu.hbm_bytes)
    weights = c("dp") * weights_bytes_per_rank(linear * c("cp"), experts, c("dp"))
    room = largest(memory - weights, LEAST_ROOM * memory)
    context = float(spec.max_context_tokens or LONG_CONTEXT)
    element = by_format("kv_dtype", dict(BYTES_PER_KV_ELEMENT))
    tp = c("tp").cast(pl.Float64)
    token = kv_bytes_on_rank(spec.attention, context, element, tp) / context
    taken = c("kv_tokens") * token
    return Rule(
        "kv_tokens_above_memory",
        (c("serving_mode") == "agg") & (taken > MOST_TIMES * room),
        pl.format(
            "{} tokens of KV take {} GB in {}, the GPUs of the replica have {} GB beside the weights: give the tokens "
            "that one replica's server prints",
            "kv_tokens", (taken / 1e9).round(1), "kv_dtype", (room / 1e9).round(1),
        ),
    )  # fmt: skip
