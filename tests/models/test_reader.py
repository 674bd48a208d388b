"""config.json -> model: parameters by hand, attention by layer, context, and errors that name what is wrong."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import UserError
from schemas.models import ModelSpec
from tests.models import configs
from tests.models.configs import Config
from transforms.equations.kv_memory import kv_bytes
from transforms.model_config import read_model_config

SHARED = Path(os.environ.get("AGENT_PARETO_SHARED", Path(__file__).resolve().parents[3] / "shared"))


def read(config: Config, **options: Any) -> ModelSpec:
    return read_model_config(config, slug="model", name="Model", source="test", **options)


def without(config: Config, *keys: str) -> Config:
    return {key: value for key, value in config.items() if key not in keys}


class TestParameters:
    """Totals that need no catalogue: exact ones of published checkpoints, and sums by hand."""

    @pytest.mark.parametrize(
        ("config", "total"),
        [
            (configs.LLAMA_3_1_8B, 8_030_261_248),
            (configs.LLAMA_3_1_70B, 70_553_706_496),
            (configs.LLAMA_3_1_405B, 405_853_388_800),
            (configs.LLAMA_4_SCOUT, 107_769_861_120),
            (configs.LLAMA_4_MAVERICK, 400_711_848_960),
            (configs.MIXTRAL_8X7B, 46_702_792_704),
            (configs.QWEN2_5_7B, 7_615_616_512),
            (configs.QWEN1_5_MOE, 14_315_784_192),
            (configs.QWEN3_32B, 32_762_123_264),
            (configs.QWEN3_235B, 235_093_634_560),
            (configs.QWEN3_CODER_480B, 480_154_875_392),
            (configs.QWEN3_NEXT_80B, 79_674_391_296),
            (configs.QWEN3_5_397B, 396_346_350_336 + 456_010_480),
            (configs.DEEPSEEK_V2_LITE, 15_706_484_224),
            (configs.DEEPSEEK_V3, 671_026_419_200),
            (configs.DEEPSEEK_V3_2, 671_877_944_064),
            (configs.DEEPSEEK_V4_FLASH, 284_332_240_471),
            (configs.KIMI_K2_5, 1_026_408_232_448 + 471_143_920),
            (configs.GLM_4_5_AIR, 106_852_251_264),
            (configs.GLM_5, 743_911_218_432),
            (configs.GPT_OSS_20B, 20_914_757_184),
            (configs.GPT_OSS_120B, 116_829_156_672),
            (configs.MINIMAX_M2_5, 228_689_764_864),
            (configs.GEMMA_3_27B, 27_009_346_304 + 423_060_336),
            (configs.GEMMA_4_26B, 25_233_141_760 + 572_792_112),
            (configs.NEMOTRON_3_NANO, 31_577_937_344 + 23 * 128),
            (configs.NEMOTRON_H_56B, 56_324_350_464),
            (configs.PHI_2, 2_779_683_840),
            (configs.NEMOTRON_SUPER_49B, 49_867_145_216),
            (configs.MIMO_7B, 7_833_409_536 - 210_790_400),
        ],
        ids=lambda value: value.get("model_type") if isinstance(value, dict) else f"{value:,}",
    )
    def test_total(self, config: Config, total: int) -> None:
        assert read(config).parameters_total == total

    def test_llama_by_hand(self) -> None:
        spec = read(configs.LLAMA_3_1_8B)
        attention = 4096 * 4096 + 2 * 1024 * 4096 + 4096 * 4096
        assert spec.parameters.attention == 32 * attention
        assert spec.parameters.dense_mlp == 32 * 3 * 4096 * 14336
        assert spec.parameters.embedding == spec.parameters.output_head == 128256 * 4096
        assert spec.parameters.norms == (32 * 2 + 1) * 4096
        assert spec.parameters_active == spec.parameters_total
        assert spec.parameters_per_expert == 0

    def test_deepseek_v3_by_hand(self) -> None:
        """Case 08: attention, three dense layers, 58 mixtures with a shared expert, both embeddings."""
        spec = read(configs.DEEPSEEK_V3)
        assert spec.parameters.attention == 61 * 187_107_328
        assert spec.parameters.dense_mlp == 3 * 396_361_728
        assert spec.parameters.shared_experts == 58 * 44_040_192
        assert spec.parameters.routed_experts == 58 * 256 * 44_040_192
        assert spec.parameters.router == 58 * 1_835_264
        assert spec.parameters.embedding == 926_679_040
        assert spec.parameters_active == 37_552_297_472
        assert spec.parameters_active - spec.parameters.embedding == 36_625_618_432
        assert spec.parameters_per_expert == 58 * 44_040_192
        assert spec.moe is not None
        assert (spec.moe.experts, spec.moe.experts_per_token, spec.moe.layers) == (256, 8, 58)

    def test_draft_layers_stand_apart(self) -> None:
        """The one draft layer of DeepSeek-V3: a mixture layer, a projection of two inputs, three norms."""
        spec = read(configs.DEEPSEEK_V3)
        layer = 187_107_328 + 2 * 7168 + 257 * 44_040_192 + 1_835_264
        assert spec.parameters.mtp == layer + 2 * 7168 * 7168 + 3 * 7168
        undrafted = read(configs.DEEPSEEK_V3 | {"num_nextn_predict_layers": 0})
        assert undrafted.parameters.mtp == 0
        assert undrafted.parameters_total == spec.parameters_total

    def test_expert_of_kimi_over_all_layers(self) -> None:
        """model.md 9: 2.642e9 over 60 layers."""
        assert read(configs.KIMI_K2_5).parameters_per_expert == 60 * 3 * 7168 * 2048 == 2_642_411_520

    def test_tied_embeddings_count_once(self) -> None:
        untied = read(configs.QWEN3_32B)
        tied = read(configs.QWEN3_32B | {"tie_word_embeddings": True})
        assert tied.parameters.output_head == 0
        assert untied.parameters_total - tied.parameters_total == 151936 * 5120

    def test_the_outer_level_says_whether_embeddings_are_tied(self) -> None:
        nested = {"model_type": "any", "tie_word_embeddings": True, "text_config": configs.QWEN3_32B}
        assert read(nested).parameters.output_head == 0

    def test_biases_of_attention(self) -> None:
        plain = read(configs.QWEN3_32B).parameters.attention
        biased = read(configs.QWEN3_32B | {"attention_bias": True}).parameters.attention
        assert biased - plain == 64 * (64 * 128 + 2 * 8 * 128 + 5120)

    def test_dense_layers_among_mixtures(self) -> None:
        spec = read(configs.QWEN3_235B | {"mlp_only_layers": [0, 1], "decoder_sparse_step": 2})
        assert spec.moe is not None
        assert spec.moe.layers == 46  # every second of 94, layer 1 dense
        assert spec.parameters.dense_mlp == 48 * 3 * 4096 * 12288


class TestAttention:
    def kinds(self, config: Config) -> dict[str, int]:
        return {group.kind: group.layers for group in read(config).attention}

    def test_kinds(self) -> None:
        assert self.kinds(configs.LLAMA_3_1_8B) == {"gqa": 32}
        assert self.kinds(configs.PHI_2) == {"mha": 32}
        assert self.kinds(configs.LLAMA_3_1_8B | {"num_key_value_heads": 1}) == {"mqa": 32}
        assert self.kinds(configs.DEEPSEEK_V3) == {"mla": 61}
        assert self.kinds(configs.GLM_5) == {"sparse_mla": 78}
        assert self.kinds(configs.GPT_OSS_120B) == {"sliding_window": 18, "gqa": 18}
        assert self.kinds(configs.LLAMA_4_SCOUT) == {"chunked": 36, "gqa": 12}
        assert self.kinds(configs.GEMMA_3_27B) == {"sliding_window": 52, "gqa": 10}
        assert self.kinds(configs.GEMMA_4_26B) == {"sliding_window": 25, "gqa": 5}
        assert self.kinds(configs.QWEN3_5_397B) == {"linear": 45, "gqa": 15}
        assert self.kinds(configs.NEMOTRON_SUPER_49B) == {"gqa": 49}  # 31 of 80 blocks have no attention
        assert self.kinds(configs.NEMOTRON_H_56B) == {"mamba": 54, "gqa": 10}

    def test_explicit_head_dim_wins(self) -> None:
        """64 heads of 128 in a hidden size of 5,120: not 80."""
        assert kv_bytes(read(configs.QWEN3_32B).attention, 1, 2) == 64 * 2 * 8 * 128 * 2
        assert kv_bytes(read(without(configs.QWEN3_32B, "head_dim")).attention, 1, 2) == 64 * 2 * 8 * 80 * 2

    def test_null_kv_heads_are_all_heads(self) -> None:
        assert kv_bytes(read(configs.PHI_2).attention, 1, 2) == 327_680

    def test_layers_that_share_an_indexer_keep_no_keys(self) -> None:
        """GLM-5.2: every layer attends to the picked tokens, only the full indexers cache keys."""
        types = ["full" if index < 3 or index % 4 == 2 else "shared" for index in range(78)]
        spec = read(configs.GLM_5 | {"indexer_types": types})
        full, shared = spec.attention
        assert (full.layers, full.kv_extra_bytes_per_entry) == (21, 132)
        assert (shared.layers, shared.kv_extra_bytes_per_entry, shared.attended_entries) == (57, 0, 2048)
        assert spec.parameters_total == 743_377_019_904

    def test_sliding_windows_of_mistral_and_qwen(self) -> None:
        mistral = configs.LLAMA_3_1_8B | {"model_type": "mistral", "sliding_window": 4096}
        assert [(g.kind, g.layers, g.window_tokens) for g in read(mistral).attention] == [("sliding_window", 32, 4096)]
        qwen = configs.QWEN3_32B | {"use_sliding_window": True, "sliding_window": 4096, "max_window_layers": 48}
        assert [(g.kind, g.layers) for g in read(qwen).attention] == [("gqa", 48), ("sliding_window", 16)]

    def test_state_of_nemotron(self) -> None:
        """256 heads of 64 with 256 states of 4 bytes, and (16,384 + 2 * 8 * 256) channels of 3 values."""
        mamba = next(g for g in read(configs.NEMOTRON_H_56B).attention if g.kind == "mamba")
        assert mamba.state_bytes == 256 * 64 * 256 * 4 + (16_384 + 2 * 8 * 256) * 3 * 2

    def test_a_config_may_store_states_in_2_bytes(self) -> None:
        half = read(configs.NEMOTRON_3_NANO | {"mamba_ssm_cache_dtype": "bfloat16"})
        mamba = next(g for g in half.attention if g.kind == "mamba")
        assert mamba.state_bytes == 64 * 64 * 128 * 2 + 6_144 * 3 * 2

    def test_layer_lists_of_nemotron(self) -> None:
        names = {"M": "mamba", "E": "moe", "*": "attention"}
        listed = [names[code] for code in configs.NEMOTRON_3_NANO["hybrid_override_pattern"]]
        config = without(configs.NEMOTRON_3_NANO, "hybrid_override_pattern") | {"layers_block_type": listed}
        assert read(config).model_dump() == read(configs.NEMOTRON_3_NANO).model_dump()


class TestContext:
    @pytest.mark.parametrize(
        ("config", "tokens"),
        [
            (configs.LLAMA_3_1_70B, 131_072),
            (configs.DEEPSEEK_V3, 163_840),
            (configs.KIMI_K2_5, 262_144),
            (configs.GPT_OSS_120B, 131_072),
            (configs.QWEN3_32B, 40_960),
            (
                configs.QWEN3_32B
                | {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}},
                131_072,
            ),
        ],
    )
    def test_longest(self, config: Config, tokens: int) -> None:
        assert read(config).max_context_tokens == tokens

    def test_unknown_where_the_config_is_silent(self) -> None:
        assert read(configs.PHI_2).max_context_tokens is None


class TestCases:
    """Cases 07 and 08 of the shared folder."""

    @pytest.mark.parametrize(
        ("name", "per_token"),
        [
            ("explicit-wider", 262_144),
            ("explicit-narrower", 163_840),
            ("head-dim-absent", 131_072),
            ("head-dim-null-kv-null", 327_680),
            ("nested-text-config", 98_304),
        ],
    )
    def test_case_07(self, name: str, per_token: int) -> None:
        spec = read(self.config(f"07-kv-headdim-and-tp-replication/{name}"))
        assert kv_bytes(spec.attention, 1, 2) == per_token

    def test_case_08(self) -> None:
        spec = read(self.config("08-mla-dp-attention-moe-params"))
        assert spec.parameters_total == 671_026_419_200
        assert spec.parameters_active == 37_552_297_472
        assert kv_bytes(spec.attention, 1, 2) == 70_272

    def config(self, case: str) -> Config:
        path = SHARED / "cases" / case / "config.json"
        if not path.exists():
            pytest.skip(f"{path} is not there; set AGENT_PARETO_SHARED to the folder that holds cases/")
        config: Config = json.loads(path.read_text())
        return config


class TestErrors:
    """Nothing is guessed: each error names the field and the value."""

    @pytest.mark.parametrize(
        ("config", "says"),
        [
            (configs.LLAMA_3_1_8B | {"model_type": "lama"}, "model type 'lama' is not known.*Did you mean 'llama'"),
            (without(configs.LLAMA_3_1_8B, "model_type"), "`model_type` is missing"),
            (without(configs.LLAMA_3_1_8B, "num_hidden_layers"), "`num_hidden_layers` is missing; there is no default"),
            (
                {"model_type": "any", "text_config": without(configs.QWEN3_235B, "num_hidden_layers")},
                "`num_hidden_layers` is missing",
            ),
            (configs.LLAMA_3_1_8B | {"num_hidden_layers": "32"}, "`num_hidden_layers` is '32'"),
            (configs.LLAMA_3_1_8B | {"num_hidden_layers": 0}, "`num_hidden_layers` is 0, it must be more than 0"),
            (configs.LLAMA_3_1_8B | {"num_hidden_layers": True}, "`num_hidden_layers` is True"),
            (configs.LLAMA_3_1_8B | {"num_attention_heads": 31}, "hidden_size 4096 is not a multiple"),
            (configs.LLAMA_3_1_8B | {"torch_dtype": "float8"}, "`torch_dtype` is 'float8'"),
            (
                configs.NEMOTRON_H_56B | {"hybrid_override_pattern": "M-X", "num_hidden_layers": 3},
                "`hybrid_override_pattern` is 'X'.*layer codes.*layer 2",
            ),
            (configs.NEMOTRON_H_56B | {"num_hidden_layers": 117}, "`num_hidden_layers` is 117.*118"),
            (
                configs.GPT_OSS_20B | {"layer_types": ["full_attention"] * 23 + ["strided_attention"]},
                "`layer_types` is 'strided_attention'.*layer 23",
            ),
            (configs.GPT_OSS_20B | {"layer_types": ["full_attention"]}, "`layer_types` is 'a list of 1'"),
            (configs.DEEPSEEK_V4_FLASH | {"compress_ratios": [7] * 44}, "`compress_ratios` is 7"),
            (configs.DEEPSEEK_V4_FLASH | {"expert_dtype": "fp5"}, "`expert_dtype` is 'fp5'"),
            (configs.GLM_5 | {"indexer_types": ["half"] * 78}, "`indexer_types` is 'half'"),
            (configs.MINIMAX_M2_5 | {"attn_type_list": [1] * 61 + [0]}, "`attn_type_list`"),
            (configs.NEMOTRON_3_NANO | {"mamba_ssm_cache_dtype": "fp8"}, "`mamba_ssm_cache_dtype` is 'fp8'"),
            (
                {
                    "model_type": "gemma4",
                    "text_config": configs.GEMMA_4_26B["text_config"] | {"num_kv_shared_layers": 4},
                },
                "`num_kv_shared_layers` asks for.*not supported",
            ),
            ([], "must be a mapping of fields"),
        ],
    )
    def test_names_what_is_wrong(self, config: Any, says: str) -> None:
        with pytest.raises(UserError, match=says):
            read(config)
