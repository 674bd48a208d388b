"""Which rows lie on one curve, for rows that stand in the order of their curves."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schemas.arrays import Array, Flags, Indices
from transforms.agent_points.rows.rows import Rows
from transforms.configurations import CURVE_ID
from transforms.numbers import begins_run


@dataclass(frozen=True)
class Curves:
    """``number`` rises from row to row; within a curve ``batch`` does, NULL first.

    ``has_ties``: rows of one curve may have the same batch.
    """

    number: npt.NDArray[np.int64]
    batch: Array
    has_ties: bool

    @classmethod
    def of_rows(cls, rows: Rows) -> "Curves":
        """The curves of rows that are sorted by curve and batch."""
        number = rows[CURVE_ID].astype(np.int64)
        batch = np.nan_to_num(rows["batch_per_rank"], nan=-1.0)
        ties = (number[1:] == number[:-1]) & (batch[1:] == batch[:-1])
        return cls(number, batch, bool(ties.any()))

    def in_order(self, sessions: Array, which: Indices) -> Indices:
        """Places of some rows, curve by curve, in the order of their load: batch, then sessions."""
        if not self.has_ties:
            return which
        return which[np.lexsort((sessions[which], self.batch[which], self.number[which]))]

    def any(self, flags: Flags) -> Flags:
        """Whether a flag is set in any row of each row's curve."""
        if not len(flags):
            return flags
        starts = np.flatnonzero(begins_run(self.number))
        lengths = np.diff(np.r_[starts, len(flags)])
        return np.repeat(np.logical_or.reduceat(flags, starts), lengths)
