"""Made agent runs: what an engine of known parameters would report, as InferenceX writes it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from schemas.arrays import Array
from tests.calibration.made import facts_of, parameters
from transforms.agentic import Replay, Server, predict_replay
from transforms.cache import PauseDistribution
from transforms.calibration.agents import AgentSteps

#: The memory that the catalogue says of Llama-3.1-70B in FP8 on four H200, KV in 16 bits.
MEMORY_TOKENS = 1_390_000.0
TRUTH: Array = parameters(step_s=8e-3, prefill_fraction=0.4, attention_fraction=0.12, kv_read_fraction=0.6)
REPLAY = Replay(
    sessions=1.0, duration_s=1_800.0, input_tokens=60_000.0, output_tokens=600.0, reused_fraction=0.96, turns=60.0,
    pauses=PauseDistribution.empirical(-12.0 * np.log1p(-(np.arange(32) + 0.5) / 32)), context_spread=0.4,
)  # fmt: skip


def write_runs(folder: Path, *sessions: float, logs: Array = TRUTH) -> None:
    """One file for each number of sessions."""
    folder.mkdir(exist_ok=True)
    for number in sessions:
        found = predict_replay(replace(REPLAY, sessions=number), Server(AgentSteps(facts_of(), logs), MEMORY_TOKENS))
        requests = round(found.turns_per_s * REPLAY.duration_s)
        rate = requests / REPLAY.duration_s
        run = {
            "hw": "h200", "conc": number, "image": "vllm/vllm-openai:v0.19.1", "framework": "vllm",
            "model": "meta-llama/Llama-3.1-70B-Instruct", "infmax_model_prefix": "llama70b", "precision": "fp8",
            "spec_decoding": "none", "disagg": False, "scenario_type": "agentic-coding", "is_multinode": False,
            "tp": 4, "ep": 1, "dp_attention": "false", "offloading": "none", "num_requests_total": requests,
            "num_requests_successful": requests, "mean_input_tokens": REPLAY.input_tokens,
            "mean_output_tokens_actual": REPLAY.output_tokens, "duration_seconds": REPLAY.duration_s,
            "mean_ttft": found.turn_latency_s - found.tpot_ms / 1e3 * 599, "mean_e2el": found.turn_latency_s,
            "mean_itl": found.tpot_ms / 1e3, "server_gpu_cache_hit_rate": found.hit_rate,
            "theoretical_cache_hit_rate": 0.96, "server_cpu_cache_hit_rate": None,
            "input_tput_tps": rate * 60_000.0, "output_tput_tps": rate * 600.0, "total_tput_tps": rate * 60_600.0,
        }  # fmt: skip
        (folder / f"run_{number:03.0f}.json").write_text(json.dumps(run))
