"""The golden table: parameters and stored bytes of the shipped models against published figures.

Grades. ``exact``: sums of the tensors of the published checkpoint, from its index, its file headers or the
parameter count of its repository page; equal to the last digit. ``reference``: the parameters that the
reference implementation allocates (transformers 5.24, no weights loaded), correction biases added, which it
keeps as buffers. ``card``: a model card's rounded figure; equal after rounding.
"""

from dataclasses import dataclass
from typing import Literal

import pytest

from pipelines.reading.catalogues import load_models
from schemas.models import ModelSpec

Figure = Literal["total", "active", "with_drafts", "weight_bytes", "language", "language_bytes", "vision"]


@dataclass(frozen=True)
class Golden:
    """One published figure. ``beside`` is what the published figure counts and the catalogue does not."""

    slug: str
    figure: Figure
    published: int
    source: str
    grade: Literal["exact", "reference"] = "exact"
    beside: int = 0


GOLDENS = (
    Golden("llama-3-1-8b", "total", 8_030_261_248, "meta-llama/Llama-3.1-8B, safetensors parameter count"),
    Golden("llama-3-1-8b", "weight_bytes", 16_060_522_496, "meta-llama/Llama-3.1-8B, index total_size"),
    Golden("llama-3-1-70b", "total", 70_553_706_496, "meta-llama/Llama-3.1-70B, safetensors parameter count"),
    Golden("llama-3-1-70b", "weight_bytes", 141_107_412_992, "Llama-3.1-70B-Instruct, index total_size"),
    Golden("llama-3-1-405b", "total", 405_853_388_800, "LlamaForCausalLM, 8 KV heads", "reference"),
    Golden("llama-3-1-405b", "weight_bytes", 811_706_777_600, "Llama-3.1-405B, index total_size"),
    Golden("llama-3-3-70b", "total", 70_553_706_496, "Llama-3.3-70B-Instruct, safetensors parameter count"),
    Golden(
        "llama-4-scout",
        "total",
        108_641_793_536,
        "Llama-4-Scout-17B-16E-Instruct, safetensors parameter count; vision tower and projector apart",
        beside=871_932_416,
    ),
    Golden("llama-4-scout", "total", 107_769_861_120, "Llama4ForCausalLM", "reference"),
    Golden(
        "llama-4-maverick",
        "total",
        401_583_781_376,
        "Llama-4-Maverick-17B-128E-Instruct, safetensors parameter count; vision tower and projector apart",
        beside=871_932_416,
    ),
    Golden("mixtral-8x7b", "total", 46_702_792_704, "Mixtral-8x7B-v0.1, safetensors parameter count"),
    Golden("mixtral-8x7b", "weight_bytes", 93_405_585_408, "Mixtral-8x7B-v0.1, index total_size"),
    Golden("mixtral-8x22b", "total", 140_620_634_112, "Mixtral-8x22B-v0.1, safetensors parameter count"),
    Golden("qwen3-0-6b", "total", 596_049_920, "Qwen3ForCausalLM, tied embeddings", "reference"),
    Golden("qwen3-32b", "total", 32_762_123_264, "Qwen/Qwen3-32B, safetensors parameter count"),
    Golden("qwen3-32b", "weight_bytes", 65_524_246_528, "Qwen/Qwen3-32B, index total_size"),
    Golden("qwen3-30b-a3b", "total", 30_532_122_624, "Qwen/Qwen3-30B-A3B, safetensors parameter count"),
    Golden("qwen3-235b-a22b", "total", 235_093_634_560, "Qwen/Qwen3-235B-A22B, safetensors parameter count"),
    Golden("qwen3-coder-480b-a35b", "total", 480_154_875_392, "Qwen3-Coder-480B-A35B, safetensors parameter count"),
    Golden("qwen3-5-397b-a17b", "language", 396_346_350_336, "Qwen/Qwen3.5-397B-A17B, headers of 94 files, text"),
    Golden(
        "qwen3-5-397b-a17b",
        "with_drafts",
        403_397_928_944,
        "Qwen/Qwen3.5-397B-A17B, safetensors parameter count",
    ),
    Golden("qwen3-5-397b-a17b", "language_bytes", 792_692_717_952, "Qwen/Qwen3.5-397B-A17B, headers of 94 files, text"),
    Golden("qwen3-5-27b", "language", 26_895_998_464, "Qwen3_5ForCausalLM", "reference"),
    Golden("qwen3-5-35b-a3b", "language", 34_660_610_688, "Qwen3_5MoeForCausalLM", "reference"),
    Golden("qwen3-5-122b-a10b", "language", 122_111_526_912, "Qwen3_5MoeForCausalLM", "reference"),
    Golden("deepseek-v3", "total", 671_026_419_200, "deepseek-ai/DeepSeek-V3, headers of 163 files, main model"),
    Golden("deepseek-v3", "active", 37_552_297_472, "both embeddings counted; without the input one 36,625,618,432"),
    Golden(
        "deepseek-r1",
        "with_drafts",
        684_489_845_504,
        "deepseek-ai/DeepSeek-R1, safetensors parameter count; the draft's copies of both embeddings apart",
        beside=2 * 129_280 * 7_168,
    ),
    Golden(
        "deepseek-v3-2",
        "with_drafts",
        685_355_329_792,
        "deepseek-ai/DeepSeek-V3.2, safetensors parameter count; the draft's copies of both embeddings apart",
        beside=2 * 129_280 * 7_168,
    ),
    Golden(
        "deepseek-v4-flash", "total", 284_332_240_471, "deepseek-ai/DeepSeek-V4-Flash, headers of 46 files, main model"
    ),
    Golden(
        "deepseek-v4-flash",
        "with_drafts",
        290_944_616_402,
        "deepseek-ai/DeepSeek-V4-Flash, safetensors element count; three hash tables apart",
        beside=3 * 129_280 * 6,
    ),
    Golden(
        "deepseek-v4-flash",
        "weight_bytes",
        156_015_698_140,
        "deepseek-ai/DeepSeek-V4-Flash, headers of 46 files, main model with scales and hash tables",
    ),
    Golden(
        "deepseek-v4-pro", "total", 1_572_997_201_763, "deepseek-ai/DeepSeek-V4-Pro, headers of 64 files, main model"
    ),
    Golden(
        "deepseek-v4-pro",
        "with_drafts",
        1_598_839_674_782,
        "deepseek-ai/DeepSeek-V4-Pro, safetensors element count; three hash tables apart",
        beside=3 * 129_280 * 6,
    ),
    Golden(
        "deepseek-v4-pro",
        "weight_bytes",
        850_748_205_004,
        "deepseek-ai/DeepSeek-V4-Pro, headers of 64 files, main model with scales and hash tables",
    ),
    Golden("gemma-3-27b", "total", 27_432_406_640, "google/gemma-3-27b-it, safetensors parameter count"),
    Golden("kimi-linear-48b-a3b", "total", 49_122_681_728, "moonshotai/Kimi-Linear-48B-A3B-Instruct, parameter count"),
    Golden("kimi-k2", "total", 1_026_408_232_448, "moonshotai/Kimi-K2-Instruct, headers of 61 files"),
    Golden(
        "kimi-k2-thinking",
        "weight_bytes",
        594_205_920_512,
        "moonshotai/Kimi-K2-Thinking, headers of 62 files; rotary tables of 256 bytes a layer apart",
        beside=61 * 256,
    ),
    Golden(
        "kimi-k2-5",
        "total",
        1_026_879_376_368,
        "moonshotai/Kimi-K2.5, headers of 64 files",
    ),
    Golden(
        "kimi-k2-5",
        "weight_bytes",
        595_148_192_736,
        "moonshotai/Kimi-K2.5, headers of 64 files",
    ),
    Golden("gpt-oss-20b", "total", 20_914_757_184, "GptOssForCausalLM", "reference"),
    Golden("gpt-oss-20b", "weight_bytes", 13_761_264_768, "openai/gpt-oss-20b, index total_size"),
    Golden("gpt-oss-120b", "total", 116_829_156_672, "openai/gpt-oss-120b, parameter count"),
    Golden("gpt-oss-120b", "weight_bytes", 65_248_815_744, "openai/gpt-oss-120b, index total_size"),
    Golden("minimax-m2-5", "total", 228_689_764_864, "MiniMaxAI/MiniMax-M2, safetensors parameter count"),
    Golden(
        "minimax-m2-5",
        "total",
        228_703_644_928,
        "MiniMaxAI/MiniMax-M2.5, safetensors element count; block scales apart",
        beside=13_880_064,
    ),
    Golden("glm-5", "with_drafts", 753_864_139_008, "zai-org/GLM-5, safetensors parameter count"),
    Golden("glm-5-2", "with_drafts", 753_329_940_480, "zai-org/GLM-5.2, safetensors parameter count"),
    Golden(
        "gemma-4-26b-a4b",
        "total",
        25_805_933_872,
        "google/gemma-4-26B-A4B, index total_parameters",
    ),
    Golden("gemma-4-31b", "language", 30_697_345_280, "Gemma4ForConditionalGeneration, language model", "reference"),
    Golden("nemotron-h-56b", "total", 56_324_350_464, "NemotronHForCausalLM", "reference"),
    Golden(
        "nemotron-3-nano-30b-a3b",
        "total",
        31_577_937_344 + 23 * 128,
        "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16, index total_parameters, which leaves the 23 correction biases out",
    ),
    Golden(
        "nemotron-3-super-120b-a12b",
        "with_drafts",
        123_611_012_096 + 41 * 512,
        "NVIDIA-Nemotron-3-Super-120B-A12B-BF16, BF16 and F32 elements of the index",
    ),
    Golden("nemotron-3-ultra-550b-a55b", "total", 549_308_968_960 + 48 * 512, "NemotronHForCausalLM", "reference"),
    Golden(
        "llama-3-3-nemotron-super-49b",
        "total",
        49_867_145_216,
        "nvidia/Llama-3_3-Nemotron-Super-49B-v1, safetensors parameter count",
    ),
    Golden("mimo-7b", "with_drafts", 7_833_409_536, "XiaomiMiMo/MiMo-7B-Base, safetensors parameter count"),
    Golden("mimo-v2-flash", "total", 308_778_768_832 + 47 * 256, "MiMoV2FlashForCausalLM", "reference"),
)

