"""What the references are given, and what they give."""

import math
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from schemas.models import ModelSpec
from schemas.scenarios import Scenario
from transforms.agent_points.carriers.engine_steps import EngineSteps
from transforms.agent_points.carriers.linear_work import LinearCurves
from transforms.agent_points.carriers.workload import AgentTurns, agent_turns
from transforms.agent_points.carry import Setting
from transforms.agent_points.judgement.expected_errors import batch_range_number
from transforms.agent_points.prepare import PreparedPoints
from transforms.agent_points.rows.columns import ROW_FIGURES
from transforms.agent_points.rows.gpu import Gpu
from transforms.agent_points.rows.lookups import add_private_columns
from transforms.agent_points.rows.rows import Rows
from transforms.cache import constant_hit_rate
from transforms.equations import kv_memory as kv
from transforms.equations import transfer
from transforms.equations.context import turn_profile
from transforms.serving_points.peaks import least_flops_per_s
from transforms.tails.nodes import TailNodes, tail_nodes

#: By name, of one entry a row: floats, flags, codes.
Figures = dict[str, Any]
Method = Literal["transfer", "ratio"]

#: What the references give of a row, and the mapping publishes.
COMPARED: Final = (
    "ttft_ms", "tpot_ms", "turn_latency_ms", "first_turn_latency_ms", "last_turn_latency_ms", "serving_requests_per_s",
    "turn_latency_all_hits_ms", "turn_latency_all_misses_ms", "serving_requests_per_s_all_hits",
    "serving_requests_per_s_all_misses", "sessions", "activity_fraction", "in_flight_requests", "turns_per_s",
    "task_time_s", "turns_per_s_per_gpu", "tasks_per_s_per_gpu", "tasks_per_hour_per_gpu", "tasks_per_s_per_gpu_step9",
    "output_tokens_per_s_per_gpu", "decode_tokens_per_s_per_user", "e2e_tokens_per_s_per_user", "sessions_per_gpu",
    "ttft_p50_ms", "ttft_p90_ms", "ttft_p95_ms", "ttft_p99_ms", "turn_latency_p50_ms", "turn_latency_p90_ms",
    "turn_latency_p95_ms", "turn_latency_p99_ms", "task_time_p50_s", "task_time_p90_s", "task_time_p95_s",
    "task_time_p99_s", "tpot_p50_ms", "tpot_p90_ms", "tpot_p95_ms", "tpot_p99_ms", "e2e_tokens_per_s_per_user_p50",
    "e2e_tokens_per_s_per_user_p90", "e2e_tokens_per_s_per_user_p95", "e2e_tokens_per_s_per_user_p99",
    "kv_bytes_per_session_mean", "kv_bytes_per_session_peak",
    "kv_bytes_available", "kv_bytes_per_gpu", "max_sessions_mean_context", "max_sessions_p95_context",
    "max_sessions_peak_context", "max_sessions", "max_parked_sessions", "least_tp_that_fits",
    "kv_utilization_fraction", "expected_error_fraction", "usd_per_task", "usd_per_million_output_tokens",
)  # fmt: skip
#: Beside them flags, and the code of the first reason against a row.
FLAGS: Final = ("feasible", "extrapolated", "infeasible_reason")
RESERVE: Final = 0.10
TOLERANCE: Final = 1e-9
#: What taking the steps of a row apart finds.
_OF_STEPS: Final = (
    "_is_serial", "_dispatch_ms", "context_requests_per_step", "accepted_tokens", "decode_step_ms", "mixed_step_ms",
)  # fmt: skip


