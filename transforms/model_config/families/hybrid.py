"""Hybrids of attention and state layers: Qwen3-Next, Qwen3.5 and Nemotron-H."""

from transforms.model_config.assembly import (
    Architecture,
    Layer,
    Names,
    Outside,
    assemble,
    decoder_layers,
)
from transforms.model_config.attention import AttentionLayer, gated_delta, grouped_query, mamba2
from transforms.model_config.families.dense import dense_mlp
from transforms.model_config.families.mixtures import qwen_feed_forward
from transforms.model_config.feed_forward import UNGATED, mlp, routed_experts, router
from transforms.model_config.patterns import coded_layers, layer_count, layer_types
from transforms.model_config.raw import RawConfig
from transforms.model_config.tensors import Tensor, matrix, vector

LAYER_CODES = {"M": "mamba", "E": "moe", "*": "attention", "-": "mlp"}


def qwen_next(config: RawConfig) -> Architecture:
    """Qwen3-Next: input projections of the linear layers are fused."""
    return _gated_hybrid(config, fused_projections=True)


def qwen3_5(config: RawConfig) -> Architecture:
    """Qwen3.5 and Qwen3.6, dense and mixtures."""
    return _gated_hybrid(config, fused_projections=False)


def _gated_hybrid(config: RawConfig, *, fused_projections: bool) -> Architecture:
    """Three linear layers to one of gated attention; the draft layer is an attention layer."""
    count = layer_count(config)
    types = layer_types(config, ("linear_attention", "full_attention"))
    if types is None:
        every = config.positive("full_attention_interval", default=4)
        types = ["full_attention" if (i + 1) % every == 0 else "linear_attention" for i in range(count)]
    drafts = config.integer("mtp_num_hidden_layers", default=0)
    kinds = types + ["full_attention"] * drafts
    bias = config.flag("attention_bias", default=False)
    has_experts = config.has("num_experts") and config.integer("num_experts") > 0
    experts = qwen_feed_forward(config) if has_experts else None

    def attention(index: int, prefix: str) -> AttentionLayer:
        if kinds[index] == "linear_attention":
            return gated_delta(config, f"{prefix}.linear_attn", fused_projections=fused_projections)
        return grouped_query(
            config, f"{prefix}.self_attn", qkv_bias=bias, out_bias=bias, qk_norm="head", output_gate=True
        )

    def feed_forward(index: int, prefix: str) -> list[Tensor]:
        return dense_mlp(config, prefix) if experts is None else experts(index, prefix)

    layers = decoder_layers(config, attention, feed_forward, count=count + drafts)
    draft = [tensor for layer in layers[count:] for tensor in layer.tensors]
    if drafts:
        hidden = config.positive("hidden_size")
        draft += matrix("mtp.fc", "mtp", hidden, 2 * hidden)
        names = ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm")
        draft += [vector(f"mtp.{name}", "mtp", hidden) for name in names]
    return assemble(
        config,
        layers[:count],
        experts_per_token=config.positive("num_experts_per_tok") if has_experts else None,
        draft=draft,
    )


def nemotron_h(config: RawConfig) -> Architecture:
    """Nemotron-H and Nemotron 3: each layer one mixer (Mamba-2, attention, MLP or experts) behind one norm."""
    kinds = _mixers(config, "hybrid_override_pattern", "layers_block_type")
    count = config.positive("num_hidden_layers", default=len(kinds))
    if len(kinds) != count:
        raise config.wrong(("num_hidden_layers",), count, f"the number of layers of the pattern, {len(kinds)}")
    layers = [_mixer_layer(config, f"backbone.layers.{i}", kind) for i, kind in enumerate(kinds)]
    has_experts = any(layer.has_experts for layer in layers)
    return assemble(
        config,
        layers,
        outside=Outside(Names("backbone.embeddings", "backbone.norm_f", "lm_head")),
        experts_per_token=config.positive("num_experts_per_tok") if has_experts else None,
        draft=_nemotron_draft(config),
    )


def _mixers(config: RawConfig, coded: str, listed: str) -> list[str]:
    """Mixer of each layer, from a pattern string or a list of names."""
    names = config.items(listed)
    if names is None:
        return coded_layers(config, coded, LAYER_CODES)
    for index, name in enumerate(names):
        if name not in LAYER_CODES.values():
            known = ", ".join(sorted(LAYER_CODES.values()))
            raise config.wrong((listed,), name, f"one of {known} (layer {index})")
    return [str(name) for name in names]


def _mixer_layer(config: RawConfig, prefix: str, kind: str) -> Layer:
    hidden = config.positive("hidden_size")
    mixer = f"{prefix}.mixer"
    norm = vector(f"{prefix}.norm", "norms", hidden)
    if kind == "mamba":
        state = mamba2(config, mixer)
        return Layer([norm, *state.tensors], state.group)
    if kind == "attention":
        bias = config.flag("attention_bias", default=False)
        attended = grouped_query(config, mixer, qkv_bias=bias, out_bias=bias)
        return Layer([norm, *attended.tensors], attended.group)
    bias = config.flag("mlp_bias", default=False)
    if kind == "mlp":
        inner = config.positive("intermediate_size")
        return Layer([norm, *mlp(mixer, "dense_mlp", hidden, inner, names=UNGATED, bias=bias)])
    return Layer([norm, *_nemotron_experts(config, mixer, bias=bias)])


def _nemotron_experts(config: RawConfig, mixer: str, *, bias: bool) -> list[Tensor]:
    """Experts without gate; where there is a latent size the routed ones work in it, between two projections."""
    hidden, experts = config.positive("hidden_size"), config.positive("n_routed_experts")
    latent = config.integer("moe_latent_size", default=0)
    shared = config.positive("moe_shared_expert_intermediate_size") * config.integer("n_shared_experts", default=1)
    tensors = [
        *routed_experts(mixer, latent or hidden, config.positive("moe_intermediate_size"), experts, names=UNGATED),
        *router(f"{mixer}.gate", hidden, experts, correction_bias=f"{mixer}.gate.e_score_correction_bias"),
        *mlp(f"{mixer}.shared_experts", "shared_experts", hidden, shared, names=UNGATED, bias=bias),
    ]
    if latent:
        tensors += matrix(f"{mixer}.fc1_latent_proj", "shared_experts", latent, hidden, bias=bias)
        tensors += matrix(f"{mixer}.fc2_latent_proj", "shared_experts", hidden, latent, bias=bias)
    return tensors


def _nemotron_draft(config: RawConfig) -> list[Tensor]:
    """Draft layers: their mixers, one projection of two inputs to one and three norms a draft step."""
    steps = config.integer("num_nextn_predict_layers", default=0)
    if not steps:
        return []
    kinds = _mixers(config, "mtp_hybrid_override_pattern", "mtp_layers_block_type")
    hidden = config.positive("hidden_size")
    tensors: list[Tensor] = []
    for step in range(steps):
        for index, kind in enumerate(kinds):
            tensors += _mixer_layer(config, f"mtp.layers.{step * len(kinds) + index}", kind).tensors
        tensors += matrix(f"mtp.{step}.eh_proj", "mtp", hidden, 2 * hidden)
        tensors += [vector(f"mtp.{step}.{name}", "mtp", hidden) for name in ("enorm", "hnorm", "final_layernorm")]
    return tensors
