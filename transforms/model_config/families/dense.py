"""Dense decoders: Llama, Mistral, Qwen2, Qwen3, MiMo-7B, Phi, Gemma 3 and Nemotron NAS."""

from transforms.model_config.assembly import (
    Architecture,
    Layer,
    Names,
    Outside,
    assemble,
    decoder_layers,
    layer_norms,
)
from transforms.model_config.attention import Heads, grouped_query
from transforms.model_config.feed_forward import mlp
from transforms.model_config.patterns import layer_count, layer_types, windows
from transforms.model_config.raw import RawConfig
from transforms.model_config.tensors import Tensor, matrix

SLIDING_OR_FULL = ("full_attention", "sliding_attention")


def llama(config: RawConfig) -> Architecture:
    """Llama 2 and 3: biases only where ``attention_bias`` or ``mlp_bias`` ask for them."""
    bias = config.flag("attention_bias", default=False)
    layers = decoder_layers(
        config,
        lambda _, prefix: grouped_query(config, f"{prefix}.self_attn", qkv_bias=bias, out_bias=bias),
        lambda _, prefix: dense_mlp(config, prefix),
    )
    return assemble(config, layers)


def mistral(config: RawConfig) -> Architecture:
    """Mistral and Ministral: a ``sliding_window`` holds for every layer unless ``layer_types`` says which."""
    held = mistral_windows(config)
    layers = decoder_layers(
        config,
        lambda index, prefix: grouped_query(config, f"{prefix}.self_attn", window=held[index]),
        lambda _, prefix: dense_mlp(config, prefix),
    )
    return assemble(config, layers)


def qwen2(config: RawConfig) -> Architecture:
    """Qwen2 and Qwen2.5: biases on Q, K and V."""
    held = qwen_windows(config)
    layers = decoder_layers(
        config,
        lambda index, prefix: grouped_query(config, f"{prefix}.self_attn", window=held[index], qkv_bias=True),
        lambda _, prefix: dense_mlp(config, prefix),
    )
    return assemble(config, layers)


def qwen3(config: RawConfig) -> Architecture:
    """Qwen3 dense: a norm on each head of Q and K."""
    bias = config.flag("attention_bias", default=False)
    held = qwen_windows(config)
    layers = decoder_layers(
        config,
        lambda index, prefix: grouped_query(
            config, f"{prefix}.self_attn", window=held[index], qk_norm="head", qkv_bias=bias, out_bias=bias
        ),
        lambda _, prefix: dense_mlp(config, prefix),
    )
    return assemble(config, layers)


def mimo(config: RawConfig) -> Architecture:
    """MiMo-7B: Qwen2 with multi-token-prediction layers, each of which projects two inputs to one."""
    hidden, count = config.positive("hidden_size"), layer_count(config)
    held = qwen_windows(config)
    drafts = config.integer("num_nextn_predict_layers", default=0)
    layers = decoder_layers(
        config,
        lambda index, prefix: grouped_query(
            config, f"{prefix}.self_attn", window=(held + [None] * drafts)[index], qkv_bias=True
        ),
        lambda _, prefix: dense_mlp(config, prefix),
        count=count + drafts,
    )
    draft = [tensor for layer in layers[count:] for tensor in layer.tensors]
    for index in range(drafts):
        prefix = f"model.mtp_layers.{index}"
        draft += matrix(f"{prefix}.input_proj", "mtp", hidden, 2 * hidden)
        draft += layer_norms(prefix, hidden, "token_layernorm", "hidden_layernorm", "final_layernorm")
    return assemble(config, layers[:count], draft=draft)


def phi(config: RawConfig) -> Architecture:
    """Phi-1 and Phi-2: attention and feed-forward in parallel behind one norm, biases everywhere."""
    layers = decoder_layers(
        config,
        lambda _, prefix: grouped_query(config, f"{prefix}.self_attn", qkv_bias=True, out_bias=True, out_name="dense"),
        lambda _, prefix: mlp(
            f"{prefix}.mlp",
            "dense_mlp",
            config.positive("hidden_size"),
            config.positive("intermediate_size"),
            names=("fc1", "fc2"),
            bias=True,
        ),
        norms=("input_layernorm",),
        norm_bias=True,
    )
    outside = Outside(Names(final_norm="model.final_layernorm"), norm_bias=True, head_bias=True)
    return assemble(config, layers, outside=outside)


