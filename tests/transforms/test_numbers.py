"""Rows that begin a run: the first, and each that differs from the one before it."""

import numpy as np
import pytest

from transforms.numbers import begins_run


@pytest.mark.parametrize(
    ("columns", "begins"),
    [
        ([[]], []),
        ([[7]], [True]),
        ([[1, 1, 2, 2, 1]], [True, False, True, False, True]),
        ([[1, 1, 1, 2], [0, 0, 5, 5]], [True, False, True, True]),
        ([[np.nan, np.nan]], [True, True]),
    ],
)
def test_a_run_begins_where_a_column_changes(columns: list[list[float]], begins: list[bool]) -> None:
    assert begins_run(*(np.array(column, np.float64) for column in columns)).tolist() == begins
