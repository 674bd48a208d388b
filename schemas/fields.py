"""The dictionary of fields: every column of every table, once.

A quantity has one name everywhere; its unit stands in the name. Tables (``schemas/tables.py``) list
fields from here, the Pandera schemas, the data dictionary and the comments in the DuckDB file are
made from it.
"""

from dataclasses import dataclass
from typing import Final

import polars as pl

from schemas.caches import CACHE_MODELS, ROUTINGS
from schemas.dtypes import KV_DTYPES, WEIGHT_DTYPES

TEXT: Final = pl.String()
INT: Final = pl.Int64()
REAL: Final = pl.Float64()
BOOL: Final = pl.Boolean()


@dataclass(frozen=True)
class Field:
    """One column: what it means and what may stand in it."""

    name: str
    dtype: pl.DataType
    unit: str
    description: str
    source: str
    nullable: bool = False
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    allowed: tuple[str, ...] | None = None


FIELDS: dict[str, Field] = {}

SOURCES: Final = (
    "aiconfigurator", "inferencex", "vllm", "vllm-multi-turn", "sglang", "aiperf", "genai-perf", "guidellm",
    "inference-perf", "llm-d", "turn-log", "generic", "roofline",
)  # fmt: skip
INFEASIBLE_REASONS: Final = (
    "weights_do_not_fit",
    "context_too_long",
    "replica_larger_than_cluster",
    "table_memory_exceeds_gpu",
    "above_peak_flops",
    "kv_capacity",
    "kv_capacity_below_table",
    "host_memory_capacity",
    "fewer_sessions_than_table",
    "more_sessions_than_table",
)
BINDING_LIMITS: Final = (
    "kv_memory", "host_memory", "decode_kv_memory", "prefill_kv_memory", "weights", "context_length",
    "cluster_size", "table_range",
)  # fmt: skip
EVALUATION_FIGURES: Final = ("turn_latency", "ttft", "tpot", "throughput")
EVALUATION_GROUPINGS: Final = (
    "all", "hardware", "model", "backend", "serving_mode", "source", "transfer_method", "batch_range", "turn",
)  # fmt: skip


def _add(
    name: str,
    dtype: pl.DataType,
    unit: str,
    description: str,
    source: str,
    *,
    nullable: bool = False,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    allowed: tuple[str, ...] | None = None,
) -> None:
    if name in FIELDS:
        raise ValueError(f"field {name} is defined twice")
    FIELDS[name] = Field(name, dtype, unit, description, source, nullable, at_least, above, at_most, allowed)


def _text(name: str, description: str, source: str = "input", **rest: object) -> None:
    _add(name, TEXT, "-", description, source, **rest)  # type: ignore[arg-type]


def _count(name: str, unit: str, description: str, source: str = "input", **rest: object) -> None:
    _add(name, INT, unit, description, source, **{"at_least": 1, **rest})  # type: ignore[arg-type]


def _real(name: str, unit: str, description: str, source: str, **rest: object) -> None:
    _add(name, REAL, unit, description, source, **{"at_least": 0, **rest})  # type: ignore[arg-type]


def _flag(name: str, description: str, source: str) -> None:
    _add(name, BOOL, "-", description, source)


# --- where a row comes from -----------------------------------------------------------------------
_text("point_id", "key of the point: a hash of what its row says, wherever the row was read")
_text("source", "who measured or modelled the serving point", allowed=SOURCES)
_text("source_file", "file that the row was read from, relative to the folder given; 'roofline' if synthesised")
_count("source_row", "-", "row in that file, data rows counted from 1")
_text("tool_version", "version of the tool that wrote the file", nullable=True)
_text("measured_at", "when it was measured, ISO 8601 in UTC: of two runs of one configuration the later counts; NULL "
      "where nothing says", nullable=True)  # fmt: skip

_text("configuration_id", "key of the deployment, whatever its hardware, model and load: a hash of precisions, engine, "
      "shape and who measured or modelled it")  # fmt: skip

