"""Attention layers by kind: what one layer caches and computes, and its tensors.

Each function gives one layer's ``AttentionGroup`` (with ``layers=1``) and its tensors. Shapes follow the
reference implementations in transformers 5.24 and, for DeepSeek-V4, the published checkpoint.
"""

from dataclasses import dataclass
from typing import Literal

from schemas.errors import UserError
from schemas.models import AttentionGroup, AttentionKind
from transforms.model_config.raw import RawConfig
from transforms.model_config.tensors import Tensor, matrix, vector

#: Bytes of one FP8 scale of an indexer key; one for each 128 values (vLLM, SGLang).
INDEX_SCALE_BYTES = 4
INDEX_SCALE_VALUES = 128


@dataclass(frozen=True)
class AttentionLayer:
    """One layer's cache and its tensors."""

    group: AttentionGroup
    tensors: list[Tensor]


@dataclass(frozen=True)
class Heads:
    """Shape of a layer with K and V heads."""

    query: int
    kv: int
    qk_dim: int
    v_dim: int

    @property
    def kv_elements(self) -> int:
        """Cached elements of one token."""
        return self.kv * (self.qk_dim + self.v_dim)


def heads_of(config: RawConfig) -> Heads:
    """Heads of the config; an explicit ``head_dim`` wins over hidden/heads, null KV heads mean all heads."""
    query = config.positive("num_attention_heads")
    kv = config.positive("num_key_value_heads", default=query)
    if config.has("head_dim", "attention_head_dim"):
        head_dim = config.positive("head_dim", "attention_head_dim")
    else:
        hidden = config.positive("hidden_size")
        if hidden % query:
            raise UserError(
                f"config.json of {config.model}: there is no `head_dim`, and hidden_size {hidden} is not a"
                f" multiple of num_attention_heads {query}."
            )
        head_dim = hidden // query
    return Heads(query, kv, head_dim, config.positive("v_head_dim", default=head_dim))


def grouped_query(
    config: RawConfig,
    prefix: str,
    heads: Heads | None = None,
    *,
    window: int | None = None,
    chunked: bool = False,
    qkv_bias: bool = False,
    out_bias: bool = False,
    qk_norm: Literal["none", "head", "width"] = "none",
    output_gate: bool = False,
    values_are_keys: bool = False,
    sinks: bool = False,
    out_name: str = "o_proj",
) -> AttentionLayer:
    """MHA, GQA or MQA, over the whole context, a window or a chunk.

    ``qk_norm``: a norm over each head's dimension or over the whole width. ``output_gate``: the query
    projection is twice as wide (Qwen3.5). ``values_are_keys``: no value projection (Gemma 4); engines cache
    K and V all the same.
    """
    heads = heads or heads_of(config)
    hidden = config.positive("hidden_size")
    width = heads.query * heads.qk_dim
    tensors = [
        *matrix(f"{prefix}.q_proj", "attention", width * (2 if output_gate else 1), hidden, bias=qkv_bias),
        *matrix(f"{prefix}.k_proj", "attention", heads.kv * heads.qk_dim, hidden, bias=qkv_bias),
    ]
    if not values_are_keys:
        tensors += matrix(f"{prefix}.v_proj", "attention", heads.kv * heads.v_dim, hidden, bias=qkv_bias)
    tensors += matrix(f"{prefix}.{out_name}", "attention", hidden, heads.query * heads.v_dim, bias=out_bias)
    if qk_norm != "none":
        whole = qk_norm == "width"
        tensors += [
            vector(f"{prefix}.q_norm", "attention", width if whole else heads.qk_dim),
            vector(f"{prefix}.k_norm", "attention", heads.kv * heads.qk_dim if whole else heads.qk_dim),
        ]
    if sinks:
        tensors.append(vector(f"{prefix}.sinks", "attention", heads.query))
    kind: AttentionKind = "mha" if heads.kv == heads.query else "mqa" if heads.kv == 1 else "gqa"
    if window is not None:
        kind = "chunked" if chunked else "sliding_window"
    group = AttentionGroup(
        kind=kind,
        layers=1,
        kv_heads=heads.kv,
        kv_elements_per_entry=heads.kv_elements,
        window_tokens=window,
        flops_per_pair=2 * heads.query * (heads.qk_dim + heads.v_dim),
    )
    return AttentionLayer(group, tensors)