def gemma3(config: RawConfig) -> Architecture:
    """Gemma 3: windows on all but every ``sliding_window_pattern``-th layer, norms before and after."""
    types = layer_types(config, SLIDING_OR_FULL)
    every = config.positive("sliding_window_pattern", default=6)
    held = windows(
        config,
        types,
        windowed=[i for i in range(layer_count(config)) if (i + 1) % every] if types is None else (),
    )
    bias = config.flag("attention_bias", default=False)
    layers = decoder_layers(
        config,
        lambda index, prefix: grouped_query(
            config, f"{prefix}.self_attn", window=held[index], qk_norm="head", qkv_bias=bias, out_bias=bias
        ),
        lambda _, prefix: dense_mlp(config, prefix),
        norms=GEMMA_NORMS,
    )
    return assemble(config, layers, outside=Outside(tied_by_default=True))


def nemotron_nas(config: RawConfig) -> Architecture:
    """Llama-Nemotron: each block says whether it has attention and how wide its feed-forward network is."""
    hidden, query = config.positive("hidden_size"), config.positive("num_attention_heads")
    blocks = config.items("block_configs")
    if blocks is None:
        raise config.missing("block_configs")
    if len(blocks) != layer_count(config):
        raise config.wrong(("block_configs",), f"a list of {len(blocks)}", "one block a layer")
    layers = []
    for index, block in enumerate(blocks):
        prefix = f"model.layers.{index}"
        parts = RawConfig(config.model, block)
        attention = RawConfig(config.model, parts.section("attention") or {})
        feed_forward = RawConfig(config.model, parts.section("ffn") or {})
        tensors: list[Tensor] = []
        group = None
        for part in (attention, feed_forward):
            if part.flag("replace_with_linear", default=False) or part.has("window_length", "num_sink_tokens"):
                raise config.wrong(("block_configs",), part.fields, "plain attention and feed-forward, or none")
        if not attention.flag("no_op", default=False):
            kv = query // attention.positive("n_heads_in_group")
            heads = Heads(query, kv, hidden // query, hidden // query)
            attended = grouped_query(config, f"{prefix}.self_attn", heads)
            tensors += [*attended.tensors, *layer_norms(prefix, hidden, "input_layernorm")]
            group = attended.group
        if not feed_forward.flag("no_op", default=False):
            inner = -(-int(2 * feed_forward.number("ffn_mult") * hidden / 3) // 256) * 256
            tensors += [
                *dense_mlp(config, prefix, inner),
                *layer_norms(prefix, hidden, "post_attention_layernorm"),
            ]
        layers.append(Layer(tensors, group))
    return assemble(config, layers)


GEMMA_NORMS = (
    "input_layernorm",
    "post_attention_layernorm",
    "pre_feedforward_layernorm",
    "post_feedforward_layernorm",
)


def dense_mlp(config: RawConfig, prefix: str, inner: int | None = None) -> list[Tensor]:
    """The gated feed-forward network of a dense layer."""
    return mlp(
        f"{prefix}.mlp",
        "dense_mlp",
        config.positive("hidden_size"),
        config.positive("intermediate_size") if inner is None else inner,
        bias=config.flag("mlp_bias", default=False),
    )


def mistral_windows(config: RawConfig) -> list[int | None]:
    """Windows of Mistral and Mixtral: of every layer, or of those that ``layer_types`` names."""
    types = layer_types(config, SLIDING_OR_FULL)
    return windows(config, types, windowed=range(layer_count(config)) if config.has("sliding_window") else ())


def qwen_windows(config: RawConfig) -> list[int | None]:
    """Windows of Qwen: none unless ``use_sliding_window``, then from layer ``max_window_layers`` on."""
    types = layer_types(config, SLIDING_OR_FULL)
    if types is not None or not config.flag("use_sliding_window", default=False):
        return windows(config, types)
    return windows(config, None, windowed=range(config.integer("max_window_layers"), layer_count(config)))
