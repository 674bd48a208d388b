"""The star for dashboards: narrow fact tables, and the dimensions that their keys stand for.

Facts have keys and measures, dimensions what is said of a key. The DuckDB file holds all of it as tables of its own,
but for the agent points, which are many: ``fact_agent_points`` is a view.
"""

from typing import Final

from schemas.table import Table

_REFERENCES: Final = {
    "hardware": "dim_hardware",
    "model": "dim_model",
    "scenario": "dim_scenario",
    "configuration_id": "dim_configuration",
}
_KEYS: Final = ("point_id", *_REFERENCES)
_MEASURES: Final = (
    "concurrency_reported", "batch_per_rank", "interpolated", "transfer_method", "expected_error_fraction",
    "extrapolated", "feasible", "infeasible_reason", "binding_limit", "on_frontier", "on_frontier_3d",
    "sessions", "max_sessions", "activity_fraction", "kv_utilization_fraction", "kv_bytes_per_gpu",
    "ttft_ms", "tpot_ms", "turn_latency_ms", "task_time_s",
    "ttft_p50_ms", "ttft_p90_ms", "ttft_p95_ms", "ttft_p99_ms",
    "tpot_p50_ms", "tpot_p90_ms", "tpot_p95_ms", "tpot_p99_ms",
    "turn_latency_p50_ms", "turn_latency_p90_ms", "turn_latency_p95_ms", "turn_latency_p99_ms",
    "task_time_p50_s", "task_time_p90_s", "task_time_p95_s", "task_time_p99_s",
    "turns_per_s_per_gpu", "tasks_per_hour_per_gpu", "tasks_per_hour_per_cluster_gpu", "output_tokens_per_s_per_gpu",
    "decode_tokens_per_s_per_user", "e2e_tokens_per_s_per_user", "sessions_per_gpu",
    "usd_per_gpu_hour", "usd_per_task", "usd_per_million_output_tokens",
)  # fmt: skip
_OPERATING: Final = ("gpus", "replicas", "sessions_wanted", "sessions_admitted", "cluster_turns_per_s")
_POOL: Final = ("workers", "tp", "pp", "dp", "cp", "moe_tp", "moe_ep")


def star_tables() -> tuple[Table, ...]:
    """The dimensions, then the facts."""
    return (
        Table(
            "dim_hardware",
            "Each GPU, and each pair of a prefilling and a decoding GPU; figures of a pair are those of the decoding "
            "one.",
            (
                "hardware", "hardware_name", "prefill_hardware", "decode_hardware", "vendor", "hbm_bytes",
                "hbm_bandwidth_bytes_per_s", "bf16_flops_per_s", "fp8_flops_per_s", "fp4_flops_per_s", "gpus_per_node",
            ),
            ("hardware",),
            stored=True,
        ),
        Table(
            "dim_model",
            "Each model of the catalogue.",
            (
                "model", "model_name", "layers", "max_context_tokens", "parameters_total", "parameters_active",
                "parameters_non_expert", "weight_dtype", "weight_bytes", "kv_dtype",
            ),
            ("model",),
            stored=True,
        ),
        Table(
            "dim_scenario",
            "Each agent workload of this release.",
            (
                "scenario", "scenario_name", "turns", "think_time_s", "initial_prompt_tokens", "new_tokens_per_turn",
                "output_tokens_per_turn", "output_retention_fraction", "cache_hit_rate", "mean_context_tokens",
                "peak_context_tokens", "routing", "scenario_sessions", "scenario_gpus",
            ),
            ("scenario",),
            stored=True,
        ),
        Table(
            "dim_configuration",
            "Each deployment of the serving points, whatever its hardware, model and load.",
            (
                "configuration_id", "configuration", "serving_mode", "gpus_per_replica", "backend", "backend_version",
                "source", "tool_version", "weight_dtype", "expert_dtype", "linear_dtype", "kv_dtype", "attention_dtype",
                "tp", "pp", "dp", "cp", "moe_tp", "moe_ep",
                *(f"prefill_{name}" for name in _POOL), "prefill_batch", *(f"decode_{name}" for name in _POOL),
                "setting", "latency_statistic", "draft_tokens", "accepted_tokens",
            ),
            ("configuration_id",),
            stored=True,
        ),
        Table(
            "fact_agent_points",
            "Keys and measures of the agent points; figures of ONE replica.",
            (*_KEYS, *_MEASURES),
            ("point_id", "scenario"),
            rows_of="agent_points",
            references=_REFERENCES,
        ),
        Table(
            "fact_agent_frontier",
            "Keys and measures of the agent points on a frontier; figures of ONE replica.",
            (*_KEYS, *_MEASURES),
            ("point_id", "scenario"),
            stored=True,
            references=_REFERENCES,
        ),
        Table(
            "fact_operating_points",
            "Keys and measures of the operating points; figures of ONE replica unless the name says otherwise.",
            (*_KEYS, *_MEASURES, *_OPERATING),
            ("point_id", "scenario"),
            stored=True,
            references=_REFERENCES,
        ),
    )  # fmt: skip


#: Facts with rows of their own, and the table that they are taken from.
STORED_FACTS: Final = {"fact_agent_frontier": "agent_frontier", "fact_operating_points": "operating_points"}
