"""A Hugging Face config.json as a model of the catalogue."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from schemas.models import ModelSpec, ParameterCounts, StoredBytes, StoredDtypes
from transforms.model_config.assembly import merged_groups
from transforms.model_config.families import build
from transforms.model_config.quantization import Quantization, read_quantization, with_weight_dtype
from transforms.model_config.raw import RawConfig, language_part
from transforms.model_config.tensors import Tensor
from transforms.model_config.vision import vision_part


def read_model_config(
    config: Mapping[str, Any],
    *,
    slug: str,
    name: str,
    source: str,
    quant_config: Mapping[str, Any] | None = None,
    weight_dtype: str | None = None,
    aliases: Iterable[str] = (),
) -> ModelSpec:
    """The model that a config.json describes.

    ``config``: the parsed file, nested ``text_config`` or not. ``quant_config``: the parsed
    hf_quant_config.json of ModelOpt, where there is one. ``weight_dtype``: the format that the weights are
    served in, where it is not the checkpoint's. Raises ``UserError`` that names a model type, a layer code,
    a dtype or a field that is unknown or missing: nothing is guessed.
    """
    raw = language_part(config, name)
    architecture = build(raw)
    quantization = read_quantization(raw, quant_config)
    if weight_dtype is not None:
        quantization = with_weight_dtype(quantization, weight_dtype, mixture=architecture.moe is not None)
    vision, not_counted = vision_part(config, name, architecture.hidden_size)
    tensors = (*architecture.tensors, *vision)
    counts: Counter[str] = Counter()
    stored: Counter[str] = Counter()
    for tensor in tensors:
        counts[tensor.part] += tensor.parameters
        if tensor.part != "mtp":
            stored[tensor.part] += quantization.bytes_of(tensor)
    return ModelSpec(
        slug=slug,
        name=name,
        aliases=tuple(aliases),
        source=source,
        layers=architecture.layers,
        hidden_size=architecture.hidden_size,
        max_context_tokens=max_context_tokens(raw),
        attention=merged_groups(architecture.groups),
        parameters=ParameterCounts(**_parts(counts, ParameterCounts.model_fields)),
        moe=architecture.moe,
        stored=_stored_dtypes(tensors, quantization),
        stored_bytes=StoredBytes(**_parts(stored, StoredBytes.model_fields)),
        not_counted=not_counted,
        kv_dtype=quantization.kv_dtype or ("fp16" if quantization.native == "fp16" else "bf16"),
    )


def max_context_tokens(config: RawConfig) -> int | None:
    """Longest context: ``max_position_embeddings``, or what YaRN stretches it to; None if the config is silent."""
    stated = config.integer("max_position_embeddings", "model_max_length", "seq_length", default=0)
    scaling = RawConfig(config.model, config.section("rope_scaling", "rope_parameters") or {})
    if scaling.text("rope_type", "type", default="") == "yarn":
        original = scaling.integer("original_max_position_embeddings", default=stated)
        stated = max(stated, int(original * scaling.number("factor", default=1.0)))
    return stated or None


def _parts(counts: Counter[str], parts: Iterable[str]) -> dict[str, int]:
    return {part: counts[part] for part in parts}


def _stored_dtypes(tensors: Iterable[Tensor], quantization: Quantization) -> StoredDtypes:
    """The format of most parameters of each part."""
    weighed: dict[str, Counter[str]] = {name: Counter() for name in StoredDtypes.model_fields}
    for tensor in tensors:
        if tensor.part in weighed:
            weighed[tensor.part][quantization.dtype_of(tensor)] += tensor.parameters
    dtypes = {name: counts.most_common(1)[0][0] if counts else quantization.native for name, counts in weighed.items()}
    return StoredDtypes.model_validate(dtypes)
