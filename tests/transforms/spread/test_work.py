"""Nodes of turns and tasks against sessions drawn at random, and where nothing varies."""

import numpy as np
import pytest

from pipelines.reading.catalogues import load_models, load_scenarios
from schemas.scenarios import Scenario
from tests.transforms.spread.simulation import simulate
from transforms.spread.forms import Nodes, percentiles
from transforms.spread.work import scenario_nodes

GROUPS = load_models().get("llama-3-1-70b").attention
SHARES = (0.5, 0.9, 0.99)
#: Seconds a turn, a new token, a FLOP and a later token: from a fast idle replica to a slow full one.
ROWS = np.array([(0.05, 2e-5, 3e-16, 0.006), (0.2, 5e-5, 1e-15, 0.02), (3.0, 5e-4, 1e-14, 0.2)])
OF_TASKS = np.c_[ROWS, np.ones(len(ROWS))]


def varying(**changed: object) -> Scenario:
    """Sessions like those of a coding agent: most are short, some very long; pauses of two kinds."""
    return Scenario.model_validate(
        {
            "slug": "varying",
            "turns": {"mean": 17, "p10": 2, "p50": 11, "p90": 39, "p99": 83},
            "think_time_s": {
                "log_normals": [
                    {"weight": 0.6, "median": 7, "sigma": 0.5},
                    {"weight": 0.4, "median": 67, "sigma": 1.7},
                ],
                "most": 3600,
            },
            "initial_prompt_tokens": {"mean": 60_000, "p10": 15_000, "p50": 24_000, "p90": 200_000},
            "new_tokens_per_turn": {"mean": 900, "p50": 276, "p90": 2_800, "most": 60_000},
            "output_tokens_per_turn": {"mean": 439, "p50": 216, "p90": 900, "p99": 3_664},
            "shared_prefix_tokens": 5_000,
            "cache_hit_rate": 0.92,
        }
        | changed
    )


def matrix(nodes: Nodes, rows: np.ndarray) -> np.ndarray:
    return percentiles(nodes, list(rows.T), SHARES).T


def errors(scenario: Scenario, tasks: int) -> tuple[np.ndarray, np.ndarray]:
    """Of the percentiles of turns and of tasks, relative; one row each of ``ROWS``."""
    turns, sessions = simulate(scenario, GROUPS, tasks)
    nodes = scenario_nodes(scenario, GROUPS)
    found = []
    for rows, known, drawn in ((ROWS, nodes.turns, turns), (OF_TASKS, nodes.tasks, sessions)):
        simulated = np.quantile(drawn @ rows.T, SHARES, axis=0, method="inverted_cdf").T
        found.append(matrix(known, rows) / simulated - 1)
    return found[0], found[1]


@pytest.mark.parametrize("slug", ["code-agent", "research-agent", "deep-reasoning"])
def test_the_articles_scenarios_against_simulation(slug: str) -> None:
    """Plain numbers: turns differ by their place in the task and by hit or miss; tasks by their misses."""
    (scenario,) = load_scenarios([slug])
    of_turns, of_tasks = errors(scenario, 20_000)
    assert np.abs(of_turns).max() < 1e-6
    assert np.abs(of_tasks).max() < 0.005


def test_distributions_against_simulation() -> None:
    of_turns, of_tasks = errors(varying(), 60_000)
    assert np.abs(of_turns).max() < 0.025
    assert np.abs(of_tasks[:, :2]).max() < 0.02
    assert np.abs(of_tasks[:, 2]).max() < 0.03


@pytest.mark.parametrize("name", ["turns", "think_time_s", "output_tokens_per_turn"])
def test_one_distribution_alone(name: str) -> None:
    """The others are plain numbers, at the same means."""
    plain = varying().model_copy(update={"distributions": None})
    forms = varying().distributions
    assert forms is not None
    alone = type(forms)(**{name: getattr(forms, name)})
    _, of_tasks = errors(plain.model_copy(update={"distributions": alone}), 40_000)
    assert np.abs(of_tasks[:, :2]).max() < 0.02
    assert np.abs(of_tasks[:, 2]).max() < 0.03


def test_means_are_those_of_the_scenario() -> None:
    scenario = varying()
    nodes = scenario_nodes(scenario, GROUPS)
    expected = scenario.turns * np.append(nodes.turns.means, scenario.think_time_s)
    assert nodes.tasks.means == pytest.approx(expected, rel=1e-9)
    assert nodes.turns.means[3] == pytest.approx(scenario.output_tokens_per_turn - 1, rel=1e-3)


def test_a_single_turn_that_hits_has_no_spread() -> None:
    one = varying(
        turns=1,
        think_time_s=0,
        initial_prompt_tokens=4_000,
        new_tokens_per_turn=0,
        output_tokens_per_turn=500,
        shared_prefix_tokens=0,
        cache_hit_rate=1,
    )
    nodes = scenario_nodes(one, GROUPS)
    of_turns = matrix(nodes.turns, ROWS)
    assert of_turns.tolist() == np.repeat((ROWS @ nodes.turns.means)[:, None], 3, axis=1).tolist()
    assert matrix(nodes.tasks, OF_TASKS) == pytest.approx(of_turns, rel=1e-12)


def test_a_disaggregated_prefill_computes_the_last_output_too() -> None:
    (scenario,) = load_scenarios(["code-agent"])
    sees, blind = (scenario_nodes(scenario, GROUPS, prefill_sees_output=sees) for sees in (True, False))
    # 7 of 8 turns have 128 tokens more, on the 95 % that hit
    assert blind.turns.means[1] - sees.turns.means[1] == pytest.approx(0.95 * 7 / 8 * 128)
