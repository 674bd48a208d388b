"""Mixtures of experts with K and V heads over the whole context: Mixtral, Qwen MoE, MiniMax-M2, GLM-4.5."""

from collections.abc import Callable

from schemas.errors import UserError
from transforms.model_config.assembly import (
    Architecture,
    assemble,
    decoder_layers,
)
from transforms.model_config.attention import AttentionLayer, grouped_query
from transforms.model_config.families.dense import (
    dense_mlp,
    mistral_windows,
    qwen_windows,
)
from transforms.model_config.families.drafts import deepseek_draft
from transforms.model_config.feed_forward import GATED_SHORT, mlp, routed_experts, router
from transforms.model_config.patterns import (
    expert_layers,
    layer_count,
)
from transforms.model_config.raw import RawConfig
from transforms.model_config.tensors import Tensor, matrix, vector


def mixtral(config: RawConfig) -> Architecture:
    """Mixtral: every layer a mixture."""
    hidden, experts = config.positive("hidden_size"), config.positive("num_local_experts")
    held = mistral_windows(config)

    def feed_forward(_: int, prefix: str) -> list[Tensor]:
        block = f"{prefix}.block_sparse_moe"
        inner = config.positive("intermediate_size")
        return [
            *routed_experts(block, hidden, inner, experts, names=GATED_SHORT),
            *router(f"{block}.gate", hidden, experts),
        ]

    layers = decoder_layers(
        config, lambda i, prefix: grouped_query(config, f"{prefix}.self_attn", window=held[i]), feed_forward
    )
    return assemble(config, layers, experts_per_token=config.positive("num_experts_per_tok"))


def minimax_m2(config: RawConfig) -> Architecture:
    """MiniMax-M2: every layer a mixture, full attention, norms over the whole width of Q and K.

    The checkpoint has no multi-token-prediction layers, whatever ``num_mtp_modules`` says.
    """
    hidden, experts = config.positive("hidden_size"), config.positive("num_local_experts")
    kinds = config.items("attn_type_list") or [1]
    if any(kind != 1 for kind in kinds):
        raise config.wrong(("attn_type_list",), kinds, "1 (full attention) for every layer")
    if config.integer("shared_intermediate_size", default=0):
        raise unsupported(config, "shared_intermediate_size", "shared experts of MiniMax")
    norm = "width" if config.flag("use_qk_norm", default=True) else "none"
    if norm == "width" and config.text("qk_norm_type", default="per_layer") != "per_layer":
        raise config.wrong(("qk_norm_type",), config.text("qk_norm_type"), "'per_layer'")
    biased = config.flag("use_routing_bias", default=True)

    def feed_forward(_: int, prefix: str) -> list[Tensor]:
        block = f"{prefix}.block_sparse_moe"
        bias = f"{block}.e_score_correction_bias" if biased else None
        return [
            *routed_experts(block, hidden, config.positive("intermediate_size"), experts, names=GATED_SHORT),
            *router(f"{block}.gate", hidden, experts, correction_bias=bias),
        ]

    layers = decoder_layers(
        config,
        lambda _, prefix: grouped_query(config, f"{prefix}.self_attn", qk_norm="width" if norm == "width" else "none"),
        feed_forward,
    )
    return assemble(config, layers, experts_per_token=config.positive("num_experts_per_tok"))


def minimax_m3(config: RawConfig) -> Architecture:
    """MiniMax-M3: dense layers first, shared experts, and an indexer that picks the blocks that a query reads.

    The indexer's keys are cached in 16 bits beside K and V (vLLM). Draft layers are not described and not counted.
    """
    hidden, experts = config.positive("hidden_size"), config.positive("num_local_experts")
    count = layer_count(config)
    section = config.section("sparse_attention_config")
    sparse = RawConfig(config.model, section or {})
    on = section is not None and sparse.flag("use_sparse_attention", default=True)
    indexed = sparse.items("sparse_attention_freq") if on else [0] * count
    if indexed is None or len(indexed) != count:
        raise config.wrong(("sparse_attention_config",), section, f"with sparse_attention_freq for {count} layers")
    if config.flag("attention_output_gate", default=False):
        raise unsupported(config, "attention_output_gate", "gates on attention of MiniMax")
    mixtures = expert_layers(config)
    biased = config.flag("use_routing_bias", default=True)
    inner = config.positive("moe_intermediate_size", "intermediate_size")
    norm = config.text("qk_norm_type", default="per_head")
    if norm != "per_head":
        raise config.wrong(("qk_norm_type",), norm, "'per_head'")

    def attention(index: int, prefix: str) -> AttentionLayer:
        layer = grouped_query(config, f"{prefix}.self_attn", qk_norm="head")
        if not indexed[index]:
            return layer
        heads, dim = sparse.positive("sparse_num_index_heads"), sparse.positive("sparse_index_dim")
        layer.tensors.extend(
            [
                *matrix(f"{prefix}.self_attn.index_q_proj", "attention", heads * dim, hidden),
                *matrix(f"{prefix}.self_attn.index_k_proj", "attention", dim, hidden),
                vector(f"{prefix}.self_attn.index_q_norm", "attention", dim),
                vector(f"{prefix}.self_attn.index_k_norm", "attention", dim),
            ]
        )
        picked = {
            "attended_entries": sparse.positive("sparse_topk_blocks") * sparse.positive("sparse_block_size"),
            "kv_extra_bytes_per_entry": 2.0 * dim,
            "index_flops_per_entry": 2 * heads * dim,
        }
        return AttentionLayer(layer.group.model_copy(update=picked), layer.tensors)

    def feed_forward(index: int, prefix: str) -> list[Tensor]:
        if not mixtures[index]:
            return mlp(f"{prefix}.mlp", "dense_mlp", hidden, config.positive("dense_intermediate_size"))
        block = f"{prefix}.block_sparse_moe"
        bias = f"{block}.e_score_correction_bias" if biased else None
        shared = config.integer("n_shared_experts", default=0) * config.integer("shared_intermediate_size", default=0)
        tensors = [
            *routed_experts(block, hidden, inner, experts, names=GATED_SHORT),
            *router(f"{block}.gate", hidden, experts, correction_bias=bias),
        ]
        return tensors + (mlp(f"{block}.shared_experts", "shared_experts", hidden, shared) if shared else [])

    layers = decoder_layers(config, attention, feed_forward)
    return assemble(config, layers, experts_per_token=config.positive("num_experts_per_tok"))


