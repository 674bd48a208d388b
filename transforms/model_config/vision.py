"""Vision towers and their projectors: parameters by the kind that ``vision_config`` is of.

Each kind was checked against a published parameter count: Qwen3-VL and Qwen3.5, Kimi's MoonViT, Gemma 4, Llama 4,
SigLIP with Gemma 3's projector, CLIP with LLaVA's. A tower of another kind is not counted, and that is said.
"""

from collections.abc import Callable, Mapping
from typing import Any

from schemas.errors import UserError
from transforms.model_config.raw import RawConfig
from transforms.model_config.tensors import Tensor, vector

Counter = Callable[[RawConfig, Mapping[str, Any], int], int]
_QWEN = ("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "qwen3_5_vision", "qwen3_5_moe_vision")


def vision_part(config: Mapping[str, Any], model: str, text_hidden: int) -> tuple[list[Tensor], tuple[str, ...]]:
    """The tensors of a checkpoint's vision tower, and what of its towers is not counted, in words.

    ``text_hidden``: hidden size of the language model. Engines keep the tower in 16 bits.
    """
    not_counted = []
    tensors: list[Tensor] = []
    section = config.get("vision_config")
    if isinstance(section, Mapping) and section:
        tower = RawConfig(model, section)
        counter = _counter(tower, config)
        try:
            size = None if counter is None else counter(tower, config, text_hidden)
        except UserError:
            size = None
        if size is None:
            kind = section.get("model_type") or config.get("model_type") or "unknown"
            not_counted.append(f"the vision tower (of a kind that is not known: {kind})")
        else:
            tensors.append(vector("vision_tower", "vision", size))
    if isinstance(config.get("audio_config"), Mapping) and config["audio_config"]:
        not_counted.append("the audio tower")
    return tensors, tuple(not_counted)


def _counter(tower: RawConfig, config: Mapping[str, Any]) -> Counter | None:
    """The formula of a tower; None where none is known for it and its projector."""
    kind, outer = tower.text("model_type", default=""), str(config.get("model_type"))
    if tower.has("vt_hidden_size"):
        return _moon_vit
    if kind in _QWEN or (not kind and outer in _QWEN):
        return _qwen
    if kind == "gemma4_vision":
        return _gemma4
    if kind == "llama4_vision_model":
        return _llama4
    if kind == "siglip_vision_model" and outer == "gemma3":
        return _gemma3
    if kind == "clip_vision_model" and outer == "llava":
        return _llava
    return None


def _linear(inputs: int, outputs: int, bias: bool = True) -> int:
    return inputs * outputs + (outputs if bias else 0)


def _encoder(hidden: int, inner: int, layers: int) -> int:
    """Pre-norm layers with biases everywhere: Q, K, V and O, two layers of feed-forward, two norms."""
    attention = 4 * _linear(hidden, hidden)
    return layers * (attention + _linear(hidden, inner) + _linear(inner, hidden) + 4 * hidden)


def _qwen(tower: RawConfig, config: Mapping[str, Any], text_hidden: int) -> int:
    """Qwen3-VL and Qwen3.5: patches in time too, a merger, and one more for each deepstack layer."""
    hidden, patch, merged = (tower.positive(name) for name in ("hidden_size", "patch_size", "spatial_merge_size"))
    frames, output = tower.positive("temporal_patch_size"), tower.positive("out_hidden_size")
    joined = hidden * merged * merged
    after = _linear(joined, joined) + _linear(joined, output)
    deep = len(tower.items("deepstack_visual_indexes") or [])
    return (
        _linear(tower.positive("in_channels", default=3) * frames * patch * patch, hidden)
        + tower.positive("num_position_embeddings") * hidden
        + _encoder(hidden, tower.positive("intermediate_size"), tower.positive("depth"))
        + 2 * hidden
        + after
        + deep * (2 * joined + after)
    )


def _moon_vit(tower: RawConfig, config: Mapping[str, Any], text_hidden: int) -> int:
    """Kimi: MoonViT and its patch merger; the second version without biases and with RMS norms."""
    hidden, inner = tower.positive("vt_hidden_size"), tower.positive("vt_intermediate_size")
    width, patch = tower.positive("qkv_hidden_size", default=hidden), tower.positive("patch_size")
    second = tower.text("mm_projector_type") == "patchmergerv2"
    merge = tower.items("merge_kernel_size") or [2, 2]
    bias = tower.flag("linear_bias", default=not second)
    attention_bias = tower.flag("attn_bias", default=not second)
    norm = hidden if tower.text("norm_type", default="layernorm") == "rmsnorm" else 2 * hidden
    attention = _linear(hidden, 3 * width, attention_bias) + _linear(width, hidden, attention_bias)
    layer = 2 * norm + attention + _linear(hidden, inner, bias) + _linear(inner, hidden, bias)
    joined = hidden * merge[0] * merge[1]
    merger = _linear(joined, joined, not second) + _linear(joined, text_hidden, not second)
    return (
        _linear(3 * patch * patch, hidden, tower.flag("patch_embed_proj_bias", default=True))
        + tower.positive("init_pos_emb_height") * tower.positive("init_pos_emb_width") * hidden
        + tower.positive("vt_num_hidden_layers") * layer
        + norm
        + merger
        + (text_hidden if second else 2 * hidden)
    )


def _gemma4(tower: RawConfig, config: Mapping[str, Any], text_hidden: int) -> int:
    """Gemma 4: gated feed-forward, four norms a layer, norms of Q and K, positions in two directions."""
    hidden, heads, dim = (
        tower.positive("hidden_size"),
        tower.positive("num_attention_heads"),
        tower.positive("head_dim"),
    )
    kv = tower.positive("num_key_value_heads", default=heads)
    attention = 2 * hidden * heads * dim + 2 * hidden * kv * dim + 2 * dim
    layer = attention + 3 * hidden * tower.positive("intermediate_size") + 4 * hidden
    patch = tower.positive("patch_size")
    return (
        3 * patch * patch * hidden
        + 2 * tower.positive("position_embedding_size") * hidden
        + tower.positive("num_hidden_layers") * layer
        + hidden * text_hidden
    )


def _llama4(tower: RawConfig, config: Mapping[str, Any], text_hidden: int) -> int:
    """Llama 4: patches without bias, a class token, a pixel-shuffle adapter and a projector without biases."""
    hidden, patch = tower.positive("hidden_size"), tower.positive("patch_size")
    ratio = tower.number("pixel_shuffle_ratio")
    shuffled = int(hidden / ratio**2)
    inner, output = tower.positive("projector_input_dim"), tower.positive("projector_output_dim")
    return (
        3 * patch * patch * hidden
        + hidden
        + ((tower.positive("image_size") // patch) ** 2 + 1) * hidden
        + _encoder(hidden, tower.positive("intermediate_size"), tower.positive("num_hidden_layers"))
        + 4 * hidden
        + shuffled * inner
        + inner * output
        + output * text_hidden
    )


def _gemma3(tower: RawConfig, config: Mapping[str, Any], text_hidden: int) -> int:
    """Gemma 3: SigLIP without its head, a projection and a norm."""
    hidden, patch = tower.positive("hidden_size"), tower.positive("patch_size")
    return (
        _linear(3 * patch * patch, hidden)
        + (tower.positive("image_size") // patch) ** 2 * hidden
        + _encoder(hidden, tower.positive("intermediate_size"), tower.positive("num_hidden_layers"))
        + 2 * hidden
        + hidden * text_hidden
        + hidden
    )


def _llava(tower: RawConfig, config: Mapping[str, Any], text_hidden: int) -> int:
    """LLaVA 1.5: CLIP with its class token and both outer norms, and two linear layers."""
    hidden, patch = tower.positive("hidden_size"), tower.positive("patch_size")
    return (
        3 * patch * patch * hidden
        + hidden
        + ((tower.positive("image_size") // patch) ** 2 + 1) * hidden
        + _encoder(hidden, tower.positive("intermediate_size"), tower.positive("num_hidden_layers"))
        + 4 * hidden
        + _linear(hidden, text_hidden)
        + _linear(text_hidden, text_hidden)
    )
