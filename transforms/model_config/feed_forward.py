"""Feed-forward layers: dense, mixtures of experts, and their tensors."""

from collections.abc import Sequence

from transforms.model_config.tensors import Part, Tensor, matrix, vector

GATED = ("gate_proj", "up_proj", "down_proj")
GATED_SHORT = ("w1", "w3", "w2")
UNGATED = ("up_proj", "down_proj")


def mlp(
    prefix: str,
    part: Part,
    hidden: int,
    inner: int,
    *,
    names: Sequence[str] = GATED,
    bias: bool = False,
    copies: int = 1,
) -> list[Tensor]:
    """A feed-forward network: the last name is the projection back to ``hidden``, the others go to ``inner``."""
    *inputs, output = names
    tensors = [
        each for name in inputs for each in matrix(f"{prefix}.{name}", part, inner, hidden, bias=bias, copies=copies)
    ]
    return tensors + matrix(f"{prefix}.{output}", part, hidden, inner, bias=bias, copies=copies)


def routed_experts(prefix: str, hidden: int, inner: int, experts: int, *, names: Sequence[str] = GATED) -> list[Tensor]:
    """The routed experts of one layer, each stored on its own; named by expert 0."""
    return mlp(f"{prefix}.experts.0", "routed_experts", hidden, inner, names=names, copies=experts)


def fused_experts(prefix: str, hidden: int, inner: int, experts: int, *, bias: bool = False) -> list[Tensor]:
    """The routed experts of one layer in two stacked tensors (gpt-oss, Llama 4, Gemma 4)."""
    return [
        *matrix(f"{prefix}.gate_up_proj", "routed_experts", 2 * inner, hidden, copies=experts, bias=bias),
        *matrix(f"{prefix}.down_proj", "routed_experts", hidden, inner, copies=experts, bias=bias),
    ]


def router(module: str, hidden: int, experts: int, *, correction_bias: str | None = None) -> list[Tensor]:
    """The router of one layer and, where it has one, its correction bias (stored in 4 bytes)."""
    tensors = [vector(module, "router", experts, hidden)]
    if correction_bias is not None:
        tensors.append(vector(correction_bias, "router", experts, float32=True))
    return tensors
