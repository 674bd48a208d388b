"""The commands that start the replicas of a plan, for each engine; what a plan does not know is said in them.

Flags as the parser of vLLM 0.32 takes them, and as documented by SGLang 0.5, TensorRT-LLM 1.3 and Dynamo 1.6.
"""

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from schemas.caches import Routing

Launcher = Literal["vllm", "sglang", "trtllm", "dynamo"]
#: Pools of a replica and what Dynamo and SGLang call them.
_POOLS: Final = ("prefill", "decode")


@dataclass(frozen=True)
class Worker:
    """One engine of a replica: its parallel dimensions and the most sequences that a rank has in flight."""

    role: str | None
    count: int
    tp: int
    pp: int
    dp: int
    ep: int
    sequences_per_rank: int

    @property
    def gpus(self) -> int:
        """GPUs of the worker."""
        return self.tp * self.pp * self.dp


@dataclass(frozen=True)
class Deployment:
    """What a launch says of a plan. ``checkpoint``: a model's name for a hub; None where none is known."""

    workers: tuple[Worker, ...]
    replicas: int
    backend: str
    checkpoint: str | None
    weight_dtype: str
    kv_dtype: str
    longest_context_tokens: int
    prefix_caching: bool
    routing: Routing = "sticky"

    @property
    def model(self) -> str:
        """The checkpoint as one word of a shell, or a placeholder."""
        return shlex.quote(self.checkpoint or "CHECKPOINT")


def deployment_of(
    plan: Mapping[str, Any],
    checkpoint: str | None,
    longest_context_tokens: float,
    prefix_caching: bool,
    routing: Routing = "sticky",
) -> Deployment:
    """The deployment of a plan's row: every session of a replica may be in flight at once."""
    sessions = int(plan["sessions_per_replica"])
    workers: tuple[Worker, ...]
    if plan["serving_mode"] == "agg":
        workers = (_worker(plan, None, "", 1, sessions),)
    else:
        counts = [int(plan[f"{pool}_workers"]) for pool in _POOLS]
        workers = tuple(
            _worker(plan, pool, f"{pool}_", count, sessions) for pool, count in zip(_POOLS, counts, strict=True)
        )
    return Deployment(
        workers, int(plan["replicas"]), plan["backend"], checkpoint, plan["weight_dtype"], plan["kv_dtype"],
        math.ceil(longest_context_tokens), prefix_caching, routing,
    )  # fmt: skip


def _worker(plan: Mapping[str, Any], role: str | None, prefix: str, count: int, sessions: int) -> Worker:
    tp, pp, dp, ep = (int(plan[f"{prefix}{name}"] or 1) for name in ("tp", "pp", "dp", "moe_ep"))
    return Worker(role, count, tp, pp, dp, ep, math.ceil(sessions / (count * dp)))


def launch(deployment: Deployment, launcher: Launcher, about: str = "") -> str:
    """The script: comments on what it is ``about`` and what is not known, then a command for each kind of worker of one
    replica."""
    engine = deployment.backend if launcher == "dynamo" else launcher
    commands = {"vllm": _vllm, "sglang": _sglang, "trtllm": _trtllm}
    if engine not in commands:
        engine = "vllm"
    remarks = [*([about] if about else []), *_remarks(deployment, launcher, engine)]
    lines = ["#!/bin/sh", *map(_comment, remarks)]
    if launcher == "dynamo":
        mode = "kv" if deployment.routing == "sticky" else "random"
        lines += ["", "# once, with etcd and NATS running", f"python3 -m dynamo.frontend --router-mode {mode} &"]
    for worker in deployment.workers:
        role = "" if worker.role is None else f" for {worker.role}"
        each = f"{worker.count} of this{role} in each replica, " if worker.role is not None else ""
        lines += ["", f"# {each}{worker.gpus} GPU{'s' if worker.gpus > 1 else ''} each"]
        lines += commands[engine](deployment, worker, launcher == "dynamo")
    return "\n".join(lines)


def _comment(text: str) -> str:
    """A comment of one line, whatever the names in it hold."""
    return f"# {' '.join(text.split())}"


def _remarks(deployment: Deployment, launcher: Launcher, engine: str) -> list[str]:
    routes = "keeps a session on its replica" if deployment.routing == "sticky" else "sends each turn to any of them"
    several = f"{deployment.replicas:,} replicas as this one, and a load balancer that {routes}"
    remarks = [several] if deployment.replicas > 1 else []
    if engine != deployment.backend:
        remarks.append(f"CHECK: the plan's figures are of {deployment.backend}, not of {engine}")
    if deployment.checkpoint is None:
        remarks.append("NOT KNOWN: the checkpoint; put its path or name in place of CHECKPOINT")
    remarks.append(f"NOT KNOWN: whether the checkpoint is the one with {deployment.weight_dtype} weights")
    remarks.append("NOT KNOWN: the share of GPU memory for KV, tokens of a step, versions; the engine's defaults hold")
    if len(deployment.workers) > 1 and launcher in ("vllm", "trtllm", "sglang"):
        remarks.append("NOT KNOWN: addresses of the pools; the router between prefill and decode is started apart")
    if any(worker.gpus > 8 for worker in deployment.workers):
        remarks.append("NOT KNOWN: hosts; a worker spans more than one node")
    return remarks


