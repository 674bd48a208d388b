"""The hardware catalogue: what one GPU can hold, read and compute."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, field_validator

from schemas.dtypes import COMPUTE_PREFERENCE
from schemas.slugs import Slug
from schemas.suggest import did_you_mean


class FlopRates(BaseModel):
    """Dense FLOP/s of one GPU by arithmetic; ``None`` where the GPU does not have it."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    bf16: PositiveFloat
    fp8: PositiveFloat | None = None
    fp4: PositiveFloat | None = None


class Hardware(BaseModel):
    """One GPU model. Rates are peaks of ONE GPU; ``sources`` names where each figure comes from."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    slug: Slug
    name: str = Field(default_factory=lambda given: str(given.get("slug")), min_length=1)
    vendor: str = Field(min_length=1)
    aliases: tuple[str, ...] = ()
    hbm_bytes: PositiveInt = Field(description="memory as the driver reports it")
    hbm_printed_gb: PositiveFloat = Field(description="memory as printed on the data sheet, 10^9 bytes")
    hbm_bandwidth_bytes_per_s: PositiveFloat
    flops_per_s: FlopRates
    gpus_per_node: PositiveInt
    scale_up_gpus: PositiveInt = Field(
        default_factory=lambda given: int(given.get("gpus_per_node", 1)),
        description="GPUs that share the scale-up network: a node, or the rack of an NVL72",
    )
    scale_up_bytes_per_s: PositiveFloat = Field(description="one direction, GPU to the scale-up network")
    scale_out_bytes_per_s: PositiveFloat = Field(description="one direction, GPU to the network between nodes")
    host_link_bytes_per_s: PositiveFloat = Field(description="one direction, GPU to host memory")
    tdp_w: PositiveFloat | None = Field(default=None, description="what one GPU draws at most, its TDP or TBP, watts")
    sources: dict[str, str] = Field(default_factory=dict, description="figure -> where it was read")

    @field_validator("sources")
    @classmethod
    def _sources_name_figures(cls, sources: dict[str, str]) -> dict[str, str]:
        known = [name for name in cls.model_fields if name not in ("slug", "name", "vendor", "sources")]
        known += [f"flops_per_s.{rate}" for rate in FlopRates.model_fields]
        for figure in sources:
            if figure not in known:
                raise ValueError(f"sources names {figure!r}, which is no figure.{did_you_mean(figure, known)}")
        return sources

    @property
    def figures(self) -> dict[str, float]:
        """Every figure of this entry by the name that ``sources`` uses, rates as ``flops_per_s.bf16``."""
        plain: dict[str, Any] = self.model_dump(exclude={"slug", "name", "vendor", "aliases", "sources", "flops_per_s"})
        rates = {f"flops_per_s.{name}": rate for name, rate in self.flops_per_s if rate is not None}
        return {name: figure for name, figure in plain.items() if figure is not None} | rates

    def compute_flops_per_s(self, weight_dtype: str) -> float:
        """Dense FLOP/s per GPU for weights of this format (model.md 3).

        Raises ``KeyError`` for a format outside the vocabulary.
        """
        rates: list[float | None] = [getattr(self.flops_per_s, dtype) for dtype in COMPUTE_PREFERENCE[weight_dtype]]
        return next(rate for rate in rates if rate is not None)