# --- hardware and model ---------------------------------------------------------------------------
_text("hardware", "GPU (slug); prefill and decode GPU joined by -and- where they differ", "catalogue")
_text("hardware_name", "GPU as the input names it")
_text("prefill_hardware", "GPU (slug) that prefills", "catalogue")
_text("decode_hardware", "GPU (slug) that decodes", "catalogue")
_text("model", "model (slug)", "catalogue")
_text("model_name", "model as the input names it")
_text("shared_from", "model (slug) that the row was measured or modelled on, another name of the same architecture; "
      "NULL where it is of the row's own model", "catalogue", nullable=True)  # fmt: skip
_text(
    "weight_dtype",
    "format of the weights; on a mixture of experts that of the experts",
    allowed=WEIGHT_DTYPES,
)
_text(
    "expert_dtype",
    "format of the routed experts; NULL on a dense model",
    nullable=True,
    allowed=WEIGHT_DTYPES,
)
_text("linear_dtype", "format of the other linear layers (attention, dense MLP, shared experts)",
      allowed=WEIGHT_DTYPES)  # fmt: skip
_text("kv_dtype", "format of the KV cache", allowed=KV_DTYPES)
_text("kv_dtype_source", "who says the KV format: the input (or source.yaml), the published recipe of the run, or "
      "nobody: then it is the checkpoint's own; NULL on synthesised rows", "input, facts", nullable=True,
      allowed=("reported", "recipe", "checkpoint"))  # fmt: skip
_text("precision_name", "precision as the input names it; NULL where it names formats only", nullable=True)
_text("linear_precision_name", "format of the other linear layers as the run's source says it; NULL where it does not",
      nullable=True)  # fmt: skip
_text("cache_precision_name", "format of the KV cache as the run's source says it; NULL where it does not",
      nullable=True)  # fmt: skip
_text("attention_dtype", "arithmetic of prefill attention", allowed=("bf16", "fp8"))
_text("backend", "inference engine")
_text("backend_name", "inference engine or framework as the input names it", nullable=True)
_text("backend_version", "version of the inference engine", nullable=True)
_text("setting", "what tells two runs of one shape apart: `run`, label, server flags, as the input has them; NULL "
      "where it says nothing", nullable=True)  # fmt: skip
_text("database_mode", "what AIConfigurator took its kernel times from, as its configuration names it (SILICON: "
      "measured; HYBRID: estimated where none were measured); NULL where it is not told", nullable=True)  # fmt: skip
_real(
    "slower_than_roofline",
    "-",
    "how many times the row's TPOT is that of the calibrated roofline for its configuration; NULL below 2.5 times",
    "TPOT * accepted tokens / roofline",
    nullable=True,
    at_least=1,
)
_text(
    "serving_mode",
    "agg: every GPU prefills and decodes; disagg: pools of their own",
    allowed=("agg", "disagg"),
)

# --- shape of one replica -------------------------------------------------------------------------
for _name, _meaning in (
    ("tp", "tensor parallelism of attention"),
    ("pp", "pipeline parallelism"),
    ("dp", "attention data parallelism: ranks that split the sessions"),
    ("cp", "context parallelism"),
    ("moe_tp", "tensor parallelism of the experts"),
    ("moe_ep", "expert parallelism"),
):
    _count(_name, "GPUs", f"{_meaning}; NULL on a disaggregated replica", nullable=True)
for _pool in ("prefill", "decode"):
    _count(f"{_pool}_workers", "-", f"{_pool} workers of the replica; NULL on an aggregated one", nullable=True)
    for _name in ("tp", "pp", "dp", "cp", "moe_tp", "moe_ep"):
        _count(f"{_pool}_{_name}", "GPUs", f"{_name} of a {_pool} worker; NULL on an aggregated replica",
               nullable=True)  # fmt: skip
    _real(f"{_pool}_batch", "requests", f"requests in one {_pool} batch of a rank; NULL on an aggregated replica",
          "input", nullable=True, above=0)  # fmt: skip
_count("gpus_per_replica", "GPUs", "GPUs of one replica, from all parallel dimensions and workers", "derived")

# --- the serving point as its table gives it ------------------------------------------------------
_real("isl_tokens", "tokens", "input length, the cached part included", "input", above=0)
_real("osl_tokens", "tokens", "output length", "input", at_least=1)
_real("prefix_tokens", "tokens", "part of the input found in the cache", "input")
for _name, _what in (("isl", "input"), ("osl", "output")):
    _real(f"{_name}_nominal_tokens", "tokens", f"{_what} length that the run is named by, where the lengths drawn are "
          f"shorter on average ({_name}_tokens); NULL where they are the same", "input",
          nullable=True, above=0)  # fmt: skip
