"""Models that mix windowed or chunked layers with full ones: gpt-oss, Llama 4, Gemma 4, MiMo-V2."""

from transforms.model_config.assembly import Architecture, Outside, assemble, decoder_layers
from transforms.model_config.attention import AttentionLayer, Heads, grouped_query, heads_of
from transforms.model_config.families.dense import GEMMA_NORMS, SLIDING_OR_FULL, dense_mlp
from transforms.model_config.families.mixtures import deepseek_feed_forward, unsupported
from transforms.model_config.feed_forward import fused_experts, mlp, router
from transforms.model_config.patterns import flags_of_layers, layer_count, layer_types, windows
from transforms.model_config.raw import RawConfig
from transforms.model_config.tensors import Tensor, vector


def gpt_oss(config: RawConfig) -> Architecture:
    """gpt-oss: windows on every other layer, attention sinks, biases everywhere."""
    hidden, experts = config.positive("hidden_size"), config.positive("num_local_experts")
    types = layer_types(config, SLIDING_OR_FULL)
    held = windows(config, types, windowed=range(0, layer_count(config), 2))
    bias = config.flag("attention_bias", default=True)

    def feed_forward(_: int, prefix: str) -> list[Tensor]:
        inner = config.positive("intermediate_size")
        return [
            *fused_experts(f"{prefix}.mlp.experts", hidden, inner, experts, bias=True),
            *router(f"{prefix}.mlp.router", hidden, experts),
            vector(f"{prefix}.mlp.router.bias", "router", experts),
        ]

    layers = decoder_layers(
        config,
        lambda i, prefix: grouped_query(
            config, f"{prefix}.self_attn", window=held[i], qkv_bias=bias, out_bias=bias, sinks=True
        ),
        feed_forward,
    )
    return assemble(config, layers, experts_per_token=config.positive("num_experts_per_tok", "experts_per_token"))


def llama4(config: RawConfig) -> Architecture:
    """Llama 4: chunked attention on the layers with rotary embeddings, one shared expert beside one routed."""
    hidden, experts = config.positive("hidden_size"), config.positive("num_local_experts")
    count, chunk = layer_count(config), config.integer("attention_chunk_size", default=0) or None
    bias = config.flag("attention_bias", default=False)
    types = layer_types(config, ("chunked_attention", "full_attention"))
    rotary = flags_of_layers(config, "no_rope_layers") or [bool((i + 1) % 4) for i in range(count)]
    chunked = [name == "chunked_attention" for name in types] if types is not None else rotary
    listed = config.items("moe_layers")
    step = config.positive("interleave_moe_layer_step", default=1)
    mixtures = set(range(step - 1, count, step) if listed is None else listed)

    def feed_forward(index: int, prefix: str) -> list[Tensor]:
        block = f"{prefix}.feed_forward"
        if index not in mixtures:
            return mlp(block, "dense_mlp", hidden, config.positive("intermediate_size_mlp"))
        inner = config.positive("intermediate_size")
        return [
            *fused_experts(f"{block}.experts", hidden, inner, experts),
            *router(f"{block}.router", hidden, experts),
            *mlp(f"{block}.shared_expert", "shared_experts", hidden, inner),
        ]

    def attention(index: int, prefix: str) -> AttentionLayer:
        window = chunk if chunked[index] else None
        return grouped_query(config, f"{prefix}.self_attn", window=window, chunked=True, qkv_bias=bias, out_bias=bias)

    layers = decoder_layers(config, attention, feed_forward)
    return assemble(config, layers, experts_per_token=config.positive("num_experts_per_tok"))


def gemma4(config: RawConfig) -> Architecture:
    """Gemma 4: wider heads on the full layers, K used as V there, experts beside a dense network."""
    for key in ("hidden_size_per_layer_input", "num_kv_shared_layers"):
        if config.integer(key, default=0):
            raise unsupported(config, key, "per-layer embeddings and shared KV of the small Gemma 4 models")
    if config.flag("use_double_wide_mlp", default=False):
        raise unsupported(config, "use_double_wide_mlp", "double-wide layers of the small Gemma 4 models")
    hidden = config.positive("hidden_size")
    types = layer_types(config, SLIDING_OR_FULL)
    if types is None:
        raise config.missing("layer_types")
    held = windows(config, types)
    local = heads_of(config)
    wide = config.positive("global_head_dim", default=local.qk_dim)
    full = Heads(local.query, config.positive("num_global_key_value_heads", default=local.kv), wide, wide)
    keys_only = config.flag("attention_k_eq_v", default=False)
    bias = config.flag("attention_bias", default=False)
    mixture = config.flag("enable_moe_block", default=False)

    def attention(index: int, prefix: str) -> AttentionLayer:
        window = held[index]
        return grouped_query(
            config,
            f"{prefix}.self_attn",
            full if window is None else local,
            window=window,
            qk_norm="head",
            qkv_bias=bias,
            out_bias=bias,
            values_are_keys=keys_only and window is None,
        )

    def feed_forward(_: int, prefix: str) -> list[Tensor]:
        tensors = [
            *dense_mlp(config, prefix),
            Tensor(f"{prefix}.layer_scalar", "norms", (1,), "plain_buffer"),
        ]
        if mixture:
            experts = config.positive("num_experts")
            tensors += [
                *fused_experts(f"{prefix}.experts", hidden, config.positive("moe_intermediate_size"), experts),
                vector(f"{prefix}.router.proj", "router", experts, hidden),
                vector(f"{prefix}.router.scale", "router", hidden),
                vector(f"{prefix}.router.per_expert_scale", "router", experts),
            ]
        return tensors

    beside_experts = (
        "post_feedforward_layernorm_1",
        "post_feedforward_layernorm_2",
        "pre_feedforward_layernorm_2",
    )
    norms = (*GEMMA_NORMS, *(beside_experts if mixture else ()))
    layers = decoder_layers(config, attention, feed_forward, norms=norms)
    return assemble(
        config,
        layers,
        outside=Outside(tied_by_default=True),
        experts_per_token=config.positive("top_k_experts") if mixture else None,
    )


def mimo_v2(config: RawConfig) -> Architecture:
    """MiMo-V2-Flash: windowed layers with heads of their own and sinks, V heads narrower than K heads.

    The config does not describe the draft layers of the checkpoint: they are not counted.
    """
    windowed = flags_of_layers(config, "hybrid_layer_pattern")
    if windowed is None:
        raise config.missing("hybrid_layer_pattern")
    full = heads_of(config)
    local = Heads(
        config.positive("swa_num_attention_heads"),
        config.positive("swa_num_key_value_heads"),
        config.positive("swa_head_dim"),
        config.positive("swa_v_head_dim"),
    )
    window = config.positive("sliding_window")
    sinks = {
        True: config.flag("add_swa_attention_sink_bias", default=False),
        False: config.flag("add_full_attention_sink_bias", default=False),
    }
    bias = config.flag("attention_bias", default=False)

    def attention(index: int, prefix: str) -> AttentionLayer:
        is_local = windowed[index]
        return grouped_query(
            config,
            f"{prefix}.self_attn",
            local if is_local else full,
            window=window if is_local else None,
            qkv_bias=bias,
            sinks=sinks[is_local],
        )

    layers = decoder_layers(config, attention, deepseek_feed_forward(config))
    return assemble(config, layers, experts_per_token=config.positive("num_experts_per_tok"))
