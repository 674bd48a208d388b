"""A scenario's turns and tasks with the waits that fall into them, as nodes; what is the same for all rows."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from schemas.arrays import Array
from schemas.models import AttentionGroup
from schemas.scenarios import Scenario
from transforms.spread.forms import Nodes
from transforms.spread.work import scenario_nodes
from transforms.tails.output_token import output_token_nodes
from transforms.tails.waits import WorkMoments, with_waits

#: What nothing is divided by below.
_LEAST: Final = 1e-9
#: Shares of the turns, by their new tokens, that are one class of prefills each: finer where they are long.
_EDGES: Final = (0.3, 0.6, 0.8, 0.9, 0.95, 0.985)


@dataclass(frozen=True)
class PrefillClasses:
    """Classes of turns by what they prefill, about ascending: new tokens, FLOPs, shares; one entry a class."""

    new_tokens: Array
    flops: Array
    shares: Array

    @property
    def work(self) -> tuple[list[float], list[float]]:
        """New tokens and FLOPs of each."""
        return self.new_tokens.tolist(), self.flops.tolist()

    @classmethod
    def of(cls, turns: Nodes) -> "PrefillClasses":
        """Of nodes with new tokens and FLOPs of attention in their second and third column."""
        tokens, flops = turns.values[:, 1], turns.values[:, 2]
        # hits of equal tokens differ in the context that they attend to
        means = np.maximum(turns.weights @ turns.values[:, 1:3], _LEAST)
        order = np.argsort(tokens / means[0] + flops / means[1], kind="stable")
        weights = turns.weights[order] / turns.weights.sum()
        group = np.searchsorted(_EDGES, np.cumsum(weights) - weights / 2)
        share = np.bincount(group, weights=weights)
        there = share > 0

        def of_classes(values: Array) -> Array:
            return np.asarray(np.bincount(group, weights=weights * values[order])[there] / share[there])

        return cls(of_classes(tokens), of_classes(flops), share[there].astype(np.float64))


@dataclass(frozen=True)
class TailNodes:
    """Nodes of turns, of turns over their output tokens, and of tasks, each with the columns of ``with_waits``; of a
    turn's time per output token (``output_token_nodes``); the moments and the classes of what a turn prefills; means of
    a turn's columns without the waits."""

    turns: Nodes
    per_token: Nodes
    tasks: Nodes
    output_token: Nodes
    moments: WorkMoments
    classes: PrefillClasses
    means: tuple[float, ...]


@lru_cache(maxsize=96)
def tail_nodes(
    scenario: Scenario,
    groups: tuple[AttentionGroup, ...],
    hit_rate: float | None = None,
    *,
    prefill_sees_output: bool = True,
) -> TailNodes:
    """Of a scenario on a model at a hit rate: see ``scenario_nodes``."""
    nodes = scenario_nodes(scenario, groups, hit_rate, prefill_sees_output=prefill_sees_output)
    turns = with_waits(nodes.turns)
    outputs = turns.values[:, 3, None] + 1.0
    return TailNodes(
        turns,
        Nodes(turns.values / outputs, turns.weights, turns.continuous),
        with_waits(nodes.tasks),
        _output_token(scenario, groups),
        WorkMoments.of(nodes.turns),
        PrefillClasses.of(nodes.turns),
        tuple(float(mean) for mean in nodes.turns.means),
    )


@lru_cache(maxsize=32)
def _output_token(scenario: Scenario, groups: tuple[AttentionGroup, ...]) -> Nodes:
    """The same at all hit rates, which outputs do not depend on."""
    return output_token_nodes(scenario_nodes(scenario, groups, 1.0).turns)
