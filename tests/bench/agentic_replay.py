"""Measured agent runs of DeepSeek-R1 on B200 beside their prediction from measured standard rows.

What the runs themselves do not say stands in the logs that were published with them (SemiAnalysisAI/InferenceX,
experimental/multiturn/vllm_benchmark/results/pareto_input, commit 7181314): ``benchmark_command.txt`` has 1,800 s,
pauses cut to 60 s, contexts up to 128,000 tokens, sessions begun at 0 to 70 % of their life; ``server.log`` has an
FP8 cache, 90 % of the memory, 600 GiB of host memory where offload is on, and no cache hit among the first 24
prompts (no prompt is shared). Pauses, spread of contexts and turns left are those of the traces that were replayed
(callanjfox/kv-cache-tester). Nothing else is taken from the runs.
"""

import os
from pathlib import Path
from typing import Any, Final

import polars as pl

from pipelines.reading.catalogues import load_hardware, load_models
from pipelines.reading.inputs import find_files
from pipelines.reading.read_inputs import read_inputs
from schemas.dtypes import BYTES_PER_KV_ELEMENT
from transforms.agent_points.rows.lookups import add_private_columns
from transforms.agentic import (
    MeasuredSteps,
    Replay,
    Server,
    hit_rate_at_latency,
    most_in_engine,
    predict_replay,
    usable_deployments,
)
from transforms.agentic.steps import Overheads
from transforms.cache import PauseDistribution
from transforms.equations import kv_memory as kv
from transforms.sources.inferencex_facts import weight_formats

SHARED: Final = Path(os.environ.get("AGENT_PARETO_SHARED", Path(__file__).parents[3] / "shared"))
MEASURED: Final = SHARED / "tables" / "measured"
RUNS: Final = MEASURED / "agentic_b200_dsr1"
STANDARD: Final = (MEASURED / "inferencex_api", MEASURED / "fixed")
TRACES: Final = SHARED / "traces" / "weka_requests.csv.gz"
NEEDED: Final = (RUNS, *STANDARD, TRACES)

PLANNED_S: Final = 1800.0
LONGEST_PAUSE_S: Final = 60.0
LONGEST_CONTEXT: Final = 128_000
#: A session begins at 0 to 70 % of its trace.
TURNS_LEFT: Final = 1 - 0.7 / 2
HOST_BYTES: Final = 600 * 2.0**30
KV_DTYPE: Final = "fp8"
#: Of the GPUs' memory, by the server's log.
KEPT: Final = 0.10
#: A whole run gave its last answer at most so long before its end, its turns and pauses make up so much of the
#: sessions' time, and its mean TTFT is at most so many times the median. The others ended early, lost turns or stood
#: still for minutes.
ENDED_EARLY_S: Final = 100.0
ACCOUNTED: Final = 0.85
STALLED: Final = 50.0
#: Pauses are taken as so many values of equal weight.
PAUSES: Final = 32


def compared_runs() -> tuple[pl.DataFrame, list[str]]:
    """One row a run, measured and predicted figures side by side; and what was used and what not, in sentences."""
    hardware, models = load_hardware(), load_models()
    readings = read_inputs(find_files([RUNS, *STANDARD]), hardware, models)
    gpu, spec = hardware.get("b200"), models.get("deepseek-r1")
    c = pl.col
    rows = add_private_columns(
        readings.serving_points.filter(
            c("hardware") == gpu.slug, c("model") == spec.slug, c("serving_mode") == "agg", c("dp") == 1,
            c("draft_tokens") == 0, c("weight_dtype") == "nvfp4", c("kv_dtype") == KV_DTYPE,
        ),
        spec,
        hardware,
    )  # fmt: skip
    workload, notes = traced_workload()
    linear, experts = weight_formats("dsr1", "fp4", gpu.slug, "nvidia/DeepSeek-R1-0528-FP4")
    weights = kv.weights_bytes_per_rank(spec.non_expert_bytes(linear), spec.expert_bytes(experts), 1)
    compared: list[dict[str, Any]] = []
    runs = readings.measured_agentic.sort("tp", "offload_mode", "sessions")
    for (tp,), part in runs.partition_by("tp", as_dict=True, maintain_order=True).items():
        deployments, faults = usable_deployments(rows.filter(c("tp") == tp), spec)
        steps = deployments[0]
        token = float(kv.kv_bytes_on_rank(spec.attention, 1.0, BYTES_PER_KV_ELEMENT[KV_DTYPE], tp))
        memory = float(kv.available_bytes_per_rank(tp, float(gpu.hbm_bytes), KEPT, weights)) / token
        reload_ms = 1e3 * token / tp / gpu.host_link_bytes_per_s
        notes += [f"TP{tp}: {_told(steps)}; memory for {memory / 1e6:.2f} million tokens of KV"]
        notes += [f"  not used: {fault}" for fault in faults]
        for run in part.iter_rows(named=True):
            host = HOST_BYTES / token if run["offload_mode"] == "on" else 0.0
            compared.append(_compare(run, workload, steps, memory, host, reload_ms))
    return pl.DataFrame(compared), notes


