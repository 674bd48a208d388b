"""Runs: rows that stand together and are alike."""

from typing import Any

import numpy as np
import numpy.typing as npt


def begins_run(*columns: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Whether each row is the first, or differs in one of the columns from the row before it. Arrays of one length."""
    begins = np.zeros(len(columns[0]), np.bool_)
    begins[:1] = True
    for column in columns:
        begins[1:] |= column[1:] != column[:-1]
    return begins
