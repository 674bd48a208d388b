"""DeepSeek-V4: compressed attention, hyper-connections, hash-routed first layers.

Names and formats are those of the published checkpoint (DeepSeek-V4-Flash, 69,187 tensors). A layer keeps
the last ``sliding_window`` tokens in full and one latent for each ``compress_ratio`` tokens before them;
the tokens of an unfinished group wait in a 4-byte state: ``ratio`` of them, twice as many and twice as wide
where groups overlap (ratio 4), each with a score (reference code; SGLang 0.5 keeps the same).
"""

from schemas.models import AttentionGroup
from transforms.model_config.assembly import Architecture, Layer, Names, Outside, assemble
from transforms.model_config.attention import AttentionLayer, index_key_bytes
from transforms.model_config.feed_forward import GATED_SHORT, mlp, routed_experts, router
from transforms.model_config.patterns import layer_count
from transforms.model_config.raw import RawConfig
from transforms.model_config.tensors import Tensor, matrix, vector

NAMES = Names(embedding="embed", final_norm="norm", head="head")
SLIDING, OVERLAPPING, COARSE = 0, 4, 128
STATE_BYTES = 4


def deepseek_v4(config: RawConfig) -> Architecture:
    """DeepSeek-V4-Flash and Pro."""
    count = layer_count(config)
    drafts = config.integer("num_nextn_predict_layers", default=0)
    ratios = config.items("compress_ratios")
    if ratios is None:
        raise config.missing("compress_ratios")
    if len(ratios) != count + drafts:
        raise config.wrong(
            ("compress_ratios",), f"a list of {len(ratios)}", f"one a layer, {drafts} draft layer(s) included"
        )
    for index, ratio in enumerate(ratios):
        if ratio not in (SLIDING, OVERLAPPING, COARSE):
            raise config.wrong(("compress_ratios",), ratio, f"0, 4 or 128 (layer {index})")
    hashed = config.integer("num_hash_layers", default=0)
    layers = [_layer(config, f"layers.{index}", ratios[index], hashed=index < hashed) for index in range(count)]
    draft: list[Tensor] = []
    for index in range(drafts):
        prefix = f"mtp.{index}"
        draft += _layer(config, prefix, ratios[count + index], hashed=False).tensors
        draft += _draft_extras(config, prefix)
    return assemble(
        config,
        layers,
        outside=Outside(NAMES, extra=_hyper_head(config, "")),
        experts_per_token=config.positive("num_experts_per_tok"),
        draft=draft,
    )


def _layer(config: RawConfig, prefix: str, ratio: int, *, hashed: bool) -> Layer:
    hidden = config.positive("hidden_size")
    attention = _attention(config, f"{prefix}.attn", ratio)
    norms = [vector(f"{prefix}.{name}", "norms", hidden) for name in ("attn_norm", "ffn_norm")]
    tensors = [
        *attention.tensors,
        *_feed_forward(config, f"{prefix}.ffn", hashed=hashed),
        *norms,
        *_hyper_connections(config, prefix),
    ]
    return Layer(tensors, attention.group)


