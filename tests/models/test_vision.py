"""Vision towers by published parameter counts, quantised checkpoints, and families of 2026."""

from typing import Any

import pytest

from schemas.errors import UserError
from schemas.models import ModelSpec
from tests.models import configs
from transforms.model_config import read_model_config


def read(config: dict[str, Any]) -> ModelSpec:
    return read_model_config(config, slug="m", name="m", source="m config.json")


def qwen3_vl(hidden: int, layers: int, inner: int, heads: int, vision: int, depth: int, width: int) -> dict[str, Any]:
    return {
        "model_type": "qwen3_vl",
        "tie_word_embeddings": hidden < 4096,
        "text_config": {
            "model_type": "qwen3_vl_text", "hidden_size": hidden, "intermediate_size": inner, "head_dim": 128,
            "num_attention_heads": heads, "num_key_value_heads": 8, "num_hidden_layers": layers, "vocab_size": 151936,
        },
        "vision_config": configs.QWEN3_5_397B["vision_config"] | {
            "model_type": "qwen3_vl", "depth": depth, "hidden_size": vision, "intermediate_size": width,
            "out_hidden_size": hidden, "deepstack_visual_indexes": [5, 11, 17],
        },
    }  # fmt: skip


LLAMA4_VISION = {
    "model_type": "llama4_vision_model", "hidden_size": 1408, "image_size": 336, "intermediate_size": 5632,
    "num_hidden_layers": 34, "patch_size": 14, "pixel_shuffle_ratio": 0.5, "projector_input_dim": 4096,
    "projector_output_dim": 4096,
}  # fmt: skip
GEMMA_3_4B = configs.GEMMA_3_27B | {
    "text_config": configs.GEMMA_3_27B["text_config"] | {
        "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34, "num_attention_heads": 8,
        "num_key_value_heads": 4, "head_dim": 256,
    },
}  # fmt: skip
LLAVA_7B = {
    "model_type": "llava",
    "text_config": configs.LLAMA_3_1_8B
    | {"intermediate_size": 11008, "num_key_value_heads": 32, "vocab_size": 32064, "max_position_embeddings": 4096},
    "vision_config": {
        "model_type": "clip_vision_model", "hidden_size": 1024, "image_size": 336, "intermediate_size": 4096,
        "num_hidden_layers": 24, "patch_size": 14,
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "vision", "total"),
    [
        (qwen3_vl(2048, 28, 6144, 16, 1024, 24, 4096), 406_957_056, 2_127_532_032),  # Qwen3-VL-2B-Instruct
        (qwen3_vl(4096, 36, 12288, 32, 1152, 27, 4304), 576_388_336, 8_767_123_696),  # Qwen3-VL-8B-Instruct
        (configs.LLAMA_4_SCOUT | {"vision_config": LLAMA4_VISION}, 871_932_416, 108_641_793_536),
        (GEMMA_3_4B, 419_816_304, 4_300_079_472),  # gemma-3-4b-it
        (LLAVA_7B, 324_487_168, 7_063_427_072),  # llava-1.5-7b-hf
    ],
)
def test_towers_by_published_counts(config: dict[str, Any], vision: int, total: int) -> None:
    spec = read(config)
    assert (spec.parameters.vision, spec.parameters_total) == (vision, total)
    assert spec.moe is not None or spec.parameters_active == total - vision
    assert spec.stored_bytes.vision == 2 * vision
    assert spec.not_counted == ()


@pytest.mark.parametrize(
    ("towers", "said"),
    [
        ({"vision_config": {"model_type": "intern_vit_6b", "hidden_size": 3200}}, ("intern_vit_6b",)),
        ({"vision_config": {"model_type": "qwen3_vl", "hidden_size": 1024}}, ("qwen3_vl",)),  # too little is told
        ({"audio_config": {"hidden_size": 8}}, ("audio tower",)),
        ({}, ()),
    ],
)
def test_what_is_not_counted_is_said(towers: dict[str, Any], said: tuple[str, ...]) -> None:
    spec = read({"text_config": configs.LLAMA_3_1_8B, "model_type": "other"} | towers)
    assert spec.parameters_total == 8_030_261_248
    assert len(spec.not_counted) == len(said)
    assert all(word in told for word, told in zip(said, spec.not_counted, strict=True))


KIMI_LINEAR_48B = configs.KIMI_LINEAR_48B


def test_kimi_linear_is_exact() -> None:
    spec = read(KIMI_LINEAR_48B)
    assert spec.parameters_total == 49_122_681_728  # moonshotai/Kimi-Linear-48B-A3B-Instruct
    assert [(group.kind, group.layers) for group in spec.attention] == [("linear", 20), ("mla", 7)]
    assert spec.attention[0].state_bytes == 32 * 128 * 128 * 4 + 3 * 4096 * 3 * 2
    with pytest.raises(UserError, match="each of the 27 layers once"):
        read(KIMI_LINEAR_48B | {"linear_attn_config": KIMI_LINEAR_48B["linear_attn_config"] | {"kda_layers": [1]}})


STEP = {
    "model_type": "step3p7", "hidden_size": 4096, "intermediate_size": 11264, "num_hidden_layers": 45,
    "num_attention_heads": 64, "num_attention_groups": 8, "head_dim": 128, "vocab_size": 128896,
    "layer_types": (["full_attention"] + ["sliding_attention"] * 3) * 12, "sliding_window": 512,
    "use_head_wise_attn_gate": True, "moe_num_experts": 288, "moe_top_k": 8, "moe_intermediate_size": 1280,
    "share_expert_dim": 1280, "use_moe_router_bias": True, "moe_layers_enum": ",".join(map(str, range(3, 45))),
    "attention_other_setting": {
        "attention_type": "sliding_attention", "num_attention_heads": 96, "num_attention_groups": 8, "head_dim": 128,
    },
}  # fmt: skip


def test_step_rounds_to_its_card_and_an_abridged_config_is_refused() -> None:
    spec = read(STEP)
    assert spec.parameters_total / 1e9 == pytest.approx(196.8, rel=0.002)
    assert [(group.kind, group.layers) for group in spec.attention] == [("gqa", 12), ("sliding_window", 33)]
    with pytest.raises(UserError, match="`attention_other_setting` is missing"):
        read({name: value for name, value in STEP.items() if name != "attention_other_setting"})


def test_a_language_part_without_a_type_is_of_the_checkpoints() -> None:
    inner = {name: value for name, value in configs.LLAMA_3_1_8B.items() if name != "model_type"}
    assert read({"model_type": "llama", "text_config": inner}).parameters_total == 8_030_261_248
    with pytest.raises(UserError, match="model type 'new_model_vl' is not known"):
        read({"model_type": "new_model_vl", "text_config": inner})
