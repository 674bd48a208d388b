"""Rows of the mapping: a frame, and beside it figures that are worked out with NumPy.

Equations run on arrays: as Polars expressions what stands in several of them would be computed anew in each, and
small frames would cost more in planning than in arithmetic.
"""

from collections.abc import Callable, Mapping, MutableMapping
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
        frame: pl.DataFrame | Callable[[], pl.DataFrame],
        figures: Mapping[str, Number] | None = None,
        arrays: MutableMapping[str, npt.NDArray[Any]] | None = None,
    ) -> None:
        self._frame = frame
        self._figures: dict[str, Number | _Taken] = dict(figures or {})
        self._arrays: MutableMapping[str, npt.NDArray[Any]] = (
            _Columns(lambda name: as_array(self.frame[name])) if arrays is None else arrays
        )

    @property
    def frame(self) -> pl.DataFrame:
        """The rows themselves, without the figures."""
        if not isinstance(self._frame, pl.DataFrame):
            self._frame = self._frame()
        return self._frame

    def __len__(self) -> int:
        return self.frame.height

    def __getitem__(self, name: str) -> Number:
        return _taken(self._figures[name]) if name in self._figures else self._arrays[name]

    def with_figures(self, figures: Mapping[str, Number] | None = None, /, **more: Number) -> "Rows":
        """The same rows with further figures."""
        return Rows(self._frame, {**self._figures, **(figures or {}), **more}, self._arrays)

    def with_private(self, **arrays: npt.NDArray[Any]) -> "Rows":
        """The same rows with further arrays of one entry a row, which ``to_frame`` leaves out."""
        return Rows(self._frame, self._figures, _Columns(self._arrays.__getitem__, arrays))

    def take(self, which: Flags | Indices) -> "Rows":
        """The rows that are flagged, or those at these places. What is not asked for is not taken."""
        places = np.flatnonzero(which) if which.dtype == np.bool_ else which
        return Rows(
            lambda: self.frame[places],
            {name: _Taken(values, places) for name, values in self._figures.items()},
            _Columns(lambda name: self._arrays[name][places]),
        )

    def to_frame(self) -> pl.DataFrame:
        """The frame with the figures as columns, NULL for NaN."""
        arrays: list[pl.Series] = []
        numbers: list[pl.Expr] = []
        for name, values in self._figures.items():
            column = _as_column(name, _taken(values))
            if isinstance(column, pl.Series):
                arrays.append(column)
            else:
                numbers.append(column)
        kept = [name for name in self.frame.columns if name not in self._figures]
        # columns in one order, whichever figures are numbers
        return self.frame[kept].hstack(arrays).with_columns(numbers)[[*kept, *self._figures]]


class _Taken:
    """Some rows' values of a figure."""

    def __init__(self, values: "Number | _Taken", places: Flags | Indices) -> None:
        self._values, self._places = values, places
        self._is_taken = False

    def get(self) -> Number:
        if not self._is_taken:
            values = _taken(self._values)
            self._values = values[self._places] if isinstance(values, np.ndarray) and values.ndim else values
            self._is_taken = True
        return self._values


def _taken(values: "Number | _Taken") -> Number:
    return values.get() if isinstance(values, _Taken) else values


class _Columns(dict[str, npt.NDArray[Any]]):
    """Arrays by name; one that is not there yet is made."""

    def __init__(
        self, make: Callable[[str], npt.NDArray[Any]], given: Mapping[str, npt.NDArray[Any]] | None = None
    ) -> None:
        super().__init__(given or {})
        self._make = make

    def __missing__(self, name: str) -> npt.NDArray[Any]:
        self[name] = self._make(name)
        return self[name]


def as_array(column: pl.Series) -> npt.NDArray[Any]:
    """A column of numbers or booleans as an array."""
    if column.dtype == pl.Boolean:
        return column.fill_null(False).to_numpy()
    return column.cast(pl.Float64).to_numpy()


def _as_column(name: str, values: Number) -> pl.Series | pl.Expr:
    if name in LABELS:
        if not isinstance(values, np.ndarray):
            return pl.lit(LABELS[name][values], pl.String).alias(name)
        return pl.Series(name, LABELS[name], pl.String).gather(values)
    if not isinstance(values, np.ndarray) or not values.ndim:
        return pl.lit(None, pl.Float64).alias(name) if values != values else pl.lit(values).alias(name)
    # most columns have no NaN, and need none looked for one by one
    return pl.Series(name, values, nan_to_null=values.dtype.kind == "f" and bool(np.isnan(values).any()))
