"""Stored bytes: what each quantisation config of a checkpoint makes of its weights."""

from typing import Any

import pytest

from schemas.errors import UserError
from schemas.models import ModelSpec
from tests.models import configs
from tests.models.configs import Config
from transforms.model_config import read_model_config
from transforms.model_config.families import build
from transforms.model_config.modules import ModulePatterns
from transforms.model_config.quantization import QUANTISED_PARTS
from transforms.model_config.raw import RawConfig
from transforms.model_config.tensors import Tensor


def read(config: Config, **options: Any) -> ModelSpec:
    return read_model_config(config, slug="model", name="Model", source="test", **options)


def quantised(config: Config, quantization: Config) -> Config:
    return config | {"quantization_config": quantization}


FP8_BLOCK = {"quant_method": "fp8", "weight_block_size": [128, 128]}


def linear(config: Config) -> list[Tensor]:
    """The linear layers that engines quantise, draft layers included."""
    tensors = build(RawConfig("Model", config)).tensors
    return [tensor for tensor in tensors if tensor.storage == "linear" and tensor.part in QUANTISED_PARTS]


class TestBytes:
    def test_16_bits(self) -> None:
        spec = read(configs.LLAMA_3_1_70B)
        assert spec.weight_bytes == spec.non_expert_bytes() == 2 * 70_553_706_496
        assert spec.expert_bytes() == 0
        assert spec.weight_dtype == "bf16"

    def test_kimi_experts_in_int4(self) -> None:
        """Half a byte a weight, a 2-byte scale for 32 of them, 8 bytes of shape a matrix; the rest in BF16."""
        spec = read(configs.KIMI_K2_5)
        weights = 60 * 384 * 3 * 7168 * 2048
        assert spec.expert_bytes() == weights // 2 + weights // 32 * 2 + 60 * 384 * 3 * 8
        assert spec.non_expert_bytes() == 2 * spec.parameters.non_expert + 2 * 60 * 384  # biases in 4 bytes
        assert spec.stored.attention == spec.stored.shared_experts == spec.stored.dense_mlp == "bf16"
        assert spec.weight_dtype == "int4"

    def test_gpt_oss_is_its_index(self) -> None:
        assert read(configs.GPT_OSS_120B).weight_bytes == 65_248_815_744
        assert read(configs.GPT_OSS_20B).weight_bytes == 13_761_264_768

    def test_deepseek_v4_is_its_headers(self) -> None:
        spec = read(configs.DEEPSEEK_V4_FLASH)
        assert spec.weight_bytes == 156_015_698_140
        assert (spec.stored.attention, spec.stored.routed_experts) == ("fp8-block", "mxfp4")

    def test_qwen3_5_keeps_some_vectors_in_4_bytes(self) -> None:
        assert read(configs.QWEN3_5_397B).weight_bytes == 792_692_717_952 + 2 * 456_010_480

    @pytest.mark.parametrize(
        ("config", "with_scales", "without_scales", "left_in_16_bits"),
        [
            # element counts of published repositories, drafts included; the draft's projection is not quantised
            (configs.QWEN3_235B, 235_107_904_512, 235_093_634_560, 0),
            (configs.QWEN3_CODER_480B, 480_184_064_000, 480_154_875_392, 0),
            (configs.MINIMAX_M2_5, 228_703_644_928, 228_689_764_864, 0),
            (configs.DEEPSEEK_V3, 684_531_386_000, 684_489_845_504, 7168 * 2 * 7168),
            (configs.GLM_5, 753_910_024_032, 753_864_139_008, 6144 * 2 * 6144),
        ],
        ids=["qwen3-235b", "qwen3-coder", "minimax-m2.5", "deepseek-v3", "glm-5"],
    )
    def test_published_block_scales(
        self, config: Config, with_scales: int, without_scales: int, left_in_16_bits: int
    ) -> None:
        """One scale for each 128 x 128 block of each linear layer, a cut block counts whole."""
        blocks = sum(
            -(-tensor.shape[0] // 128) * -(-tensor.shape[1] // 128) * tensor.copies for tensor in linear(config)
        )
        assert blocks - left_in_16_bits // 128**2 == with_scales - without_scales

    def test_block_scales_take_4_bytes(self) -> None:
        plain, stored = read(configs.QWEN3_235B), read(quantised(configs.QWEN3_235B, FP8_BLOCK))
        elements = sum(tensor.elements for tensor in linear(configs.QWEN3_235B))
        assert stored.weight_bytes == plain.weight_bytes - elements + 4 * (235_107_904_512 - 235_093_634_560)

    def test_modules_left_out(self) -> None:
        everything = read(quantised(configs.LLAMA_3_1_8B, {"quant_method": "fp8"}))
        spared = read(
            quantised(
                configs.LLAMA_3_1_8B,
                {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.0", "model.layers.1.mlp.down_proj"]},
            )
        )
        layer = 2 * 4096 * 4096 + 2 * 1024 * 4096 + 3 * 4096 * 14336
        assert spared.weight_bytes - everything.weight_bytes == layer - 7 * 4 + 4096 * 14336 - 4

    def test_nvfp4_of_modelopt(self) -> None:
        """One FP8 scale for 16 weights, two 4-byte scales a matrix; attention left out by pattern."""
        modelopt = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head", "*self_attn*"]}
        spec = read(quantised(configs.LLAMA_3_1_8B, modelopt))
        mlp = 32 * 3 * 4096 * 14336
        assert spec.stored_bytes.dense_mlp == mlp // 2 + mlp // 16 + 32 * 3 * 8
        assert spec.stored_bytes.attention == 2 * spec.parameters.attention
        assert (spec.stored.attention, spec.stored.dense_mlp) == ("bf16", "nvfp4")

    def test_hf_quant_config_beside_the_config(self) -> None:
        beside = {
            "producer": {"name": "modelopt"},
            "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]},
        }
        spec = read(configs.LLAMA_3_1_8B, quant_config=beside)
        assert spec.weight_dtype == "fp8"
        assert spec.kv_dtype == "fp8"
        linear = spec.parameters.attention + spec.parameters.dense_mlp
        vectors = spec.parameters_total - linear
        assert spec.weight_bytes == linear + 2 * vectors + 32 * 7 * 8

    def test_mixed_precision_of_modelopt(self) -> None:
        layers = {
            **{f"model.layers.{i}.self_attn.q_proj": {"quant_algo": "FP8"} for i in range(32)},
            **{f"model.layers.{i}.mlp": {"quant_algo": "NVFP4", "group_size": 16} for i in range(32)},
        }
        mixed = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": layers}
        spec = read(quantised(configs.LLAMA_3_1_8B, mixed))
        queries, others = 32 * 4096 * 4096, 32 * (4096 * 4096 + 2 * 1024 * 4096)
        assert spec.stored_bytes.attention == queries + 32 * 8 + 2 * others
        assert spec.stored.dense_mlp == "nvfp4"

    def test_experts_in_nvfp4_on_an_fp8_checkpoint(self) -> None:
        """DeepSeek-V4 with ModelOpt's experts: what ModelOpt ignores stays FP8."""
        config = configs.DEEPSEEK_V4_FLASH | {
            "quantization_config": configs.DEEPSEEK_V4_FLASH["quantization_config"]
            | {"moe_quant_algo": "NVFP4", "quant_algo": "MIXED_PRECISION", "ignore": ["*.attn.*"]}
        }
        spec = read(config)
        assert (spec.stored.routed_experts, spec.stored.attention) == ("nvfp4", "fp8-block")

    @pytest.mark.parametrize(
        ("weights", "dtype", "bytes_per_weight"),
        [
            ({"num_bits": 8, "type": "float", "strategy": "channel"}, "fp8", 1.0),
            ({"num_bits": 8, "type": "int", "strategy": "channel"}, "int8", 1.0),
            ({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}, "int4", 0.5 + 2 / 128),
            ({"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}, "nvfp4", 0.5 + 1 / 16),
            ({"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32}, "mxfp4", 0.5 + 1 / 32),
        ],
    )
    def test_compressed_tensors(self, weights: Config, dtype: str, bytes_per_weight: float) -> None:
        quantization = {
            "quant_method": "compressed-tensors",
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
            "ignore": ["lm_head"],
        }
        spec = read(quantised(configs.LLAMA_3_1_8B, quantization))
        assert spec.weight_dtype == dtype
        assert spec.stored_bytes.dense_mlp == pytest.approx(spec.parameters.dense_mlp * bytes_per_weight, rel=2e-3)

    def test_awq_gptq_and_quark(self) -> None:
        awq = read(quantised(configs.LLAMA_3_1_8B, {"quant_method": "awq", "bits": 4, "group_size": 128}))
        mlp = awq.parameters.dense_mlp
        assert awq.stored_bytes.dense_mlp == mlp // 2 + mlp // 128 * 2 + mlp // 128 // 2
        gptq = read(quantised(configs.LLAMA_3_1_8B, {"quant_method": "gptq", "bits": 8}))
        assert gptq.weight_dtype == "int8"
        quark = {
            "quant_method": "quark",
            "global_quant_config": {"weight": {"dtype": "fp4", "qscheme": "per_group", "group_size": 32}},
            "exclude": ["lm_head", "re:.*self_attn.*"],
        }
        spec = read(quantised(configs.DEEPSEEK_V3, quark))
        assert (spec.stored.routed_experts, spec.stored.attention) == ("mxfp4", "bf16")


class TestServedFormat:
    def test_dense(self) -> None:
        spec = read(configs.LLAMA_3_1_70B, weight_dtype="fp8")
        linear = spec.parameters.attention + spec.parameters.dense_mlp
        assert spec.weight_bytes == linear + 80 * 7 * 4 + 2 * (spec.parameters_total - linear)

    def test_four_bits_on_a_mixture_are_the_experts(self) -> None:
        spec = read(configs.DEEPSEEK_V3, weight_dtype="nvfp4")
        assert (spec.stored.routed_experts, spec.stored.attention) == ("nvfp4", "fp8-block")
        assert spec.expert_bytes() == pytest.approx(spec.parameters.routed_experts * 0.5625, rel=1e-5)

    def test_eight_bits_on_a_mixture_are_everything(self) -> None:
        spec = read(configs.QWEN3_235B, weight_dtype="fp8-block")
        assert spec.stored.routed_experts == spec.stored.attention == "fp8-block"

    def test_a_deployments_format_of_a_shipped_model(self) -> None:
        spec = read(configs.LLAMA_3_1_70B)
        linear = spec.parameters.attention + spec.parameters.dense_mlp
        assert spec.non_expert_bytes("fp8") == linear + 2 * (spec.parameters_total - linear)
        kimi = read(configs.KIMI_K2_5)
        assert kimi.expert_bytes("nvfp4") == kimi.parameters.routed_experts * 0.5625


class TestErrors:
    @pytest.mark.parametrize(
        ("quantization", "says"),
        [
            ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "quant_method` is 'bitsandbytes'"),
            ({"quant_method": "modelopt", "quant_algo": "FP3"}, "`quant_algo` is 'FP3'"),
            ({"quant_method": "modelopt"}, "`quant_algo` is missing"),
            ({"quant_method": "gptq", "bits": 3}, "`bits` is 3"),
            ({"quant_method": "fp8", "weight_block_size": [128]}, "`weight_block_size`"),
            (
                {
                    "quant_method": "compressed-tensors",
                    "config_groups": {"group_0": {"weights": {"num_bits": 2, "type": "int"}}},
                },
                "config_groups.group_0.weights` is \"2 bits, type 'int'",
            ),
            ({"quant_method": "fp8", "kv_cache_scheme": {"num_bits": 2, "type": "int"}}, "`kv_cache_scheme`"),
            ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp6"}}}, "`dtype` is 'fp6'"),
        ],
    )
    def test_names_the_format(self, quantization: Config, says: str) -> None:
        with pytest.raises(UserError, match=says):
            read(quantised(configs.LLAMA_3_1_8B, quantization))

    def test_unknown_served_format(self) -> None:
        with pytest.raises(UserError, match="Unknown weight format 'fp7'"):
            read(configs.LLAMA_3_1_8B, weight_dtype="fp7")

    def test_hf_quant_config_without_its_section(self) -> None:
        with pytest.raises(UserError, match=r"hf_quant_config\.json of Model: `quantization` is missing"):
            read(configs.LLAMA_3_1_8B, quant_config={})


class TestPatterns:
    @pytest.mark.parametrize(
        ("pattern", "module", "matches"),
        [
            ("gate", "model.layers.3.block_sparse_moe.gate", True),
            ("gate", "model.layers.3.mlp.gate_proj", False),
            ("lm_head", "lm_head", True),
            ("model.layers.0.self_attn.kv_b_proj", "model.layers.0.self_attn.kv_b_proj", True),
            ("model.layers.1", "model.layers.10.mlp.up_proj", False),
            ("language_model.model.layers.0.self_attn*", "model.layers.0.self_attn.q_a_proj", True),
            ("model.language_model.layers.7.linear_attn*", "model.layers.7.linear_attn.out_proj", True),
            ("model.layers.*.self_attn", "model.layers.12.self_attn.q_proj", True),
            ("*.mlp.shared_expert.*", "model.layers.1.mlp.shared_expert.up_proj", True),
            ("*.mlp.shared_expert.*", "model.layers.1.mlp.experts.0.up_proj", False),
            ("re:.*mlp\\.(gate|up|gate_up|down)_proj.*", "model.layers.0.mlp.gate_proj", True),
            ("re:.*mlp\\.(gate|up|gate_up|down)_proj.*", "model.layers.1.mlp.experts.0.gate_proj", False),
            ("re:model\\.layers\\.0\\..*", "model.layers.0.mlp.gate_proj", True),
            ("backbone.layers.4.mixer.in_proj", "backbone.layers.4.mixer.in_proj", True),
        ],
    )
    def test_match(self, pattern: str, module: str, matches: bool) -> None:
        assert ModulePatterns([pattern]).match(module) is matches