_real("concurrency_reported", "requests", "concurrency of one replica as the table states it; NULL if interpolated",
      "input", nullable=True, above=0)  # fmt: skip
_real("batch_per_rank", "requests", "requests that one rank decodes together (bs); NULL if interpolated", "input",
      nullable=True, above=0)  # fmt: skip
_real("context_requests_per_step", "requests", "prefills in one mixed step (ctx_tokens/isl); NULL where unknown",
      "input", nullable=True, above=0)  # fmt: skip
_real("context_tokens_per_step", "tokens", "prompt tokens in one mixed step; NULL where unknown", "input",
      nullable=True, above=0)  # fmt: skip
_real("request_latency_ms", "ms", "ttft_ms + tpot_ms * (osl_tokens - 1)", "input", above=0)
_real("requests_per_s", "1/s", "requests a second of one replica", "input", above=0)
_real("tokens_per_s_per_user", "tokens/s", "decode speed of one request: 1000 / tpot_ms", "input", nullable=True)
_real("memory_bytes_per_gpu", "bytes", "memory of one GPU as the table states it", "input", nullable=True)
_count("kv_tokens", "tokens", "tokens that the KV cache of one replica holds, all its ranks together, as its server "
       "states it: rules the memory of an aggregated replica; NULL where nothing says", nullable=True)  # fmt: skip
_real("mixed_step_ms", "ms", "time of a mixed step, from the row's TTFT; NULL where it cannot be told",
      "Step 9, transfer of engine steps", nullable=True)  # fmt: skip
_real("decode_step_ms", "ms", "time of a decode-only step, from the row's TPOT; NULL where it cannot be told",
      "Step 9, transfer of engine steps", nullable=True)  # fmt: skip
_text("latency_statistic", "statistic that the latencies are", allowed=("mean", "p50"))
_text("tpot_source", "reported, or recovered from the latency where the table's TPOT contains the TTFT",
      allowed=("reported", "recovered"))  # fmt: skip
_count("draft_tokens", "tokens", "tokens drafted in a step (MTP); 0 without, NULL where drafts were used and their "
       "number is not given", at_least=0, nullable=True)  # fmt: skip
_real("accepted_tokens", "tokens", "tokens that a step yields; 1 without drafts, NULL where drafts were used and "
      "their acceptance is not given", "input", at_least=1, nullable=True)  # fmt: skip

# --- the agent point ------------------------------------------------------------------------------
_text("scenario", "agent workload (slug)", "catalogue")
_text("scenario_name", "agent workload, in words", "catalogue")
_flag("interpolated", "a point put on a curve where it meets the KV wall, or an operating point between rows",
      "KV wall")  # fmt: skip
_text("transfer_method", "how the row was carried to the agent's workload",
      "Step 9, direct mapping", allowed=("direct", "calibrated", "transfer", "ratio", "roofline"))  # fmt: skip
_real("serving_requests_per_s", "1/s", "requests a second of the replica on the agent's turns, nobody pausing",
      "Step 9, transfer of engine steps", above=0)  # fmt: skip
_real("sessions", "sessions", "concurrent sessions of the replica, pausing ones counted", "Step 1, closed loop",
      above=0)  # fmt: skip
_real(
    "activity_fraction",
    "-",
    "share of its time that a session is in flight: R/(R+Z)",
    "Step 1",
    above=0,
    at_most=1,
)
_real("in_flight_requests", "requests", "requests served or queued at the replica", "Little's law", above=0)
_text("cache_model", "what decides whether a turn finds its session's prefix: fixed, one chance for all; ttl, a pause "
      "no longer than cache_kept_s (table scenarios); lru, memory that evicts the prefix used longest ago", "scenario",
      allowed=CACHE_MODELS)  # fmt: skip
_real("cache_hit_rate", "-", "chance that a turn finds its session's prefix cached; of an lru cache the outcome at the "
      "point's own load (table scenarios: in memory without end, on the session's own replica); with random routing "
      "the share of the tokens that such a turn finds", "Step 5, model.md 7", at_most=1)  # fmt: skip