#: Model cards: total parameters, active ones and half a unit of the last printed digit of these, in 10^9.
#: Some cards count the input embedding among the active parameters and some do not.
CARDS = {
    "llama-4-scout": (109, 17, 0.5),
    "llama-4-maverick": (400, 17, 0.5),
    "mixtral-8x7b": (46.7, 12.9, 0.05),
    "qwen3-30b-a3b": (30.5, 3.3, 0.05),
    "qwen3-235b-a22b": (235, 22, 0.5),
    "qwen3-5-397b-a17b": (397, 17, 0.5),
    "minimax-m3": (428, 23, 2.0),
    "kimi-k3": (2800, 104, 1.0),
    "nemotron-3-5-lightning-30b-a3b": (31.6, 3.6, 0.4),
    "deepseek-v3": (671, 37, 0.5),
    "deepseek-v4-flash": (284, 13, 0.5),
    "deepseek-v4-pro": (1600, 49, 0.5),
    "kimi-k2-5": (1000, 32, 0.5),
    "gpt-oss-20b": (20.9, 3.6, 0.05),
    "gpt-oss-120b": (116.8, 5.1, 0.05),
    "minimax-m2-5": (230, 10, 0.5),
    "glm-5": (744, 40, 1.0),
    "gemma-4-26b-a4b": (25.2, 3.8, 0.05),
    "nemotron-3-super-120b-a12b": (120, 12, 0.5),
    "nemotron-3-ultra-550b-a55b": (550, 55, 0.5),
    "mimo-v2-flash": (309, 15, 0.5),
}


