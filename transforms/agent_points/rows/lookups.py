"""Private columns that every row brings to the mapping, whatever the scenario: looked up once, then only read."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Self

import numpy as np
import polars as pl

from schemas.catalogue import HardwareCatalogue
from schemas.dtypes import BYTES_PER_KV_ELEMENT, BYTES_PER_WEIGHT
from schemas.models import ModelSpec
from schemas.options import Pool
from transforms.agent_points.judgement.cost import usd_per_gpu_hour
from transforms.agent_points.judgement.expected_errors import is_evaluated
from transforms.agent_points.rows.columns import by_dtype
from transforms.agent_points.rows.gpu import ENGINES_WITH_RULE, add_gpu_columns, room_columns, usable_by_weights
from transforms.agent_points.rows.rows import LookedUp, Rows
from transforms.configurations import CONFIGURATION_ID
from transforms.equations import transfer
from transforms.equations.engine_steps import VLLM_DISPATCH_MS_PER_LAYER
from transforms.serving_points.step_times import is_serial

#: Caches whose entries are multiplied in FP8.
KV_OF_FP8 = ("fp8", "nvfp4")


class Deployed:
    """What the configuration of each row says by itself: its formats, its engine and the shape of its ranks.

    Of a disaggregated replica ranks and stations are those of the decode pool, ``prefilling_`` those that prefill.
    """

    prefix = "_"
    kv_element_bytes = LookedUp[np.float64]()
    kv_is_fp8 = LookedUp[np.bool_]()
    non_expert_bytes = LookedUp[np.float64]()  #: of the model's weights, the vision tower apart
    vision_bytes = LookedUp[np.float64]()
    expert_bytes = LookedUp[np.float64]()
    attention_efficiency = LookedUp[np.float64]()
    absorbed_prefill = LookedUp[np.float64]()  #: attention FLOPs of a prefill over those of its plain form
    converts_latent = LookedUp[np.bool_]()
    is_serial = LookedUp[np.bool_]()  #: batches as vLLM does
    dispatch_ms = LookedUp[np.float64]()
    stations = LookedUp[np.float64]()
    rank_tp = LookedUp[np.float64]()
    rank_pp = LookedUp[np.float64]()
    rank_dp = LookedUp[np.float64]()
    prefilling_tp = LookedUp[np.float64]()
    prefilling_gpus = LookedUp[np.float64]()
    is_evaluated = LookedUp[np.bool_]()
    usable_by_weights = LookedUp[np.float64]()  #: what a byte of weights takes of a GPU's usable bytes
    has_room_rule = LookedUp[np.bool_]()  #: the engine's rule for what it leaves for KV is known

    def __init__(self, rows: Rows) -> None:
        """Of rows with the columns of ``add_private_columns``."""
        self.rows = rows


def stations() -> pl.Expr:
    """Stations at which requests meet: attention ranks, of the decode pool where there is one."""
    return pl.coalesce("dp", pl.col("decode_workers") * pl.col("decode_dp"))


@dataclass(frozen=True)
class Lookups:
    """The private columns of numbered configurations, one row each."""

    columns: pl.DataFrame

    @classmethod
    def of_configurations(cls, looked_up: pl.DataFrame, own: Collection[str]) -> Self:
        """Of numbered rows with private columns, one of each configuration; ``own``: the columns that are not."""
        return cls(looked_up.select(CONFIGURATION_ID, pl.exclude(own)))

    def add_to(self, points: pl.DataFrame) -> pl.DataFrame:
        """Numbered points with the private columns that they do not have yet."""
        missing = [name for name in self.columns.columns if name not in points.columns]
        looked_up = self.columns.select(CONFIGURATION_ID, *missing)
        return points.join(looked_up, on=CONFIGURATION_ID, how="left", maintain_order="left") if missing else points


def add_private_columns(points: pl.DataFrame, spec: ModelSpec, hardware: HardwareCatalogue) -> pl.DataFrame:
    """Rows of ``serving_points`` of one model with the private columns, and the price of their GPUs.

    Those of ``Gpu`` and of ``Deployed``, which are the same in all rows of a configuration.
    """
    c = pl.col
    return add_gpu_columns(points, hardware).with_columns(
        _kv_element_bytes=by_dtype("kv_dtype", BYTES_PER_KV_ELEMENT),
        _kv_is_fp8=c("kv_dtype").is_in(KV_OF_FP8),
        _non_expert_bytes=by_dtype("linear_dtype", {d: spec.non_expert_bytes(d) for d in BYTES_PER_WEIGHT}),
        _vision_bytes=pl.lit(float(spec.vision_bytes)),
        _expert_bytes=by_dtype("expert_dtype", {d: spec.expert_bytes(d) for d in BYTES_PER_WEIGHT})
        if spec.moe
        else pl.lit(0.0),
        _attention_efficiency=c("backend").replace_strict(
            transfer.ATTENTION_EFFICIENCY_OF_ENGINE, default=transfer.ATTENTION_EFFICIENCY, return_dtype=pl.Float64
        ),
        _absorbed_prefill=pl.when(_runs_fa3(hardware, "prefill")).then(_absorbed_over_plain(spec)).otherwise(1.0),
        _converts_latent=_runs_fa3(hardware, "decode") & c("kv_dtype").is_in(KV_OF_FP8),
        _is_serial=is_serial(),
        _dispatch_ms=pl.when(is_serial()).then(VLLM_DISPATCH_MS_PER_LAYER * spec.layers).otherwise(0.0),
        _stations=stations(),
        _rank_tp=pl.coalesce("tp", "decode_tp"),
        _rank_pp=pl.coalesce("pp", "decode_pp"),
        _rank_dp=pl.coalesce("dp", "decode_dp"),
        _prefilling_tp=pl.coalesce("tp", "prefill_tp"),
        _prefilling_gpus=pl.coalesce(
            c("tp") * c("pp") * c("dp") * c("cp"),
            c("prefill_tp") * c("prefill_pp") * c("prefill_dp") * c("prefill_cp"),
        ),
        usd_per_gpu_hour=usd_per_gpu_hour(hardware),
        _is_evaluated=is_evaluated(),
        _usable_by_weights=usable_by_weights(),
        _has_room_rule=c("backend").is_in(ENGINES_WITH_RULE),
        **room_columns(spec, hardware),
    )


def _runs_fa3(hardware: HardwareCatalogue, pool: Pool) -> pl.Expr:
    """Whether MLA runs as ``transfer.ENGINES_OF_ABSORBED_PREFILL`` says."""
    before_blackwell = [
        gpu.slug for gpu in hardware if gpu.vendor == "NVIDIA" and gpu.flops_per_s.fp8 and not gpu.flops_per_s.fp4
    ]
    of_engine = pl.col("backend").is_in(transfer.ENGINES_OF_ABSORBED_PREFILL) & (pl.col("attention_dtype") == "bf16")
    return (of_engine & pl.col(f"{pool}_hardware").is_in(before_blackwell)).fill_null(False)


def _absorbed_over_plain(spec: ModelSpec) -> float:
    """Attention FLOPs of a prefill with MLA in its absorbed form, over those in its plain form."""
    plain = sum(group.layers * group.flops_per_pair for group in spec.attention)
    absorbed = sum(
        group.layers * ((group.decode_flops_per_pair if group.kind == "mla" else None) or group.flops_per_pair)
        for group in spec.attention
    )
    return absorbed / plain if plain > 0 else 1.0
