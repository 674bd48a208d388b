"""Rows of the mapping: a frame, and beside it figures that are worked out with NumPy.

Equations run on arrays: as Polars expressions what stands in several of them would be computed anew in each, and
small frames would cost more in planning than in arithmetic.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from transforms.agent_points.labels import LABELS
from transforms.numbers import Number

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.intp]


class Rows:
    """A frame's rows. ``rows["tp"]`` is a figure, or else a column of the frame, as an array of one entry a row.

    Columns of numbers are arrays of floats, NaN where the frame has NULL; of booleans, False there. A figure may be
    one number for all rows; one whose name stands in ``labels.LABELS`` is an array of codes. Figures hide columns of
    their name. Immutable; what is derived from a column once is kept.
    """

    def __init__(
        self,
        frame: pl.DataFrame,
        figures: Mapping[str, Number] | None = None,
        arrays: dict[str, npt.NDArray[Any]] | None = None,
    ) -> None:
        self.frame = frame
        self.figures = dict(figures or {})
        self._arrays = {} if arrays is None else arrays

    def __len__(self) -> int:
        return self.frame.height

    def __getitem__(self, name: str) -> Number:
        if name in self.figures:
            return self.figures[name]
        if name not in self._arrays:
            self._arrays[name] = as_array(self.frame[name])
        return self._arrays[name]

    def with_figures(self, figures: Mapping[str, Number] | None = None, /, **more: Number) -> "Rows":
        """The same rows with further figures."""
        return Rows(self.frame, {**self.figures, **(figures or {}), **more}, self._arrays)

    def with_private(self, **arrays: npt.NDArray[Any]) -> "Rows":
        """The same rows with further arrays of one entry a row, which ``to_frame`` leaves out."""
        return Rows(self.frame, self.figures, {**self._arrays, **arrays})

    def take(self, which: Flags | Indices) -> "Rows":
        """The rows that are flagged, or those at these places."""
        frame = self.frame.filter(which) if which.dtype == np.bool_ else self.frame[which]
        arrays = {name: values[which] for name, values in self._arrays.items()}
        return Rows(frame, {name: _take(values, which) for name, values in self.figures.items()}, arrays)

    def to_frame(self) -> pl.DataFrame:
        """The frame with the figures as columns, NULL for NaN."""
        return self.frame.with_columns(_as_column(name, values) for name, values in self.figures.items())


def as_array(column: pl.Series) -> npt.NDArray[Any]:
    """A column of numbers or booleans as an array."""
    if column.dtype == pl.Boolean:
        return column.fill_null(False).to_numpy()
    return column.cast(pl.Float64).to_numpy()


def _take(values: Number, which: Flags | Indices) -> Number:
    return values[which] if isinstance(values, np.ndarray) and values.ndim else values


def _as_column(name: str, values: Number) -> pl.Series | pl.Expr:
    if name in LABELS:
        if not isinstance(values, np.ndarray):
            return pl.lit(LABELS[name][values], pl.String).alias(name)
        return pl.Series(name, LABELS[name], pl.String).gather(values)
    if not isinstance(values, np.ndarray) or not values.ndim:
        return pl.lit(None, pl.Float64).alias(name) if values != values else pl.lit(values).alias(name)
    return pl.Series(name, values, nan_to_null=values.dtype.kind == "f")
