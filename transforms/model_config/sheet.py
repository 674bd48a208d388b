"""The figures of one model at one context and layout, and the sums they come from, to be checked by hand."""

from typing import Any

from schemas.dtypes import BYTES_PER_KV_ELEMENT
from schemas.models import AttentionGroup, ModelSpec
from transforms.equations.kv_memory import (
    PAGE_TOKENS,
    head_copies,
    kv_bytes,
    page_padding_bytes,
    prefix_block_tokens,
    session_bytes_on_rank,
    session_floor_bytes,
    state_bytes,
    weights_bytes_per_rank,
)
from transforms.numbers import Number

PARAMETER_PARTS = (
    ("embedding", "input embedding"),
    ("output_head", "output head"),
    ("attention", "attention"),
    ("dense_mlp", "dense feed-forward"),
    ("shared_experts", "shared experts"),
    ("router", "routers"),
    ("norms", "norms"),
    ("routed_experts", "routed experts"),
    ("vision", "vision tower"),
)


def model_figures(spec: ModelSpec, context_tokens: int, kv_dtype: str, tp: int, dp: int) -> dict[str, Any]:
    """The figures of ``models show --format json``. Bytes of ONE session at the context.

    ``tp`` and ``dp`` are the tensor and data parallelism of the attention: a session lives on the ``tp``
    GPUs of its rank, and a replica has ``tp * dp`` GPUs.
    """
    element = BYTES_PER_KV_ELEMENT[kv_dtype]
    groups = spec.attention
    on_rank = session_bytes_on_rank(groups, context_tokens, element, tp)
    return {
        "slug": spec.slug,
        "name": spec.name,
        "source": spec.source,
        "layers": spec.layers,
        "parameters_total": spec.parameters_total,
        "parameters_active": spec.parameters_active,
        "parameters_non_expert": spec.parameters.non_expert,
        "parameters_embedding": spec.parameters.embedding + spec.parameters.output_head,
        "parameters_mtp": spec.parameters.mtp,
        "parameters_vision": spec.parameters.vision,
        "not_counted": list(spec.not_counted),
        "weight_dtype": spec.weight_dtype,
        "weight_bytes": spec.weight_bytes,
        "weight_bytes_per_gpu": _whole(
            weights_bytes_per_rank(spec.non_expert_bytes() + spec.vision_bytes, spec.expert_bytes(), dp) / tp
        ),
        "context_tokens": context_tokens,
        "kv_dtype": kv_dtype,
        "tp": tp,
        "dp": dp,
        "kv_bytes_per_token": kv_bytes_per_token(spec, element),
        "kv_bytes_at_context": _whole(session_bytes_on_rank(groups, context_tokens, element)),
        "kv_bytes_at_context_paged": _whole(session_bytes_on_rank(groups, context_tokens, element, paged=True)),
        "state_bytes_per_session": _whole(state_bytes(groups)),
        "kv_bytes_at_context_per_gpu": _whole(on_rank / tp),
        "prefix_block_tokens": prefix_block_tokens(groups, element, tp),
        "session_floor_bytes": _whole(session_floor_bytes(groups, element, tp)),
        "max_context_tokens": spec.max_context_tokens,
        "attention": [_attention_figures(group) for group in groups],
    }


def kv_bytes_per_token(spec: ModelSpec, bytes_per_element: float) -> int | float | None:
    """kappa, where KV is a constant times the tokens (a fixed state apart); None where it is not."""
    if any(group.window_tokens is not None or group.recent_tokens for group in spec.attention):
        return None
    return _whole(kv_bytes(spec.attention, 1.0, bytes_per_element))


def explain_model(spec: ModelSpec, figures: dict[str, Any]) -> list[str]:
    """The sheet: every sum written out with its numbers."""
    return [
        *_head(spec),
        "",
        *_parameter_lines(spec, figures),
        "",
        *_weight_lines(spec, figures),
        "",
        *_kv_lines(spec, figures),
    ]


def _head(spec: ModelSpec) -> list[str]:
    limit = "not stated" if spec.max_context_tokens is None else f"{spec.max_context_tokens:,} tokens"
    kinds = ", ".join(f"{group.layers} x {describe_attention(group)}" for group in spec.attention)
    return [
        f"{spec.name} ({spec.slug})",
        f"source              {spec.source}",
        f"layers              {spec.layers}, hidden size {spec.hidden_size:,}",
        f"attention           {kinds}",
        f"longest context     {limit}",
    ]


def _parameter_lines(spec: ModelSpec, figures: dict[str, Any]) -> list[str]:
    counts = spec.parameters
    lines = ["Parameters"]
    lines += [f"  {label:<20}{getattr(counts, part):>22,}" for part, label in PARAMETER_PARTS if getattr(counts, part)]
    lines.append(f"  {'total':<20}{counts.total:>22,}  = the sum")
    if spec.moe is not None:
        moe = spec.moe
        beside = f" - {counts.vision:,}" if counts.vision else ""
        lines += [
            f"  {'non-expert':<20}{counts.non_expert:>22,}  = {counts.total:,} - {counts.routed_experts:,}{beside}",
            f"  {'active':<20}{spec.parameters_active:>22,}  = {counts.non_expert:,}"
            f" + {counts.routed_experts:,} * {moe.experts_per_token}/{moe.experts} experts",
        ]
    if counts.mtp:
        lines.append(f"  {'draft layers':<20}{counts.mtp:>22,}  not in the total")
    lines += [f"  Not counted: {part}." for part in spec.not_counted]
    return lines


