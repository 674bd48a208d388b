"""Cache models of a scenario: what decides whether a turn finds its session's prefix (Step 5, model.md 7)."""

from typing import Annotated, Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

CACHE_MODELS: Final = ("fixed", "ttl", "lru")
#: Where the turns of a session go: to one replica, or each to any of them.
Routing = Literal["sticky", "random"]
ROUTINGS: Final[tuple[str, ...]] = get_args(Routing)


class _Cache(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class FixedCache(_Cache):
    """A cache that keeps a session's prefix with one chance, whatever the pause and the load."""

    model: Literal["fixed"] = "fixed"
    hit_rate: float = Field(ge=0.0, le=1.0, description="chance that a turn finds its prefix [h]")

    def __str__(self) -> str:
        return f"{self.hit_rate:g}"


class _Forgetful(_Cache):
    most_hit_rate: float | None = Field(
        default=None,
        ge=0.0,
        le=1.0,
        description="share of the turns that find their prefix where none is ever lost, less than 1 where contexts are "
        "compacted; where it is not said, that of the scenario's statistics, else 1",
    )


class TimeToLiveCache(_Forgetful):
    """A cache that loses the prefix of a session that pauses for longer, whatever the load."""

    model: Literal["ttl"] = "ttl"
    kept_s: float = Field(ge=0.0, le=1e7, description="longest pause that a prefix outlives, seconds [T]")

    def __str__(self) -> str:
        return f"ttl {self.kept_s:g} s"


class LeastRecentlyUsedCache(_Forgetful):
    """A cache that evicts the prefix used longest ago when its memory is full: the hit rate is an outcome."""

    model: Literal["lru"] = "lru"
    host_memory_gb_per_gpu: float = Field(
        default=0.0, ge=0.0, le=1e6, description="host memory behind each GPU's own, 10^9 bytes"
    )

    def __str__(self) -> str:
        return f"lru, {self.host_memory_gb_per_gpu:g} GB host" if self.host_memory_gb_per_gpu else "lru"


Cache = Annotated[FixedCache | TimeToLiveCache | LeastRecentlyUsedCache, Field(discriminator="model")]
