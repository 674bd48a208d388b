"""What physics knows of a deployment: times at peak rates, from the model's sheet and the GPUs' rates.

Nothing here is fitted. The parameters of ``parameters`` say which share of these rates an engine reaches.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from schemas.arrays import Array
from schemas.catalogue import HardwareCatalogue
from schemas.models import ModelSpec
from transforms.agent_points.rows.gpu import Gpu
from transforms.agent_points.rows.lookups import Deployed, add_private_columns
from transforms.agent_points.rows.rows import Rows
from transforms.equations import kv_memory as kv
from transforms.numbers import Number

#: Share of peak that the products of decode attention reach at most: over latents they, not the reads, may bind.
DECODE_PRODUCTS_FRACTION: Final = 0.6
#: Draft tokens of a deployment that speculates and does not say with how many.
ASSUMED_DRAFTS: Final = 2.0


@dataclass(frozen=True)
class Facts:
    """One deployment at peak rates: seconds, and its shape.

    ``*_read_s`` are reads of the weights on one GPU; ``token_s`` is the products of one prompt token on a prefilling
    worker, ``attention_flop_s`` one FLOP of its attention; ``kv_read_s`` and ``decode_flop_s`` are on a GPU of a
    decoding rank, a byte and a FLOP. ``ranks`` decode side by side in a worker.
    """

    spec: ModelSpec
    traits: tuple[str, ...]
    disaggregated: bool
    drafts: float
    stated_accepted: float | None
    ranks: float
    rank_tp: float
    prefill_workers: float
    decode_workers: float
    non_expert_read_s: float
    experts_read_s: float
    prefill_non_expert_read_s: float
    prefill_experts_read_s: float
    token_s: float
    attention_flop_s: float
    kv_element_bytes: float
    kv_byte_s: float
    decode_flop_s: float

    @property
    def drafted(self) -> bool:
        """Whether the deployment speculates."""
        return self.drafts > 0

    def touched(self, tokens: Number) -> Number:
        """Share of the experts that a step of so many tokens reads: ``1 - (1 - K/E)^tokens``."""
        moe = self.spec.moe
        return 1.0 if moe is None else 1.0 - (1.0 - moe.experts_per_token / moe.experts) ** tokens

    def decode_attention_s(self, context_tokens: Number) -> Number:
        """Attention of one request's next token: the KV read, or the products where they take longer."""
        groups = self.spec.attention
        read = kv.kv_read_bytes_per_gpu(groups, context_tokens, self.kv_element_bytes, self.rank_tp) * self.kv_byte_s
        flops = kv.decode_attention_flops(groups, context_tokens) * (1.0 + self.drafts)
        products = flops * self.decode_flop_s / DECODE_PRODUCTS_FRACTION
        return read + (products - read) * (products > read)

    def attention_s(self, new_tokens: Number, cached_tokens: Number) -> Number:
        """Attention of a prefill on a prefilling worker."""
        return kv.attention_flops(self.spec.attention, cached_tokens, new_tokens) * self.attention_flop_s


def deployment_facts(row: pl.DataFrame, spec: ModelSpec, hardware: HardwareCatalogue) -> Facts:
    """Facts of the deployment that one row of ``serving_points`` names."""
    rows = Rows(add_private_columns(row.head(1), spec, hardware))
    told = row.row(0, named=True)
    agg = told["serving_mode"] == "agg"
    prefill, decode = Gpu(rows, "prefill"), Gpu(rows, "decode")
    pool = "" if agg else "prefill_"

    def figure(values: Number) -> float:
        return float(values[0]) if hasattr(values, "__len__") else float(values)

    def of_row(name: str) -> float:
        return figure(rows[name])

    deployed = Deployed(rows)
    tp, pp, dp = figure(deployed.rank_tp), figure(deployed.rank_pp), figure(deployed.rank_dp)
    cp = of_row("cp" if agg else "decode_cp")
    prefill_tp, prefill_gpus = of_row(f"{pool}tp"), figure(deployed.prefilling_gpus)
    decode_bw, prefill_bw = figure(decode.hbm_bandwidth_bytes_per_s), figure(prefill.hbm_bandwidth_bytes_per_s)
    non_expert, experts = figure(deployed.non_expert_bytes), figure(deployed.expert_bytes)
    routed = spec.parameters_active - spec.parameters.non_expert
    experts_rate = figure(prefill.expert_flops_per_s) if spec.moe else 1.0
    of_token = spec.parameters.non_expert / figure(prefill.linear_flops_per_s) + routed / experts_rate
    kv_rate = decode.fp8_flops_per_s if deployed.kv_is_fp8[0] else decode.bf16_flops_per_s
    drafts, accepted = told["draft_tokens"], told["accepted_tokens"]
    return Facts(
        spec=spec,
        traits=traits_of(told, hardware),
        disaggregated=not agg,
        drafts=ASSUMED_DRAFTS if drafts is None else float(drafts),
        stated_accepted=None if accepted is None else float(accepted),
        ranks=dp * pp,
        rank_tp=tp,
        prefill_workers=1.0 if agg else of_row("prefill_workers"),
        decode_workers=1.0 if agg else of_row("decode_workers"),
        non_expert_read_s=non_expert / tp / decode_bw,
        experts_read_s=experts / (tp * dp * cp) / decode_bw,
        prefill_non_expert_read_s=non_expert / prefill_tp / prefill_bw,
        prefill_experts_read_s=experts / prefill_gpus / prefill_bw,
        token_s=2.0 * of_token / prefill_gpus,
        attention_flop_s=1.0 / (prefill_gpus * figure(prefill.bf16_flops_per_s)),
        kv_element_bytes=figure(deployed.kv_element_bytes),
        kv_byte_s=1.0 / decode_bw,
        decode_flop_s=1.0 / (tp * figure(kv_rate)),
    )


def traits_of(row: Mapping[str, Any], hardware: HardwareCatalogue) -> tuple[str, ...]:
    """What deployments have in common and engines differ by: never the model."""
    agg = row["serving_mode"] == "agg"
    pool = "" if agg else "decode_"
    gpu = hardware.get(row["decode_hardware"])
    return (
        f"engine {row['backend']}",
        f"vendor {gpu.vendor}",
        f"gpu {gpu.slug}",
        f"weights {'4' if '4' in row['weight_dtype'] else '16' if row['weight_dtype'].endswith('16') else '8'} bits",
        f"mode {row['serving_mode']}",
        f"drafts {'no' if row['draft_tokens'] == 0 else 'yes'}",
        f"attention dp {'yes' if row[f'{pool}dp'] > 1 else 'no'}",
        f"tp {row[f'{pool}tp']:.0f}",
    )


@dataclass(frozen=True)
class Load:
    """Requests that are served: means, one entry a load; ``in_flight`` of the replica, tokens of a request."""

    in_flight: Array
    input_tokens: Array
    output_tokens: Array
    cached_tokens: Array | float = 0.0
