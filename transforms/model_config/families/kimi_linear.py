"""Kimi-Linear and the language model of Kimi-K3: Kimi delta attention beside latent attention, and experts.

Tensors by the reference code of Kimi-Linear-48B-A3B and, for K3, vLLM's loader: a gate on latent attention, experts
in a latent space between two projections, and attention over the residuals of earlier blocks of layers.
"""

from schemas.models import AttentionGroup
from transforms.model_config.assembly import Architecture, Layer, Outside, assemble, layer_norms
from transforms.model_config.attention import AttentionLayer, latent, state_group
from transforms.model_config.families.dense import dense_mlp
from transforms.model_config.feed_forward import GATED_SHORT, mlp, routed_experts, router
from transforms.model_config.patterns import expert_layers, layer_count
from transforms.model_config.raw import RawConfig
from transforms.model_config.tensors import Tensor, matrix, vector


def kimi_linear(config: RawConfig) -> Architecture:
    """Kimi-Linear-48B-A3B, and Kimi-K3 by its ``text_config``."""
    count = layer_count(config)
    section = config.section("linear_attn_config")
    if section is None:
        raise config.missing("linear_attn_config")
    linear = RawConfig(config.model, section)
    delta = _numbers(linear, "kda_layers", count)
    whole = _numbers(linear, "full_attn_layers", count)
    if delta & whole or len(delta) + len(whole) != count:
        raise linear.wrong(
            ("kda_layers",), sorted(delta), f"with full_attn_layers each of the {count} layers once, counted from 1"
        )
    mixtures = expert_layers(config)
    residuals = config.integer("attn_res_block_size", default=0) > 0
    hidden = config.positive("hidden_size")
    layers = []
    for index in range(count):
        prefix = f"model.layers.{index}"
        if index + 1 in delta:
            attended = _delta_attention(config, linear, f"{prefix}.self_attn")
        else:
            attended = latent(config, f"{prefix}.self_attn")
            if config.flag("mla_use_output_gate", default=False):
                width = config.positive("num_attention_heads") * config.positive("v_head_dim")
                attended.tensors.extend(matrix(f"{prefix}.self_attn.g_proj", "attention", width, hidden))
        tensors = [
            *attended.tensors,
            *(_experts(config, prefix) if mixtures[index] else dense_mlp(config, prefix)),
            *layer_norms(prefix, hidden, "input_layernorm", "post_attention_layernorm"),
        ]
        if residuals:
            tensors += _residual_attention(f"{prefix}.self_attention", hidden)
            tensors += _residual_attention(f"{prefix}.mlp", hidden)
        layers.append(Layer(tensors, attended.group))
    return assemble(
        config,
        layers,
        outside=Outside(extra=_residual_attention("model.output_attn", hidden) if residuals else ()),
        experts_per_token=config.positive("num_experts_per_token", "num_experts_per_tok"),
    )


def _numbers(linear: RawConfig, key: str, count: int) -> set[int]:
    """Numbers of layers, counted from 1."""
    listed = linear.items(key)
    if listed is None:
        raise linear.missing(key)
    for number in listed:
        if not isinstance(number, int) or not 1 <= number <= count:
            raise linear.wrong((key,), number, f"numbers of layers from 1 to {count}")
    return set(listed)


def _delta_attention(config: RawConfig, linear: RawConfig, prefix: str) -> AttentionLayer:
    """Kimi delta attention: a gate for each channel, a convolution each for Q, K and V; a state and no cache."""
    hidden, heads, dim = config.positive("hidden_size"), linear.positive("num_heads"), linear.positive("head_dim")
    kernel, width = linear.positive("short_conv_kernel_size"), linear.positive("num_heads") * dim
    full_gate = linear.flag("use_full_rank_gate", default=False)
    gates = (
        matrix(f"{prefix}.g_proj", "attention", width, hidden)
        if full_gate
        else [
            *matrix(f"{prefix}.g_a_proj", "attention", dim, hidden),
            *matrix(f"{prefix}.g_b_proj", "attention", width, dim),
        ]
    )
    tensors = [
        *(each for name in "qkv" for each in matrix(f"{prefix}.{name}_proj", "attention", width, hidden)),
        *(vector(f"{prefix}.{name}_conv1d", "attention", width, 1, kernel) for name in "qkv"),
        *matrix(f"{prefix}.f_a_proj", "attention", dim, hidden),
        *matrix(f"{prefix}.f_b_proj", "attention", width, dim),
        *gates,
        *matrix(f"{prefix}.b_proj", "attention", heads, hidden),
        *matrix(f"{prefix}.o_proj", "attention", hidden, width),
        vector(f"{prefix}.A_log", "attention", heads, float32=True),
        vector(f"{prefix}.dt_bias", "attention", width, float32=True),
        vector(f"{prefix}.o_norm", "attention", dim),
    ]
    group: AttentionGroup = state_group("linear", heads, heads * dim * dim * 4, 3 * width, kernel)
    return AttentionLayer(group, tensors)


def _experts(config: RawConfig, prefix: str) -> list[Tensor]:
    """Routed and shared experts; with ``routed_expert_hidden_size`` the routed ones work in that latent space."""
    hidden, experts = config.positive("hidden_size"), config.positive("num_experts")
    inner, space = config.positive("moe_intermediate_size"), config.integer("routed_expert_hidden_size", default=0)
    block = f"{prefix}.block_sparse_moe"
    tensors = [
        *routed_experts(block, space or hidden, inner, experts, names=GATED_SHORT),
        *router(f"{block}.gate", hidden, experts, correction_bias=f"{block}.gate.e_score_correction_bias"),
    ]
    shared = config.integer("num_shared_experts", "n_shared_experts", default=0)
    if shared:
        tensors += mlp(f"{block}.shared_experts", "shared_experts", hidden, inner * shared)
    if space:  # in 16 bits, whatever the experts are stored in
        tensors.append(vector(f"{block}.routed_expert_down_proj", "shared_experts", space, hidden))
        tensors.append(vector(f"{block}.routed_expert_up_proj", "shared_experts", hidden, space))
        if config.flag("latent_moe_use_norm", default=False):
            tensors.append(vector(f"{block}.routed_expert_norm", "norms", space))
    return tensors


def _residual_attention(name: str, hidden: int) -> list[Tensor]:
    """A norm and a query over the residuals of earlier blocks."""
    return [vector(f"{name}_res_norm", "norms", hidden), vector(f"{name}_res_proj", "norms", 1, hidden)]
