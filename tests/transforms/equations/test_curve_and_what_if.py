"""Between two rows of a curve, and an agent point from its columns: worked by hand, and as properties."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.options import ClosedLoop
from tests.explorer.page_equations import latency_at_hit_rate, rate_at_hit_rate, session_figures
from transforms.equations import closed_loop as loop
from transforms.equations.curve import along, in_flight_between, sessions_at_wall, share_between

LATENCIES = st.floats(1e-2, 1e3)
FRACTIONS = st.floats(0.0, 1.0)


def test_figures_of_a_row_at_two_pauses() -> None:
    """b = 3 at R = 2 s. Z = 2: rho 1/2, C = 1 + 2/0.5 = 5, X = 5/4; Z = 6: rho 1/4, C = 9, X = 9/8."""
    for pause_s, rho, sessions, turns_per_s in ((2.0, 0.5, 5.0, 1.25), (6.0, 0.25, 9.0, 1.125)):
        figures = session_figures(1.5, 2.0, pause_s, 4.0, 100.0, 1, 2)
        assert figures["activity_fraction"] == rho
        assert figures["sessions"] == sessions
        assert figures["in_flight_requests"] == sessions * rho
        assert figures["turns_per_s"] == turns_per_s
        assert figures["turns_per_s_per_gpu"] == turns_per_s / 2
        assert figures["tasks_per_hour_per_gpu"] == 3600 * turns_per_s / 2 / 4
        assert figures["task_time_s"] == 4 * (2 + pause_s)
        assert figures["e2e_tokens_per_s_per_user"] == 50.0
        assert figures["output_tokens_per_s_per_gpu"] == turns_per_s / 2 * 100
        assert figures["tasks_per_s_per_gpu_step9"] == 1.5 / 4 * rho / 2
    assert session_figures(1.5, 2.0, 2.0, 4.0, 100.0, 1, 2, "article")["sessions"] == 6.0


def test_sessions_between_two_rows() -> None:
    """R = 1 + b/2 from (2, 2 s) to (6, 4 s), Z = 2, c = 5: b^2 + b - 14 = 0, b = (sqrt(57) - 1)/2."""
    b = in_flight_between(5.0, 2.0, 2.0, 6.0, 4.0, 2.0)
    assert b == pytest.approx((math.sqrt(57) - 1) / 2, rel=1e-12)
    latency_s = along(2.0, 4.0, share_between(b, 2.0, 6.0))
    assert latency_s == pytest.approx(1 + b / 2)
    assert b == pytest.approx(1 + 4 * latency_s / (latency_s + 2))
    # article, b = c * rho: b^2 + b - 10 = 0
    article = in_flight_between(5.0, 2.0, 2.0, 6.0, 4.0, 2.0, "article")
    assert article == pytest.approx((math.sqrt(41) - 1) / 2, rel=1e-12)


def test_flat_and_falling_curves() -> None:
    """R = 2 everywhere, Z = 2, c = 5: b = 1 + 4/2 = 3. R = 5 - b/2 from (2, 4) to (6, 2): b = 1 + 4R/(R + 2)."""
    assert in_flight_between(5.0, 2.0, 2.0, 6.0, 2.0, 2.0) == pytest.approx(3.0)
    assert in_flight_between(5.0, 2.0, 2.0, 2.0, 2.0, 2.0) == pytest.approx(3.0)
    b = in_flight_between(5.0, 2.0, 4.0, 6.0, 2.0, 2.0)
    assert b == pytest.approx(1 + 4 * (5 - b / 2) / (7 - b / 2))
    assert in_flight_between(0.5, 0.4, 2.0, 6.0, 2.0, 2.0) == 0.5


@given(
    b=st.lists(st.floats(0.5, 1e3), min_size=2, max_size=2, unique=True),
    r=st.lists(LATENCIES, min_size=2, max_size=2),
    pause_s=st.floats(0.0, 1e3),
    share=FRACTIONS,
    preset=st.sampled_from(["arrival", "article"]),
)
def test_the_closed_form_is_the_bisection(
    b: list[float], r: list[float], pause_s: float, share: float, preset: ClosedLoop
) -> None:
    """Wherever the rows' sessions enclose c, both close the loop at c."""
    b0, b1 = sorted(b)
    ends = [
        loop.sessions_that_fill(x, loop.activity_fraction(y, pause_s), 1.0, preset)
        for x, y in zip((b0, b1), r, strict=True)
    ]
    if ends[1] <= ends[0]:
        return
    c = ends[0] + share * (ends[1] - ends[0])
    solved = in_flight_between(c, b0, r[0], b1, r[1], pause_s, preset)
    latency_s = along(r[0], r[1], share_between(solved, b0, b1))
    assert b0 * (1 - 1e-6) - 1e-6 <= solved <= b1 * (1 + 1e-6) + 1e-6
    back = loop.sessions_that_fill(solved, loop.activity_fraction(latency_s, pause_s), 1.0, preset)
    assert back == pytest.approx(c, rel=1e-6)


