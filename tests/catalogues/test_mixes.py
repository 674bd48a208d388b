"""Mixes of scenarios: how a file names them, what their fields are, what is refused."""

from pathlib import Path

import pytest

from pipelines.reading.catalogues import load_scenarios
from schemas.errors import UserError
from schemas.options import MappingOptions
from schemas.scenarios import Scenario
from transforms.agent_points.memory.idle_kv import scenario_under
from transforms.equations.context import turn_profile

PLAIN = (
    "  - {slug: short, turns: 1, think_time_s: 3, initial_prompt_tokens: 1000, new_tokens_per_turn: 10,"
    " output_tokens_per_turn: 100, cache_hit_rate: 1}\n"
)


def load(folder: Path, mix: str, plain: str = "") -> Scenario:
    path = folder / "mine.yaml"
    path.write_text(f"scenarios:\n  - slug: both\n    {mix}\n{plain}")
    return load_scenarios([str(path)])[0]


def test_the_fields_of_a_mix_are_means(tmp_path: Path) -> None:
    """Three code agents (8 turns) to eight single requests: 24 of 32 turns are the agents'."""
    mix = load(tmp_path, "mix: [{scenario: code-agent, weight: 3}, {scenario: short, weight: 8}]", PLAIN)
    assert mix.turns == pytest.approx(32 / 11)
    assert mix.think_time_s == pytest.approx(0.75 * 0.5 + 0.25 * 3)
    assert mix.output_tokens_per_turn == pytest.approx(0.75 * 128 + 0.25 * 100)
    assert mix.initial_prompt_tokens == pytest.approx((3 * 16_000 + 8 * 1_000) / 11)
    assert mix.cache_hit_rate == pytest.approx(0.75 * 0.95 + 0.25)
    assert mix.mean_context_tokens == pytest.approx(0.75 * 18_198 + 0.25 * 1_000)
    assert mix.peak_context_tokens == 20_524
    # later turns are the agents' alone
    assert mix.new_tokens_per_turn == 500
    profile = turn_profile(mix)
    assert profile.mean(profile.context) == pytest.approx(mix.mean_context_tokens)
    assert float(profile.of_first @ profile.new_on_hit) == pytest.approx((3 * 500 + 8 * 1_000) / 11)


def test_a_mix_is_read_back_from_what_is_listed(tmp_path: Path) -> None:
    mix = load(tmp_path, "mix: [{scenario: code-agent, weight: 3}, {scenario: research-agent, weight: 1}]")
    assert Scenario.model_validate(mix.model_dump(mode="json", exclude_none=True)) == mix
    assert Scenario.model_validate_json(mix.model_dump_json()) == mix


def test_dropped_kv_leaves_no_scenario_of_a_mix_a_hit(tmp_path: Path) -> None:
    mix = load(tmp_path, "mix: [{scenario: code-agent, weight: 3}, {scenario: research-agent, weight: 1}]")
    dropped = scenario_under(mix, MappingOptions(idle_kv="dropped"))
    assert dropped.mix is not None
    assert [part.scenario.cache_hit_rate for part in dropped.mix] == [0, 0]
    assert dropped.cache_hit_rate == 0
    assert dropped.turns == mix.turns


@pytest.mark.parametrize(
    ("mix", "said"),
    [
        ("mix: [{scenario: code-agnt, weight: 3}, {scenario: short, weight: 1}]", "Did you mean 'code-agent'?"),
        ("mix: [{scenario: code-agent, weight: 3}]", "a mix has two scenarios or more"),
        ("mix: []", "a mix has two scenarios or more"),
        ("mix: [{scenario: short, weight: 3}, {scenario: short, weight: 1}]", "names each scenario once"),
        ("mix: [{scenario: code-agent, weight: 0}, {scenario: short, weight: 1}]", "mix[0].weight is 0"),
        ("mix: [{scenario: code-agent, weigt: 3}, {scenario: short, weight: 1}]", "mix[0].weigt is not a field"),
        ("mix: 4", "mix is 4, must be a list"),
        (
            "mix: [{scenario: code-agent, weight: 3}, {scenario: short, weight: 1}]\n    turns: 4",
            "turns of a mix follows from its scenarios: leave it out",
        ),
        (
            "mix: [{scenario: code-agent, weight: 3}, {scenario: short, weight: 1}]\n    cache_hit_rate: 1",
            "cache_hit_rate of a mix follows",
        ),
        (
            "mix: [{scenario: code-agent, weight: 3}, {scenario: forgets, weight: 1}]",
            "forgets has a cache of model ttl, which a mix cannot share yet",
        ),
    ],
)
def test_what_is_no_mix_is_refused(tmp_path: Path, mix: str, said: str) -> None:
    forgets = PLAIN.replace("short", "forgets").replace("cache_hit_rate: 1", "cache: {model: ttl, kept_s: 5}")
    with pytest.raises(UserError) as caught:
        load(tmp_path, mix, PLAIN + forgets)
    assert said in str(caught.value)


def test_a_mix_of_a_mix_is_refused(tmp_path: Path) -> None:
    mix = load(tmp_path, "mix: [{scenario: code-agent, weight: 3}, {scenario: research-agent, weight: 1}]")
    (plain,) = load_scenarios(["deep-reasoning"])
    with pytest.raises(ValueError, match="both is a mix itself"):
        Scenario.model_validate(
            {"slug": "more", "mix": ({"scenario": mix, "weight": 1}, {"scenario": plain, "weight": 1})}
        )