_real("cache_reload_fraction", "-", "share of the turns whose prefix comes back from host memory, part of "
      "cache_hit_rate; the reload counts in ttft_ms", "Step 5", at_most=1)  # fmt: skip
_real("prefix_kept_s", "s", "how long a session's prefix outlives its last use; NULL where nothing evicts it or the "
      "hit rate is stated", "Step 5", nullable=True)  # fmt: skip
for _all, _what in (("hits", "hit; none reloads its prefix unless all do"), ("misses", "miss")):
    _real(f"turn_latency_all_{_all}_ms", "ms", f"turn_latency_ms at the row's load if all turns {_what}", "Step 5",
          above=0)  # fmt: skip
    _real(f"serving_requests_per_s_all_{_all}", "1/s", f"serving_requests_per_s if all turns {_what}", "Step 5",
          above=0)  # fmt: skip
_real("mean_context_tokens", "tokens", "mean context over the turns", "Step 4", above=0)
_real("peak_context_tokens", "tokens", "context of the last turn with its output", "Step 4", above=0)
_real(
    "prefill_tokens_per_turn",
    "tokens",
    "mean tokens prefilled in a turn, hits and misses mixed",
    "Eq. 2",
    above=0,
)
_real("ttft_ms", "ms", "time to first token (agent points: mean over the turns)", "input, Step 9")
_real("tpot_ms", "ms", "time per output token after the first", "input, Step 9")
_real("turn_latency_ms", "ms", "mean latency of a turn: R", "Step 3", above=0)
_real("first_turn_latency_ms", "ms", "latency of turn 1", "Step 9, turns", above=0)
_real("last_turn_latency_ms", "ms", "latency of the last turn", "Step 9, turns", above=0)
_real("task_time_s", "s", "time of a task: N * (R + Z)", "Step 3", above=0)
for _share, _words in (("p50", "half"), ("p90", "90 %"), ("p95", "95 %"), ("p99", "99 %")):
    _real(f"ttft_{_share}_ms", "ms", f"time to first token that {_words} of the turns do not exceed: their own prefill "
          "and the wait behind others'", "input, docs/tails.md", nullable=True, above=0)  # fmt: skip
    _real(f"tpot_{_share}_ms", "ms", f"a turn's mean time per output token after the first that {_words} of the turns "
          "do not exceed: others' prefills that fall into their decode steps", "input, docs/tails.md",
          nullable=True, above=0)  # fmt: skip
    _real(f"turn_latency_{_share}_ms", "ms", f"latency that {_words} of the turns do not exceed; they differ in place, "
          "hit or miss, new tokens and output, and in the others' prefills that fall into them",
          "input, model.md 5.3, docs/tails.md", nullable=True, above=0)  # fmt: skip
    _real(f"task_time_{_share}_s", "s", f"time that {_words} of the tasks do not exceed: turns, pauses, misses, "
          "lengths and waits vary", "Step 3 by quadrature, docs/tails.md", nullable=True, above=0)  # fmt: skip
_real("turns_per_s", "1/s", "turns a second of the replica: sessions / (R + Z)", "Step 2", above=0)
_real("turns_per_s_per_gpu", "1/s/GPU", "turns a second per GPU of the replica", "Step 2", above=0)
_real("tasks_per_s_per_gpu", "1/s/GPU", "tasks a second per GPU of the replica", "Step 2", above=0)
_real("tasks_per_hour_per_gpu", "1/h/GPU", "tasks an hour per GPU of the replica", "Step 2", above=0)
_real(
    "tasks_per_s_per_gpu_step9",
    "1/s/GPU",
    "Step 9 as the article prints it: X/N * rho / GPUs",
    "Step 9",
    above=0,
)
_real("output_tokens_per_s_per_gpu", "tokens/s/GPU", "output tokens a second per GPU of the replica; a serving "
      "point has its table's figure, which may leave first tokens out",
      "input, Step 2", above=0)  # fmt: skip
_real("decode_tokens_per_s_per_user", "tokens/s", "decode speed of one session: 1000 / tpot_ms; NULL for one token",
      "Step 8", nullable=True, above=0)  # fmt: skip
