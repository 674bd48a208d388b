"""What a plan says in sentences: why there is none, what stops the other serving modes, what limits are called."""

import math
from collections.abc import Mapping
from typing import Any, Final

from pipelines.answering.shapes import shape_of
from transforms.planning.curves import Curves
from transforms.planning.limits import Bound
from transforms.planning.question import Question

#: The option of each limit.
LIMIT_OPTIONS: Final = {
    "turn_latency": "--max-turn-latency",
    "task_time": "--max-task-time",
    "tokens_per_s_per_user": "--min-speed",
    "ttft": "--max-ttft",
}
#: What the column ``limit`` says.
LIMITS_IN_WORDS: Final = {
    "one_replica": "a single replica does; there are no fewer",
    "cache_hit_rate": "the cache's hit rate falls between this row of the table and the next, nothing is read between",
    "table_range": "the table's rows end there",
    "kv_memory": "GPU memory holds the KV of no more",
    "decode_kv_memory": "memory of the decode pool holds the KV of no more",
    "prefill_kv_memory": "memory of the prefill pool holds the KV of no more",
    "host_memory": "host memory holds the idle KV of no more",
    "turn_latency": "more would be slower than --max-turn-latency",
    "task_time": "more would take longer than --max-task-time",
    "tokens_per_s_per_user": "more would be slower than --min-speed",
    "ttft": "the first token of more would come later than --max-ttft",
}


def configuration_in_words(row: Mapping[str, Any]) -> str:
    """``agg tp4, bf16, KV bf16, trtllm``."""
    return f"{row['serving_mode']} {shape_of(row)}, {row['weight_dtype']}, KV {row['kv_dtype']}, {row['backend']}"


def method_in_words(row: Mapping[str, Any]) -> str:
    """How a row came about: ``transfer``, or whose own figures it has."""
    if row["transfer_method"] != "direct":
        return str(row["transfer_method"])
    return "as AIConfigurator has it" if row["source"] == "aiconfigurator" else f"as {row['source']} has it"


def others_in_words(row: Mapping[str, Any], curves: Curves, question: Question) -> str:
    """A serving mode that is not the answer: what it needs and what stops it, or why it has none."""
    if not row["feasible"]:
        reason = reason_in_words(row, curves, question)
        return f"{row['serving_mode']}: {reason[:1].lower()}{reason[1:].removesuffix('.')}"
    needs = f"{row['gpus']:,} GPUs" if question.sought == "gpus" else f"{row['sessions']:,} sessions"
    stop = "one replica does" if row["binding_limit"] == "one_replica" else stop_in_words(row)
    return f"{row['serving_mode']}: {needs} ({shape_of(row)}, {row['weight_dtype']}, {row['backend']}; {stop})"


def stop_in_words(row: Mapping[str, Any]) -> str:
    """What stops a replica from taking more, and what would hold more where that is known."""
    sessions, limit = row["sessions_per_replica"], row["binding_limit"]
    pools = {"prefill_kv_memory": "the prefill pool", "decode_kv_memory": "the decode pool", "kv_memory": "memory",
             "host_memory": "host memory"}  # fmt: skip
    if limit not in pools:
        return f"stopped by {LIMIT_OPTIONS.get(limit, limit.replace('_', ' '))} at {sessions:,} sessions a replica"
    held = row.get("max_parked_sessions")
    said = f"{pools[limit]} holds {math.floor(held or sessions):,} sessions"
    slots = row.get("max_in_flight_requests")
    if limit == "prefill_kv_memory" and slots is not None and held is not None and slots > held:
        said += f", --parked-kv decode at least {math.floor(slots):,}"
    return said


def reason_in_words(row: Mapping[str, Any], curves: Curves, question: Question) -> str:
    """Why hardware has no plan, and the nearest value that would do where there is one."""
    reason, tp = row["infeasible_reason"], row["least_tp_that_fits"]
    if reason == "turn_latency":
        nearest = " ".join(
            f"{LIMIT_OPTIONS[bound.name]} {_nearest(row, bound, curves)}"
            for bound in curves.bounds
            if row[f"least_{bound.name}_figure"] > bound.most
        )
        mean = "" if curves.limits.at == "mean" else " on average"
        return f"Its fastest configuration takes {row['least_turn_latency_s']:.4g} s a turn{mean}; {nearest} would do."
    sentences = {
        "weights_do_not_fit": "The weights do not fit on any of its configurations"
        + ("." if tp is None else f": a rank needs at least {tp} GPUs."),
        "context_too_long": "The scenario's longest context is beyond what the model can take.",
        "replica_larger_than_cluster": "Every replica is larger than the cluster of the build (--cluster-gpus).",
        "replica_larger_than_gpus": f"Its smallest replica takes {row['least_gpus']} GPUs.",
        "kv_capacity": "Memory holds the KV of no session.",
        "kv_capacity_below_table": "Memory holds fewer sessions than its tables begin at.",
        "host_memory_capacity": "Host memory holds the idle KV of no session.",
        "table_range": "No whole number of sessions lies within its tables.",
    }
    return sentences.get(reason, f"None of its points can be run: {reason}.")


def _nearest(row: Mapping[str, Any], bound: Bound, curves: Curves) -> str:
    value = curves.limits.as_given(bound, row[f"least_{bound.name}_figure"], curves.scenario)
    return _rounded(value, up=not bound.name.startswith("tokens"))


def _rounded(value: float, up: bool) -> str:
    """Four digits, on the side that still does."""
    step = 10.0 ** (math.floor(math.log10(value)) - 3)
    whole = math.ceil(value / step) if up else math.floor(value / step)
    return f"{whole * step:.10g}"
