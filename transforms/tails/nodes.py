"""A scenario's turns and tasks with the waits that fall into them, as nodes; what is the same for all rows."""

from dataclasses import dataclass
from functools import lru_cache

from schemas.models import AttentionGroup
from schemas.scenarios import Scenario
from transforms.spread.forms import Nodes
from transforms.spread.work import scenario_nodes
from transforms.tails.first_token import PrefillClasses
from transforms.tails.waits import WorkMoments, with_waits


@dataclass(frozen=True)
class TailNodes:
    """Nodes of turns, of turns over their output tokens, and of tasks, each with the columns of ``with_waits``; the
    moments and the classes of what a turn prefills; means of a turn's columns without the waits."""

    turns: Nodes
    per_token: Nodes
    tasks: Nodes
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
    own = scenario_nodes(scenario, groups, hit_rate, prefill_sees_output=prefill_sees_output)
    turns = with_waits(own.turns)
    outputs = turns.values[:, 3, None] + 1.0
    return TailNodes(
        turns,
        Nodes(turns.values / outputs, turns.weights, turns.continuous),
        with_waits(own.tasks),
        WorkMoments.of(own.turns),
        PrefillClasses.of(own.turns),
        tuple(float(mean) for mean in own.turns.means),
    )
