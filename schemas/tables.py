"""The tables of a lake: which fields each has, its key and its partitions."""

from typing import Final

from schemas.star import star_tables
from schemas.table import Table

#: The first number rises when a published column changes its meaning or goes; the second when columns are added. 1.1:
#: percentiles contain the wait behind other sessions, and p95 and those of TTFT are there; settings, database mode,
#: the server's KV tokens, calibrated points with their ranges. 1.2: percentiles of the time per output token and of a
#: turn's speed, routing of scenarios; the star has percentiles.
SCHEMA_VERSION: Final = "1.2"

_ORIGIN = ("point_id", "source", "source_file", "source_row", "tool_version")
_WHAT = (
    "configuration_id", "hardware", "hardware_name", "prefill_hardware", "decode_hardware", "model", "model_name",
    "weight_dtype", "expert_dtype", "linear_dtype", "kv_dtype", "attention_dtype", "backend", "backend_version",
    "serving_mode", "setting", "database_mode", "shared_from", "slower_than_roofline",
)  # fmt: skip
_SHAPE = (
    "tp", "pp", "dp", "cp", "moe_tp", "moe_ep",
    "prefill_workers", "prefill_tp", "prefill_pp", "prefill_dp", "prefill_cp", "prefill_moe_tp", "prefill_moe_ep",
    "prefill_batch",
    "decode_workers", "decode_tp", "decode_pp", "decode_dp", "decode_cp", "decode_moe_tp", "decode_moe_ep",
    "decode_batch",
    "gpus_per_replica",
)  # fmt: skip
IDENTITY: Final = _ORIGIN + _WHAT + _SHAPE

_SERVING_POINT = (
    *IDENTITY,
    "isl_tokens", "osl_tokens", "prefix_tokens", "concurrency_reported", "batch_per_rank",
    "context_requests_per_step", "context_tokens_per_step", "in_flight_requests",
    "ttft_ms", "tpot_ms", "request_latency_ms", "requests_per_s", "output_tokens_per_s_per_gpu",
    "tokens_per_s_per_user", "memory_bytes_per_gpu", "kv_tokens", "mixed_step_ms", "decode_step_ms",
    "latency_statistic", "tpot_source", "draft_tokens", "accepted_tokens", "measured_at", "backend_name",
    "precision_name", "kv_dtype_source", "isl_nominal_tokens", "osl_nominal_tokens",
)  # fmt: skip
_AGENT_POINT = (
    *IDENTITY,
    "isl_tokens", "osl_tokens", "prefix_tokens", "concurrency_reported", "batch_per_rank",
    "context_requests_per_step", "memory_bytes_per_gpu", "kv_tokens", "latency_statistic", "draft_tokens",
    "accepted_tokens", "scenario", "scenario_name", "interpolated", "transfer_method", "expected_error_fraction",
    "extrapolated", "unmeasured_load", "lockstep",
    "ttft_ms_low", "ttft_ms_high", "turn_latency_ms_low", "turn_latency_ms_high", "tasks_per_hour_per_gpu_low",
    "tasks_per_hour_per_gpu_high", "max_sessions_low", "max_sessions_high",
    "serving_requests_per_s", "sessions", "activity_fraction", "in_flight_requests",
    "cache_model", "cache_hit_rate", "cache_reload_fraction", "prefix_kept_s",
    "turn_latency_all_hits_ms", "turn_latency_all_misses_ms", "serving_requests_per_s_all_hits",
    "serving_requests_per_s_all_misses",
    "mean_context_tokens", "peak_context_tokens", "prefill_tokens_per_turn",
    "ttft_ms", "tpot_ms", "turn_latency_ms", "first_turn_latency_ms", "last_turn_latency_ms", "task_time_s",
    "ttft_p50_ms", "ttft_p90_ms", "ttft_p95_ms", "ttft_p99_ms",
    "tpot_p50_ms", "tpot_p90_ms", "tpot_p95_ms", "tpot_p99_ms",
    "turn_latency_p50_ms", "turn_latency_p90_ms", "turn_latency_p95_ms", "turn_latency_p99_ms",
    "task_time_p50_s", "task_time_p90_s", "task_time_p95_s", "task_time_p99_s",
    "turns_per_s", "turns_per_s_per_gpu", "tasks_per_s_per_gpu", "tasks_per_hour_per_gpu",
    "tasks_per_s_per_gpu_step9", "output_tokens_per_s_per_gpu", "decode_tokens_per_s_per_user",
    "e2e_tokens_per_s_per_user", "e2e_tokens_per_s_per_user_p50", "e2e_tokens_per_s_per_user_p90",
    "e2e_tokens_per_s_per_user_p95", "e2e_tokens_per_s_per_user_p99", "sessions_per_gpu",
    "usd_per_gpu_hour", "usd_per_task", "usd_per_million_output_tokens",
    "cluster_replicas", "turns_per_s_per_cluster_gpu", "tasks_per_hour_per_cluster_gpu",
    "kv_bytes_per_session_mean", "kv_bytes_per_session_peak", "kv_bytes_available", "kv_room_source",
    "kv_bytes_per_gpu",
    "max_sessions_mean_context", "max_sessions_p95_context", "max_sessions_peak_context", "max_sessions",
    "max_parked_sessions", "max_in_flight_requests", "kv_utilization_fraction", "kv_layout", "least_tp_that_fits",
    "feasible", "infeasible_reason", "binding_limit", "on_frontier", "on_frontier_3d",
)  # fmt: skip
_OPERATING_POINT = (
    *(name for name in _AGENT_POINT if not name.startswith("on_frontier")),
    "gpus", "replicas", "sessions_wanted", "sessions_admitted", "cluster_turns_per_s",
    "cold_start_sessions", "cold_start_cache_hit_rate", "cold_start_turn_latency_ms", "cold_start_turns_per_s",
    "waiting_sessions", "waiting_turn_latency_ms", "waiting_turns_per_s",
    "on_frontier", "on_frontier_3d",
)  # fmt: skip


