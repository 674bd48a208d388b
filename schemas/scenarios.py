"""The scenario catalogue: how the sessions of an agent workload behave (model.md 2)."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from schemas.caches import Cache, FixedCache, Routing
from schemas.distributions import Distribution, Distributions
from schemas.mixes import mix_means, turn_shares
from schemas.slugs import Slug
from schemas.trace_statistics import TraceStatistics

Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
# The upper bounds lie far beyond any workload; they stop overflow and slips of a unit.
Tokens = Annotated[float, Field(ge=0.0, le=1e9)]
SomeTokens = Annotated[float, Field(gt=0.0, le=1e9)]
TokensFromOne = Annotated[float, Field(ge=1.0, le=1e9)]
Seconds = Annotated[float, Field(ge=0.0, le=1e7)]


class MixPart(BaseModel):
    """One scenario of a mix. ``weight``: its share of the tasks that begin, in any unit."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    scenario: "Scenario" = Field(description="slug of a scenario of the same file or of the catalogue")
    weight: float = Field(gt=0.0, le=1e9, description="share of the tasks, in any unit")


class Scenario(BaseModel):
    """One agent workload, independent of hardware and model. Symbols in brackets: model.md 2."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    #: What a file may write in place of a field, and the field that it stands for.
    short_forms: ClassVar[dict[str, tuple[str, ...]]] = {
        "cache_hit_rate": ("cache", "hit_rate"),
        **{name: ("distributions", name) for name in Distributions.model_fields},
    }

    slug: Slug
    name: str = Field(default_factory=lambda given: str(given.get("slug")), min_length=1)
    source: str = Field(default="not stated", min_length=1)
    turns: float = Field(ge=1.0, le=1e6, description="mean LLM calls in a task [N]")
    think_time_s: Seconds = Field(description="mean pause after each turn [Z]")
    initial_prompt_tokens: SomeTokens = Field(description="context of turn 1 [L0]")
    new_tokens_per_turn: Tokens = Field(description="tokens from outside in each later turn [dL]")
    output_tokens_per_turn: TokensFromOne = Field(description="generated tokens in each turn [OSL]")
    output_retention_fraction: Fraction = Field(default=1.0, description="share of output kept in context [r]")
    shared_prefix_tokens: Tokens = Field(default=0.0, description="prefix all sessions share [S]")
    first_turn_new_tokens: SomeTokens = Field(
        default_factory=lambda given: float(
            given.get("initial_prompt_tokens", 0.0) - given.get("shared_prefix_tokens", 0.0)
        ),
        description="tokens to prefill in turn 1 on a hit; L0 - S where nothing is said [n1]",
    )
    cache: Cache = Field(description="what decides whether a turn finds its prefix; short for fixed: cache_hit_rate")
    distributions: Distributions | None = Field(default=None, description="how quantities vary about their means")
    routing: Routing = Field(
        default="sticky", description="sticky: a session's turns go to one replica; random: each to any of them"
    )
    replicas: int | None = Field(
        default=None, ge=1, le=10**6, description="among how many random routing chooses; else as many as gpus hold"
    )
    sessions: int | None = Field(default=None, ge=1, le=10**9, description="sessions of the operating point [C]")
    gpus: int | None = Field(default=None, ge=1, le=10**6, description="GPUs that serve those sessions")
    statistics: TraceStatistics | None = Field(default=None, description="what a fit on real traces found")
    mix: tuple[MixPart, ...] | None = Field(default=None, description="scenarios that share the replicas, by weight")

    @model_validator(mode="before")
    @classmethod
    def _expand_short_forms(cls, given: Any) -> Any:
        """``cache_hit_rate: x`` is short for a fixed cache, and a cache without a model is a fixed one.

        A distribution in place of a number is short for its mean and the distribution. The fields of a mix follow
        from its scenarios.
        """
        if not isinstance(given, dict):
            return given
        given = _of_mix(given) if given.get("mix") is not None else _with_means(given)
        cache = given.get("cache")
        if isinstance(cache, dict) and "model" not in cache:
            given = given | {"cache": cache | {"model": "fixed"}}
        if "cache_hit_rate" not in given:
            return given
        if "cache" in given:
            raise ValueError("cache_hit_rate and cache say the same thing: give one of them")
        rest = {name: value for name, value in given.items() if name != "cache_hit_rate"}
        return rest | {"cache": {"model": "fixed", "hit_rate": given["cache_hit_rate"]}}

    @model_validator(mode="after")
    def _parts_fit(self) -> "Scenario":
        if self.shared_prefix_tokens >= self.initial_prompt_tokens:
            raise ValueError("shared_prefix_tokens must be less than initial_prompt_tokens")
        if self.first_turn_new_tokens > self.initial_prompt_tokens - self.shared_prefix_tokens:
            raise ValueError("first_turn_new_tokens must not exceed initial_prompt_tokens - shared_prefix_tokens")
        if self.turns > 1 and self.new_tokens_per_turn == 0:
            raise ValueError("new_tokens_per_turn must be more than 0 where a task has more than one turn")
        if self.gpus is not None and self.sessions is None:
            raise ValueError("gpus says how many GPUs serve the sessions: give sessions too")
        self._check_routing()
        return self

    def _check_routing(self) -> None:
        routings = [self.routing, *(part.scenario.routing for part in self.mix or ())]
        if self.mix is not None and "random" in routings:
            raise ValueError("routing: random is of a single scenario: the turns of a mix stay on their replica")
        if self.routing == "sticky" and self.replicas is not None:
            raise ValueError("replicas says among how many random routing chooses: give routing: random too")
        if self.routing == "random" and self.replicas is None and self.gpus is None:
            raise ValueError("random routing chooses among a number of replicas: give replicas, or gpus")

    @property
    def cache_hit_rate(self) -> float:
        """h of a fixed cache. Raises ``ValueError`` for the others, whose hit rate is an outcome."""
        if not isinstance(self.cache, FixedCache):
            raise ValueError(f"scenario {self.slug}: its cache ({self.cache.model}) states no hit rate")
        return self.cache.hit_rate

    @property
    def context_growth_tokens(self) -> float:
        """Tokens by which the context grows from turn to turn: dL + r * OSL."""
        return self.new_tokens_per_turn + self.output_retention_fraction * self.output_tokens_per_turn

    @property
    def mean_context_tokens(self) -> float:
        """Lbar = L0 + (N - 1)/2 * (dL + r * OSL); of a mix the mean over its turns."""
        if self.mix is not None:
            shares = turn_shares(self.mix)
            return sum(share * part.scenario.mean_context_tokens for share, part in zip(shares, self.mix, strict=True))
        return self.initial_prompt_tokens + (self.turns - 1) / 2 * self.context_growth_tokens

    @property
    def peak_context_tokens(self) -> float:
        """Context of the last turn and its output: L(N) + OSL; of a mix the largest of its scenarios'."""
        if self.mix is not None:
            return max(part.scenario.peak_context_tokens for part in self.mix)
        last = self.initial_prompt_tokens + (self.turns - 1) * self.context_growth_tokens
        return last + self.output_tokens_per_turn


