"""Quantiles and sums of independent quantities against closed forms."""

import math

import numpy as np
import pytest

from schemas.distributions import Distribution
from transforms.spread.draws import binomial_quantiles, lattice, normal_scores, quantiles, sum_quantiles

SHARES = (np.arange(1000) + 0.5) / 1000


def at(found: np.ndarray, share: float) -> float:
    return float(np.interp(share, SHARES, found))


def test_a_lattice_has_one_point_in_each_slice_of_each_dimension() -> None:
    points = lattice(64, 3)
    for column in points.T:
        assert sorted(column) == pytest.approx(((np.arange(64) + 0.5) / 64).tolist())
    # and evenly in the plane: 64 squares, none with more than 3
    assert np.bincount((points[:, :2] * 8).astype(int) @ [8, 1]).max() <= 3


def test_quantiles_keep_the_mean_of_a_heavy_tail() -> None:
    """Values 2^0 ... 2^19, each half as frequent as the one before: the highest lie in less than one slice."""
    values, weights = np.exp2(np.arange(20.0)), np.exp2(-np.arange(1.0, 21.0))
    weights = weights / weights.sum()
    found = quantiles(values, weights, SHARES, steps=False)
    total = np.cumsum(weights)
    fine = np.interp((np.arange(10**6) + 0.5) / 1e6, total - weights / 2, values)
    assert found.mean() == pytest.approx(fine.mean(), rel=3e-3)
    assert (np.diff(found) >= -1e-9).all()
    assert set(quantiles(values, weights, SHARES, steps=True)) <= set(values)


@pytest.mark.parametrize("count", [1, 8, 40, 256])
def test_a_sum_of_exponentials_is_a_gamma(count: int) -> None:
    """Values of an exponential by its quantiles; sums of n of them are Gamma(n, 1), Wilson and Hilferty's cube root
    within 0.5 % of its quantiles from n = 8 on."""
    ladder = tuple(-math.log1p(-(place + 0.5) / 2000) for place in range(2000))
    exponential = Distribution(values=ladder)
    found = sum_quantiles(exponential, 1.0, np.full(1000, float(count)), SHARES)
    assert found.mean() == pytest.approx(count, rel=0.005)
    for share, score in ((0.5, 0.0), (0.9, 1.2815516), (0.99, 2.3263479)):
        cube = count * (1 - 1 / (9 * count) + score * math.sqrt(1 / (9 * count))) ** 3
        exact = -math.log(1 - share) if count == 1 else cube
        assert at(found, share) == pytest.approx(exact, rel=0.012)


def test_sums_of_what_does_not_vary() -> None:
    counts = np.array([1.0, 7.0])
    assert sum_quantiles(None, 3.0, counts, np.array([0.1, 0.9])).tolist() == [3, 21]
    one_value = Distribution(values=(5.0,))
    assert sum_quantiles(one_value, 3.0, counts, np.array([0.1, 0.9])) == pytest.approx([3, 21])


@pytest.mark.parametrize(("count", "chance"), [(8, 0.05), (60, 0.3), (30, 0.95), (12, 0.5), (1, 0.2)])
def test_binomial_quantiles_are_the_least_numbers_that_reach_the_share(count: int, chance: float) -> None:
    mass = [math.comb(count, k) * chance**k * (1 - chance) ** (count - k) for k in range(count + 1)]
    exact = np.searchsorted(np.cumsum(mass), SHARES)
    found = binomial_quantiles(np.full(1000, float(count)), chance, SHARES)
    assert np.abs(found - exact).max() <= (0 if chance <= 0.5 else 1)
    assert found.mean() == pytest.approx(count * chance, rel=0.01)


def test_normal_scores() -> None:
    assert normal_scores(np.array([0.5, 0.9, 0.99])) == pytest.approx([0, 1.2815516, 2.3263479])