def latent(config: RawConfig, prefix: str, *, sparse: bool = False, own_indexer: bool = True) -> AttentionLayer:
    """MLA (DeepSeek-V2/V3), with ``sparse`` the indexer of DeepSeek-V3.2.

    A layer without an indexer of its own reads the tokens that another layer's picked (GLM-5.2).
    """
    hidden = config.positive("hidden_size")
    query = config.positive("num_attention_heads")
    kv_rank = config.positive("kv_lora_rank")
    rope, nope = config.positive("qk_rope_head_dim"), config.positive("qk_nope_head_dim")
    v_dim = config.positive("v_head_dim")
    q_width = query * (nope + rope)
    q_rank = config.integer("q_lora_rank", default=0)
    if q_rank:
        tensors = [
            *matrix(f"{prefix}.q_a_proj", "attention", q_rank, hidden),
            vector(f"{prefix}.q_a_layernorm", "attention", q_rank),
            *matrix(f"{prefix}.q_b_proj", "attention", q_width, q_rank),
        ]
    else:
        tensors = matrix(f"{prefix}.q_proj", "attention", q_width, hidden)
    tensors += [
        *matrix(f"{prefix}.kv_a_proj_with_mqa", "attention", kv_rank + rope, hidden),
        vector(f"{prefix}.kv_a_layernorm", "attention", kv_rank),
        *matrix(f"{prefix}.kv_b_proj", "attention", query * (nope + v_dim), kv_rank),
        *matrix(f"{prefix}.o_proj", "attention", hidden, query * v_dim),
    ]
    extra, top, index_flops = 0.0, None, 0
    if sparse:
        top = config.positive("index_topk")
        if own_indexer:
            index_heads, index_dim = config.positive("index_n_heads"), config.positive("index_head_dim")
            extra, index_flops = float(index_key_bytes(index_dim)), 2 * index_heads * index_dim
            tensors += [
                *matrix(f"{prefix}.indexer.wq_b", "attention", index_heads * index_dim, q_rank or hidden),
                *matrix(f"{prefix}.indexer.wk", "attention", index_dim, hidden),
                vector(f"{prefix}.indexer.k_norm", "attention", 2, index_dim, float32=True),
                vector(f"{prefix}.indexer.weights_proj", "attention", index_heads, hidden),
            ]
    group = AttentionGroup(
        kind="sparse_mla" if sparse else "mla",
        layers=1,
        kv_heads=1,
        kv_elements_per_entry=kv_rank + rope,
        kv_extra_bytes_per_entry=extra,
        flops_per_pair=2 * query * (nope + rope + v_dim),
        decode_flops_per_pair=2 * query * (2 * kv_rank + rope),
        attended_entries=top,
        index_flops_per_entry=index_flops,
    )
    return AttentionLayer(group, tensors)