def _weight_lines(spec: ModelSpec, figures: dict[str, Any]) -> list[str]:
    stored, total = spec.stored_bytes, spec.weight_bytes
    lines = ["Weights as stored (bytes, scales included)"]
    for part, label in PARAMETER_PARTS:
        size = getattr(stored, part)
        if size:
            dtype = getattr(spec.stored, part, "16 bits or more")
            lines.append(f"  {label:<20}{size:>22,}  {dtype}")
    lines.append(f"  {'total':<20}{total:>22,}  = {total / 1e9:,.2f} GB")
    tp, dp = figures["tp"], figures["dp"]
    lines.append(
        f"  {'a GPU':<20}{figures['weight_bytes_per_gpu']:>22,.0f}  = ({stored.non_expert + stored.vision:,}"
        f" + {stored.routed_experts:,} / dp {dp}) / tp {tp}"
    )
    return lines


def _kv_lines(spec: ModelSpec, figures: dict[str, Any]) -> list[str]:
    element = BYTES_PER_KV_ELEMENT[figures["kv_dtype"]]
    tokens, tp = figures["context_tokens"], figures["tp"]
    lines = [f"KV cache of one session at {tokens:,} tokens, {figures['kv_dtype']} ({element:g} bytes an element)"]
    for group in spec.attention:
        lines += _group_lines(group, tokens, element, tp)
    kappa = figures["kv_bytes_per_token"]
    lines.append(
        f"  {'a token':<20}{kappa:>22,.0f}  bytes"
        if kappa is not None
        else f"  {'a token':<20}{'-':>22}  not linear in the tokens"
    )
    paged, padding = figures["kv_bytes_at_context_paged"], page_padding_bytes(spec.attention, element)
    lines += [
        f"  {'session, ideal':<20}{figures['kv_bytes_at_context']:>22,.0f}  windows at their window,"
        f" state {figures['state_bytes_per_session']:,.0f} included",
        f"  {'session, paged':<20}{paged:>22,.0f}  one page size for all layers: windows hold the whole context"
        + (f", page padding {padding:,.0f} (pages of {PAGE_TOKENS}+ tokens)" if padding else ""),
        f"  {'a GPU':<20}{figures['kv_bytes_at_context_per_gpu']:>22,.0f}  of the {tp} that hold the session,"
        " copies of heads included (ideal)",
    ]
    block = figures["prefix_block_tokens"]
    if block is not None:
        lines += [
            f"  {'prefix block':<20}{block:>22,}  tokens: the attention page enlarged to a layer's state (vLLM)",
            f"  {'session, least':<20}{figures['session_floor_bytes']:>22,.0f}  a page of every layer, however short",
        ]
    return lines


def _group_lines(group: AttentionGroup, tokens: int, element: float, tp: int) -> list[str]:
    """The sum of one group of layers, written out."""
    label = f"{group.layers} x {group.kind}"
    if group.kv_elements_per_entry == 0:
        return [f"  {label:<20}{group.layers * group.state_bytes:>22,}  = {group.layers} * {group.state_bytes:,} state"]
    window = group.window_tokens
    held = f"{tokens:,}" if window is None else f"min({tokens:,}, {window:,})"
    entries = held if group.tokens_per_entry == 1 else f"{held} / {group.tokens_per_entry}"
    each = f"{group.kv_elements_per_entry:,} * {element:g}"
    if group.kv_extra_bytes_per_entry:
        each = f"({each} + {group.kv_extra_bytes_per_entry:g} indexer key)"
    total = _whole(kv_bytes([group], tokens, element))
    sum_text = f"{group.layers} * {entries} * {each}"
    if group.recent_tokens:
        recent = f"min({tokens:,}, {group.recent_tokens}) * {group.recent_elements_per_token} * {element:g}"
        sum_text = f"{group.layers} * ({entries} * {each} + {recent})"
    lines = [f"  {label:<20}{total:>22,.0f}  = {sum_text}"]
    if group.state_bytes:
        lines.append(
            f"  {'':<20}{group.layers * group.state_bytes:>22,}  = {group.layers} * {group.state_bytes:,} state"
        )
    copies = head_copies(group, tp)
    if copies > 1:
        lines.append(f"  {'':<42}  x {copies:g} copies at tp {tp}: {tp} / min({tp}, {group.kv_heads} KV heads)")
    return lines


def describe_attention(group: AttentionGroup) -> str:
    """A group of layers in a few words."""
    words: list[str] = [group.kind]
    if group.window_tokens is not None:
        words.append(f"of {group.window_tokens:,} tokens")
    if group.tokens_per_entry > 1:
        words.append(f"{group.tokens_per_entry} tokens an entry")
    if group.kv_elements_per_entry and group.kind not in ("mla", "sparse_mla", "compressed"):
        words.append(f"({group.kv_heads} KV heads)")
    return " ".join(words)


def _attention_figures(group: AttentionGroup) -> dict[str, Any]:
    return {
        "kind": group.kind,
        "layers": group.layers,
        "kv_heads": group.kv_heads if group.kv_elements_per_entry else None,
        "window_tokens": group.window_tokens,
        "tokens_per_entry": group.tokens_per_entry,
        "state_bytes": group.state_bytes,
    }


def _whole(value: Number) -> int | float:
    """A float that is whole as an int."""
    number = float(value)
    return int(number) if number.is_integer() else number
