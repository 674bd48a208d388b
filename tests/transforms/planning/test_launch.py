"""Launches: each flag is one that the engine has, and vLLM's own parser takes them where it is there."""

import os
import re
import shlex
import subprocess
from itertools import product
from typing import Any, Final

import pytest
import yaml

from transforms.planning.launch import Launcher, deployment_of, launch

#: Flags that the engines have: vLLM 0.32's parser; the documentation of SGLang 0.5 (server arguments), TensorRT-LLM 1.3
#: (trtllm-serve) and Dynamo 1.6 (configuration of its backends and frontend).
FLAGS: Final = {
    "vllm serve": {
        "--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size", "--enable-expert-parallel",
        "--max-num-seqs", "--max-model-len", "--kv-cache-dtype", "--enable-prefix-caching",
        "--no-enable-prefix-caching", "--kv-transfer-config",
    },
    "sglang.launch_server": {
        "--model-path", "--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size",
        "--enable-dp-attention", "--expert-parallel-size", "--max-running-requests", "--context-length",
        "--kv-cache-dtype", "--disable-radix-cache", "--disaggregation-mode",
    },
    "trtllm-serve": {"--tp_size", "--pp_size", "--ep_size", "--extra_llm_api_options"},
}  # fmt: skip
FLAGS_OF_DYNAMO: Final = {
    "dynamo.vllm": FLAGS["vllm serve"] | {"--model", "--disaggregation-mode"},
    "dynamo.sglang": FLAGS["sglang.launch_server"],
    "dynamo.trtllm": {"--model-path", "--extra-engine-args", "--disaggregation-mode"},
    "dynamo.frontend": {"--router-mode"},
}
#: Keys of TensorRT-LLM's options file.
SETTINGS: Final = {
    "tensor_parallel_size", "pipeline_parallel_size", "moe_expert_parallel_size", "enable_attention_dp",
    "max_batch_size", "max_seq_len", "kv_cache_config", "cache_transceiver_config", "disable_overlap_scheduler",
}  # fmt: skip
LAUNCHERS: Final[tuple[Launcher, ...]] = ("vllm", "sglang", "trtllm", "dynamo")
#: A Python that has vLLM.
VLLM = os.environ.get("AGENT_PARETO_VLLM")


def plans() -> list[dict[str, Any]]:
    """Dense and of experts, one pool and two, one rank and several, each KV type."""
    found: list[dict[str, Any]] = []
    for kv_dtype, backend in product(("bf16", "fp8"), ("vllm", "sglang", "trtllm")):
        common: dict[str, Any] = {"sessions_per_replica": 50, "replicas": 3, "backend": backend, "kv_dtype": kv_dtype}
        common["weight_dtype"] = "fp8"
        for tp, pp, dp, ep in ((4, 1, 1, 1), (1, 2, 8, 8)):
            found.append({**common, "serving_mode": "agg", "tp": tp, "pp": pp, "dp": dp, "moe_ep": ep})
        pools = {
            f"{pool}_{name}": value
            for pool, values in (("prefill", (2, 2, 1, 1, None)), ("decode", (1, 4, 1, 2, 4)))
            for name, value in zip(("workers", "tp", "pp", "dp", "moe_ep"), values, strict=True)
        }
        found.append({**common, "serving_mode": "disagg", **pools})
    return found


def commands(script: str) -> list[list[str]]:
    """The words of each command that starts a server."""
    whole = script.replace("\\\n", " ")
    return [
        shlex.split(line.removesuffix("&"))
        for line in whole.splitlines()
        if line.startswith(("vllm serve", "trtllm-serve", "python3 -m"))
    ]


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("number", range(len(plans())))
def test_every_flag_is_one_of_the_engine(launcher: Launcher, number: int) -> None:
    plan = plans()[number]
    script = launch(deployment_of(plan, "org/model", 20_523.2, prefix_caching=number % 2 == 0), launcher)
    found = commands(script)
    assert found
    for words in found:
        program = " ".join(words[:2]) if words[0] == "vllm" else words[0] if words[0] == "trtllm-serve" else words[2]
        known = (FLAGS | FLAGS_OF_DYNAMO)[program]
        assert {word for word in words if word.startswith("--")} <= known
    for content in re.findall(r"<<'END'\n(.*?)^END$", script, re.DOTALL | re.MULTILINE):
        assert set(yaml.safe_load(content)) <= SETTINGS
    assert subprocess.run(["sh", "-n"], input=script, text=True, check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(VLLM is None, reason="AGENT_PARETO_VLLM names no Python that has vLLM")
def test_vllm_parses_its_commands() -> None:
    """With the parser of its server, which starts nothing."""
    scripts = [launch(deployment_of(plan, "org/model", 20_000.0, True), "vllm") for plan in plans()]
    arguments = [words[3:] for script in scripts for words in commands(script)]
    program = f"""
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = make_arg_parser(FlexibleArgumentParser())
for each in {arguments!r}:
    parsed = parser.parse_args(each)
    assert parsed.max_model_len == 20_000
"""
    assert VLLM is not None
    subprocess.run([VLLM, "-c", program], check=True, timeout=300)
