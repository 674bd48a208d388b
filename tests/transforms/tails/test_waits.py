"""The parts of a wait: sums over a finite population by hand, and TTFT against draws."""

import math

import numpy as np
import pytest

from transforms.spread.forms import Nodes
from transforms.tails.nodes import PrefillClasses
from transforms.tails.replica import FirstTokenQueue, ttft_percentiles
from transforms.tails.waits import WorkMoments, over_turns, scaled_to_load, waits, with_waits


def test_first_prompts_of_others_by_hand() -> None:
    """24 sessions, a turn of 2.2 s and pauses of 5 s; one turn in 20 is a first prompt of 0.65 s, hits take 25 ms."""
    rho = 2.2 / 7.2
    moments = tuple(0.05 * 650.0**power + 0.95 * 25.0**power for power in (1, 2, 3))
    load = scaled_to_load((moments[0], moments[1], moments[2]), 23 / 7200.0, rho)
    assert load.prefill_share == pytest.approx(23 / 7200 * 56.25)
    exponential, normal = waits(23.0, load, 0.0)
    stretch = 1 / (1 - load.prefill_share * (1 - rho))
    variance = 23 * (rho * moments[1] - (rho * moments[0]) ** 2)
    third = 23 * (rho * moments[2] - 3 * rho**2 * moments[0] * moments[1] + 2 * (rho * moments[0]) ** 3)
    assert exponential**2 + normal**2 == pytest.approx(stretch**2 * variance)
    assert 2 * (exponential / stretch) ** 3 == pytest.approx(third)
    # 0.35 first prompts fall into a turn: the wait deviates by about 0.4 s
    assert 380 < math.hypot(exponential, normal) < 480


def test_nobody_waits_differently_where_all_are_alike_and_nobody_pauses() -> None:
    load = scaled_to_load((40.0, 1600.0, 64000.0), 0.01, 1.0)
    assert waits(31.0, load, 5.0) == (0.0, 0.0)


def test_one_session_alone_waits_for_nobody() -> None:
    load = scaled_to_load((40.0, 3200.0, 400000.0), 0.0, 0.5)
    assert waits(0.0, load, 5.0) == (0.0, 0.0)


def test_prefills_take_no_more_than_all_of_the_time() -> None:
    load = scaled_to_load((100.0, 20_000.0, 6e6), 0.02, 0.5)
    assert load.prefill_share == pytest.approx(0.95)
    assert load.prefill_ms[0] * 0.02 == pytest.approx(0.95)


def test_a_task_is_a_sum_of_its_turns() -> None:
    exponential, normal = over_turns(300.0, 400.0, 16.0)
    assert exponential**2 + normal**2 == pytest.approx(16 * (300.0**2 + 400.0**2))
    assert exponential**3 == pytest.approx(16 * 300.0**3)


def test_scores_have_mean_0_and_deviation_1_and_do_not_go_together() -> None:
    own = Nodes(np.array([[1.0, 500.0, 2.0, 127.0], [1.0, 16_000.0, 9.0, 127.0]]), np.array([0.95, 0.05]))
    nodes = with_waits(own)
    scores = nodes.values[:, 4:]
    assert nodes.weights @ nodes.values[:, :4] == pytest.approx(own.means)
    assert nodes.weights @ scores == pytest.approx([0, 0], abs=1e-9)
    assert nodes.weights @ scores**2 == pytest.approx([1, 1])
    assert abs(nodes.weights @ scores.prod(axis=1)) < 0.05
    assert nodes.weights @ scores[:, 0] ** 3 == pytest.approx(2.0, rel=0.1)
    # as much on the rare node as on the frequent one
    rare = nodes.values[:, 1] > 1_000
    assert scores[rare].mean(axis=0) == pytest.approx([0, 0], abs=0.1)


def test_moments_are_those_of_the_prefills() -> None:
    tokens, flops, weights = np.array([500.0, 16_000.0]), np.array([1e13, 4e14]), np.array([0.9, 0.1])
    nodes = Nodes(np.stack([np.ones(2), tokens, flops, np.full(2, 127.0)], axis=1), weights)
    found = WorkMoments.of(nodes).of_prefill(0.04, 1e-13)
    prefill = 0.04 * tokens + 1e-13 * flops
    assert found == pytest.approx([float(weights @ prefill**power) for power in (1, 2, 3)])


def test_ttft_is_the_percentile_of_own_prefill_and_wait() -> None:
    own, shares = [30.0, 33.0, 700.0], np.array([0.6, 0.3, 0.1])
    found = ttft_percentiles(own, shares, FirstTokenQueue(0.45, 300.0), (0.5, 0.9, 0.95, 0.99))

    def beyond(t: float) -> float:
        waiting = [1.0 if t < each else 0.45 * math.exp(-(t - each) / 300.0) for each in own]
        return float(shares @ waiting)

    for share, t in zip((0.5, 0.9, 0.95, 0.99), found, strict=True):
        assert beyond(t) <= 1 - share + 1e-9
        assert beyond(t * (1 - 1e-6)) >= 1 - share - 1e-6


def test_classes_keep_the_mean_work() -> None:
    random = np.random.default_rng(1)
    values = np.stack([np.ones(500), random.exponential(2_000.0, 500), random.exponential(1e13, 500), np.ones(500)], 1)
    nodes = Nodes(values, np.full(500, 1 / 500))
    classes = PrefillClasses.of(nodes)
    assert classes.shares.sum() == pytest.approx(1)
    assert classes.shares @ classes.new_tokens == pytest.approx(nodes.means[1])
    assert classes.shares @ classes.flops == pytest.approx(nodes.means[2])
