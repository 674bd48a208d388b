"""Shares and means of pause distributions against closed forms."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.trace_statistics import LogNormal, PauseMixture, Spread
from transforms.cache import PauseDistribution


def normal(x: float) -> float:
    return (1 + math.erf(x / math.sqrt(2))) / 2


MIXTURE = PauseMixture(
    zero_fraction=0.1,
    log_normals=(
        LogNormal(weight=0.7, median_s=2, sigma=0.8),
        LogNormal(weight=0.3, median_s=100, sigma=1.7),
    ),
)


@pytest.mark.parametrize("limit", [0.0, 0.05, 1.0, 10.0, 300.0, 1e5, math.inf])
def test_log_normals_against_their_closed_forms(limit: float) -> None:
    pauses = PauseDistribution.log_normals(MIXTURE)
    share, mean = 0.1, 0.0
    for part in MIXTURE.log_normals:
        weight, mu = 0.9 * part.weight, math.log(part.median_s)
        z = (math.log(limit) - mu) / part.sigma if limit > 0 else -math.inf
        share += weight * normal(z)
        mean += weight * math.exp(mu + part.sigma**2 / 2) * normal(z - part.sigma)
        mean += weight * limit * (1 - normal(z)) if math.isfinite(limit) else 0.0
    assert float(pauses.share_within(limit)) == pytest.approx(share, abs=5e-4)
    assert float(pauses.mean_within(limit)) == pytest.approx(mean, rel=2e-3)


def test_the_mean_of_log_normals_is_that_of_the_closed_form() -> None:
    expected = 0.9 * (0.7 * 2 * math.exp(0.32) + 0.3 * 100 * math.exp(1.7**2 / 2))
    assert PauseDistribution.log_normals(MIXTURE).mean_s == pytest.approx(expected, rel=1e-9)


def test_pauses_as_they_were() -> None:
    pauses = PauseDistribution.empirical([5, 1, 5, 20], weights=[1, 2, 1, 4])
    assert pauses.share_within([0, 1, 4.9, 5, 19, 20]).tolist() == [0, 0.25, 0.25, 0.5, 0.5, 1]
    assert pauses.mean_s == 0.25 * 1 + 0.25 * 5 + 0.5 * 20
    assert pauses.mean_within([0, 3, 10]).tolist() == [0, 0.25 + 0.75 * 3, 0.25 + 1.25 + 5]
    capped = pauses.capped(10)
    assert capped.mean_s == 0.25 + 1.25 + 5
    assert float(capped.share_within(10)) == 1
    assert pauses.average(np.square) == 0.25 + 0.25 * 25 + 0.5 * 400
    for wrong in ([], [-1.0]):
        with pytest.raises(ValueError, match="0 or more"):
            PauseDistribution.empirical(wrong)


def test_a_cap_on_log_normals_is_an_atom() -> None:
    capped = PauseDistribution.log_normals(MIXTURE).capped(60)
    assert float(capped.share_within(60)) == pytest.approx(1)
    assert float(capped.share_within(59.99)) < 0.9


def test_from_quantiles_with_the_mean_kept() -> None:
    rng = np.random.default_rng(3)
    drawn = rng.lognormal(1, 1.5, 100_000)
    shares = {f"p{share}": float(np.quantile(drawn, share / 100)) for share in (10, 25, 50, 75, 90, 95, 99)}
    spread = Spread(
        count=len(drawn), mean=float(drawn.mean()), least=float(drawn.min()), most=float(drawn.max()), **shares
    )
    pauses = PauseDistribution.quantiles(spread)
    assert pauses.mean_s == pytest.approx(spread.mean, rel=1e-3)
    for limit in (1.0, 5.0, 40.0, 90.0):
        assert float(pauses.share_within(limit)) == pytest.approx(float((drawn <= limit).mean()), abs=0.01)
        assert float(pauses.mean_within(limit)) == pytest.approx(float(np.minimum(drawn, limit).mean()), rel=0.03)


@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.floats(0.01, 10)), min_size=1, max_size=30),
    st.floats(0, 1e6),
    st.floats(0, 1e6),
)
def test_shares_and_means_grow_with_the_limit(given_pauses: list[tuple[float, float]], one: float, two: float) -> None:
    pauses = PauseDistribution.empirical(*zip(*given_pauses, strict=True))
    low, high = min(one, two), max(one, two)
    assert pauses.share_within(low) <= pauses.share_within(high) + 1e-12
    assert 0 <= pauses.mean_within(low) <= pauses.mean_within(high) * (1 + 1e-9) + 1e-9
    assert pauses.mean_within(low) <= low * (1 + 1e-9)
    assert float(pauses.mean_within(1e7)) == pytest.approx(pauses.mean_s)
