"""Which row at another workload belongs to a row, where several have its schedule and load."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from schemas.arrays import Indices
from transforms.agent_points.rows.rows import Rows

#: Rows of one load stand in this order, so that the order of a file does not matter.
_ORDER = ("row_tpot_ms", "row_ttft_ms", "row_requests_per_s")


@dataclass(frozen=True)
class Twins:
    """Rows by schedule and load; ``load`` numbers these."""

    rows: Rows
    load: Indices

    @cached_property
    def _told_by(self) -> pl.DataFrame:
        return self.rows.select(["source_file", *_ORDER]).with_columns(_load=pl.Series(self.load))

    def find(self, which: Indices, others: Indices) -> Indices:
        """The place of one of the ``others`` for each row of ``which``, at its schedule and load; each has one there.

        One of the same file comes first, then one that is nobody's yet. Where a load has several on either side they
        are paired in the order of their figures, the fastest with the fastest; the last stands for what is left over.
        """
        twins = self._paired(which, others, ["_load", "source_file"])
        for there in (np.setdiff1d(others, twins), others):
            left = twins < 0
            twins[left] = self._paired(which[left], there, ["_load"])
        return twins

    def _paired(self, which: Indices, others: Indices, of: list[str]) -> Indices:
        """The same among rows that are alike in the columns ``of``; -1 where there is none."""
        asked, there = self._ranked(which, of), self._ranked(others, of)
        counts = there.group_by(of).agg(_last=pl.col("_rank").max())
        wanted = asked.join(counts, on=of, how="left").with_columns(pl.min_horizontal("_rank", "_last"))
        # a load without others has no last, and so no pair
        paired = wanted.with_columns(_rank=pl.when(pl.col("_last").is_not_null()).then("_rank")).join(
            there.select(*of, "_rank", _twin="_place"), on=[*of, "_rank"], how="left"
        )
        twins = np.full(len(self.rows), -1, np.intp)
        twins[paired["_place"].to_numpy()] = paired["_twin"].fill_null(-1).to_numpy()
        return twins[which]

    def _ranked(self, places: Indices, of: list[str]) -> pl.DataFrame:
        """Those rows with their places (``_place``) and their ranks from 0 among those that are alike (``_rank``)."""
        ordered = self._told_by[places].with_columns(_place=pl.Series(places)).sort(*of, *_ORDER)
        return ordered.with_columns(_rank=pl.int_range(pl.len()).over(of))
