"""Cache models of a scenario: what decides whether a turn finds its session's prefix (Step 5, MODEL section 7)."""

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

CACHE_MODELS: Final = ("fixed", "ttl")


class _Cache(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class FixedCache(_Cache):
    """A cache that keeps a session's prefix with one chance, whatever the pause and the load."""

    model: Literal["fixed"] = "fixed"
    hit_rate: float = Field(ge=0.0, le=1.0, description="chance that a turn finds its prefix [h]")

    def __str__(self) -> str:
        return f"{self.hit_rate:g}"


class TimeToLiveCache(_Cache):
    """A cache that loses the prefix of a session that pauses for longer, whatever the load."""

    model: Literal["ttl"] = "ttl"
    kept_s: float = Field(ge=0.0, le=1e7, description="longest pause that a prefix outlives, seconds [T]")

    def __str__(self) -> str:
        return f"ttl {self.kept_s:g} s"


Cache = Annotated[FixedCache | TimeToLiveCache, Field(discriminator="model")]
