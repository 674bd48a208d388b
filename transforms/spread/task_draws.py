"""What tasks of a scenario draw, at the points of a lattice: the same on every model."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from schemas.arrays import Array
from schemas.distribution_nodes import scaled_nodes, whole_nodes
from schemas.distributions import Distributions
from schemas.scenarios import Scenario
from transforms.spread.draws import lattice, normal_scores, quantiles, sum_quantiles

#: Percentiles of tasks are within 2 % (p99: 3 %) of a simulation's with so many points.
POINTS: Final = 4096


@dataclass(frozen=True)
class TaskDraws:
    """Arrays of one entry a point. ``of_misses`` and ``where`` are shares, for how many turns miss and which."""

    turns: Array
    first_prompt: Array
    of_misses: Array
    where: Array
    where_scores: Array
    new_tokens: Array  #: of all turns but the first, on hits
    output_tokens: Array
    pause_s: Array


@lru_cache(maxsize=32)
def task_draws(scenario: Scenario) -> TaskDraws:
    """Numbers of turns, first prompts, and sums over so many turns of what varies from turn to turn."""
    forms = scenario.distributions or Distributions()
    of_turns, prompt, of_misses, where, fresh, output, pause = lattice(POINTS, 7).T
    turns = quantiles(*whole_nodes(*scaled_nodes(forms.turns, scenario.turns)), of_turns, steps=True)
    return TaskDraws(
        turns=turns,
        first_prompt=quantity(scenario, "initial_prompt_tokens", prompt),
        of_misses=of_misses,
        where=where,
        where_scores=normal_scores(where),
        new_tokens=sum_quantiles(forms.new_tokens_per_turn, scenario.new_tokens_per_turn, turns - 1, fresh),
        output_tokens=sum_quantiles(forms.output_tokens_per_turn, scenario.output_tokens_per_turn, turns, output),
        pause_s=sum_quantiles(forms.think_time_s, scenario.think_time_s, turns, pause),
    )


def quantity(scenario: Scenario, name: str, shares: Array) -> Array:
    """Quantiles of a field, its number where it does not vary; first prompts are longer than what all share."""
    form = getattr(scenario.distributions, name, None)
    mean = getattr(scenario, name)
    if form is None:
        return np.full(len(shares), mean)
    found = quantiles(*scaled_nodes(form, mean), shares, steps=form.values is not None)
    return np.maximum(found, scenario.shared_prefix_tokens + 1) if name == "initial_prompt_tokens" else found