TABLES: Final[dict[str, Table]] = {
    table.name: table
    for table in (
        Table(
            "serving_points",
            "One row for each accepted row of a standard-serving table; figures of ONE replica.",
            _SERVING_POINT,
            ("point_id",),
            ("hardware", "model"),
        ),
        Table(
            "agent_points",
            "Each serving point carried over to each scenario, and the points where a curve meets the KV wall.",
            _AGENT_POINT,
            ("point_id", "scenario"),
            ("hardware", "model", "scenario"),
        ),
        Table(
            "agent_frontier",
            "The agent points on the two- or three-dimensional frontier of their group "
            "(hardware, model, weight_dtype, scenario).",
            _AGENT_POINT,
            ("point_id", "scenario"),
            ("hardware", "model", "scenario"),
        ),
        Table(
            "operating_points",
            "Each configuration at the number of sessions that its scenario fixes, on the scenario's GPUs; "
            "figures are of ONE replica unless the name says otherwise.",
            _OPERATING_POINT,
            ("point_id", "scenario"),
            ("hardware", "model", "scenario"),
        ),
        Table(
            "mix_components",
            "Each agent point of a mix of scenarios by these scenarios, which share its replica: their own latencies "
            "and shares. Rows of scenarios that are no mix are in none.",
            (
                "point_id", "hardware", "model", "scenario", "component", "component_name", "task_share_fraction",
                "turn_share_fraction", "session_share_fraction", "turn_latency_ms", "task_time_s",
                "e2e_tokens_per_s_per_user", "tasks_per_hour_per_gpu",
            ),
            ("point_id", "scenario", "component"),
            ("hardware", "model", "scenario"),
        ),
        Table(
            "measured_agentic",
            "Measured agent runs (replayed traces): what the agent points predict, never mixed with the standard "
            "table. Figures of ONE replica.",
            (
                *_ORIGIN, "measured_at", "hardware", "hardware_name", "model", "model_name", "precision_name",
                "backend", "backend_name", "backend_version", "serving_mode",
                "tp", "pp", "dp", "cp", "moe_tp", "moe_ep", "prefill_workers", "prefill_tp", "prefill_dp",
                "decode_workers", "decode_tp", "decode_dp", "gpus_per_replica",
                "draft_tokens", "sessions", "offload_mode", "requests_total", "requests_successful", "failed_fraction",
                "duration_s", "requests_per_s", "mean_input_tokens", "mean_output_tokens", "expected_output_tokens",
                "server_gpu_cache_hit_rate", "server_cpu_cache_hit_rate", "theoretical_cache_hit_rate",
                "theoretical_infinite_cache_hit_rate",
                "input_tokens_per_s", "output_tokens_per_s", "total_tokens_per_s", "input_tokens_per_s_per_gpu",
                "output_tokens_per_s_per_gpu", "total_tokens_per_s_per_gpu",
                "ttft_ms", "ttft_p50_ms", "ttft_p90_ms", "ttft_p99_ms",
                "turn_latency_ms", "turn_latency_p50_ms", "turn_latency_p90_ms", "turn_latency_p99_ms",
                "itl_ms", "itl_p50_ms", "itl_p90_ms", "itl_p99_ms",
                "pause_s", "turns_per_session", "context_spread_fraction",
                "linear_precision_name", "cache_precision_name", "kv_tokens",
            ),
            ("point_id",),
        ),
        Table(
            "evaluation",
            "Errors of the mapping against reference points of the same configurations on the agents' own turns, "
            "grouped by one thing at a time.",
            (
                "grouped_by", "group", "figure", "points", "mean_error_fraction", "median_error_fraction",
                "p90_error_fraction", "signed_error_fraction",
            ),
            ("grouped_by", "group", "figure"),
        ),
        Table(
            "quarantine",
            "Every row that is not used and why.",
            ("source_file", "source_row", "reason", "detail", "raw"),
            ("source_file", "source_row"),
        ),
        Table(
            "sources",
            "Every input file and what became of its rows.",
            (
                "path", "sha256", "format", "tool", "tool_version", "rows_read", "rows_accepted",
                "rows_duplicate", "rows_superseded", "rows_quarantined", "rejected_reason",
            ),
            ("path",),
        ),
        Table(
            "hardware",
            "The hardware catalogue.",
            (
                "hardware", "hardware_name", "vendor", "hbm_bytes", "hbm_printed_gb",
                "hbm_bandwidth_bytes_per_s", "bf16_flops_per_s", "fp8_flops_per_s", "fp4_flops_per_s",
                "gpus_per_node", "figures_from", "definition",
            ),
            ("hardware",),
        ),
        Table(
            "models",
            "The model catalogue.",
            (
                "model", "model_name", "layers", "max_context_tokens", "parameters_total",
                "parameters_active", "parameters_non_expert", "weight_dtype", "weight_bytes", "kv_dtype",
                "attention", "figures_from", "definition",
            ),
            ("model",),
        ),
        Table(
            "scenarios",
            "The agent workloads of this release.",
            (
                "scenario", "scenario_name", "turns", "think_time_s", "initial_prompt_tokens",
                "new_tokens_per_turn", "output_tokens_per_turn", "output_retention_fraction",
                "first_turn_new_tokens", "shared_prefix_tokens", "cache_model", "cache_hit_rate",
                "cache_kept_s", "cache_host_memory_gb_per_gpu", "mean_context_tokens", "peak_context_tokens",
                "routing", "routing_replicas", "scenario_sessions", "scenario_gpus", "scenario_source", "definition",
            ),
            ("scenario",),
        ),
        Table(
            "prices",
            "The prices that costs were computed with (build --prices); no row where none were given.",
            ("hardware", "usd_per_gpu_hour", "price_source", "price_date"),
            ("hardware",),
        ),
        Table(
            "data_dictionary",
            "Every column of every table: what DATA_DICTIONARY.md says, as rows.",
            ("table_name", "column_name", "data_type", "unit", "nullable", "description", "origin"),
            ("table_name", "column_name"),
        ),
        *star_tables(),
    )
}  # fmt: skip
