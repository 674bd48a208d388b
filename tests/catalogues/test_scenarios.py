"""The shipped scenarios: the article's Step 8, and the contexts that follow from it."""

import pytest
from pydantic import ValidationError

from pipelines.reading.catalogues import load_scenarios
from schemas.scenarios import Scenario

# model.md 2: C, N, Z, L0, dL, OSL, r, h, "final context" L0 + N * (dL + r * OSL).
STEP_8 = {
    "code-agent": (32, 8, 0.5, 16_000, 500, 128, 1, 0.95, 21_024),
    "research-agent": (16, 15, 5, 24_000, 3_000, 64, 1, 0.70, 69_960),
    "deep-reasoning": (8, 20, 1, 32_000, 4_000, 4_096, 0, 0.85, 112_000),
}


def shipped(slug: str) -> Scenario:
    return load_scenarios([slug])[0]


def test_the_articles_three_are_shipped_in_its_order_and_what_people_ask_for_follows() -> None:
    assert [scenario.slug for scenario in load_scenarios()] == [*STEP_8, "claude-code", "chat-with-tools"]


@pytest.mark.parametrize("slug", STEP_8)
def test_parameters_are_step_8s(slug: str) -> None:
    sessions, turns, pause, first, new, output, kept, hits, final = STEP_8[slug]
    scenario = shipped(slug)
    assert (scenario.sessions, scenario.gpus) == (sessions, 8)
    assert (scenario.turns, scenario.think_time_s) == (turns, pause)
    assert (scenario.initial_prompt_tokens, scenario.new_tokens_per_turn) == (first, new)
    assert (scenario.output_tokens_per_turn, scenario.output_retention_fraction) == (output, kept)
    assert scenario.cache_hit_rate == hits
    # what Step 8 calls the final context is one turn further
    assert scenario.initial_prompt_tokens + turns * scenario.context_growth_tokens == final
    assert scenario.first_turn_new_tokens == new  # the article's n1 = dL
    assert scenario.shared_prefix_tokens == 0
    assert "Step 8" in scenario.source


@pytest.mark.parametrize(
    ("slug", "mean", "peak"),
    [
        # L0 + (N-1)/2 * (dL + r*OSL); L0 + (N-1) * (dL + r*OSL) + OSL
        ("code-agent", 16_000 + 3.5 * 628, 16_000 + 7 * 628 + 128),
        ("research-agent", 24_000 + 7 * 3_064, 24_000 + 14 * 3_064 + 64),
        ("deep-reasoning", 32_000 + 9.5 * 4_000, 32_000 + 19 * 4_000 + 4_096),
    ],
)
def test_contexts(slug: str, mean: float, peak: float) -> None:
    scenario = shipped(slug)
    assert scenario.mean_context_tokens == mean
    assert scenario.peak_context_tokens == peak


def test_mean_context_is_the_mean_of_the_turns() -> None:
    scenario = shipped("research-agent")
    contexts = [24_000 + turn * 3_064 for turn in range(15)]
    assert scenario.mean_context_tokens == sum(contexts) / 15
    assert scenario.peak_context_tokens == contexts[-1] + 64


LEAST = {
    "slug": "mine",
    "turns": 2,
    "think_time_s": 0,
    "initial_prompt_tokens": 1_000,
    "new_tokens_per_turn": 10,
    "output_tokens_per_turn": 20,
    "cache_hit_rate": 0.5,
}


def test_defaults() -> None:
    scenario = Scenario.model_validate(LEAST | {"shared_prefix_tokens": 300})
    assert scenario.name == "mine"
    assert scenario.output_retention_fraction == 1
    assert scenario.first_turn_new_tokens == 700  # L0 - S
    assert scenario.sessions is None
    assert scenario.gpus is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"turns": 0.5},
        {"think_time_s": -1},
        {"think_time_s": float("inf")},
        {"think_time_s": float("nan")},
        {"initial_prompt_tokens": 0},
        {"output_tokens_per_turn": 0},
        {"output_retention_fraction": 1.1},
        {"cache_hit_rate": -0.1},
        {"new_tokens_per_turn": 0},  # two turns and nothing new between them
        {"shared_prefix_tokens": 1_000},  # the whole prompt
        {"shared_prefix_tokens": 500, "first_turn_new_tokens": 600},
        {"first_turn_new_tokens": 0},
        {"gpus": 8},  # whose sessions?
        {"sessions": 0},
        {"cache": {"model": "fixed", "hit_rate": 0.5}},  # beside cache_hit_rate
        {"turns": 1e300},  # would overflow what is computed from it
    ],
)
def test_impossible_scenarios_are_refused(wrong: dict[str, object]) -> None:
    Scenario.model_validate(LEAST)
    with pytest.raises(ValidationError):
        Scenario.model_validate(LEAST | wrong)


def test_identity_workload_is_allowed() -> None:
    """N = 1, Z = 0, h = 1: one plain request (model.md 5.8)."""
    one = LEAST | {"turns": 1, "new_tokens_per_turn": 0, "cache_hit_rate": 1}
    assert Scenario.model_validate(one).mean_context_tokens == 1_000