def qwen2_moe(config: RawConfig) -> Architecture:
    """Qwen2-MoE: biases on Q, K and V, a gated shared expert."""
    held = qwen_windows(config)
    layers = decoder_layers(
        config,
        lambda i, prefix: grouped_query(
            config, f"{prefix}.self_attn", window=held[i], qkv_bias=config.flag("qkv_bias", default=True)
        ),
        qwen_feed_forward(config),
    )
    return assemble(config, layers, experts_per_token=config.positive("num_experts_per_tok"))


def qwen3_moe(config: RawConfig) -> Architecture:
    """Qwen3-MoE: a norm on each head of Q and K, no shared expert."""
    held = qwen_windows(config)
    bias = config.flag("attention_bias", default=False)
    layers = decoder_layers(
        config,
        lambda i, prefix: grouped_query(
            config, f"{prefix}.self_attn", window=held[i], qkv_bias=bias, out_bias=bias, qk_norm="head"
        ),
        qwen_feed_forward(config),
    )
    return assemble(config, layers, experts_per_token=config.positive("num_experts_per_tok"))


def qwen_feed_forward(config: RawConfig) -> Callable[[int, str], list[Tensor]]:
    """Feed-forward layers of the Qwen mixtures, dense ones among them, shared experts where there are any."""
    hidden, experts = config.positive("hidden_size"), config.positive("num_experts")
    every = config.positive("decoder_sparse_step", default=1)
    dense = set(config.items("mlp_only_layers") or [])

    def feed_forward(index: int, prefix: str) -> list[Tensor]:
        if index in dense or (index + 1) % every:
            return dense_mlp(config, prefix)
        tensors = [
            *routed_experts(f"{prefix}.mlp", hidden, config.positive("moe_intermediate_size"), experts),
            *router(f"{prefix}.mlp.gate", hidden, experts),
        ]
        shared = config.integer("shared_expert_intermediate_size", default=0)
        if shared:
            tensors += mlp(f"{prefix}.mlp.shared_expert", "shared_experts", hidden, shared)
            tensors.append(vector(f"{prefix}.mlp.shared_expert_gate", "shared_experts", 1, hidden))
        return tensors

    return feed_forward


def glm4_moe(config: RawConfig) -> Architecture:
    """GLM-4.5 to GLM-4.7: dense layers first, shared experts, a draft layer."""
    bias = config.flag("attention_bias", default=False)
    norm = config.flag("use_qk_norm", default=False)
    count = layer_count(config)
    drafts = config.integer("num_nextn_predict_layers", default=0)

    def attention(_: int, prefix: str) -> AttentionLayer:
        return grouped_query(config, f"{prefix}.self_attn", qkv_bias=bias, qk_norm="head" if norm else "none")

    layers = decoder_layers(config, attention, deepseek_feed_forward(config), count=count + drafts)
    return assemble(
        config,
        layers[:count],
        experts_per_token=config.positive("num_experts_per_tok"),
        draft=deepseek_draft(config, layers[count:]),
    )


def deepseek_feed_forward(config: RawConfig, *, correction_bias: bool = True) -> Callable[[int, str], list[Tensor]]:
    """Feed-forward layers in the manner of DeepSeek: dense first, then routed and shared experts.

    Layers past the last one (the draft's) are mixtures.
    """
    hidden, experts = config.positive("hidden_size"), config.positive("n_routed_experts", "num_local_experts")
    inner = config.positive("moe_intermediate_size")
    mixtures = expert_layers(config)
    shared = config.integer("n_shared_experts", default=0)

    def feed_forward(index: int, prefix: str) -> list[Tensor]:
        if index < len(mixtures) and not mixtures[index]:
            return dense_mlp(config, prefix)
        block = f"{prefix}.mlp"
        bias = f"{block}.gate.e_score_correction_bias" if correction_bias else None
        tensors = [
            *routed_experts(block, hidden, inner, experts),
            *router(f"{block}.gate", hidden, experts, correction_bias=bias),
        ]
        if shared:
            tensors += mlp(f"{block}.shared_experts", "shared_experts", hidden, inner * shared)
        return tensors

    return feed_forward


def unsupported(config: RawConfig, key: str, what: str) -> UserError:
    """The error of a feature whose size is not known to be right."""
    return UserError(
        f"config.json of {config.model}: `{key}` asks for {what}, which are not supported; write the model's"
        " figures into a catalogue file by hand."
    )
