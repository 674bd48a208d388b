"""The shipped catalogue: equal to what the parser derives from the configs, names that tables use."""

import importlib.util
import os
from pathlib import Path

import pytest

from pipelines.reading.catalogues import SHIPPED, load_models
from pipelines.reading.model_configs import HEADER, config_file_of, derive_model, refreshed_models
from schemas.models import ModelSpec
from schemas.slugs import is_slug
from tests.models import configs
from transforms.model_config import read_model_config
from transforms.model_config.serialise import to_yaml


def model_configs() -> Path:
    """The folder of configs: AGENT_PARETO_MODEL_CONFIGS, or that of an installed aiconfigurator-core."""
    given = os.environ.get("AGENT_PARETO_MODEL_CONFIGS")
    if given is not None:
        return Path(given)
    package = importlib.util.find_spec("aiconfigurator_core")
    if package is None or not package.submodule_search_locations:
        pytest.skip("aiconfigurator-core is not installed; set AGENT_PARETO_MODEL_CONFIGS to its model_configs folder")
    return Path(package.submodule_search_locations[0]) / "model_configs"


SPECS = tuple(load_models())


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.slug)
def test_figures_are_those_of_the_config(spec: ModelSpec) -> None:
    folder = model_configs()
    if not config_file_of(spec.source, folder).exists():
        pytest.skip(f"{spec.source}: not in {folder}")
    derived = derive_model(spec.source, folder, slug=spec.slug, name=spec.name, aliases=spec.aliases)
    assert derived == spec


def test_file_is_what_refresh_writes() -> None:
    folder = model_configs()
    text = (SHIPPED / "models.yaml").read_text(encoding="utf-8")
    assert to_yaml(refreshed_models(SHIPPED / "models.yaml", folder), HEADER) == text


def test_file_is_in_the_layout_of_refresh() -> None:
    """Needs no config: a figure edited by hand in another layout, or a default written out, is found."""
    assert to_yaml(SPECS, HEADER) == (SHIPPED / "models.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("slug", "config"),
    [
        ("llama-3-1-8b", configs.LLAMA_3_1_8B),
        ("llama-3-1-70b", configs.LLAMA_3_1_70B),
        ("llama-3-1-405b", configs.LLAMA_3_1_405B),
        ("llama-4-scout", configs.LLAMA_4_SCOUT),
        ("llama-4-maverick", configs.LLAMA_4_MAVERICK),
        ("mixtral-8x7b", configs.MIXTRAL_8X7B),
        ("qwen3-32b", configs.QWEN3_32B),
        ("qwen3-235b-a22b", configs.QWEN3_235B),
        ("qwen3-coder-480b-a35b", configs.QWEN3_CODER_480B),
        ("qwen3-5-397b-a17b", configs.QWEN3_5_397B),
        ("deepseek-v3", configs.DEEPSEEK_V3),
        ("deepseek-v3-2", configs.DEEPSEEK_V3_2),
        ("deepseek-v4-flash", configs.DEEPSEEK_V4_FLASH),
        ("kimi-k2-5", configs.KIMI_K2_5),
        ("glm-5", configs.GLM_5),
        ("gpt-oss-20b", configs.GPT_OSS_20B),
        ("gpt-oss-120b", configs.GPT_OSS_120B),
        ("minimax-m2-5", configs.MINIMAX_M2_5),
        ("gemma-3-27b", configs.GEMMA_3_27B),
        ("gemma-4-26b-a4b", configs.GEMMA_4_26B),
        ("kimi-linear-48b-a3b", configs.KIMI_LINEAR_48B),
        ("nemotron-3-nano-30b-a3b", configs.NEMOTRON_3_NANO),
        ("nemotron-h-56b", configs.NEMOTRON_H_56B),
        ("mimo-7b", configs.MIMO_7B),
    ],
)
def test_figures_are_those_of_the_published_facts(slug: str, config: configs.Config) -> None:
    """The same without any installed package: the parser on the fields written down in these tests."""
    spec = load_models().find(slug)
    derived = read_model_config(config, slug=spec.slug, name=spec.name, source=spec.source, aliases=spec.aliases)
    assert derived == spec


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("meta-llama/Meta-Llama-3.1-8B", "llama-3-1-8b"),
        ("meta-llama/Meta-Llama-3.1-70B", "llama-3-1-70b"),
        ("meta-llama/Meta-Llama-3.1-405B", "llama-3-1-405b"),
        ("Qwen/Qwen3-32B", "qwen3-32b"),
        ("Qwen/Qwen3-32B-FP8", "qwen3-32b"),
        ("Qwen/Qwen3-235B-A22B", "qwen3-235b-a22b"),
        ("deepseek-ai/DeepSeek-V3", "deepseek-v3"),
        ("moonshotai/Kimi-K2.5", "kimi-k2-5"),
        ("nvidia/Kimi-K2.5-NVFP4", "kimi-k2-5"),
        ("openai/gpt-oss-120b", "gpt-oss-120b"),
        ("nvidia/DeepSeek-R1-0528-FP4", "deepseek-r1"),
        ("MiniMaxAI/MiniMax-M2.5", "minimax-m2-5"),
        ("Qwen/Qwen3-4B-Thinking-2507", "qwen3-4b-2507"),
        # AIConfigurator 0.1 to 0.3
        ("LLAMA3.1_70B", "llama-3-1-70b"),
        ("QWEN3_235B", "qwen3-235b-a22b"),
        ("QWEN3_480B", "qwen3-coder-480b-a35b"),
        ("DEEPSEEK_V3", "deepseek-v3"),
        ("KIMI_K2", "kimi-k2"),
        ("MOE_Mixtral8x7B", "mixtral-8x7b"),
        ("GPT_OSS_120B", "gpt-oss-120b"),
        # InferenceX
        ("dsr1", "deepseek-r1"),
        ("dsv4", "deepseek-v4-pro"),
        ("llama70b", "llama-3-3-70b"),
        ("gptoss120b", "gpt-oss-120b"),
        ("kimik2.5", "kimi-k2-5"),
        ("minimaxm2.5", "minimax-m2-5"),
        ("qwen3.5", "qwen3-5-397b-a17b"),
        ("glm5", "glm-5"),
        ("gemma4", "gemma-4-31b"),
        # as people write them
        ("llama-3.1-70b", "llama-3-1-70b"),
        ("Kimi-K2.5", "kimi-k2-5"),
        ("deepseek-r1", "deepseek-r1"),
    ],
)
def test_names_that_tables_use(name: str, slug: str) -> None:
    assert load_models().find(name).slug == slug


def test_slugs_and_sources() -> None:
    for spec in SPECS:
        assert is_slug(spec.slug)
        assert " config.json" in spec.source, spec.slug
        assert len({alias.casefold() for alias in spec.aliases}) == len(spec.aliases), spec.slug