_real("e2e_tokens_per_s_per_user", "tokens/s", "output tokens over turn latency: OSL / R", "AgentX", above=0)
for _share in ("p50", "p90", "p95", "p99"):
    _real(f"e2e_tokens_per_s_per_user_{_share}", "tokens/s", f"one over the {_share[1:]}th percentile of a turn's "
          "latency over its output tokens", "AgentX", nullable=True, above=0)  # fmt: skip
_real("sessions_per_gpu", "sessions/GPU", "concurrent sessions per GPU of the replica", "Step 4", above=0)
_real("turns_per_s_per_cluster_gpu", "1/s/GPU", "turns a second per GPU of the cluster, idle ones counted; NULL "
      "without --cluster-gpus and where no replica fits", "cluster view", nullable=True)  # fmt: skip
_real("tasks_per_hour_per_cluster_gpu", "1/h/GPU", "tasks an hour per GPU of the cluster, idle ones counted; NULL "
      "without --cluster-gpus and where no replica fits", "cluster view", nullable=True)  # fmt: skip
_count("cluster_replicas", "-", "replicas that fit the cluster; NULL without --cluster-gpus", "cluster view",
       nullable=True, at_least=0)  # fmt: skip

_real("usd_per_gpu_hour", "USD/h/GPU", "price of a GPU of the replica, mean over its GPUs; NULL unless --prices has "
      "one for each", "price list", nullable=True, above=0)  # fmt: skip
_real("usd_per_task", "USD", "price of the GPU time of a task, idle GPUs of the replica counted and those of a cluster "
      "not; NULL unless --prices has one for each GPU", "price list, Step 2", nullable=True, above=0)  # fmt: skip
_real("usd_per_million_output_tokens", "USD/Mtokens", "the same of 10^6 output tokens", "price list, Step 2",
      nullable=True, above=0)  # fmt: skip
_real("expected_error_fraction", "-", "mean error of the turn latency that the evaluation found for points of this "
      "method, serving mode and batch; 0 for direct rows, NULL where the method was not evaluated", "evaluation",
      nullable=True)  # fmt: skip
_flag("extrapolated", "nothing like the point was evaluated: another source or engine than the reference sets', or "
      "prefills, contexts or outputs beyond twice what their turns span; of a calibrated point: its load is above the "
      "highest measured one, or its context beyond twice the longest", "evaluation")  # fmt: skip
_text("unmeasured_load", "a load of a calibrated deployment that nobody measured: between measured ones, or beyond the "
      "highest (never on a frontier); NULL of a row's own load", "calibration", nullable=True,
      allowed=("between", "beyond"))  # fmt: skip
_flag("lockstep", "the row's requests prefill together and then decode together, which no engine model describes: it "
      "is carried by the plain ratio of the roofline", "calibration")  # fmt: skip
for _name, _unit, _figure in (
    ("ttft_ms", "ms", "TTFT"),
    ("turn_latency_ms", "ms", "turn latency"),
    ("tasks_per_hour_per_gpu", "tasks/h/GPU", "tasks an hour per GPU"),
    ("max_sessions", "sessions", "sessions that fit"),
):
    for _end, _side in (("low", "lower"), ("high", "upper")):
        _real(f"{_name}_{_end}", _unit, f"{_side} end of the range in which 80 % of evaluated errors of the {_figure} "
              "lie, the load held; of calibrated points, else NULL", "calibration", nullable=True)  # fmt: skip

# --- memory and feasibility -----------------------------------------------------------------------
_real("kv_bytes_per_session_mean", "bytes", "KV of one session over a rank at the mean context, head copies counted, "
      "the shared prefix not", "Eq. 5", above=0)  # fmt: skip
_real("kv_bytes_per_session_peak", "bytes", "the same at the peak context", "Eq. 5", above=0)
_real("kv_bytes_available", "bytes", "memory that the replica has for KV after weights and what the engine keeps, or "
      "that of kv_tokens; negative where the weights do not fit", "Step 4", at_least=None)  # fmt: skip
_text("kv_room_source", "whose figure kv_bytes_available is: the server's (kv_tokens), by the engine's own defaults, "
      "by --reserve-fraction, or a tenth of the memory kept as nothing else is known", "Step 4",
      allowed=("server", "engine", "option", "assumed"))  # fmt: skip
