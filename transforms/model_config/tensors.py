"""The tensors of a checkpoint: what each is called, what part it belongs to and how it is stored."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Part = Literal[
    "embedding",
    "output_head",
    "attention",
    "dense_mlp",
    "shared_experts",
    "routed_experts",
    "router",
    "norms",
    "mtp",
    "vision",
]
#: ``linear``: quantised unless left out. ``plain``: 16 bits always (norms, biases, routers, embeddings).
#: ``float32``: 4 bytes. The buffers are stored but are no parameters: a scalar of 16 bits, a look-up table.
Storage = Literal["linear", "plain", "float32", "plain_buffer", "int64_buffer"]


@dataclass(frozen=True)
class Tensor:
    """One tensor, or ``copies`` of the same shape (the experts of a layer, named by the first)."""

    module: str
    part: Part
    shape: tuple[int, ...]
    storage: Storage = "plain"
    copies: int = 1

    @property
    def elements(self) -> int:
        """Elements of all copies."""
        return math.prod(self.shape) * self.copies

    @property
    def parameters(self) -> int:
        """Parameters of all copies; 0 for a buffer."""
        return 0 if self.storage.endswith("buffer") else self.elements


def matrix(module: str, part: Part, rows: int, columns: int, *, copies: int = 1, bias: bool = False) -> list[Tensor]:
    """A linear layer of ``rows`` outputs and ``columns`` inputs, with its bias if it has one."""
    weight = Tensor(module, part, (rows, columns), "linear", copies)
    return [weight, Tensor(f"{module}.bias", part, (rows,), "plain", copies)] if bias else [weight]


def vector(module: str, part: Part, *shape: int, float32: bool = False, copies: int = 1) -> Tensor:
    """A tensor that no engine quantises: a norm, a bias, a router or a convolution."""
    return Tensor(module, part, shape, "float32" if float32 else "plain", copies)


def moved_to(part: Part, tensors: Iterable[Tensor]) -> list[Tensor]:
    """The same tensors, counted with another part (the layers of a draft head)."""
    return [Tensor(each.module, part, each.shape, each.storage, each.copies) for each in tensors]
