"""The model catalogue: what one model weighs, caches and computes.

Every figure is derived from the model's ``config.json`` (``transforms/model_config``); nothing here
depends on hardware or on a deployment.
"""

import re
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt, PositiveInt

from schemas.dtypes import BYTES_PER_WEIGHT, KvDtype, WeightDtype
from schemas.slugs import Slug

#: A name on a hub: one word to a shell, and no option.
_HUB_NAME: Final = re.compile(r"[A-Za-z0-9_][\w.-]{0,95}/[A-Za-z0-9_][\w.-]{0,95}", re.ASCII)

AttentionKind = Literal[
    "mha",  # every query head has its own K and V
    "gqa",  # groups of query heads share K and V
    "mqa",  # one K and V for all query heads
    "mla",  # one latent for all query heads (DeepSeek-V3)
    "sparse_mla",  # MLA, and an indexer that picks the tokens a query reads (DeepSeek-V3.2)
    "compressed",  # several tokens share one latent; the last ones are kept in full too (DeepSeek-V4)
    "sliding_window",  # the last tokens only
    "chunked",  # the tokens of the current chunk only (Llama 4)
    "linear",  # gated delta net: a state, no cache
    "mamba",  # Mamba-2: a state, no cache
]


class AttentionGroup(BaseModel):
    """Layers that cache in the same way. Figures are for ONE layer unless the name says otherwise.

    A layer of n tokens holds ``min(n, window_tokens) / tokens_per_entry`` entries of
    ``kv_elements_per_entry`` elements and ``kv_extra_bytes_per_entry`` bytes, the last
    ``recent_tokens`` in full beside them, and ``state_bytes`` whatever n is.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: AttentionKind
    layers: PositiveInt
    kv_heads: PositiveInt = Field(description="heads that tensor parallelism can split; 1 for MLA")
    kv_elements_per_entry: NonNegativeInt = Field(
        description="cached elements of one entry, K and V together; 0 where nothing grows with the context"
    )
    tokens_per_entry: PositiveInt = Field(default=1, description="tokens that share one entry")
    kv_extra_bytes_per_entry: NonNegativeFloat = Field(
        default=0.0, description="bytes beside the elements that do not follow the KV dtype (indexer keys)"
    )
    window_tokens: PositiveInt | None = Field(default=None, description="sliding window or chunk; None = whole context")
    recent_tokens: NonNegativeInt = Field(default=0, description="last tokens kept in full beside entries")
    recent_elements_per_token: NonNegativeInt = Field(default=0, description="cached elements of one of them")
    state_bytes: NonNegativeInt = Field(default=0, description="fixed state of one session")
    flops_per_pair: NonNegativeInt = Field(
        description="FLOPs of one new token against one entry: 2 * heads * (qk_dim + v_dim)"
    )
    decode_flops_per_pair: PositiveInt | None = Field(
        default=None,
        description="the same in decode where that is another product: MLA attends in the latent, "
        "2 * heads * (2 * latent + rope); None = as in prefill",
    )
    attended_entries: PositiveInt | None = Field(
        default=None, description="a query reads at most so many entries (top-k of an indexer); None = all"
    )
    index_flops_per_entry: NonNegativeInt = Field(
        default=0, description="FLOPs of the indexer for one new token against one entry"
    )


class ParameterCounts(BaseModel):
    """Parameters by part, summed over the main model's layers; the MTP layers stand apart.

    Biases, q/k norms, convolutions and indexers count with the part they belong to. The vision tower of a
    multimodal checkpoint is in the total: an engine loads it; no step of the language model reads it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    embedding: NonNegativeInt = Field(description="input embedding")
    output_head: NonNegativeInt = Field(description="0 where tied to the embedding")
    attention: NonNegativeInt
    dense_mlp: NonNegativeInt
    shared_experts: NonNegativeInt = Field(default=0, description="shared experts, their gates and latent projections")
    routed_experts: NonNegativeInt = Field(default=0, description="all routed experts of all MoE layers")
    router: NonNegativeInt = Field(default=0, description="routers and their correction biases")
    norms: NonNegativeInt = Field(description="layer norms, and connections between layers other than sums")
    vision: NonNegativeInt = Field(default=0, description="vision tower and projector")
    mtp: NonNegativeInt = Field(
        default=0, description="multi-token-prediction layers without shared embeddings, in no total below"
    )

    @property
    def total(self) -> int:
        """Parameters that memory must hold (model.md 9)."""
        return self.non_expert + self.routed_experts + self.vision

    @property
    def non_expert(self) -> int:
        """Parameters that every step reads, whatever the batch (model.md 9)."""
        return (
            self.embedding
            + self.output_head
            + self.attention
            + self.dense_mlp
            + self.shared_experts
            + self.router
            + self.norms
        )


