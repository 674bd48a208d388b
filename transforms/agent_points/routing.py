"""Points of random routing, by the number of replicas that their turns are sent to."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from schemas.scenarios import Scenario
from transforms.agent_points.prepare import PreparedPoints


def by_replicas(scenario: Scenario, prepared: PreparedPoints) -> Iterator[tuple[Scenario, PreparedPoints]]:
    """The scenario with a number of replicas, and the points that it is of: all, where it states the number or turns
    stay on their replica; else those of which so many fit the scenario's GPUs, one at least."""
    if scenario.routing == "sticky" or scenario.replicas is not None or scenario.gpus is None:
        yield scenario, prepared
        return
    sizes = [group.rows["gpus_per_replica"] for group in prepared.groups]
    replicas = [np.maximum(scenario.gpus // size, 1) for size in sizes]
    for number in np.unique(np.concatenate(replicas)):
        parts = [
            group.take(of_group == number)
            for group, of_group in zip(prepared.groups, replicas, strict=True)
            if (of_group == number).any()
        ]
        yield scenario.model_copy(update={"replicas": int(number)}), replace(prepared, groups=tuple(parts))
