"""What a session holds in memory over its life, in sums that a memory balance needs."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from schemas.arrays import Array
from schemas.distribution_nodes import scaled_nodes
from schemas.scenarios import Scenario
from transforms.cache.pauses import PauseClasses, PauseDistribution
from transforms.equations.context import turn_profile

#: Classes of first prompts, where these vary.
_FIRST_PROMPTS: Final = 24


@dataclass(frozen=True)
class HeldSums:
    """Sums over one session's turns as in ``SessionShape``, of what is held or of its squares."""

    in_flight: float
    parked: float
    at_end: float


@dataclass(frozen=True)
class SessionShape:
    """Sums over one session's turns. ``held``: in tokens or bytes, the same unit as a load's memory."""

    turns: float
    held_in_flight: float  #: sum over the turns of what a turn holds while it is served
    held_parked: float  #: sum over all turns but the last of what is kept through the pause after it
    held_at_end: float  #: what a finished session leaves behind until it is evicted
    pauses: PauseDistribution  #: weighted by what is kept through them, where that differs
    pause_per_session_s: float  #: all pauses of a session, the one after its last turn included
    #: The same sums of the squares of what is held, for how much the memory in use varies; None: not known.
    squares: HeldSums | None = None
    #: Share of what later turns could reuse that a cache without end finds (1 where contexts are never compacted).
    most_hit_rate: float = 1.0

    @property
    def held(self) -> HeldSums:
        """What is held, not squared."""
        return HeldSums(self.held_in_flight, self.held_parked, self.held_at_end)

    @cached_property
    def classes_of_pauses(self) -> PauseClasses:
        """The pauses in few classes."""
        return self.pauses.classes()


def session_shape(
    scenario: Scenario,
    held: Callable[[Array], Array] | None = None,
    pauses: PauseDistribution | None = None,
    most_hit_rate: float | None = None,
) -> SessionShape:
    """The shape of a scenario's sessions; as in the closed loop a pause also follows the last turn.

    ``held`` gives the memory of a context of so many tokens, the part that all sessions share left out; by default
    the tokens themselves, less S. A turn holds its context and half of its output while it is served, context and
    output when it is parked. Pauses: those given; else the scenario's distribution, else the fitted mixture of its
    statistics, each scaled to its mean pause; else that mean each time. The most that a cache can find: as given;
    else what the scenario's statistics say of a cache that never forgets; else all.
    """
    if scenario.mix is not None:
        raise ValueError(f"{scenario.slug} is a mix: its scenarios' sessions have shapes of their own")
    profile = turn_profile(scenario)

    def tokens_held(tokens: Array) -> Array:
        return tokens - scenario.shared_prefix_tokens

    held = held or tokens_held
    # A number of turns that is not whole has its ceiling of entries: weigh them down to it.
    share = scenario.turns / len(profile.context)
    in_flight = held(profile.context + scenario.output_tokens_per_turn / 2)
    parked = held(profile.context + scenario.output_tokens_per_turn)
    longer, weights = _first_prompts(scenario)
    contexts = np.maximum(profile.context[:, None] + longer, scenario.shared_prefix_tokens)
    squares = [held(contexts + scenario.output_tokens_per_turn * part) ** 2 @ weights for part in (0.5, 1.0)]
    chosen = pauses or scenario_pauses(scenario)

    def between_turns(kept: Array) -> float:
        return float(kept[:-1].mean() * (scenario.turns - 1)) if scenario.turns > 1 else 0.0

    return SessionShape(
        turns=scenario.turns,
        held_in_flight=float(in_flight.sum()) * share,
        held_parked=between_turns(parked),
        held_at_end=float(parked[-1]),
        pauses=chosen,
        pause_per_session_s=scenario.turns * chosen.mean_s,
        squares=HeldSums(float(squares[0].sum()) * share, between_turns(squares[1]), float(squares[1][-1])),
        most_hit_rate=unbounded_hit_rate(scenario) if most_hit_rate is None else most_hit_rate,
    )


def _first_prompts(scenario: Scenario) -> tuple[Array, Array]:
    """By how much the first prompts of sessions are longer than the mean one, in few classes, and shares of these."""
    form = None if scenario.distributions is None else scenario.distributions.initial_prompt_tokens
    if form is None:
        return np.zeros(1), np.ones(1)
    values, weights = scaled_nodes(form, scenario.initial_prompt_tokens)
    few = PauseDistribution(values, weights).coarse(_FIRST_PROMPTS)
    return few.values - scenario.initial_prompt_tokens, few.weights


def scenario_pauses(scenario: Scenario) -> PauseDistribution:
    """The pauses of a scenario: see ``session_shape``."""
    form = None if scenario.distributions is None else scenario.distributions.think_time_s
    if form is None and scenario.statistics is not None and scenario.statistics.pauses_s.mixture is not None:
        form = scenario.statistics.pauses_s.mixture.as_distribution()
    if form is None or scenario.think_time_s == 0:
        return PauseDistribution.constant(scenario.think_time_s)
    return PauseDistribution.of(form, scenario.think_time_s)


def unbounded_hit_rate(scenario: Scenario) -> float:
    """h of a cache that never forgets: as the scenario's cache states it, else its statistics; else 1."""
    stated, found = getattr(scenario.cache, "most_hit_rate", None), scenario.statistics
    if stated is not None:
        return float(stated)
    return found.cache.cache_hit_rate if found is not None and found.cache.reuse == "bounded" else 1.0
