"""Hostile traces kept beside the repository: each gives its right answer."""

from pathlib import Path

import pytest

from pipelines.reading.traces import FitOptions, fit_scenario


@pytest.mark.parametrize(
    ("case", "answer"),
    [
        (
            "13-trace-other-block-and-unit/bailian_coder_small.jsonl",
            {"turns": 3, "think_time_s": 32, "initial_prompt_tokens": 624, "new_tokens_per_turn": 232,
             "output_tokens_per_turn": 96},
        ),
        ("14-trace-cache-columns/usage.csv", {"turns": 3, "initial_prompt_tokens": 19_500, "think_time_s": 45.5}),
        ("15-trace-unread-column/requests.csv", {"turns": 2.5, "initial_prompt_tokens": 1_900, "think_time_s": 38.33}),
    ],
)  # fmt: skip
def test_the_right_answer(shared: Path, case: str, answer: dict[str, float]) -> None:
    path = shared / "cases" / case
    if not path.exists():
        pytest.skip(f"{path} is not there")
    scenario = fit_scenario([path], FitOptions("x"))
    assert {name: getattr(scenario, name) for name in answer} == answer
    assert scenario.statistics is not None
    assert scenario.statistics.cache.cache_hit_rate == pytest.approx(1, abs=3e-4)
