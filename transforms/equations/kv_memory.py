"""KV memory and attention work of one session, and how many sessions fit (Step 4, Eq. 5; model.md 4).

Every function takes floats, NumPy arrays or Polars expressions for tokens, ``tp``, ``dp`` and bytes. The
attention groups of a model are always plain Python values: the sums over them are written out.

Two bounds of a session's bytes:

- *ideal* (``paged=False``): a windowed layer holds its window, a state layer its state, nothing is rounded.
  No engine does better.
- *paged* (``paged=True``), one page size for all layers: every attention layer holds the whole context,
  windowed or not. That is what vLLM allocates with its hybrid KV manager off (it is off beside most KV
  connectors) and what TensorRT-LLM allocates unless window sizes are given; SGLang sizes the pool of the
  windowed layers at 0.8 of the full one by default. vLLM with its hybrid manager on lies between the two
  bounds. Where layers with a state share the pool, vLLM raises the tokens of a page until one page holds
  one layer's state: the state is padded to a page and each attention layer wastes up to one page.
  Pages of 16-64 tokens of models without such layers are not rounded up (below 0.2 % at 16,000 tokens),
  and the recent tokens of DeepSeek-V4's compressed layers are not extended to the whole context: its
  engines keep them in a pool of their own.
"""

import math
from collections.abc import Sequence

from schemas.models import AttentionGroup
from transforms.numbers import Number, largest, log_to_base_2, rounded_down, smallest, square_root

#: vLLM aligns the tokens of a page to this many when it unifies page sizes.
PAGE_TOKENS = 16
#: The same for kernels of latent attention.
LATENT_PAGE_TOKENS = 64
#: One-sided 95 % of a normal distribution.
Z_P95 = 1.64


def kv_bytes(
    groups: Sequence[AttentionGroup], tokens: Number, bytes_per_element: Number, *, paged: bool = False
) -> Number:
    """Bytes that ``tokens`` of ONE context take, one copy, without the fixed state.

    GQA: ``2 * layers * kv_heads * head_dim * bytes``; MLA: ``layers * (latent + rope) * bytes``, a token.
    """
    return sum(_group_kv_bytes(group, tokens, bytes_per_element, paged) for group in groups)


def kv_bytes_on_rank(
    groups: Sequence[AttentionGroup],
    tokens: Number,
    bytes_per_element: Number,
    tp: Number,
    *,
    paged: bool = False,
) -> Number:
    """``kv_bytes`` with the copies of tensor parallelism: bytes over all ``tp`` GPUs of a rank."""
    return sum(_group_kv_bytes(group, tokens, bytes_per_element, paged) * head_copies(group, tp) for group in groups)


def head_copies(group: AttentionGroup, tp: Number) -> Number:
    """Copies of each head over the ranks: ``tp / min(tp, kv_heads)``; each GPU holds at least one head."""
    return tp / smallest(tp, group.kv_heads)


def state_bytes(groups: Sequence[AttentionGroup], tp: Number = 1) -> Number:
    """Fixed state of one session over the ``tp`` GPUs of a rank.

    Linear and Mamba layers split it by heads; the compressor state of DeepSeek-V4 is copied.
    """
    return sum(group.layers * group.state_bytes * head_copies(group, tp) for group in groups)


def page_padding_bytes(groups: Sequence[AttentionGroup], bytes_per_element: Number, tp: Number = 1) -> Number:
    """Bytes over all ``tp`` GPUs that the paged bound adds to one session's state.

    Page = the largest state of a layer, rounded up by at most ``PAGE_TOKENS`` tokens of attention KV;
    each state layer takes a page, each attention layer wastes up to one. 0 without state layers.
    """
    state_layers = [group for group in groups if _is_state_only(group)]
    attention = [group for group in groups if not _is_state_only(group)]
    if not state_layers or not attention:
        return 0.0
    token_bytes = [_entry_bytes(group, bytes_per_element) / group.tokens_per_entry for group in attention]
    copied = [each * head_copies(group, tp) for each, group in zip(token_bytes, attention, strict=True)]
    page = max(group.state_bytes for group in state_layers) + PAGE_TOKENS * largest(*copied, 0.0)
    padded = sum(group.layers * (page - group.state_bytes) for group in state_layers)
    return padded + page * sum(group.layers for group in attention)


def prefix_block_tokens(groups: Sequence[AttentionGroup], bytes_per_element: float, tp: int = 1) -> int | None:
    """Tokens of one block of vLLM's prefix cache where layers with a state share the pool; None without such layers.

    One page size for all layers: the attention page is enlarged until it holds the largest state of a layer on one
    GPU, in whole kernel pages (vLLM 0.11 to 0.20, cache modes ``none`` and ``align``). A prefix is found in
    multiples of it. 528 on Qwen3.5-4B in 16 bits, 8,320 on Nemotron-3-Super with KV in FP8.
    """
    state_layers = [group for group in groups if _is_state_only(group)]
    attention = [group for group in groups if group.kv_elements_per_entry and group.tokens_per_entry == 1]
    if not state_layers or not attention:
        return None
    state = max(group.state_bytes / min(tp, group.kv_heads) for group in state_layers)
    token = max(_entry_bytes(group, bytes_per_element) / min(tp, group.kv_heads) for group in attention)
    latent = any(group.kind in ("mla", "sparse_mla") for group in attention)
    kernel = LATENT_PAGE_TOKENS if latent else PAGE_TOKENS
    return kernel * math.ceil(float(state / (kernel * token)))


