"""Quantiles within bounds, and mixtures found again."""

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.traces.histogram import Histogram
from transforms.traces.log_normals import fit_pauses


def histogram(values: Iterable[float]) -> Histogram:
    filled = Histogram()
    for value in values:
        filled.add(float(value))
    return filled


def test_whole_numbers_are_exact() -> None:
    spread = histogram([3, 1, 1000, 2]).spread()
    assert spread is not None
    assert (spread.p50, spread.least, spread.most, spread.mean, spread.p99) == (2.5, 1, 1000, 251.5, 1000)
    assert histogram([0, 0, 7]).quantile(0.5) == 0
    assert Histogram().spread() is None


@given(st.lists(st.floats(1e-4, 1e12), min_size=1, max_size=60), st.floats(0.01, 0.99))
def test_quantiles_are_within_a_thousandth(values: list[float], share: float) -> None:
    exact = float(np.quantile(values, share, method="averaged_inverted_cdf"))
    assert histogram(values).quantile(share) == pytest.approx(exact, rel=1 / 1000)


def test_a_mixture_is_found_again() -> None:
    rng = np.random.default_rng(5)
    tools, people = rng.lognormal(np.log(2), 0.8, 14_000), rng.lognormal(np.log(120), 1.2, 6_000)
    mixture = fit_pauses(histogram([*tools, *people, *np.zeros(5_000)]))
    assert mixture is not None
    assert mixture.zero_fraction == 0.2
    first, second = mixture.log_normals
    assert first.weight == pytest.approx(0.7, abs=0.02)
    assert second.weight == pytest.approx(0.3, abs=0.02)
    assert first.median_s == pytest.approx(2, rel=0.05)
    assert second.median_s == pytest.approx(120, rel=0.08)
    assert first.sigma == pytest.approx(0.8, rel=0.05)
    assert second.sigma == pytest.approx(1.2, rel=0.05)


def test_few_or_equal_pauses_give_one_log_normal() -> None:
    few = fit_pauses(histogram([1, 2, 4]))
    assert few is not None
    (only,) = few.log_normals
    assert (only.median_s, only.weight) == pytest.approx((2, 1))
    same = fit_pauses(histogram([10] * 100))
    assert same is not None
    assert [part.median_s for part in same.log_normals] == [pytest.approx(10)]
    assert fit_pauses(histogram([0, 0])) is None
