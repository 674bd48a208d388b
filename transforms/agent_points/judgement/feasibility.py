"""Whether a point can be run, the first reason against it, and the limit that stops its curve."""

import math

import numpy as np

from schemas.options import MappingOptions
from transforms.agent_points.agent import Agent
from transforms.agent_points.rows.gpu import Gpu
from transforms.agent_points.rows.rows import Rows, code
from transforms.numbers import Number
from transforms.serving_points.peaks import PEAK_TOLERANCE, least_flops_per_s

#: A figure on the wall itself must not fall over it by rounding.
WALL_TOLERANCE = 1e-9
#: Reasons that a lower load mends.
WALL_REASONS = ("kv_capacity", "kv_capacity_below_table", "host_memory_capacity")
#: Reasons that no load mends, and the limit that they name.
STATIC_LIMITS = {
    "weights_do_not_fit": "weights",
    "context_too_long": "context_length",
    "replica_larger_than_cluster": "cluster_size",
}


def judge_points(rows: Rows, agent: Agent, options: MappingOptions) -> Rows:
    """Adds ``infeasible_reason``, ``feasible``, ``kv_utilization_fraction``, the cluster view."""
    gpus, sessions, holds = rows["gpus_per_replica"], rows["sessions"], rows["max_sessions"]
    of = rows.configurations
    prefill_gpu, decode_gpu = Gpu(of.rows, "prefill"), Gpu(of.rows, "decode")
    card = of.to_rows(np.maximum(prefill_gpu.hbm_bytes, decode_gpu.hbm_bytes))
    fastest = of.to_rows(np.maximum(prefill_gpu.fastest_flops_per_s, decode_gpu.fastest_flops_per_s))
    spec = agent.spec
    longest = math.inf if spec.max_context_tokens is None else spec.max_context_tokens
    tokens = rows["prefill_tokens_per_turn"] + agent.output_tokens - 1
    flops_per_s = least_flops_per_s(spec, tokens, rows["turns_per_s_per_gpu"])
    replicas = np.nan if options.cluster_gpus is None else np.floor_divide(options.cluster_gpus, gpus)
    over_wall = sessions > holds * (1 + WALL_TOLERANCE)
    reasons = {  # the first one counts
        "weights_do_not_fit": ~rows["_weights_fit"],
        "context_too_long": agent.peak_context_tokens > longest,
        "replica_larger_than_cluster": replicas == 0,
        "table_memory_exceeds_gpu": rows["memory_bytes_per_gpu"] > card,
        "above_peak_flops": flops_per_s > fastest * (1 + PEAK_TOLERANCE),
        "host_memory_capacity": over_wall & (rows["binding_limit"] == code("binding_limit", "host_memory")),
        "kv_capacity": over_wall,
    }
    reason = np.zeros(len(rows), np.int8)
    for text, hit in reversed(reasons.items()):
        np.copyto(reason, np.int8(code("infeasible_reason", text)), where=hit)
    # of a cluster's GPUs, those that whole replicas take
    share: Number = np.nan
    if options.cluster_gpus is not None:
        share = np.where(replicas > 0, replicas * gpus / options.cluster_gpus, np.nan)
    return rows.with_figures(
        cluster_replicas=replicas,
        infeasible_reason=reason,
        kv_utilization_fraction=np.where(holds > 0, sessions / holds, np.nan),
        feasible=reason == 0,
        turns_per_s_per_cluster_gpu=rows["turns_per_s_per_gpu"] * share,
        tasks_per_hour_per_cluster_gpu=rows["tasks_per_hour_per_gpu"] * share,
    )
