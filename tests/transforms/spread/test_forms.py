"""Percentiles of many rows at once against sorting the nodes for each."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.spread.draws import lattice, normal_scores
from transforms.spread.forms import Nodes, percentiles

SHARES = (0.5, 0.9, 0.99)


def exact(nodes: Nodes, rows: np.ndarray) -> np.ndarray:
    found = np.empty((len(rows), len(SHARES)))
    for number, row in enumerate(rows):
        form = nodes.values @ row
        order = np.argsort(form)
        total = np.cumsum(nodes.weights[order])
        for place, share in enumerate(SHARES):
            if nodes.continuous:
                found[number, place] = np.interp(share, total - nodes.weights[order] / 2, form[order])
            else:
                found[number, place] = form[order][np.searchsorted(total, share - 1e-9)]
    return found


def matrix(nodes: Nodes, rows: np.ndarray) -> np.ndarray:
    return percentiles(nodes, list(rows.T), SHARES).T


def test_positive_quantities_of_rows_of_all_directions() -> None:
    """Log-normal quantities, weights of the rows over three decades."""
    shares = lattice(2048, 3)
    values = np.exp(np.stack([normal_scores(column) for column in shares.T], axis=1) * [0.4, 0.8, 1.2])
    nodes = Nodes(values, np.full(2048, 1 / 2048), continuous=True)
    rows = np.exp(np.random.default_rng(1).uniform(0, 7, size=(500, 3)))
    wrong = np.abs(matrix(nodes, rows) / exact(nodes, rows) - 1)
    assert wrong.max() < 0.06
    assert wrong.mean() < 0.005


@pytest.mark.parametrize("continuous", [True, False])
def test_a_row_has_its_percentiles_whatever_rows_are_beside_it(continuous: bool) -> None:
    """To the last bit: a partition that is computed alone is as one computed with others."""
    random = np.random.default_rng(3)
    nodes = Nodes(random.lognormal(0, 1, size=(256, 4)), np.full(256, 1 / 256), continuous)
    rows = np.exp(random.uniform(0, 5, size=(300, 4)))
    together = matrix(nodes, rows)
    assert (np.concatenate([matrix(nodes, row[None]) for row in rows]) == together).all()
    assert (matrix(nodes, rows[::-7]) == together[::-7]).all()


def test_few_nodes_give_one_of_them() -> None:
    """Hits and misses: whatever the row, the percentile is a hit's or a miss's."""
    nodes = Nodes(np.array([[1.0, 10], [1, 12], [1, 900]]), np.array([0.5, 0.42, 0.08]))
    rows = np.random.default_rng(2).uniform(0.1, 5, size=(50, 2))
    assert matrix(nodes, rows) == pytest.approx(rows @ np.array([[1, 1, 1], [10, 12, 900]]), rel=1e-12)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.tuples(st.floats(0, 9), st.floats(0, 9), st.floats(0.01, 1)), min_size=1, max_size=20),
    st.floats(-5, 5),
    st.floats(0.1, 5),
)
def test_a_shift_and_a_scale_carry_through(nodes: list[tuple[float, float, float]], shift: float, scale: float) -> None:
    weights = np.array([node[2] for node in nodes])
    values = np.array([(1.0, *node[:2]) for node in nodes])
    known = Nodes(values, weights / weights.sum())
    rows = np.array([[0.0, 1.0, 2.0], [0.0, 2.0, 0.5]])
    moved = rows * scale + [shift, 0, 0]
    assert matrix(known, moved) == pytest.approx(matrix(known, rows) * scale + shift, rel=1e-6, abs=1e-6)
    found = matrix(known, rows)
    assert (np.diff(found, axis=1) >= -1e-9).all()