def traced_workload() -> tuple[dict[str, Any], list[str]]:
    """Pauses, spread of contexts and turns left, of the replayed traces up to the longest context."""
    c = pl.col
    main = pl.read_csv(TRACES, infer_schema_length=None).filter(c("stream") == "main").sort("trace", "k")
    replayed = main.filter((c("isl") > LONGEST_CONTEXT).cum_max().over("trace").not_())
    pauses = replayed.filter(c("k") > 0)["think"].fill_null(0.0).clip(upper_bound=LONGEST_PAUSE_S)
    sizes = replayed["isl"].cast(pl.Float64).to_numpy()
    turns = TURNS_LEFT * replayed.height / replayed["trace"].n_unique()
    spread = float(sizes.std() / sizes.mean())
    distribution = PauseDistribution.empirical(pauses.to_numpy()).coarse(PAUSES)
    note = (
        f"traces: {replayed.height:,} turns; pauses of {distribution.mean_s:.1f} s on average, contexts "
        f"{sizes.mean():,.0f} tokens +- {spread:.0%}, {turns:.0f} turns left"
    )
    return {"pauses": distribution, "context_spread": spread, "turns": turns}, [note]


def _told(steps: MeasuredSteps) -> str:
    row = steps.row.row(0, named=True)
    return (
        f"from {row['backend']} EP{row['moe_ep']}, loads {', '.join(f'{load:.0f}' for load in steps.batch)}; "
        f"{steps.token_ms * 1e3:.1f} us a prompt token beside attention, {steps.wait_ms:.0f} ms outside the GPUs"
    )


def _compare(
    run: dict[str, Any], workload: dict[str, Any], steps: MeasuredSteps, memory: float, host: float, reload_ms: float
) -> dict[str, Any]:
    """Measured and predicted figures of one run."""
    replay = Replay(
        sessions=run["sessions"],
        duration_s=run["duration_s"],
        input_tokens=run["mean_input_tokens"],
        output_tokens=run["mean_output_tokens"],
        reused_fraction=run["theoretical_cache_hit_rate"],
        **workload,
    )
    tp, latency_s = run["tp"], run["turn_latency_ms"] / 1e3
    resident, behind = run["server_gpu_cache_hit_rate"] or 0.0, run["server_cpu_cache_hit_rate"] or 0.0
    server = Server(steps, memory, host, reload_ms)
    slots = most_in_engine(replay, server)
    figures: dict[str, Any] = {
        "tp": tp,
        "offload": run["offload_mode"],
        "sessions": run["sessions"],
        "whole": _is_whole(run, replay.pauses.mean_s),
        "wall": slots,
        "measured_throughput": run["output_tokens_per_s_per_gpu"],
        "measured_latency_s": latency_s,
        "measured_tpot_ms": run["itl_ms"],
        # the host's rate is of what the GPUs' memory did not have
        "measured_hit_rate": resident + (1 - resident) * behind,
        "hit_rate_at_latency": hit_rate_at_latency(replay, server, latency_s, run["requests_total"]),
    }
    overheads: tuple[Overheads, ...] = ("scaled", "added")
    for name in overheads:
        found = predict_replay(replay, Server(steps, memory, host, reload_ms, name))
        figures |= {
            f"{name}_throughput": found.output_tokens_per_s / tp,
            f"{name}_latency_s": found.turn_latency_s,
            f"{name}_tpot_ms": found.tpot_ms,
            f"{name}_hit_rate": found.hit_rate,
        }
    return figures


def _is_whole(run: dict[str, Any], pause_s: float) -> bool:
    latency_s, sessions = run["turn_latency_ms"] / 1e3, run["sessions"]
    seconds = run["requests_successful"] * (latency_s + pause_s) + sessions * latency_s / 2
    in_time = run["duration_s"] >= PLANNED_S - ENDED_EARLY_S
    accounted = seconds >= ACCOUNTED * sessions * run["duration_s"]
    return bool(in_time and accounted and run["ttft_ms"] <= STALLED * run["ttft_p50_ms"])