def index_key_bytes(index_dim: int) -> int:
    """Bytes of one cached indexer key: FP8 values and their scales, whatever the KV dtype."""
    return index_dim + -(-index_dim // INDEX_SCALE_VALUES) * INDEX_SCALE_BYTES


def gated_delta(config: RawConfig, prefix: str, *, fused_projections: bool) -> AttentionLayer:
    """Linear attention by the gated delta rule (Qwen3-Next, Qwen3.5): a state and no cache.

    Qwen3-Next fuses its input projections; the parameters are the same.
    """
    hidden = config.positive("hidden_size")
    key_heads, key_dim = config.positive("linear_num_key_heads"), config.positive("linear_key_head_dim")
    value_heads, value_dim = (
        config.positive("linear_num_value_heads"),
        config.positive("linear_value_head_dim"),
    )
    kernel = config.positive("linear_conv_kernel_dim")
    channels = 2 * key_heads * key_dim + value_heads * value_dim
    width = value_heads * value_dim
    if fused_projections:
        inputs = [
            *matrix(f"{prefix}.in_proj_qkvz", "attention", channels + width, hidden),
            *matrix(f"{prefix}.in_proj_ba", "attention", 2 * value_heads, hidden),
        ]
    else:
        inputs = [
            *matrix(f"{prefix}.in_proj_qkv", "attention", channels, hidden),
            *matrix(f"{prefix}.in_proj_z", "attention", width, hidden),
            *matrix(f"{prefix}.in_proj_b", "attention", value_heads, hidden),
            *matrix(f"{prefix}.in_proj_a", "attention", value_heads, hidden),
        ]
    tensors = [
        *inputs,
        *matrix(f"{prefix}.out_proj", "attention", hidden, width),
        vector(f"{prefix}.conv1d", "attention", channels, 1, kernel),
        vector(f"{prefix}.dt_bias", "attention", value_heads),
        vector(f"{prefix}.A_log", "attention", value_heads, float32=True),
        vector(f"{prefix}.norm", "attention", value_dim, float32=True),
    ]
    recurrent = value_heads * key_dim * value_dim * _state_element_bytes(config, "mamba_ssm_dtype")
    return AttentionLayer(state_group("linear", value_heads, recurrent, channels, kernel), tensors)


def mamba2(config: RawConfig, prefix: str) -> AttentionLayer:
    """Mamba-2 (Nemotron-H): a state and no cache."""
    hidden = config.positive("hidden_size")
    heads, head_dim = config.positive("mamba_num_heads"), config.positive("mamba_head_dim")
    groups, state = config.positive("n_groups"), config.positive("ssm_state_size")
    kernel = config.positive("conv_kernel")
    width = heads * head_dim
    channels = width + 2 * groups * state
    bias = config.flag("mamba_proj_bias", "use_bias", default=False)
    tensors = [
        *matrix(f"{prefix}.in_proj", "attention", width + channels + heads, hidden, bias=bias),
        *matrix(f"{prefix}.out_proj", "attention", hidden, width, bias=bias),
        vector(f"{prefix}.conv1d", "attention", channels, 1, kernel),
        vector(f"{prefix}.norm", "attention", width),
        *(vector(f"{prefix}.{name}", "attention", heads) for name in ("dt_bias", "A_log", "D")),
    ]
    if config.flag("use_conv_bias", default=True):
        tensors.append(vector(f"{prefix}.conv1d.bias", "attention", channels))
    recurrent = width * state * _state_element_bytes(config, "mamba_ssm_cache_dtype")
    return AttentionLayer(state_group("mamba", heads, recurrent, channels, kernel), tensors)


def state_group(
    kind: Literal["linear", "mamba"], heads: int, recurrent_bytes: int, channels: int, kernel: int
) -> AttentionGroup:
    """State of one layer: the recurrent state, and ``channels * (kernel - 1)`` values of 2 bytes."""
    return AttentionGroup(
        kind=kind,
        layers=1,
        kv_heads=heads,
        kv_elements_per_entry=0,
        state_bytes=recurrent_bytes + channels * (kernel - 1) * 2,
        flops_per_pair=0,
    )


def _state_element_bytes(config: RawConfig, key: str) -> int:
    """Bytes of one value of a recurrent state: 4 unless the config says otherwise."""
    sizes = {"float32": 4, "bfloat16": 2, "float16": 2}
    name = config.text(key, default="float32")
    if name not in sizes:
        raise config.wrong((key,), name, f"one of {', '.join(sizes)}")
    return sizes[name]
