"""FLOPs of attention of each turn of a task, means over the first prompts and new tokens that a scenario has."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from schemas.arrays import Array
from schemas.distribution_nodes import scaled_nodes
from schemas.models import AttentionGroup
from schemas.scenarios import Scenario
from transforms.equations.context import TurnProfile
from transforms.equations.kv_memory import attention_flops
from transforms.spread.draws import compressed

#: Nodes of a distribution; places in a long task at which its turns are evaluated.
_NODES: Final = 32
_PLACES: Final = 256


def flops_of_turns(scenario: Scenario, groups: Sequence[AttentionGroup], profile: TurnProfile) -> tuple[Array, Array]:
    """FLOPs of each turn as a hit and as a miss: attention is not linear in tokens."""
    forms = scenario.distributions
    if forms is None or (forms.initial_prompt_tokens is None and forms.new_tokens_per_turn is None):
        hit, miss = (_flops(groups, profile.context, new) for new in (profile.new_on_hit, profile.new_on_miss))
        return hit, miss
    count = len(profile.context)
    evenly = np.linspace(0, count - 1, min(count, _PLACES)).astype(np.int64)
    places = np.union1d(evenly, [0, min(1, count - 1)])
    prompts, of_prompts = compressed(*scaled_nodes(forms.initial_prompt_tokens, scenario.initial_prompt_tokens), _NODES)
    fresh, of_fresh = compressed(*scaled_nodes(forms.new_tokens_per_turn, scenario.new_tokens_per_turn), _NODES)
    shared = scenario.shared_prefix_tokens
    # turns by first prompts by new tokens
    longer = (np.maximum(prompts, shared + 1) - scenario.initial_prompt_tokens)[:, None]
    context = profile.context[places][:, None, None] + longer
    more = np.broadcast_to(fresh - scenario.new_tokens_per_turn, (len(places), 1, len(fresh)))
    first_is_all_new = scenario.first_turn_new_tokens == scenario.initial_prompt_tokens - shared
    is_first = (places == 0)[:, None, None]
    on_hit = profile.new_on_hit[places][:, None, None] + np.where(is_first, longer if first_is_all_new else 0.0, more)
    on_hit = np.clip(on_hit, 0.0, context - shared)
    hit = np.einsum("jkd,k,d->j", _flops(groups, context + 0 * on_hit, on_hit), of_prompts, of_fresh)
    miss = _flops(groups, context, context - shared)[:, :, 0] @ of_prompts
    every = np.arange(count)
    first_hit = hit[0]
    hit = np.interp(every, places[1:], hit[1:]) if count > 1 else hit
    hit[0] = first_hit
    return hit, np.asarray(np.interp(every, places, miss))


def _flops(groups: Sequence[AttentionGroup], context: Array, new: Array) -> Array:
    return np.asarray(attention_flops(groups, context - new, new) + np.zeros_like(context))