def figure(spec: ModelSpec, name: Figure) -> int:
    match name:
        case "total":
            return spec.parameters_total
        case "active":
            return spec.parameters_active
        case "with_drafts":
            return spec.parameters_total + spec.parameters.mtp
        case "weight_bytes":
            return spec.weight_bytes
        case "language":
            return spec.parameters_total - spec.parameters.vision
        case "language_bytes":
            return spec.weight_bytes - spec.stored_bytes.vision
        case "vision":
            return spec.parameters.vision


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: f"{golden.slug}-{golden.figure}-{golden.grade}")
def test_figure_is_the_published_one(golden: Golden) -> None:
    spec = load_models().find(golden.slug)
    assert figure(spec, golden.figure) + golden.beside == golden.published, golden.source


@pytest.mark.parametrize("slug", CARDS)
def test_rounds_to_the_model_card(slug: str) -> None:
    spec = load_models().find(slug)
    total, active, rounding = CARDS[slug]
    without_input = (spec.parameters_active - spec.parameters.embedding) / 1e9
    assert spec.parameters_total / 1e9 == pytest.approx(total, rel=0.03)
    assert without_input - rounding <= active <= spec.parameters_active / 1e9 + rounding


def test_the_issues_families_are_all_in_the_table() -> None:
    families = (
        "llama-3-1", "llama-4", "qwen3-32b", "qwen3-235b", "qwen3-5", "deepseek-v3", "deepseek-v3-2",
        "deepseek-v4", "kimi-k2-5", "gpt-oss", "minimax-m2-5", "glm-5", "gemma-4", "mixtral", "nemotron-h",
    )  # fmt: skip
    covered = {golden.slug for golden in GOLDENS}
    for family in families:
        assert any(slug.startswith(family) for slug in covered), family


def test_every_part_adds_up() -> None:
    for spec in load_models():
        assert (
            spec.parameters_total
            == spec.parameters.non_expert + spec.parameters.routed_experts + spec.parameters.vision
        )
        assert spec.stored_bytes.vision == 2 * spec.parameters.vision
        stored = spec.stored_bytes
        assert spec.weight_bytes == stored.non_expert + stored.routed_experts + stored.vision
        if spec.moe is not None:
            assert spec.parameters.routed_experts % spec.moe.experts == 0, spec.slug
            assert spec.moe.layers <= spec.layers
        assert sum(group.layers for group in spec.attention) <= spec.layers
