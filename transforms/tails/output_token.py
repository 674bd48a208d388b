"""Percentiles of a turn's time per output token: its decode steps, slowed by the prefills that others begin meanwhile.

Prompts are served in the order in which they come. What others begin while a turn is there, its own prefill included,
is prefilled after it and so between its output tokens; what came before it is in its time to first token. The whole
wait of a turn (``waits``) is therefore the decode's, and a turn of fewer output tokens feels it more.
"""

from typing import Final

import numpy as np

from transforms.spread.forms import Nodes
from transforms.tails.waits import with_waits

#: Turns that generate less than this many tokens after the first have no time per output token.
_LEAST: Final = 0.5


def output_token_nodes(turns: Nodes) -> Nodes:
    """Nodes of turns with a second output token: 1, and what a mean turn's exponential and normal wait, over the mean
    output tokens after the first, is multiplied by.

    ``turns``: output tokens after the first in the fourth column. A turn of n times the output lasts n times as long,
    meets n times the prefills, and so varies by a root of n less per token. One row of ones where no turn has a second
    token.
    """
    later, place = np.unique(turns.values[:, 3], return_inverse=True)
    weights = np.bincount(place.ravel(), weights=turns.weights)
    there = later >= _LEAST
    if not there.any():
        return Nodes(np.ones((1, 3)), np.ones(1))
    later, weights = later[there], weights[there] / weights[there].sum()
    mean = float(weights @ later)
    nodes = with_waits(Nodes(later[:, None], weights))
    later_tokens, exponential, normal = nodes.values.T
    slowed = np.sqrt(mean / later_tokens)
    columns = np.stack([np.ones_like(later_tokens), slowed * exponential, slowed * normal], axis=1)
    return Nodes(columns, nodes.weights, continuous=True)