_real("kv_bytes_per_gpu", "bytes", "KV that the sessions take, per GPU of the replica", "Step 4, conclusion 4.3")
_real("max_sessions_mean_context", "sessions", "sessions that fit at their mean context, and no more than "
      "max_in_flight_requests allow; where idle KV is evicted or dropped these alone count", "Eq. 5")  # fmt: skip
_real("max_sessions_p95_context", "sessions", "the same in 95 of 100 moments", "Step 4")
_real("max_sessions_peak_context", "sessions", "the same at their peak context", "Step 4")
_real("max_sessions", "sessions", "the limit applied: the lesser of max_parked_sessions and max_in_flight_requests / "
      "activity_fraction", "Step 4")  # fmt: skip
_real("max_parked_sessions", "sessions", "sessions whose KV has a place while they pause; NULL where idle KV needs "
      "none", "Step 4", nullable=True)  # fmt: skip
_real("max_in_flight_requests", "requests", "requests in flight whose KV the GPUs that decode hold; NULL where one "
      "memory holds all sessions, pausing or not", "Step 4", nullable=True)  # fmt: skip
_real("kv_utilization_fraction", "-", "sessions / max_sessions; NULL where none fits", "Step 4", nullable=True)
_count("least_tp_that_fits", "GPUs", "least GPUs of a rank that hold the weights, a power of two; NULL where they do",
       "Step 4", nullable=True)  # fmt: skip
_text("kv_layout", "ideal: sliding windows free what they pass; paged: every layer keeps the whole context",
      "Step 4", allowed=("ideal", "paged"))  # fmt: skip
_flag("feasible", "the point can be run: no reason against it", "KV wall")
_text("infeasible_reason", "first reason against the point; NULL when feasible", "KV wall", nullable=True,
      allowed=INFEASIBLE_REASONS)  # fmt: skip
_text("binding_limit", "limit met first when sessions are added", "Step 4", allowed=BINDING_LIMITS)
_flag("on_frontier", "no feasible point of the group beats it on turn latency and turns per GPU", "Pareto frontier")
_flag("on_frontier_3d", "the same with KV bytes per GPU as third axis", "Pareto frontier, conclusion 4.3")

# --- mixes ----------------------------------------------------------------------------------------
_text("component", "one of the scenarios of a mix (slug)")
_text("component_name", "its name")
_real("task_share_fraction", "-", "share of the tasks that begin", "mix", at_most=1)
_real("turn_share_fraction", "-", "share of the turns", "mix", at_most=1)
_real("session_share_fraction", "-", "share of the sessions that are there at a moment", "mix", at_most=1)

# --- operating points -----------------------------------------------------------------------------
_count("gpus", "GPUs", "GPUs that serve the scenario's sessions", "scenario")
_count("replicas", "-", "replicas that fit those GPUs", "Step 7", at_least=0)
_real("sessions_wanted", "sessions", "sessions of the scenario", "scenario", above=0)
_real(
    "sessions_admitted",
    "sessions",
    "sessions admitted over all replicas: min(wanted, what fits)",
    "Step 7",
)
for _figure, _unit in (("sessions", "sessions"), ("cache_hit_rate", "-"), ("turn_latency_ms", "ms"),
                       ("turns_per_s", "1/s")):  # fmt: skip
    _real(f"cold_start_{_figure}", _unit, f"{_figure} where the sessions begin with an empty cache and thrash; NULL "
          "where they end as others do, or beyond the table", "Step 5", nullable=True)  # fmt: skip
for _figure, _unit in (("sessions", "sessions"), ("turn_latency_ms", "ms"), ("turns_per_s", "1/s")):
    _real(f"waiting_{_figure}", _unit, f"{_figure} where memory evicts, if instead the sessions whose KV it does not "
          "hold waited; NULL where all are held", "Step 5", nullable=True)  # fmt: skip
_real("cluster_turns_per_s", "1/s", "turns a second of all replicas", "Step 7")

