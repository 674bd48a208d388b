"""Scenarios that share the same replicas: the means of a mix over its tasks and over its turns."""

from collections.abc import Sequence
from typing import Protocol

from schemas.caches import Cache, FixedCache


class Mixed(Protocol):
    """What a mix must know of each of its scenarios."""

    @property
    def slug(self) -> str: ...
    @property
    def turns(self) -> float: ...
    @property
    def output_tokens_per_turn(self) -> float: ...
    @property
    def output_retention_fraction(self) -> float: ...
    @property
    def cache(self) -> Cache: ...
    @property
    def mix(self) -> object | None: ...


class Weighted(Protocol):
    """A scenario of a mix and its share of the tasks that begin, in any unit."""

    @property
    def scenario(self) -> Mixed: ...
    @property
    def weight(self) -> float: ...


def task_shares(parts: Sequence[Weighted]) -> list[float]:
    """Share of the tasks of each part."""
    total = sum(part.weight for part in parts)
    return [part.weight / total for part in parts]


def turn_shares(parts: Sequence[Weighted]) -> list[float]:
    """Share of the turns of each part: of the tasks, times the turns of each."""
    turns = [part.weight * part.scenario.turns for part in parts]
    return [part / sum(turns) for part in turns]


def mix_means(parts: Sequence[Weighted]) -> dict[str, object]:
    """The fields of a mix: means over tasks (N, L0, n1, S), over turns (Z, OSL, r, h) and over later turns (dL).

    Raises ``ValueError`` for a mix that cannot be.
    """
    if len(parts) < 2:
        raise ValueError("a mix has two scenarios or more")
    slugs = [part.scenario.slug for part in parts]
    if len(set(slugs)) < len(slugs):
        raise ValueError(f"a mix names each scenario once: {', '.join(slugs)}")
    scenarios = [part.scenario for part in parts]
    for scenario in scenarios:
        if scenario.mix is not None:
            raise ValueError(f"{scenario.slug} is a mix itself: name the scenarios that it is made of")
        if not isinstance(scenario.cache, FixedCache):
            raise ValueError(
                f"{scenario.slug} has a cache of model {scenario.cache.model}, which a mix cannot share yet:"
                " give it a cache_hit_rate"
            )
    of_tasks, of_turns = task_shares(parts), turn_shares(parts)

    def mean(shares: Sequence[float], name: str) -> float:
        return float(sum(share * getattr(each, name) for share, each in zip(shares, scenarios, strict=True)))

    output = mean(of_turns, "output_tokens_per_turn")
    later = [share * (each.turns - 1) for share, each in zip(of_tasks, scenarios, strict=True)]
    later = [share / (sum(later) or 1.0) for share in later]
    kept = sum(
        share * each.output_retention_fraction * each.output_tokens_per_turn
        for share, each in zip(of_turns, scenarios, strict=True)
    )
    return {
        "turns": mean(of_tasks, "turns"),
        "think_time_s": mean(of_turns, "think_time_s"),
        "initial_prompt_tokens": mean(of_tasks, "initial_prompt_tokens"),
        "new_tokens_per_turn": mean([share / sum(later) for share in later], "new_tokens_per_turn")
        if any(later)
        else 0.0,
        "output_tokens_per_turn": output,
        "output_retention_fraction": min(kept / output, 1.0),
        "shared_prefix_tokens": mean(of_tasks, "shared_prefix_tokens"),
        "first_turn_new_tokens": mean(of_tasks, "first_turn_new_tokens"),
        "cache": FixedCache(hit_rate=min(mean(of_turns, "cache_hit_rate"), 1.0)),
    }