def _attention(config: RawConfig, prefix: str, ratio: int) -> AttentionLayer:
    hidden, heads, dim = (config.positive(k) for k in ("hidden_size", "num_attention_heads", "head_dim"))
    q_rank, o_rank, groups = (config.positive(k) for k in ("q_lora_rank", "o_lora_rank", "o_groups"))
    window = config.positive("sliding_window")
    tensors = [
        *matrix(f"{prefix}.wq_a", "attention", q_rank, hidden),
        vector(f"{prefix}.q_norm", "attention", q_rank),
        *matrix(f"{prefix}.wq_b", "attention", heads * dim, q_rank),
        *matrix(f"{prefix}.wkv", "attention", dim, hidden),
        vector(f"{prefix}.kv_norm", "attention", dim),
        *matrix(f"{prefix}.wo_a", "attention", groups * o_rank, heads * dim // groups),
        *matrix(f"{prefix}.wo_b", "attention", hidden, groups * o_rank),
        vector(f"{prefix}.attn_sink", "attention", heads, float32=True),
    ]
    flops = 4 * heads * dim
    if ratio == SLIDING:
        group = AttentionGroup(
            kind="sliding_window",
            layers=1,
            kv_heads=1,
            kv_elements_per_entry=dim,
            window_tokens=window,
            flops_per_pair=flops,
        )
        return AttentionLayer(group, tensors)
    tensors += _compressor(f"{prefix}.compressor", hidden, ratio, dim)
    state, extra, index_flops = _compressor_state(ratio, dim), 0, 0
    if ratio == OVERLAPPING:
        index_heads, index_dim = config.positive("index_n_heads"), config.positive("index_head_dim")
        tensors += [
            *matrix(f"{prefix}.indexer.wq_b", "attention", index_heads * index_dim, q_rank),
            vector(f"{prefix}.indexer.weights_proj", "attention", index_heads, hidden),
            *_compressor(f"{prefix}.indexer.compressor", hidden, ratio, index_dim),
        ]
        state += _compressor_state(ratio, index_dim)
        extra, index_flops = index_key_bytes(index_dim), 2 * index_heads * index_dim
    group = AttentionGroup(
        kind="compressed",
        layers=1,
        kv_heads=1,
        kv_elements_per_entry=dim,
        tokens_per_entry=ratio,
        kv_extra_bytes_per_entry=float(extra),
        recent_tokens=window,
        recent_elements_per_token=dim,
        state_bytes=state,
        flops_per_pair=flops,
        attended_entries=config.positive("index_topk") if ratio == OVERLAPPING else None,
        index_flops_per_entry=index_flops,
    )
    return AttentionLayer(group, tensors)


def _width(ratio: int) -> int:
    """Overlapping groups are twice as wide."""
    return 2 if ratio == OVERLAPPING else 1


def _compressor(prefix: str, hidden: int, ratio: int, dim: int) -> list[Tensor]:
    width = _width(ratio) * dim
    return [
        vector(f"{prefix}.wkv", "attention", width, hidden),
        vector(f"{prefix}.wgate", "attention", width, hidden),
        vector(f"{prefix}.ape", "attention", ratio, width, float32=True),
        vector(f"{prefix}.norm", "attention", dim),
    ]


def _compressor_state(ratio: int, dim: int) -> int:
    """Bytes of the waiting tokens of one session: values and scores."""
    return ratio * _width(ratio) * (2 * _width(ratio) * dim) * STATE_BYTES


def _feed_forward(config: RawConfig, prefix: str, *, hashed: bool) -> list[Tensor]:
    hidden, experts = config.positive("hidden_size"), config.positive("n_routed_experts")
    inner, shared = config.positive("moe_intermediate_size"), config.integer("n_shared_experts", default=0)
    tensors = [
        *routed_experts(prefix, hidden, inner, experts, names=GATED_SHORT),
        *router(f"{prefix}.gate", hidden, experts, correction_bias=None if hashed else f"{prefix}.gate.bias"),
    ]
    if hashed:
        table = (config.positive("vocab_size"), config.positive("num_experts_per_tok"))
        tensors.append(Tensor(f"{prefix}.gate.tid2eid", "router", table, "int64_buffer"))
    if shared:
        tensors += mlp(f"{prefix}.shared_experts", "shared_experts", hidden, inner * shared, names=GATED_SHORT)
    return tensors


def _hyper_connections(config: RawConfig, prefix: str) -> list[Tensor]:
    """Mixing of ``hc_mult`` residual streams before attention and before the feed-forward network."""
    hidden, streams = config.positive("hidden_size"), config.positive("hc_mult")
    mixes = streams * (streams + 2)
    return [
        vector(f"{prefix}.hc_{where}_{name}", "norms", *shape, float32=True)
        for where in ("attn", "ffn")
        for name, shape in (("fn", (mixes, streams * hidden)), ("base", (mixes,)), ("scale", (3,)))
    ]


def _hyper_head(config: RawConfig, prefix: str) -> list[Tensor]:
    hidden, streams = config.positive("hidden_size"), config.positive("hc_mult")
    shapes = (("fn", (streams, streams * hidden)), ("base", (streams,)), ("scale", (1,)))
    return [vector(f"{prefix}hc_head_{name}", "norms", *shape, float32=True) for name, shape in shapes]


def _draft_extras(config: RawConfig, prefix: str) -> list[Tensor]:
    hidden = config.positive("hidden_size")
    return [
        *matrix(f"{prefix}.e_proj", "mtp", hidden, hidden),
        *matrix(f"{prefix}.h_proj", "mtp", hidden, hidden),
        *(vector(f"{prefix}.{name}", "mtp", hidden) for name in ("enorm", "hnorm", "norm")),
        *_hyper_head(config, f"{prefix}."),
    ]