# --- measured agent runs --------------------------------------------------------------------------
_text("offload_mode", "KV offload to host memory", allowed=("on", "off"), nullable=True)
_count("requests_total", "requests", "requests (turns) sent", at_least=0, nullable=True)
_count("requests_successful", "requests", "requests (turns) answered in full")
_real("failed_fraction", "-", "share of the requests that failed", "input", nullable=True, at_most=1)
_real("duration_s", "s", "length of the run", "input", above=0)
for _kind in ("input", "output", "total"):
    if _kind != "total":
        _real(f"mean_{_kind}_tokens", "tokens", f"mean {_kind} tokens of a turn", "input", nullable=True)
    _real(f"{_kind}_tokens_per_s", "tokens/s", f"{_kind} tokens a second of all GPUs", "input", above=0)
    if _kind != "output":
        _real(f"{_kind}_tokens_per_s_per_gpu", "tokens/s/GPU", f"{_kind} tokens a second per GPU", "input", above=0)
_real("expected_output_tokens", "tokens", "mean output tokens of a turn in the trace that was replayed", "input",
      nullable=True)  # fmt: skip
for _percentile in (50, 90, 99):
    _real(f"itl_p{_percentile}_ms", "ms", f"{_percentile}th percentile of the time between two tokens", "input",
          nullable=True)  # fmt: skip
_real("itl_ms", "ms", "time between two tokens, mean", "input", nullable=True)
_real("pause_s", "s", "pause between a session's turns, mean over all turns; NULL where the run does not tell",
      "input", nullable=True)  # fmt: skip
_real("turns_per_session", "turns", "turns of a session within the run, mean; NULL where only their sum is told",
      "input", nullable=True, above=0)  # fmt: skip
_real("context_spread_fraction", "-", "standard deviation of the prompts' lengths over their mean", "input",
      nullable=True)  # fmt: skip
for _name, _what in (
    ("server_gpu_cache_hit_rate", "share of prompt tokens found in GPU memory, counted by the server"),
    ("server_cpu_cache_hit_rate", "share of prompt tokens found in host memory, counted by the server"),
    ("theoretical_cache_hit_rate", "share of prompt tokens that the trace repeats"),
    ("theoretical_infinite_cache_hit_rate", "the same with an endless cache shared by all sessions"),
):
    _real(_name, "-", f"{_what}; NULL where not given", "input", nullable=True, at_most=1)

# --- evaluation -----------------------------------------------------------------------------------
_text("grouped_by", "what the points are grouped by; all: one group of everything", "evaluation",
      allowed=EVALUATION_GROUPINGS)  # fmt: skip
_text("group", "the group: a value of grouped_by", "evaluation")
_text("figure", "figure of a turn whose error it is", "evaluation", allowed=EVALUATION_FIGURES)
_count("points", "-", "mapped points that have a reference", "evaluation")
for _name, _meaning in (
    ("mean", "mean of the absolute errors"),
    ("median", "median of the absolute errors"),
    ("p90", "90th percentile of the absolute errors"),
):
    _real(f"{_name}_error_fraction", "-", f"{_meaning}, mapped / reference - 1", "evaluation")
_real("signed_error_fraction", "-", "mean of mapped / reference - 1", "evaluation", at_least=None)

# --- catalogues -----------------------------------------------------------------------------------
_text("price_source", "who asks that price, or where it was read", "price list")
_text("price_date", "when the price was valid, ISO 8601", "price list")
_text("vendor", "maker of the GPU", "catalogue")
_count("hbm_bytes", "bytes", "memory of one GPU as the driver reports it", "catalogue")
_real("hbm_printed_gb", "GB", "memory of one GPU as printed, 10^9 bytes", "catalogue", above=0)
_real("hbm_bandwidth_bytes_per_s", "bytes/s", "memory bandwidth of one GPU", "catalogue", above=0)
_real("bf16_flops_per_s", "FLOP/s", "dense 16-bit arithmetic of one GPU", "catalogue", above=0)
_real("fp8_flops_per_s", "FLOP/s", "dense FP8 arithmetic of one GPU; NULL where it has none", "catalogue",
      nullable=True, above=0)  # fmt: skip
_real("fp4_flops_per_s", "FLOP/s", "dense FP4 arithmetic of one GPU; NULL where it has none", "catalogue",
      nullable=True, above=0)  # fmt: skip
