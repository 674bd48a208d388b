"""The families of models that are known to the byte, by ``model_type``."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from schemas.errors import UserError
from schemas.suggest import did_you_mean
from transforms.model_config.assembly import Architecture
from transforms.model_config.families import (
    deepseek_v4,
    dense,
    hybrid,
    kimi_linear,
    latent,
    mixtures,
    step,
    windowed,
)
from transforms.model_config.raw import RawConfig

Builder = Callable[[RawConfig], Architecture]

FAMILIES: Mapping[str, Builder] = MappingProxyType(
    {
        "deepseek_v2": latent.deepseek_v2,
        "deepseek_v3": latent.deepseek_v3,
        "deepseek_v32": latent.deepseek_v32,
        "deepseek_v4": deepseek_v4.deepseek_v4,
        "gemma3": dense.gemma3,
        "gemma3_text": dense.gemma3,
        "gemma4": windowed.gemma4,
        "gemma4_text": windowed.gemma4,
        "glm4_moe": mixtures.glm4_moe,
        "glm_moe_dsa": latent.deepseek_v32,
        "gpt_oss": windowed.gpt_oss,
        "kimi_k2": latent.deepseek_v3,
        "kimi_linear": kimi_linear.kimi_linear,
        "llama": dense.llama,
        "llama4": windowed.llama4,
        "llama4_text": windowed.llama4,
        "mimo": dense.mimo,
        "mimo_v2_flash": windowed.mimo_v2,
        "minimax_m2": mixtures.minimax_m2,
        "minimax_m3": mixtures.minimax_m3,
        "minimax_m3_vl": mixtures.minimax_m3,
        "mistral": dense.mistral,
        "mixtral": mixtures.mixtral,
        "nemotron-nas": dense.nemotron_nas,
        "nemotron_h": hybrid.nemotron_h,
        "phi": dense.phi,
        "qwen2": dense.qwen2,
        "qwen2_moe": mixtures.qwen2_moe,
        "qwen3": dense.qwen3,
        "qwen3_5": hybrid.qwen3_5,
        "qwen3_5_moe": hybrid.qwen3_5,
        "qwen3_5_moe_text": hybrid.qwen3_5,
        "qwen3_5_text": hybrid.qwen3_5,
        "qwen3_moe": mixtures.qwen3_moe,
        "qwen3_next": hybrid.qwen_next,
        "qwen3_vl": dense.qwen3,
        "qwen3_vl_moe": mixtures.qwen3_moe,
        "qwen3_vl_moe_text": mixtures.qwen3_moe,
        "qwen3_vl_text": dense.qwen3,
        "step3p5": step.step3p5,
        "step3p7": step.step3p5,
    }
)

#: Repackagings that name a model type of their own but the architecture of a known one.
BY_ARCHITECTURE: Mapping[str, str] = MappingProxyType({"DeepseekV4ForCausalLM": "deepseek_v4"})


def build(config: RawConfig) -> Architecture:
    """The architecture of a config. Raises ``UserError`` that names an unknown ``model_type``."""
    model_type = config.text("model_type")
    if model_type not in FAMILIES:
        architectures = config.items("architectures") or []
        model_type = next((BY_ARCHITECTURE[name] for name in architectures if name in BY_ARCHITECTURE), model_type)
    if model_type not in FAMILIES:
        raise UserError(
            f"config.json of {config.model}: the model type {model_type!r} is not known, so its parameters and"
            f" its cache would be a guess.{did_you_mean(model_type, FAMILIES)} Known: {', '.join(FAMILIES)}."
        )
    return FAMILIES[model_type](config)
