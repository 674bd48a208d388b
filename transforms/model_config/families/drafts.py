"""Multi-token-prediction layers: what they add to the transformer layers that they repeat."""

from collections.abc import Sequence

from transforms.model_config.assembly import Layer
from transforms.model_config.raw import RawConfig
from transforms.model_config.tensors import Tensor, matrix, vector


def deepseek_draft(config: RawConfig, layers: Sequence[Layer]) -> list[Tensor]:
    """Each layer, a projection of two inputs to one and three norms; embeddings are shared with the model."""
    hidden = config.positive("hidden_size")
    tensors: list[Tensor] = []
    for index, layer in enumerate(layers, start=config.positive("num_hidden_layers")):
        prefix = f"model.layers.{index}"
        tensors += [
            *layer.tensors,
            *matrix(f"{prefix}.eh_proj", "mtp", hidden, 2 * hidden),
            *(vector(f"{prefix}.{name}", "mtp", hidden) for name in ("enorm", "hnorm", "shared_head.norm")),
        ]
    return tensors
