"""What an InferenceX row does not say and its public recipes do: formats of weights and KV cache.

Read from github.com/SemiAnalysisAI/InferenceX; ``source`` names the file or change of each fact, whoever
checks them anew. A row for which there is no fact is not guessed at.
"""

from dataclasses import dataclass
from typing import Final

#: Lengths are drawn evenly between 0.8 and 1 of the nominal ones (``RANDOM_RANGE_RATIO: 0.8`` in
#: .github/workflows/benchmark-tmpl.yml): 0.9 on average. A run of exact lengths has 1.
MEAN_SHARES: Final = (0.9, 1.0)
#: Families of hardware of one vendor: the others are NVIDIA's.
AMD: Final = ("mi300x", "mi325x", "mi355x", "mi350x", "mi455x")


@dataclass(frozen=True)
class WeightFact:
    """Formats in which a model (by its InferenceX prefix) is served at a named precision."""

    prefix: str
    precision: str
    vendor: str | None  #: None: on all hardware
    linear: str  #: attention, dense MLP, shared experts
    experts: str  #: routed experts; on a dense model the same
    source: str


@dataclass(frozen=True)
class KvFact:
    """Format of the KV cache of a recipe. ``None``: whatever the row has."""

    prefix: str
    frameworks: tuple[str, ...]
    families: tuple[str, ...] | None
    precision: str | None
    kv_dtype: str
    source: str
    since: str = ""  #: first day, ISO; the last fact that began by the day of the run holds


_FP4_NOTE: Final = "attention is left out of quantisation"
WEIGHT_FACTS: Final = (
    WeightFact("dsr1", "fp8", None, "fp8-block", "fp8-block", "deepseek-ai/DeepSeek-R1-0528 config.json"),
    WeightFact("dsr1", "fp4", "NVIDIA", "bf16", "nvfp4",
               f"nvidia/DeepSeek-R1-0528-NVFP4 hf_quant_config.json: {_FP4_NOTE}"),
    WeightFact("dsr1", "fp4", "AMD", "bf16", "mxfp4", f"amd/DeepSeek-R1-0528-MXFP4 README.md: {_FP4_NOTE}"),
    WeightFact("llama70b", "fp4", "NVIDIA", "nvfp4", "nvfp4", "benchmarks/70b_fp4_b200_docker.sh: nvidia/...-FP4"),
    WeightFact("llama70b", "fp4", "AMD", "mxfp4", "mxfp4", "benchmarks/70b_fp4_mi355x_slurm.sh: amd/...-MXFP4-Preview"),
    WeightFact("gptoss", "fp4", None, "bf16", "mxfp4", "openai/gpt-oss-120b config.json"),
    WeightFact("gptoss120b", "fp4", None, "bf16", "mxfp4", "openai/gpt-oss-120b config.json"),
    WeightFact("kimik2.5", "int4", None, "bf16", "int4", "moonshotai/Kimi-K2.5 config.json"),
    WeightFact("kimik2.5", "fp4", "NVIDIA", "bf16", "nvfp4", "nvidia/Kimi-K2.5-NVFP4 hf_quant_config.json"),
    WeightFact("minimaxm2.5", "fp8", None, "fp8-block", "fp8-block", "MiniMaxAI/MiniMax-M2.5 config.json"),
    WeightFact("glm5", "fp8", None, "fp8-block", "fp8-block", "zai-org/GLM-5-FP8 config.json"),
    WeightFact("qwen3.5", "fp8", None, "fp8-block", "fp8-block", "Qwen/Qwen3.5-397B-A17B-FP8 config.json"),
)  # fmt: skip

