"""Context growth over the turns of a task (Step 4) and the prefill of each turn (Eq. 2)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from schemas.arrays import Array
from schemas.mixes import task_shares, turn_shares
from schemas.scenarios import MixPart, Scenario
from transforms.numbers import Number


def context_at_turn(
    turn: Number, initial_prompt_tokens: Number, new_tokens: Number, retained_output_tokens: Number
) -> Number:
    """``L(j) = L0 + (j - 1) * (dL + r * OSL)`` tokens, j from 1."""
    return initial_prompt_tokens + (turn - 1.0) * (new_tokens + retained_output_tokens)


@dataclass(frozen=True)
class TurnProfile:
    """Context and prefill of each turn of a task; arrays of one entry a turn, in tokens.

    ``weights``: the share of all turns that are like this one; ``of_first`` and ``of_last``: of the first turns of
    tasks, and of the last. Of a mix the turns of all its scenarios, one after the other.
    """

    context: Array
    new_on_hit: Array
    new_on_miss: Array
    weights: Array
    of_first: Array
    of_last: Array

    def mean(self, values: Array) -> float:
        """Mean over all turns."""
        return float(self.weights @ values)

    @property
    def context_sd(self) -> float:
        """Standard deviation of the context over the turns."""
        return float(np.sqrt(self.mean((self.context - self.mean(self.context)) ** 2)))


def turn_profile(scenario: Scenario, *, prefill_sees_output: bool = True) -> TurnProfile:
    """The turns of the scenario's task.

    A number of turns that is not whole gives its ceiling of turns, evenly spaced over 1..N, so that
    mean and last context are those of the formula. In a disaggregated replica the prefill pool has
    not seen the output (``prefill_sees_output=False``): there a later turn's prefill includes it.
    """
    if scenario.mix is not None:
        return _of_mix(scenario.mix, prefill_sees_output)
    count = int(np.ceil(scenario.turns))
    turns = np.linspace(1.0, scenario.turns, count) if count > 1 else np.ones(1)
    retained = scenario.output_retention_fraction * scenario.output_tokens_per_turn
    context = context_at_turn(turns, scenario.initial_prompt_tokens, scenario.new_tokens_per_turn, retained)
    later = scenario.new_tokens_per_turn + (0.0 if prefill_sees_output else retained)
    number = np.arange(count)
    new_on_hit = np.where(number == 0, scenario.first_turn_new_tokens, later)
    return TurnProfile(
        context=context,
        new_on_hit=new_on_hit,
        new_on_miss=context - scenario.shared_prefix_tokens,
        weights=np.full(count, 1.0 / count),
        of_first=(number == 0).astype(np.float64),
        of_last=(number == count - 1).astype(np.float64),
    )


def _of_mix(parts: Sequence[MixPart], prefill_sees_output: bool) -> TurnProfile:
    profiles = [turn_profile(part.scenario, prefill_sees_output=prefill_sees_output) for part in parts]
    of_tasks, of_turns = task_shares(parts), turn_shares(parts)
    shares = {"weights": of_turns, "of_first": of_tasks, "of_last": of_tasks}
    return TurnProfile(
        **{
            name: np.concatenate(
                [share * getattr(each, name) for share, each in zip(shares.get(name, ones), profiles, strict=True)]
            )
            for ones in [[1.0] * len(profiles)]
            for name in TurnProfile.__annotations__
        }
    )