@dataclass(frozen=True)
class Constants:
    """What all rows share at a scenario."""

    scenario: Scenario
    turns: AgentTurns
    hit_rate: float
    nodes: TailNodes
    context_sd: float
    flops_per_request: float
    longest: float
    #: New tokens of the two prefills between which a turn's own is straight.
    light_tokens: float
    heavy_tokens: float

    @classmethod
    def of(cls, scenario: Scenario, spec: ModelSpec) -> "Constants":
        hit_rate, turns = constant_hit_rate(scenario), agent_turns(scenario, spec.attention)
        tokens = turns.at(hit_rate).mean.new_tokens + scenario.output_tokens_per_turn - 1
        light, heavy = turns.on_hit.mean.new_tokens, turns.on_miss.mean.new_tokens
        return cls(
            scenario,
            turns,
            hit_rate,
            tail_nodes(scenario, spec.attention, hit_rate),
            turn_profile(scenario).context_sd,
            least_flops_per_s(spec, tokens, 1.0),
            spec.max_context_tokens or math.inf,
            light,
            heavy if heavy >= 1.01 * light else 2.0 * light,
        )


@dataclass(frozen=True)
class Inputs:
    """Rows that are carried by one method. ``x``: arrays of one entry a row; ``curves``: of their linear work, whose
    pieces stand in rows of ``x["_deployment"]``; None by ratio."""

    method: Method
    spec: ModelSpec
    x: Figures
    curves: LinearCurves | None

    @classmethod
    def of_points(cls, points: pl.DataFrame, setting: Setting, prepared: PreparedPoints) -> "Inputs":
        """Of these serving points; ``prepared`` are they and others, of which all are carried by one method."""
        x = _looked_up(points, setting)
        (group,) = prepared.groups
        ((carrier, _),) = group.carriers
        if not isinstance(carrier, EngineSteps):
            return cls("ratio", setting.spec, x, None)
        names = carrier.rows.select(["point_id"]).with_row_index("_place")
        place = points.select("point_id").join(names, on="point_id", maintain_order="left")["_place"].to_numpy()
        taken = carrier.take(place.astype(np.intp))
        steps = taken.steps
        apart = {
            **{name: taken.rows[name].astype(np.float64) for name in _OF_STEPS},
            "_read_correction": steps.read_correction,
            "_read_before": steps.apart.read_ms,
            "_attention_share": steps.apart.attention_share,
            "_linear": steps.apart.linear_ms,
            "_linear_before": steps.curve_ms,
            "_rate_of_steps": taken.rate_of_steps,
            "_deployment": steps.curves.deployment * 1.0,
        }
        return cls("transfer", setting.spec, {**x, **apart}, steps.curves)


def _looked_up(points: pl.DataFrame, setting: Setting) -> Figures:
    """What is looked up of each row, as the mapping's preparation does."""
    private = add_private_columns(points.rename(ROW_FIGURES), setting.spec, setting.hardware)
    rows = Rows(private.with_columns(_batch_range=batch_range_number()))
    gpu = Gpu(rows, "decode")
    names = (
        "row_ttft_ms", "row_tpot_ms", "row_latency_ms", "row_requests_per_s", "isl_tokens", "osl_tokens",
        "prefix_tokens", "batch_per_rank", "tp", "pp", "dp", "cp", "gpus_per_replica", "memory_bytes_per_gpu",
        "usd_per_gpu_hour", "_kv_element_bytes", "_non_expert_bytes", "_batch_range", "_is_evaluated",
    )  # fmt: skip
    of_gpu = ("hbm_bytes", "hbm_bandwidth_bytes_per_s", "article_flops_per_s", "fastest_flops_per_s")
    own = {name: rows[name].astype(np.float64) for name in names} | {name: getattr(gpu, name) for name in of_gpu}
    groups, tp, cp = setting.spec.attention, rows["tp"], rows["cp"]
    (group,) = groups
    peak = gpu.attention_flops_per_s
    slowdown = transfer.head_size_slowdown(peak, group.kv_elements_per_entry / (2 * group.kv_heads))
    return own | {
        "kv_bytes_per_token": kv.kv_bytes_on_rank(groups, 1.0, rows["_kv_element_bytes"], tp),
        "attention_ms_per_flop": slowdown * transfer.attention_ms(1.0, tp * cp, peak, rows["_attention_efficiency"]),
        "kv_read_bytes_per_token": kv.kv_read_bytes_per_gpu(groups, 1.0, rows["_kv_element_bytes"], tp),
    }