def session_floor_bytes(groups: Sequence[AttentionGroup], bytes_per_element: float, tp: int = 1) -> float:
    """Bytes over the ``tp`` GPUs of a rank that a session holds however short it is: a page of every layer.

    A layer with a state pins one page for it, and each attention layer's first block is one; 0 without such layers.
    A floor under the session's bytes in the KV wall (Eq. 5).
    """
    block = prefix_block_tokens(groups, bytes_per_element, tp)
    if block is None:
        return 0.0
    layers = [group for group in groups if _is_state_only(group) or group.kv_elements_per_entry]
    attention = [group for group in layers if group.kv_elements_per_entry]
    page = block * max(_entry_bytes(group, bytes_per_element) / min(tp, group.kv_heads) for group in attention)
    return float(tp * page * sum(group.layers for group in layers))


def session_bytes_on_rank(
    groups: Sequence[AttentionGroup],
    tokens: Number,
    bytes_per_element: Number,
    tp: Number = 1,
    *,
    shared_tokens: Number = 0.0,
    paged: bool = False,
) -> Number:
    """Bytes over the ``tp`` GPUs of its rank that one session of ``tokens`` adds.

    ``kv(tokens - shared) + state``: where KV is linear that is the model's ``kv(tokens) - kv(shared)``; a
    windowed layer's last tokens are the session's own, so its window is not taken off again.
    """
    kv = kv_bytes_on_rank(groups, tokens - shared_tokens, bytes_per_element, tp, paged=paged)
    padding = page_padding_bytes(groups, bytes_per_element, tp) if paged else 0.0
    return kv + state_bytes(groups, tp) + padding


def kv_slope_bytes_per_token(
    groups: Sequence[AttentionGroup],
    tokens: Number,
    bytes_per_element: Number,
    tp: Number = 1,
    *,
    paged: bool = False,
) -> Number:
    """Bytes over the rank that one more token takes at a context of ``tokens``: slope of the concave KV."""
    grown = kv_bytes_on_rank(groups, tokens + 1.0, bytes_per_element, tp, paged=paged)
    return grown - kv_bytes_on_rank(groups, tokens, bytes_per_element, tp, paged=paged)


def kv_read_bytes_per_gpu(
    groups: Sequence[AttentionGroup], tokens: Number, bytes_per_element: Number, tp: Number
) -> Number:
    """Bytes that one decode step reads of one context on each GPU of a rank: ``/ min(tp, kv_heads)`` (Eq. 3b).

    A state is read and written.
    """
    return sum(_group_read_bytes(group, tokens, bytes_per_element) / smallest(tp, group.kv_heads) for group in groups)


def attention_pair_sum(window: Number | None, cached: Number, new: Number, *, chunked: bool = False) -> Number:
    """Keys attended to, summed over ``new`` tokens that follow ``cached`` ones.

    Without window ``new * (cached + new/2)`` (model.md 3). A window caps the keys of a token at
    ``window``; a chunk starts again from none at each multiple of ``window``. Continuous in the tokens.
    """
    return _pairs_up_to(cached + new, window, chunked) - _pairs_up_to(cached, window, chunked)


def attention_flops(groups: Sequence[AttentionGroup], cached: Number, new: Number) -> Number:
    """FLOPs of attention scores and values of a prefill, over all layers and heads.

    GQA: ``4 * layers * heads * head_dim * new * (cached + new/2)``. Windows, compression, top-k and the
    indexer's own scores are respected; linear and Mamba layers cost nothing that grows with the context.
    """
    return sum(_group_flops(group, cached, new) for group in groups)


def decode_attention_flops(groups: Sequence[AttentionGroup], tokens: Number) -> Number:
    """FLOPs of one new token's attention to a context of ``tokens``, over all layers and heads.

    MLA decodes in the latent: more FLOPs a pair than in prefill, for fewer bytes.
    """
    total: Number = 0.0
    for group in groups:
        held = tokens if group.window_tokens is None else smallest(tokens, group.window_tokens)
        entries = held / group.tokens_per_entry
        read = entries if group.attended_entries is None else smallest(entries, group.attended_entries)
        pairs = read + smallest(tokens, group.recent_tokens)
        flops = (group.decode_flops_per_pair or group.flops_per_pair) * pairs + group.index_flops_per_entry * entries
        total = total + group.layers * flops
    return total


