"""Context growth over the turns of a task (Step 4) and the prefill of each turn (Eq. 2)."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schemas.scenarios import Scenario
from transforms.numbers import Number

Array = npt.NDArray[np.float64]


def context_at_turn(
    turn: Number, initial_prompt_tokens: Number, new_tokens: Number, retained_output_tokens: Number
) -> Number:
    """``L(j) = L0 + (j - 1) * (dL + r * OSL)`` tokens, j from 1."""
    return initial_prompt_tokens + (turn - 1.0) * (new_tokens + retained_output_tokens)


@dataclass(frozen=True)
class TurnProfile:
    """Context and prefill of each turn of a task; arrays of one entry a turn, in tokens."""

    context: Array
    new_on_hit: Array
    new_on_miss: Array

    @property
    def context_sd(self) -> float:
        """Standard deviation of the context over the turns."""
        return float(np.std(self.context))


def turn_profile(scenario: Scenario, *, prefill_sees_output: bool = True) -> TurnProfile:
    """The turns of the scenario's task.

    A number of turns that is not whole gives its ceiling of turns, evenly spaced over 1..N, so that
    mean and last context are those of the formula. In a disaggregated replica the prefill pool has
    not seen the output (``prefill_sees_output=False``): there a later turn's prefill includes it.
    """
    count = int(np.ceil(scenario.turns))
    turns = np.linspace(1.0, scenario.turns, count) if count > 1 else np.ones(1)
    retained = scenario.output_retention_fraction * scenario.output_tokens_per_turn
    context = context_at_turn(turns, scenario.initial_prompt_tokens, scenario.new_tokens_per_turn, retained)
    later = scenario.new_tokens_per_turn + (0.0 if prefill_sees_output else retained)
    new_on_hit = np.where(np.arange(count) == 0, scenario.first_turn_new_tokens, later)
    return TurnProfile(context, new_on_hit, context - scenario.shared_prefix_tokens)