_DYNAMO_RECIPES: Final = "benchmarks/multi_node/srt-slurm-recipes/dsr1"
KV_FACTS: Final = (
    KvFact("dsr1", ("trt",), None, None, "fp8", "benchmarks/dsr1_fp8_h200_trt.sh, dsr1_fp4_b200_trt.sh: dtype fp8"),
    KvFact("dsr1", ("dynamo-trt",), None, None, "fp8", f"{_DYNAMO_RECIPES}/trtllm/h200-fp8/8k1k: dtype fp8"),
    KvFact("dsr1", ("atom",), None, None, "fp8", "benchmarks/dsr1_fp8_mi355x_atom.sh, dsr1_fp4_mi355x_atom.sh: fp8"),
    KvFact("dsr1", ("mori-sglang", "sglang-disagg"), None, None, "fp8", "multi_node/amd_utils/models.yaml: fp8_e4m3"),
    KvFact("dsr1", ("dynamo-sglang",), ("b200", "b300", "gb200", "gb300"), None, "fp8",
           f"{_DYNAMO_RECIPES}/sglang/gb200-fp8/1k1k, gb300-fp4/1k1k, b200-fp8/8k1k: fp8_e4m3"),
    KvFact("dsr1", ("dynamo-sglang",), ("h100", "h200"), None, "bf16",
           f"{_DYNAMO_RECIPES}/sglang/h100-fp8/1k1k, h200-fp8/1k1k: none given, the checkpoint's"),
    KvFact("dsr1", ("sglang",), ("b200", "b300"), None, "fp8",
           "benchmarks/dsr1_fp8_b200.sh, dsr1_fp4_b200.sh: fp8_e4m3"),
    KvFact("dsr1", ("sglang",), ("h200",), None, "bf16", "benchmarks/dsr1_fp8_h200.sh: none given, the checkpoint's"),
    KvFact("dsr1", ("sglang",), ("mi355x",), "fp4", "fp8", "benchmarks/dsr1_fp4_mi355x.sh: fp8_e4m3"),
    KvFact("dsr1", ("sglang",), ("mi355x",), "fp8", "bf16", "benchmarks/dsr1_fp8_mi355x.sh (2026-02): none given"),
    KvFact("dsr1", ("sglang",), ("mi355x",), "fp8", "fp8", "pull request 865: kv-cache-fp8", since="2026-03-05"),
    KvFact("dsr1", ("sglang",), ("mi300x", "mi325x"), "fp8", "bf16", "before pull requests 544 and 545: none given"),
    KvFact("dsr1", ("sglang",), ("mi300x", "mi325x"), "fp8", "fp8", "pull requests 544, 545", since="2026-01-23"),
    KvFact("llama70b", ("vllm",), None, None, "fp8", "benchmarks/70b_fp8_h200_slurm.sh, 70b_fp4_b200_docker.sh, "
           "70b_fp4_mi355x_slurm.sh: fp8"),
    KvFact("kimik2.5", ("vllm",), None, "int4", "bf16", "benchmarks/single_node/kimik2.5_int4_mi355x.sh: none given"),
)  # fmt: skip

#: Precisions that are a storage format by name.
_PLAIN: Final = {
    "bf16": "bf16", "fp16": "fp16", "fp8": "fp8", "int8": "int8", "int4": "int4", "nvfp4": "nvfp4", "mxfp4": "mxfp4",
}  # fmt: skip
_EIGHT_BITS_OR_MORE: Final = ("bf16", "fp16", "fp8", "int8")


def hardware_family(name: str | None) -> str:
    """The GPU of a runner's name, for looking up facts: ``H200-nv_3`` is of ``h200``."""
    return (name or "").casefold().removeprefix("cluster:").partition("-")[0].partition("_")[0]


def weight_formats(prefix: str, precision: str, family: str, path: str | None) -> tuple[str | None, str | None]:
    """(linear, experts) in which the weights are stored; None where neither row nor facts say.

    ``fp4`` names two formats of different size: the checkpoint's path or the vendor tells them apart. A 4-bit
    format without a fact may be that of the experts alone: then ``linear`` is not known.
    """
    vendor = "AMD" if family in AMD else "NVIDIA"
    word = precision
    if precision == "fp4" and path:
        spelled = path.upper()
        word = "nvfp4" if "NVFP4" in spelled else "mxfp4" if "MXFP4" in spelled else precision
    for fact in WEIGHT_FACTS:
        named = word == fact.precision or (fact.precision == "fp4" and word == fact.experts)
        if named and fact.prefix == prefix and fact.vendor in (None, vendor):
            return fact.linear, fact.experts
    plain = _PLAIN.get(word)
    return (plain if plain in _EIGHT_BITS_OR_MORE else None), plain


def kv_format(prefix: str, framework: str, precision: str, family: str, day: str | None) -> str | None:
    """The KV format of the recipe that the run used, the newest recipe's where the run has no day; None if unknown."""
    found = None
    for fact in KV_FACTS:
        if (
            fact.prefix == prefix
            and framework in fact.frameworks
            and (fact.families is None or family in fact.families)
            and fact.precision in (None, precision)
            and (day is None or fact.since <= day)
        ):
            found = fact.kv_dtype
    return found