def test_the_wall_between_two_rows() -> None:
    """R = 1 + C/10 from (10, 2 s) to (30, 4 s), Z = 2; 6 requests in flight: C^2 + 4*C - 180 = 0."""
    row = (10.0, 2.0, 30.0, 4.0, 2.0)
    assert sessions_at_wall(*row, 17.0, math.inf) == 17.0
    slots = sessions_at_wall(*row, math.inf, 6.0)
    assert slots == pytest.approx(math.sqrt(184) - 2)
    assert slots * (1 + slots / 10) / (3 + slots / 10) == pytest.approx(6.0)
    assert sessions_at_wall(*row, 11.0, 6.0) == 11.0
    assert sessions_at_wall(*row, math.inf, math.inf) == 30.0


def test_the_wall_on_a_curve_that_is_saturated() -> None:
    """2 turns a second, whatever the load: C = 2*(R + 5), so that 14 in flight are R = 7 s and C = 24."""
    row = (20.0, 5.0, 30.0, 10.0, 5.0)
    assert sessions_at_wall(*row, math.inf, 14.0) == pytest.approx(24.0, rel=1e-12)
    # R + Z = C/2 in binary fractions leaves nothing to cancel; these do not
    rate, pause_s = 2.924083, 5.0
    low_s, high_s = 4.446568, 7.576174144
    row = (rate * (low_s + pause_s), low_s, rate * (high_s + pause_s), high_s, pause_s)
    at_wall_s = 14.0 / rate
    assert sessions_at_wall(*row, math.inf, 14.0) == pytest.approx(rate * (at_wall_s + pause_s), rel=1e-9)


def test_another_hit_rate_by_hand() -> None:
    """All misses 10 s, published 4 s at 0.8, all hits 2 s: straight lines between them."""
    expected = {0.0: 10.0, 0.4: 7.0, 0.8: 4.0, 0.9: 3.0, 1.0: 2.0}
    for hit_rate, latency_s in expected.items():
        assert latency_at_hit_rate(hit_rate, 0.8, 4.0, 2.0, 10.0) == pytest.approx(latency_s)
        rate = rate_at_hit_rate(hit_rate, 0.8, 1 / 4.0, 1 / 2.0, 1 / 10.0)
        assert rate == pytest.approx(1 / latency_s)
    # a published rate at an end
    assert [latency_at_hit_rate(h, 1.0, 2.0, 2.0, 10.0) for h in (0.0, 0.5, 1.0)] == [10.0, 6.0, 2.0]
    assert [latency_at_hit_rate(h, 0.0, 10.0, 2.0, 10.0) for h in (0.0, 0.5, 1.0)] == [10.0, 6.0, 2.0]


@given(h=FRACTIONS, published=FRACTIONS, hits=LATENCIES, longer=st.floats(1.0, 50.0), share=FRACTIONS)
def test_hit_rates_stay_between_all_and_none(
    h: float, published: float, hits: float, longer: float, share: float
) -> None:
    misses = hits * longer
    latency = misses + (hits - misses) * (share if 0 < published < 1 else published)
    at = latency_at_hit_rate(h, published, latency, hits, misses)
    assert hits * (1 - 1e-9) <= at <= misses * (1 + 1e-9)
    assert latency_at_hit_rate(published, published, latency, hits, misses) == pytest.approx(latency, rel=1e-9)


def test_floats_arrays_and_expressions_agree() -> None:
    rates = [0.0, 0.3, 0.8, 0.95, 1.0]
    floats = [latency_at_hit_rate(h, 0.8, 4.0, 2.0, 10.0) for h in rates]
    array = latency_at_hit_rate(np.array(rates), 0.8, 4.0, 2.0, 10.0)
    expression = latency_at_hit_rate(pl.col("h"), pl.lit(0.8), pl.lit(4.0), pl.lit(2.0), pl.lit(10.0))
    frame = pl.DataFrame({"h": rates, "c": [0.5, 3.0, 4.0, 5.0, 6.0]})
    assert array.tolist() == pytest.approx(floats)
    assert frame.select(expression).to_series().to_list() == pytest.approx(floats)
    loads = frame["c"].to_numpy()
    solved = [in_flight_between(float(c), 0.4, 2.0, 6.0, 4.0, 2.0) for c in loads]
    assert in_flight_between(loads, 0.4, 2.0, 6.0, 4.0, 2.0).tolist() == pytest.approx(solved)
    in_polars = in_flight_between(pl.col("c"), pl.lit(0.4), pl.lit(2.0), pl.lit(6.0), pl.lit(4.0), 2.0)
    assert frame.select(in_polars).to_series().to_list() == pytest.approx(solved)