class MixtureOfExperts(BaseModel):
    """Routing of a mixture-of-experts model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    experts: PositiveInt
    experts_per_token: PositiveInt
    layers: PositiveInt


class StoredDtypes(BaseModel):
    """Number formats of the checkpoint's parts: of most bytes, where a part has several."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    attention: WeightDtype = "bf16"
    dense_mlp: WeightDtype = "bf16"
    shared_experts: WeightDtype = "bf16"
    routed_experts: WeightDtype = "bf16"
    embedding: WeightDtype = "bf16"
    output_head: WeightDtype = "bf16"


class StoredBytes(BaseModel):
    """Bytes of each part in the checkpoint, scales included, modules left out of quantisation counted so."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    embedding: NonNegativeInt
    output_head: NonNegativeInt
    attention: NonNegativeInt
    dense_mlp: NonNegativeInt
    shared_experts: NonNegativeInt = 0
    routed_experts: NonNegativeInt = 0
    router: NonNegativeInt = 0
    norms: NonNegativeInt
    vision: NonNegativeInt = Field(default=0, description="vision tower and projector, in 16 bits")

    @property
    def non_expert(self) -> int:
        """Bytes of the language model without its routed experts."""
        return (
            self.embedding
            + self.output_head
            + self.attention
            + self.dense_mlp
            + self.shared_experts
            + self.router
            + self.norms
        )


class ModelSpec(BaseModel):
    """One model, independent of hardware and deployment."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    slug: Slug
    name: str
    aliases: tuple[str, ...] = ()
    source: str = Field(description="config.json that the figures were derived from")
    layers: PositiveInt
    hidden_size: PositiveInt
    max_context_tokens: PositiveInt | None = Field(description="None: the config does not say")
    attention: tuple[AttentionGroup, ...]
    parameters: ParameterCounts
    moe: MixtureOfExperts | None = None
    stored: StoredDtypes = StoredDtypes()
    stored_bytes: StoredBytes
    not_counted: tuple[str, ...] = Field(
        default=(), description="parts of the checkpoint that the figures leave out, in words"
    )
    kv_dtype: KvDtype = Field(default="bf16", description="KV format where nothing else is said")

    @property
    def checkpoint(self) -> str | None:
        """The name that engines load the model by, ``owner/name`` on a hub; None where the catalogue has none."""
        return next((name for name in (self.name, *self.aliases) if _HUB_NAME.fullmatch(name)), None)

    @property
    def parameters_total(self) -> int:
        return self.parameters.total

    @property
    def parameters_active(self) -> int:
        """Parameters that one token uses, both embeddings counted (model.md 9)."""
        if self.moe is None:
            return self.parameters.non_expert
        used = self.parameters.routed_experts * self.moe.experts_per_token // self.moe.experts
        return self.parameters.non_expert + used

    @property
    def parameters_per_expert(self) -> int:
        """One routed expert summed over all MoE layers; 0 on a dense model (model.md 9)."""
        return 0 if self.moe is None else self.parameters.routed_experts // self.moe.experts

    @property
    def weight_dtype(self) -> str:
        """Format that names the checkpoint: the experts' on a mixture of experts."""
        return self.stored.routed_experts if self.moe else self.stored.dense_mlp

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights as the checkpoint stores them."""
        return self.stored_bytes.non_expert + self.stored_bytes.routed_experts + self.stored_bytes.vision

    @property
    def vision_bytes(self) -> int:
        """Bytes of the vision tower, which memory holds and no step of the language model reads."""
        return self.stored_bytes.vision

    def non_expert_bytes(self, dtype: str | None = None) -> float:
        """Bytes of the language model without its routed experts.

        None: as the checkpoint stores them, exact. ``dtype``: the format of the linear layers as a
        deployment serves them; embeddings, head, router and norms keep the checkpoint's format, as
        no engine quantises them. Biases are counted as if they took the format too (below 0.1 %).
        """
        if dtype is None:
            return float(self.stored_bytes.non_expert)
        p, stored = self.parameters, self.stored_bytes
        linear = (p.attention + p.dense_mlp + p.shared_experts) * BYTES_PER_WEIGHT[dtype]
        return linear + stored.embedding + stored.output_head + stored.router + stored.norms

    def expert_bytes(self, dtype: str | None = None) -> float:
        """Bytes of all routed experts, as stored (None) or in a format; 0 on a dense model."""
        if dtype is None:
            return float(self.stored_bytes.routed_experts)
        return self.parameters.routed_experts * BYTES_PER_WEIGHT[dtype]
