"""The catalogues as tables of the lake."""

import json
from collections.abc import Iterable

import polars as pl
from pydantic import BaseModel

from schemas.catalogue import HardwareCatalogue, ModelCatalogue
from schemas.frames import conform, empty_frame
from schemas.prices import Price
from schemas.scenarios import Scenario
from transforms.cache import constant_hit_rate, on_own_replica


def hardware_table(hardware: HardwareCatalogue) -> pl.DataFrame:
    """The table ``hardware``."""
    rows: list[dict[str, object]] = [
        {
            "hardware": gpu.slug,
            "hardware_name": gpu.name,
            "vendor": gpu.vendor,
            "hbm_bytes": gpu.hbm_bytes,
            "hbm_printed_gb": gpu.hbm_printed_gb,
            "hbm_bandwidth_bytes_per_s": gpu.hbm_bandwidth_bytes_per_s,
            "bf16_flops_per_s": gpu.flops_per_s.bf16,
            "fp8_flops_per_s": gpu.flops_per_s.fp8,
            "fp4_flops_per_s": gpu.flops_per_s.fp4,
            "gpus_per_node": gpu.gpus_per_node,
            "figures_from": json.dumps(gpu.sources, ensure_ascii=False),
            "definition": _definition(gpu),
        }
        for gpu in hardware
    ]
    return _table("hardware", rows)


def models_table(models: ModelCatalogue) -> pl.DataFrame:
    """The table ``models``."""
    rows: list[dict[str, object]] = [
        {
            "model": spec.slug,
            "model_name": spec.name,
            "layers": spec.layers,
            "max_context_tokens": spec.max_context_tokens,
            "parameters_total": spec.parameters_total,
            "parameters_active": spec.parameters_active,
            "parameters_non_expert": spec.parameters.non_expert,
            "weight_dtype": spec.weight_dtype,
            "weight_bytes": float(spec.weight_bytes),
            "kv_dtype": spec.kv_dtype,
            "attention": json.dumps([{"kind": group.kind, "layers": group.layers} for group in spec.attention]),
            "figures_from": spec.source,
            "definition": _definition(spec),
        }
        for spec in models
    ]
    return _table("models", rows)


def prices_table(prices: Iterable[Price]) -> pl.DataFrame:
    """The table ``prices``."""
    rows: list[dict[str, object]] = [
        {
            "hardware": price.hardware,
            "usd_per_gpu_hour": price.usd_per_gpu_hour,
            "price_source": price.source,
            "price_date": price.date.isoformat(),
        }
        for price in prices
    ]
    return _table("prices", rows)


def scenarios_table(scenarios: Iterable[Scenario]) -> pl.DataFrame:
    """The table ``scenarios``."""
    same_name = (
        "turns", "think_time_s", "initial_prompt_tokens", "new_tokens_per_turn", "output_tokens_per_turn",
        "output_retention_fraction", "first_turn_new_tokens", "shared_prefix_tokens",
        "mean_context_tokens", "peak_context_tokens",
    )  # fmt: skip
    rows: list[dict[str, object]] = [
        {
            "scenario": scenario.slug,
            "scenario_name": scenario.name,
            "scenario_sessions": scenario.sessions,
            "scenario_gpus": scenario.gpus,
            "scenario_source": scenario.source,
            "cache_model": scenario.cache.model,
            "cache_hit_rate": constant_hit_rate(on_own_replica(scenario)),
            "routing": scenario.routing,
            "routing_replicas": scenario.replicas,
            "cache_kept_s": getattr(scenario.cache, "kept_s", None),
            "cache_host_memory_gb_per_gpu": getattr(scenario.cache, "host_memory_gb_per_gpu", None),
            "definition": _definition(scenario),
            **{name: getattr(scenario, name) for name in same_name},
        }
        for scenario in scenarios
    ]
    return _table("scenarios", rows)


def _definition(entry: BaseModel) -> str:
    return entry.model_dump_json(exclude_none=True)


def _table(name: str, rows: list[dict[str, object]]) -> pl.DataFrame:
    return conform(pl.DataFrame(rows, schema=empty_frame(name).schema), name)
