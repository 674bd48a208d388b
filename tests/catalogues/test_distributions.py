"""Distributions in place of numbers: three forms, their means, what is refused, and that a fit's are read back."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pipelines.reading.catalogues import load_scenarios
from schemas.distribution_nodes import nodes_of, scaled_nodes, whole_nodes
from schemas.distributions import Distribution
from schemas.errors import UserError
from schemas.scenarios import Scenario
from transforms.cache.shape import scenario_pauses

LEAST = {
    "slug": "mine",
    "turns": 4,
    "think_time_s": 2,
    "initial_prompt_tokens": 8_000,
    "new_tokens_per_turn": 400,
    "output_tokens_per_turn": 200,
    "cache_hit_rate": 0.9,
}


def scenario(**changed: object) -> Scenario:
    return Scenario.model_validate(LEAST | changed)


def test_the_number_is_the_mean_of_the_distribution() -> None:
    mine = scenario(
        turns={"values": [2, 10], "weights": [3, 1]},
        think_time_s={"log_normals": [{"median": 3, "sigma": 1}], "zero_fraction": 0.25},
        output_tokens_per_turn={"mean": 300, "p50": 200, "p90": 600},
    )
    assert mine.turns == 4
    assert mine.think_time_s == pytest.approx(0.75 * 3 * math.exp(0.5), rel=1e-12)
    assert mine.output_tokens_per_turn == 300
    assert scenario().distributions is None


def test_a_scenario_is_read_back_from_what_it_dumps() -> None:
    mine = scenario(turns={"mean": 80, "p50": 48}, think_time_s={"values": [1, 5]})
    assert Scenario.model_validate(mine.model_dump(mode="json", exclude_none=True)) == mine


def test_another_mean_scales_the_distribution() -> None:
    mine = scenario(think_time_s={"values": [1, 5]}).model_copy(update={"think_time_s": 6.0})
    assert scenario_pauses(mine).values.tolist() == [2, 10]


def test_cut_log_normals_have_the_mean_of_their_closed_form() -> None:
    """The nodes of a log-normal cut at 1 and 10 against its closed mean."""
    cut = Distribution.model_validate({"log_normals": [{"median": 3, "sigma": 1.5}], "least": 1, "most": 10})
    values, weights = nodes_of(cut)
    assert (values.min(), values.max()) == (1, 10)
    assert float(values @ weights) == pytest.approx(cut.mean_value, rel=1e-4)


def test_a_median_with_its_mean_is_a_log_normal() -> None:
    """sigma = sqrt(2 ln(mean/median)); its 84.13th percentile is median * exp(sigma)."""
    values, weights = nodes_of(Distribution(mean=80, p50=48))
    assert float(values @ weights) == pytest.approx(80, rel=1e-9)
    at = values[np.searchsorted(np.cumsum(weights), 0.8413447)]
    assert at == pytest.approx(48 * math.exp(math.sqrt(2 * math.log(80 / 48))), rel=0.02)


@given(
    p50=st.floats(1, 100),
    wider=st.floats(1.01, 20),
    wider_still=st.floats(1.01, 20),
    share=st.floats(0.05, 0.95),
    most=st.none() | st.floats(1.01, 50),
)
def test_quantiles_are_kept_and_the_mean(
    p50: float, wider: float, wider_still: float, share: float, most: float | None
) -> None:
    p90, p99 = p50 * wider, p50 * wider * wider_still
    lowest, highest = 0.4 * p50 + 0.09 * p90 + 0.01 * p99, 0.5 * p50 + 0.4 * p90 + 0.09 * p99 + 0.01 * p99 * (most or 9)
    mean = lowest + share * (highest - lowest)
    form = Distribution(mean=mean, p50=p50, p90=p90, p99=p99, most=None if most is None else p99 * most)
    values, weights = nodes_of(form)
    assert math.fsum(weights) == pytest.approx(1)
    below = np.cumsum(weights)
    for value, part in ((p50, 0.5), (p90, 0.9), (p99, 0.99)):
        assert values[below < part - 1e-9].max() <= value * (1 + 1e-9)
        assert values[below > part + 1e-9].min() >= value * (1 - 1e-9)
    scaled, weights = scaled_nodes(form, 7.0)
    assert float(scaled @ weights) == pytest.approx(7)


def test_whole_numbers_keep_the_mean() -> None:
    values, weights = whole_nodes(np.array([1.25, 3.0]), np.array([0.5, 0.5]))
    assert values.tolist() == [1, 2, 3]
    assert weights.tolist() == [0.375, 0.125, 0.5]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{p50: 45}", "quantiles need the mean beside them"),
        ("{mean: 5, p50: 45}", "one quantile alone must be the p50, and not above the mean"),
        ("{mean: 80, p90: 45}", "one quantile alone must be the p50"),
        ("{mean: 2, p50: 45, p90: 60}", "mean 2 cannot be with these quantiles: they allow 24 to inf"),
        ("{mean: 50, p50: 45, p90: 30}", "p50 (45) must not exceed p90 (30)"),
        ("{values: [2, 3], weights: [1]}", "there are 2 values and 1 weights"),
        ("{values: [2, 3], weights: [0, 0]}", "one of the weights must be more than 0"),
        ("{values: [2, 3], mean: 2.5}", "follow from the values"),
        ("{values: []}", "there are 0 values"),
        ("{values: [0.5, 3]}", "turns: 0.5 is below 1"),
        ("{log_normals: [{median: 2, sigma: 1}], values: [1]}", "given are log_normals and values"),
        ("{}", "given are none of them"),
        ("{mean: 5, p5o: 45}", "turns.p5o is not a field. Did you mean 'p95'? The fields are least, log_normals, mean"),
        ("{log_normals: [{median: -2, sigma: 1}]}", "turns.log_normals[0].median is -2, must be more than 0"),
        ("{mean: x, p50: 3}", "turns.mean is 'x', must be a number"),
    ],
)
def test_what_is_no_distribution_is_refused(tmp_path: Path, written: str, said: str) -> None:
    path = tmp_path / "mine.yaml"
    lines = "".join(f"    {name}: {value}\n" for name, value in (LEAST | {"turns": written}).items())
    path.write_text("scenarios:\n  -\n" + lines)
    with pytest.raises(UserError) as caught:
        load_scenarios([str(path)])
    assert said in str(caught.value)


def test_a_distribution_twice_is_refused() -> None:
    with pytest.raises(ValidationError, match="another under distributions"):
        scenario(turns={"values": [2]}, distributions={"turns": {"values": [3]}})
