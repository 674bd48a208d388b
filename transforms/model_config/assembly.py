"""Puts a model together: embeddings, layers, final norm and head, the draft layers apart."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from schemas.models import AttentionGroup, MixtureOfExperts
from transforms.model_config.attention import AttentionLayer
from transforms.model_config.patterns import layer_count
from transforms.model_config.raw import RawConfig
from transforms.model_config.tensors import Tensor, moved_to, vector


@dataclass(frozen=True)
class Layer:
    """One layer: its attention group (None where it has no attention) and its tensors."""

    tensors: Sequence[Tensor]
    group: AttentionGroup | None = None

    @property
    def has_experts(self) -> bool:
        """Whether routed experts are among the tensors."""
        return any(tensor.part == "routed_experts" for tensor in self.tensors)


@dataclass(frozen=True)
class Architecture:
    """A model without its number formats."""

    layers: int
    hidden_size: int
    groups: tuple[AttentionGroup, ...]
    tensors: tuple[Tensor, ...]
    moe: MixtureOfExperts | None


@dataclass(frozen=True)
class Names:
    """What a family calls the tensors outside the layers."""

    embedding: str = "model.embed_tokens"
    final_norm: str = "model.norm"
    head: str = "lm_head"


@dataclass(frozen=True)
class Outside:
    """Tensors outside the layers, as a family has them."""

    names: Names = field(default_factory=Names)
    tied_by_default: bool = False
    norm_bias: bool = False
    head_bias: bool = False
    extra: Sequence[Tensor] = ()


def assemble(
    config: RawConfig,
    layers: Sequence[Layer],
    *,
    outside: Outside | None = None,
    experts_per_token: int | None = None,
    draft: Sequence[Tensor] = (),
) -> Architecture:
    """The whole model. ``draft``: the tensors of its multi-token-prediction layers."""
    outside = outside or Outside()
    hidden, vocabulary = config.positive("hidden_size"), config.positive("vocab_size")
    tied = config.flag("tie_word_embeddings", default=outside.tied_by_default)
    names = outside.names
    tensors = [vector(names.embedding, "embedding", vocabulary, hidden)]
    tensors += [tensor for layer in layers for tensor in layer.tensors]
    tensors.append(vector(names.final_norm, "norms", hidden))
    if outside.norm_bias:
        tensors.append(vector(f"{names.final_norm}.bias", "norms", hidden))
    if not tied:
        tensors.append(vector(names.head, "output_head", vocabulary, hidden))
    if outside.head_bias:
        tensors.append(vector(f"{names.head}.bias", "output_head", vocabulary))
    tensors += [*outside.extra, *moved_to("mtp", draft)]
    expert_layers = [layer for layer in layers if layer.has_experts]
    moe = None
    if expert_layers:
        experts = next(t.copies for t in expert_layers[0].tensors if t.part == "routed_experts")
        moe = MixtureOfExperts(experts=experts, experts_per_token=experts_per_token or 1, layers=len(expert_layers))
    groups = tuple(layer.group for layer in layers if layer.group is not None)
    return Architecture(len(layers), hidden, groups, tuple(tensors), moe)


TWO_NORMS = ("input_layernorm", "post_attention_layernorm")


def decoder_layers(
    config: RawConfig,
    attention: Callable[[int, str], AttentionLayer],
    feed_forward: Callable[[int, str], Sequence[Tensor]],
    *,
    norms: Sequence[str] = TWO_NORMS,
    norm_bias: bool = False,
    first: int = 0,
    count: int | None = None,
) -> list[Layer]:
    """Transformer layers ``model.layers.N``: attention, feed-forward and norms.

    ``attention`` and ``feed_forward`` are called with the layer's number and its prefix.
    """
    hidden = config.positive("hidden_size")
    layers = []
    for index in range(first, first + (layer_count(config) if count is None else count)):
        prefix = f"model.layers.{index}"
        attended = attention(index, prefix)
        tensors = [
            *attended.tensors,
            *feed_forward(index, prefix),
            *layer_norms(prefix, hidden, *norms, bias=norm_bias),
        ]
        layers.append(Layer(tensors, attended.group))
    return layers


def layer_norms(prefix: str, hidden: int, *names: str, bias: bool = False) -> list[Tensor]:
    """Layer norms of one layer."""
    tensors = [vector(f"{prefix}.{name}", "norms", hidden) for name in names]
    if bias:
        tensors += [vector(f"{prefix}.{name}.bias", "norms", hidden) for name in names]
    return tensors


def merged_groups(groups: Sequence[AttentionGroup]) -> tuple[AttentionGroup, ...]:
    """Equal layers counted together, in the order in which each kind first appears."""
    counts: dict[AttentionGroup, int] = {}
    for group in groups:
        counts[group] = counts.get(group, 0) + 1
    return tuple(group.model_copy(update={"layers": count}) for group, count in counts.items())
