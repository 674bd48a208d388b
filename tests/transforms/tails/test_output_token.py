"""Percentiles of a turn's time per output token: their nodes, and against turns that meet others' prefills."""

import numpy as np
import pytest

from schemas.arrays import Array
from transforms.spread.forms import Nodes, percentiles
from transforms.tails.nodes import PrefillClasses, TailNodes
from transforms.tails.output_token import output_token_nodes
from transforms.tails.replica import aggregated_tails, disaggregated_tails
from transforms.tails.waits import WorkMoments

SHARES = (0.5, 0.9, 0.95, 0.99)


def turns_of(later: list[float], new: float = 1000.0) -> Nodes:
    """Turns, equally many of each, that differ in their output after the first token alone."""
    return Nodes(np.array([[1.0, new, 0.0, each] for each in later]), np.full(len(later), 1 / len(later)))


def tail_nodes_of(turns: Nodes) -> TailNodes:
    of_token, means = output_token_nodes(turns), tuple(float(mean) for mean in turns.means)
    return TailNodes(turns, turns, turns, of_token, WorkMoments.of(turns), PrefillClasses.of(turns), means)


def deviation(values: Array) -> float:
    return float(np.sqrt((values**2).mean()))


def test_a_turn_of_four_times_the_output_varies_by_half_as_much_per_token() -> None:
    short, long, both = (output_token_nodes(turns_of(later)) for later in ([100.0], [400.0], [100.0, 400.0]))
    # of one length each the score is what it is: deviation 1
    for alone in (short, long):
        assert [deviation(alone.values[:, column]) for column in (1, 2)] == pytest.approx([1, 1])
    # relative to the mean of 250 tokens: roots of 2.5 and of 0.625, whose squares have the mean 1.5625
    assert [deviation(both.values[:, column]) for column in (1, 2)] == pytest.approx([1.25, 1.25], rel=0.02)
    assert (both.weights @ both.values)[1:] == pytest.approx([0, 0], abs=0.02)


def test_turns_of_one_token_have_no_time_per_output_token() -> None:
    some = output_token_nodes(turns_of([0.0, 100.0, 100.0]))
    assert some.weights.sum() == pytest.approx(1)
    assert [deviation(some.values[:, column]) for column in (1, 2)] == pytest.approx([1, 1])
    none = output_token_nodes(turns_of([0.0]))
    assert percentiles(none, [np.array([7.0]), np.array([3.0]), np.array([2.0])], SHARES).shape == (4, 1)


def test_against_turns_that_meet_the_prefills_of_others_by_chance() -> None:
    """20 others, each in a turn with chance 0.4; then its prefill of 300 ms falls between 127 output tokens."""
    others, rho, prefill_ms, later, latency_ms = 20.0, 0.4, 300.0, 127.0, 6000.0
    tails = aggregated_tails((0.3, 0.0), 37.0, others + 1, (latency_ms, rho), 0.0, tail_nodes_of(turns_of([later])))
    share = others * rho / latency_ms * prefill_ms
    stretch = 1 / (1 - share * (1 - rho))
    counts = np.random.default_rng(3).binomial(int(others), rho, 400_000)
    drawn = 37.0 + stretch * prefill_ms / later * (counts - others * rho)
    forms = [np.array([37.0]), *(np.array([part / later]) for part in tails.decode_wait)]
    found = percentiles(output_token_nodes(turns_of([later])), forms, SHARES)[:, 0]
    assert found == pytest.approx(np.quantile(drawn, SHARES), rel=0.05)
    assert tails.step == pytest.approx(37.0 * (1 - share))


def test_a_prefill_pool_delays_no_output_token() -> None:
    """16 sessions at a decode rank in turns half of the time, 20 ms each for another's turn: a root of 15/4 of it."""
    nodes = tail_nodes_of(turns_of([127.0]))
    tails = disaggregated_tails((0.3, 0.0), 500.0, (8.0, 16.0), (6000.0, 0.5), 20.0, nodes)
    assert tails.decode_wait[0] == 0.0
    assert tails.decode_wait[1] == pytest.approx(np.sqrt(15 / 4) * 20.0)
    assert tails.wait[0] > 0
