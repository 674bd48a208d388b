"""Step-3.5 and Step-3.7-Flash: windowed layers with more query heads, gated heads, a shared expert.

Fields and tensors as the checkpoint's own code has them (configuration_step3p5.py, and its copies in vLLM and SGLang).
"""

from transforms.model_config.assembly import Architecture, assemble, decoder_layers
from transforms.model_config.attention import AttentionLayer, Heads, grouped_query
from transforms.model_config.families.dense import SLIDING_OR_FULL, dense_mlp
from transforms.model_config.feed_forward import mlp, routed_experts, router
from transforms.model_config.patterns import expert_layers, layer_count
from transforms.model_config.raw import RawConfig
from transforms.model_config.tensors import Tensor, matrix


def step3p5(config: RawConfig) -> Architecture:
    """Step-3.5-Flash and the language model of Step-3.7-Flash; draft layers are not described and not counted.

    An abridged config without ``attention_other_setting`` is refused: the windowed layers' heads are told nowhere else.
    """
    count = layer_count(config)
    types = (config.items("layer_types") or [])[:count]
    if len(types) != count or not set(types) <= set(SLIDING_OR_FULL):
        raise config.wrong(("layer_types",), types, f"{', '.join(SLIDING_OR_FULL)} for each of {count} layers")
    section = config.section("attention_other_setting")
    if section is None:
        raise config.missing("attention_other_setting")
    other = RawConfig(config.model, section)
    hidden, window = config.positive("hidden_size"), config.positive("sliding_window")
    heads = {"full_attention": _heads(config, config), other.text("attention_type"): _heads(other, config)}
    gated = config.flag("use_head_wise_attn_gate", default=False)
    mixtures = _mixtures(config, count)

    def attention(index: int, prefix: str) -> AttentionLayer:
        shape = heads.get(types[index], heads["full_attention"])
        layer = grouped_query(
            config,
            f"{prefix}.self_attn",
            shape,
            window=window if types[index] == "sliding_attention" else None,
            qk_norm="head",
        )
        if gated:
            layer.tensors.extend(matrix(f"{prefix}.self_attn.g_proj", "attention", shape.query, hidden))
        return layer

    def feed_forward(index: int, prefix: str) -> list[Tensor]:
        if index not in mixtures:
            return dense_mlp(config, prefix)
        experts = config.positive("moe_num_experts", "num_experts", "n_routed_experts")
        biased = config.flag("use_moe_router_bias", default=False)
        return [
            *routed_experts(f"{prefix}.moe", hidden, config.positive("moe_intermediate_size"), experts),
            *router(f"{prefix}.moe.gate", hidden, experts, correction_bias=f"{prefix}.moe.bias" if biased else None),
            *mlp(f"{prefix}.share_expert", "shared_experts", hidden, config.positive("share_expert_dim")),
        ]

    layers = decoder_layers(config, attention, feed_forward)
    return assemble(config, layers, experts_per_token=config.positive("moe_top_k", "num_experts_per_tok"))


def _heads(section: RawConfig, config: RawConfig) -> Heads:
    dim = section.positive("head_dim", default=config.positive("head_dim"))
    return Heads(
        section.positive("num_attention_heads"),
        section.positive("num_attention_groups", "num_key_value_heads"),
        dim,
        dim,
    )


def _mixtures(config: RawConfig, count: int) -> set[int]:
    """Which layers are mixtures: a list of numbers, or all but the first few."""
    listed = config.fields.get("moe_layers_enum")
    if isinstance(listed, str):
        return {int(number) for number in listed.split(",") if number.strip().isdigit()}
    if isinstance(listed, list):
        return {number for number in listed if isinstance(number, int)}
    return {index for index, mixture in enumerate(expert_layers(config)) if mixture}