_count("gpus_per_node", "GPUs", "GPUs of one node", "catalogue")
_text("definition", "the whole entry as the build used it, JSON text: `plan` and `what-if` read it", "catalogue")
_text("figures_from", "where the figures were read, JSON text", "catalogue")
_count("layers", "-", "transformer layers", "config.json")
_count("max_context_tokens", "tokens", "longest context; NULL if the config does not say", "config.json", nullable=True)
_count("parameters_total", "-", "parameters that memory must hold", "config.json")
_count("parameters_active", "-", "parameters that one token uses", "config.json")
_count("parameters_non_expert", "-", "parameters read in every step", "config.json")
_real("weight_bytes", "bytes", "weights as the checkpoint stores them", "config.json", above=0)
_text("attention", "attention kinds with layer counts, JSON text", "config.json")
_real("turns", "-", "mean LLM calls in a task [N]", "scenario", at_least=1)
_real("think_time_s", "s", "mean pause after each turn [Z]", "scenario")
_real("initial_prompt_tokens", "tokens", "context of turn 1 [L0]", "scenario", above=0)
_real("new_tokens_per_turn", "tokens", "tokens from outside in each later turn [dL]", "scenario")
_real("output_tokens_per_turn", "tokens", "generated tokens in each turn [OSL]", "scenario", at_least=1)
_real("output_retention_fraction", "-", "share of the output kept in context [r]", "scenario", at_most=1)
_real("first_turn_new_tokens", "tokens", "tokens to prefill in turn 1 on a hit [n1]", "scenario", above=0)
_real("shared_prefix_tokens", "tokens", "prefix that all sessions share [S]", "scenario")
_count("scenario_sessions", "sessions", "sessions of the operating point [C]; NULL if not fixed", "scenario",
       nullable=True)  # fmt: skip
_text("routing", "sticky: a session's turns go to one replica; random: each to any of them", "scenario",
      allowed=ROUTINGS)  # fmt: skip
_count("routing_replicas", "-", "among how many replicas random routing chooses; NULL where turns are sticky, and "
       "where it is as many as scenario_gpus hold", "scenario", nullable=True)  # fmt: skip
_count("scenario_gpus", "GPUs", "GPUs of the operating point; NULL if not fixed", "scenario", nullable=True)
_real("cache_kept_s", "s", "longest pause that a prefix outlives; NULL unless cache_model is ttl", "scenario",
      nullable=True)  # fmt: skip
_real("cache_host_memory_gb_per_gpu", "GB", "host memory behind each GPU's own; NULL unless cache_model is lru",
      "scenario", nullable=True)  # fmt: skip
_text("scenario_source", "where the scenario comes from", "scenario")

# --- star and dictionary --------------------------------------------------------------------------
_text("configuration", "the deployment in words: shape, formats, engine", "star")
_text("table_name", "table of a lake", "dictionary")
_text("column_name", "column of that table", "dictionary")
_text("data_type", "type of the column, as DuckDB names it", "dictionary",
      allowed=("VARCHAR", "BIGINT", "DOUBLE", "BOOLEAN"))  # fmt: skip
_text("unit", "unit of the column; - where it has none", "dictionary")
_flag("nullable", "whether NULL may stand in the column", "dictionary")
_text("description", "what the column means", "dictionary")
_text("origin", "where the figure comes from: an article's step, the input, a catalogue", "dictionary")

# --- accounting -----------------------------------------------------------------------------------
_text("path", "input file, relative to the folder given")
_text("sha256", "hash of the file's bytes as read")
_text("format", "format recognised; NULL where the file was rejected unread", nullable=True)
_text("tool", "tool that wrote the file", nullable=True)
for _name, _meaning in (
    ("rows_read", "data rows in the file"),
    ("rows_accepted", "rows that became serving points"),
    ("rows_duplicate", "rows that say what an earlier row says"),
    ("rows_superseded", "rows that a newer run of the same configuration replaces"),
    ("rows_quarantined", "rows that cannot be right or cannot be used"),
):
    _count(_name, "rows", _meaning, "accounting", at_least=0)
_text("rejected_reason", "why the file was not read; NULL where it was", "accounting", nullable=True)
_text("reason", "why the row is not used", "accounting")
_text("detail", "what is wrong with the row, in words", "accounting")
_text("raw", "the row as read, JSON text", "accounting")
