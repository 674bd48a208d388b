"""Models with latent attention: DeepSeek-V2, V3 and V3.2, Kimi-K2, GLM-5."""

from transforms.model_config.assembly import Architecture, assemble, decoder_layers
from transforms.model_config.attention import AttentionLayer, latent
from transforms.model_config.families.drafts import deepseek_draft
from transforms.model_config.families.mixtures import deepseek_feed_forward, unsupported
from transforms.model_config.patterns import layer_count
from transforms.model_config.raw import RawConfig


def deepseek_v2(config: RawConfig) -> Architecture:
    """DeepSeek-V2: routers without correction bias."""
    return _deepseek(config, correction_bias=False)


def deepseek_v3(config: RawConfig) -> Architecture:
    """DeepSeek-V3 and R1, Kimi-K2."""
    return _deepseek(config)


def deepseek_v32(config: RawConfig) -> Architecture:
    """DeepSeek-V3.2 and GLM-5: every layer an indexer, or only those that ``indexer_types`` calls full."""
    return _deepseek(config, sparse=True)


def _deepseek(config: RawConfig, *, sparse: bool = False, correction_bias: bool = True) -> Architecture:
    if config.flag("attention_bias", default=False):
        raise unsupported(config, "attention_bias", "biases of latent attention")
    count = layer_count(config)
    drafts = config.integer("num_nextn_predict_layers", default=0)
    own = _own_indexers(config, count) + [True] * drafts

    def attention(index: int, prefix: str) -> AttentionLayer:
        return latent(config, f"{prefix}.self_attn", sparse=sparse, own_indexer=own[index])

    layers = decoder_layers(
        config,
        attention,
        deepseek_feed_forward(config, correction_bias=correction_bias),
        count=count + drafts,
    )
    return assemble(
        config,
        layers[:count],
        experts_per_token=config.positive("num_experts_per_tok"),
        draft=deepseek_draft(config, layers[count:]),
    )


def _own_indexers(config: RawConfig, count: int) -> list[bool]:
    """Which layers have an indexer of their own; the others reuse another layer's choice."""
    types = config.items("indexer_types") or ["full"] * count
    if len(types) != count:
        raise config.wrong(("indexer_types",), f"a list of {len(types)}", f"a list of num_hidden_layers = {count}")
    for index, name in enumerate(types):
        if name not in ("full", "shared"):
            raise config.wrong(("indexer_types",), name, f"'full' or 'shared' (layer {index})")
    return [name == "full" for name in types]