def weights_bytes_per_rank(non_expert_bytes: Number, expert_bytes: Number, dp: Number) -> Number:
    """Each of ``dp`` ranks holds the whole non-expert part; experts are spread over all ranks."""
    return non_expert_bytes + expert_bytes / dp


def available_bytes_per_rank(
    gpus_per_rank: Number,
    hbm_bytes: Number,
    reserve_fraction: Number,
    weights_per_rank: Number,
    overhead_bytes_per_gpu: Number = 0.0,
) -> Number:
    """KV memory of one rank: ``gpus/dp * hbm * (1 - reserve) - weights - runtime overhead``.

    Negative where the weights do not fit.
    """
    usable = hbm_bytes * (1.0 - reserve_fraction) - overhead_bytes_per_gpu
    return gpus_per_rank * usable - weights_per_rank


def least_gpus_that_fit(weights_per_rank: Number, usable_per_gpu: Number) -> Number:
    """The least power of two of GPUs in a rank that leaves memory for KV beside the weights."""
    ratio = largest(weights_per_rank / usable_per_gpu, 0.5)
    return 2.0 ** (rounded_down(log_to_base_2(ratio)) + 1.0)


def max_sessions(left_per_rank: Number, session_bytes: Number, dp: Number) -> Number:
    """``dp * floor(left_per_rank / session_bytes)``; 0 where nothing is left (Eq. 5)."""
    return dp * rounded_down(largest(left_per_rank, 0.0) / session_bytes)


def sessions_p95_per_rank(left: Number, session_bytes: Number, slope_times_sd: Number) -> Number:
    """The largest n with ``n * kv(Lbar + 1.64 * sd / sqrt(n)) <= left``, on one rank.

    ``session_bytes`` is a session at Lbar, ``slope_times_sd`` the slope of KV at Lbar times the standard
    deviation of the context. KV is concave in the tokens, so its tangent is never below it: the result is
    exact where KV is linear and safe elsewhere. With ``s = sqrt(n)``: ``k0*s^2 + 1.64*slope*sd*s <= left``.
    """
    spread = Z_P95 * slope_times_sd
    root = (square_root(spread * spread + 4.0 * session_bytes * largest(left, 0.0)) - spread) / (2.0 * session_bytes)
    return rounded_down(root * root + 1e-9)  # the square of a rounded root must not lose a whole session


def _entry_bytes(group: AttentionGroup, bytes_per_element: Number) -> Number:
    return group.kv_elements_per_entry * bytes_per_element + group.kv_extra_bytes_per_entry


def _is_state_only(group: AttentionGroup) -> bool:
    return group.kv_elements_per_entry == 0 and group.state_bytes > 0


def _group_kv_bytes(group: AttentionGroup, tokens: Number, bytes_per_element: Number, paged: bool) -> Number:
    capped = group.window_tokens is not None and not paged
    held = smallest(tokens, group.window_tokens) if capped else tokens
    layer = held / group.tokens_per_entry * _entry_bytes(group, bytes_per_element)
    if group.recent_tokens:
        recent = smallest(tokens, group.recent_tokens)
        layer = layer + recent * group.recent_elements_per_token * bytes_per_element
    return group.layers * layer


def _group_read_bytes(group: AttentionGroup, tokens: Number, bytes_per_element: Number) -> Number:
    held = tokens if group.window_tokens is None else smallest(tokens, group.window_tokens)
    entries = held / group.tokens_per_entry
    read = entries if group.attended_entries is None else smallest(entries, group.attended_entries)
    layer = read * group.kv_elements_per_entry * bytes_per_element + entries * group.kv_extra_bytes_per_entry
    if group.recent_tokens:
        recent = smallest(tokens, group.recent_tokens)
        layer = layer + recent * group.recent_elements_per_token * bytes_per_element
    if _is_state_only(group):
        layer = layer + 2.0 * group.state_bytes
    return group.layers * layer


def _pairs_up_to(tokens: Number, window: Number | None, chunked: bool) -> Number:
    """Keys attended to by the first ``tokens`` of a context."""
    if window is None:
        return tokens * tokens / 2.0
    if chunked:
        whole = rounded_down(tokens / window)
        rest = tokens - whole * window
        return whole * (window * window / 2.0) + rest * rest / 2.0
    inside = smallest(tokens, window)
    return inside * inside / 2.0 + (tokens - inside) * window


def _group_flops(group: AttentionGroup, cached: Number, new: Number) -> Number:
    per_entry = group.tokens_per_entry
    limit = group.window_tokens
    if group.attended_entries is not None:
        limit = group.attended_entries * per_entry
    pairs = attention_pair_sum(limit, cached, new, chunked=group.kind == "chunked") / per_entry
    if group.recent_tokens:
        pairs = pairs + attention_pair_sum(group.recent_tokens, cached, new)
    flops = group.flops_per_pair * pairs
    if group.index_flops_per_entry:
        flops = flops + group.index_flops_per_entry * attention_pair_sum(None, cached, new) / per_entry
    return group.layers * flops
