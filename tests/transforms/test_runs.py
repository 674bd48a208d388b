"""Rows that begin a run, and answers that are kept."""

import numpy as np
import pytest

from transforms.agent_points.carriers.last_answer import LastAnswer
from transforms.runs import begins_run


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


def test_the_last_answer_is_kept_and_no_other() -> None:
    asked: list[str] = []

    def find(word: str) -> int:
        asked.append(word)
        return len(word)

    last = LastAnswer[str, int]()
    assert [last.to(word, lambda word=word: find(word)) for word in ("a", "a", "bcd", "a")] == [1, 1, 3, 1]  # type: ignore[misc]
    assert asked == ["a", "bcd", "a"]