def _vllm(deployment: Deployment, worker: Worker, dynamo: bool) -> list[str]:
    program = f"python3 -m dynamo.vllm --model {deployment.model}" if dynamo else f"vllm serve {deployment.model}"
    flags = [
        f"--tensor-parallel-size {worker.tp}",
        *_beyond_one("--pipeline-parallel-size", worker.pp),
        *_beyond_one("--data-parallel-size", worker.dp),
        *(["--enable-expert-parallel"] if worker.ep > 1 else []),
        f"--max-num-seqs {worker.sequences_per_rank}",
        f"--max-model-len {deployment.longest_context_tokens}",
        f"--kv-cache-dtype {'fp8' if deployment.kv_dtype == 'fp8' else 'auto'}",
        "--enable-prefix-caching" if deployment.prefix_caching else "--no-enable-prefix-caching",
    ]
    if worker.role is not None:
        role = {"prefill": "kv_producer", "decode": "kv_consumer"}[worker.role]
        flags.append(
            f"--disaggregation-mode {worker.role}"
            if dynamo
            else f"""--kv-transfer-config '{{"kv_connector": "NixlConnector", "kv_role": "{role}"}}'"""
        )
    return _joined(program, flags)


def _sglang(deployment: Deployment, worker: Worker, dynamo: bool) -> list[str]:
    program = "python3 -m dynamo.sglang" if dynamo else "python3 -m sglang.launch_server"
    flags = [
        f"--model-path {deployment.model}",
        # attention ranks are a part of the tensor-parallel group
        f"--tensor-parallel-size {worker.tp * worker.dp}",
        *_beyond_one("--pipeline-parallel-size", worker.pp),
        *([f"--data-parallel-size {worker.dp}", "--enable-dp-attention"] if worker.dp > 1 else []),
        *_beyond_one("--expert-parallel-size", worker.ep),
        f"--max-running-requests {worker.sequences_per_rank * worker.dp}",
        f"--context-length {deployment.longest_context_tokens}",
        f"--kv-cache-dtype {'fp8_e4m3' if deployment.kv_dtype == 'fp8' else 'auto'}",
        *([] if deployment.prefix_caching else ["--disable-radix-cache"]),
        *([] if worker.role is None else [f"--disaggregation-mode {worker.role}"]),
    ]
    return _joined(program, flags)


def _trtllm(deployment: Deployment, worker: Worker, dynamo: bool) -> list[str]:
    ranks = worker.tp * worker.dp
    options = f"{worker.role or 'engine'}.yaml"
    settings = [
        f"tensor_parallel_size: {ranks}",
        f"pipeline_parallel_size: {worker.pp}",
        f"moe_expert_parallel_size: {worker.ep}",
        f"enable_attention_dp: {str(worker.dp > 1).lower()}",
        f"max_batch_size: {worker.sequences_per_rank}",
        f"max_seq_len: {deployment.longest_context_tokens}",
        "kv_cache_config:",
        f"  dtype: {'fp8' if deployment.kv_dtype == 'fp8' else 'auto'}",
        f"  enable_block_reuse: {str(deployment.prefix_caching).lower()}",
    ]
    if worker.role is not None:
        # a buffer smaller than the longest prompt can leave workers waiting for a transfer that never comes
        buffer = f"  max_tokens_in_buffer: {deployment.longest_context_tokens}"
        settings += ["cache_transceiver_config:", "  backend: DEFAULT", buffer]
        settings += ["disable_overlap_scheduler: true"] if worker.role == "prefill" else []
    if dynamo:
        program = f"python3 -m dynamo.trtllm --model-path {deployment.model}"
        flags = [f"--extra-engine-args {options}"]
        flags += [] if worker.role is None else [f"--disaggregation-mode {worker.role}"]
    else:
        program = f"trtllm-serve {deployment.model}"
        flags = [f"--tp_size {ranks}", f"--pp_size {worker.pp}", f"--ep_size {worker.ep}"]
        flags += [f"--extra_llm_api_options {options}"]
    return [f"cat > {options} <<'END'", *settings, "END", *_joined(program, flags)]


def _beyond_one(flag: str, count: int) -> list[str]:
    return [f"{flag} {count}"] if count > 1 else []


def _joined(program: str, flags: list[str]) -> list[str]:
    return [f"{program} \\", *(f"  {flag} \\" for flag in flags[:-1]), f"  {flags[-1]}"]
