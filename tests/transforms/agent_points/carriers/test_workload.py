"""FLOPs of turns against those of sessions drawn at random, and against one turn's own where nothing varies."""

import numpy as np
import pytest

from pipelines.reading.catalogues import load_models, load_scenarios
from tests.transforms.spread.simulation import simulate
from tests.transforms.spread.test_work import varying
from transforms.agent_points.carriers.workload import agent_workload, flops_of_turns
from transforms.equations.context import turn_profile
from transforms.equations.kv_memory import attention_flops

GROUPS = load_models().get("llama-3-1-70b").attention


def test_plain_numbers_are_each_turns_own() -> None:
    (scenario,) = load_scenarios(["code-agent"])
    profile = turn_profile(scenario)
    hit, miss = flops_of_turns(scenario, GROUPS, profile)
    for place in (0, 7):
        context = profile.context[place]
        assert hit[place] == attention_flops(GROUPS, context - 500, 500)
        assert miss[place] == attention_flops(GROUPS, 0, context)


@pytest.mark.parametrize("hit_rate", [1.0, 0.0])
def test_distributions_against_simulation(hit_rate: float) -> None:
    """Attention of what is not alike is more than that of its mean."""
    scenario = varying(cache_hit_rate=hit_rate, turns=17, think_time_s=1, output_tokens_per_turn=400)
    found = agent_workload(scenario, GROUPS).mean.attention_flops
    turns, _ = simulate(scenario, GROUPS, 60_000)
    assert found == pytest.approx(turns[:, 2].mean(), rel=0.02)
    alike = agent_workload(scenario.model_copy(update={"distributions": None}), GROUPS).mean.attention_flops
    assert found > 1.3 * alike


def test_long_tasks_are_thinned_out() -> None:
    scenario = varying(turns=5_000, new_tokens_per_turn={"values": [10, 30]}, output_tokens_per_turn=20)
    hit, miss = flops_of_turns(scenario, GROUPS, turn_profile(scenario))
    assert len(hit) == len(miss) == 5_000
    assert (np.diff(miss) > 0).all()
    assert (np.diff(hit[1:]) > 0).all()