def _with_means(given: dict[Any, Any]) -> dict[Any, Any]:
    """An entry whose distributions in place of numbers stand under ``distributions``, their means in their place."""
    in_place = {name: given[name] for name in Distributions.model_fields if isinstance(given.get(name), Mapping)}
    if not in_place:
        return given
    apart = given.get("distributions") or {}
    if not isinstance(apart, Mapping):
        return given
    for name in in_place:
        if apart.get(name) is not None:
            raise ValueError(f"{name} is a distribution and has another under distributions: give one of them")
    means = {}
    for name, written in in_place.items():
        try:
            means[name] = Distribution.model_validate(written).mean_value
        except ValidationError:
            # told where the distribution stands; the number in its place must not add to it
            means[name] = 1.0
    return given | means | {"distributions": {**apart, **in_place}}


def _of_mix(given: dict[Any, Any]) -> dict[Any, Any]:
    """An entry with the means of its mix. Raises ``ValueError`` where the entry states one of these otherwise."""
    try:
        parts = TypeAdapter(tuple[MixPart, ...]).validate_python(given["mix"])
    except ValidationError:  # told where the mix stands
        return given | dict.fromkeys(_PLACEHOLDERS, 1.0) | {"cache": FixedCache(hit_rate=1.0)}
    means = mix_means(parts)
    unlike = {"distributions", "statistics", "cache_hit_rate"} & {name for name in given if given[name] is not None}
    unlike |= {name for name, mean in means.items() if name in given and not _is_like(given[name], mean)}
    if unlike:
        raise ValueError(f"{min(unlike)} of a mix follows from its scenarios: leave it out")
    return given | means


#: Fields that stand in for those of a mix that cannot be read.
_PLACEHOLDERS = (
    "turns", "think_time_s", "initial_prompt_tokens", "new_tokens_per_turn", "output_tokens_per_turn",
    "output_retention_fraction", "first_turn_new_tokens",
)  # fmt: skip


def _is_like(stated: Any, mean: Any) -> bool:
    """Whether an entry that was written out by the program states the mean of the mix."""
    if isinstance(mean, FixedCache):
        rate = stated.hit_rate if isinstance(stated, FixedCache) else stated.get("hit_rate", -1.0)
        return math.isclose(rate, mean.hit_rate, rel_tol=1e-9)
    return isinstance(stated, int | float) and math.isclose(stated, mean, rel_tol=1e-9)
