"""Sessions drawn at random, one by one: what the quadrature must agree with."""

import numpy as np

from schemas.arrays import Array
from schemas.distribution_nodes import scaled_nodes
from schemas.distributions import Distribution, Distributions
from schemas.models import AttentionGroup
from schemas.scenarios import Scenario
from transforms.cache import constant_hit_rate
from transforms.equations.kv_memory import attention_flops


def simulate(scenario: Scenario, groups: tuple[AttentionGroup, ...], tasks: int) -> tuple[Array, Array]:
    """Columns ``TURN`` of all turns and the same of all tasks."""
    random = np.random.default_rng(20261129)
    forms = scenario.distributions or Distributions()

    def draw(form: Distribution | None, mean: float, count: int) -> Array:
        values, weights = scaled_nodes(form, mean)
        shares = random.random(count)
        total = np.cumsum(weights)
        if form is None or form.values is not None:
            return np.asarray(values[np.minimum(np.searchsorted(total, shares), len(values) - 1)])
        return np.interp(shares, total - weights / 2, values)

    drawn = draw(forms.turns, scenario.turns, tasks)
    turns = np.maximum(np.floor(drawn + random.random(tasks)), 1).astype(np.int64)
    task = np.repeat(np.arange(tasks), turns)
    number = np.arange(len(task)) - np.repeat(np.cumsum(turns) - turns, turns)
    shared = scenario.shared_prefix_tokens
    prompts = draw(forms.initial_prompt_tokens, scenario.initial_prompt_tokens, tasks)
    prompts = np.maximum(prompts, shared + 1)[task]
    grown = scenario.context_growth_tokens * (scenario.turns - 1)
    context = prompts + grown * number / np.maximum(turns[task] - 1, 1)
    all_new = scenario.first_turn_new_tokens == scenario.initial_prompt_tokens - shared
    first = prompts - shared if all_new else scenario.first_turn_new_tokens
    later = draw(forms.new_tokens_per_turn, scenario.new_tokens_per_turn, len(task))
    new = np.minimum(np.where(number == 0, first, later), context - shared)
    new = np.where(random.random(len(task)) < constant_hit_rate(scenario), new, context - shared)
    output = np.maximum(draw(forms.output_tokens_per_turn, scenario.output_tokens_per_turn, len(task)), 1)
    pause = draw(forms.think_time_s, scenario.think_time_s, len(task))
    one = np.ones(len(task))
    of_turns = np.stack([one, new, attention_flops(groups, context - new, new), output - 1], axis=1)
    sums = [np.bincount(task, weights=column) for column in (*of_turns.T, pause)]
    return of_turns, np.stack(sums, axis=1)
