"""Rows of the mapping: a frame, and beside it figures that are worked out with NumPy.

Equations run on arrays: as Polars expressions what stands in several of them would be computed anew in each, and
small frames would cost more in planning than in arithmetic.
"""

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.arrays import Flags, Indices
from schemas.fields import FIELDS
from transforms.numbers import Number

LABELLED: Final = ("infeasible_reason", "binding_limit", "transfer_method", "kv_room_source")


#: Column -> its texts.
LABELS: Final[dict[str, tuple[str | None, ...]]] = {name: (None, *(FIELDS[name].allowed or ())) for name in LABELLED}


def code(column: str, text: str | None) -> int:
    """The code of a text of that column."""
    return LABELS[column].index(text)


Dtype = TypeVar("Dtype", bound=np.generic)


@dataclass(frozen=True)
class Configurations:
    """What rows of one configuration have in common, told once: a row for each, and each row's place there.

    ``of_row`` None: every row by itself.
    """

    rows: "Rows"
    of_row: Indices | None

    def take(self, places: Indices) -> "Configurations":
        """The same for some of the rows."""
        return Configurations(self.rows, places if self.of_row is None else self.of_row[places])

    def to_rows(self, figure: Number) -> Number:
        """A figure of each configuration as one of each row."""
        if self.of_row is None or not isinstance(figure, np.ndarray) or not figure.ndim:
            return figure
        return figure[self.of_row]


class Rows:
    """Rows of a frame. ``rows["tp"]`` is a figure, or else a column, as an array of one entry a row.

    Columns are those of the frame and those of the configurations, which ``to_frame`` leaves out. Columns of numbers
    are arrays of floats, NaN where the frame has NULL; of booleans, False there. A figure may be one number for all
    rows; one whose name stands in ``LABELS`` is an array of codes. Figures hide columns of their name.
    Immutable; what is derived from a column once is kept.
    """

    def __init__(
        self,
        frame: pl.DataFrame,
        figures: Mapping[str, Number] | None = None,
        *,
        places: Indices | None = None,
        configurations: Configurations | None = None,
    ) -> None:
        """All rows of the frame, or those at these places, in their order."""
        self._source, self._configurations = _Source(frame, places), configurations
        self._figures: dict[str, Number | _Taken] = dict(figures or {})
        self._arrays: MutableMapping[str, npt.NDArray[Any]] = _Columns(partial(_column, self._source, configurations))

    @property
    def frame(self) -> pl.DataFrame:
        """The rows themselves, without the figures."""
        return self._source.rows

    @property
    def configurations(self) -> Configurations:
        """What figures that only depend on a row's configuration are worked out for; the rows where these are fewer."""
        if self._configurations is None or len(self._configurations.rows) >= len(self):
            return Configurations(self, None)
        return self._configurations

    def __len__(self) -> int:
        return self._source.height

    def __getitem__(self, name: str) -> Number:
        return _taken(self._figures[name]) if name in self._figures else self._arrays[name]

    def select(self, names: Iterable[str]) -> pl.DataFrame:
        """Some columns of the frame."""
        return self._source.select(names)

    def with_figures(self, figures: Mapping[str, Number] | None = None, /, **more: Number) -> "Rows":
        """The same rows with further figures."""
        return self._like({**self._figures, **(figures or {}), **more}, self._arrays)

    def without_figures(self, names: Iterable[str]) -> "Rows":
        """The same rows without some of their figures."""
        dropped = set(names)
        return self._like({name: each for name, each in self._figures.items() if name not in dropped}, self._arrays)

    def take(self, which: Flags | Indices) -> "Rows":
        """The rows that are flagged, or those at these places. What is not asked for is not taken."""
        places = np.asarray(np.flatnonzero(which) if which.dtype == np.bool_ else which, np.intp)
        return Rows(
            self._source.frame,
            {name: _Taken(values, places) for name, values in self._figures.items()},
            places=self._source.places_of(places),
            configurations=self._configurations and self._configurations.take(places),
        )._with_arrays(_Columns(lambda name: self._arrays[name][places]))

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

    def _like(self, figures: Mapping[str, Any], arrays: MutableMapping[str, npt.NDArray[Any]]) -> "Rows":
        same = Rows(self._source.frame, figures, configurations=self._configurations)
        same._source = self._source
        return same._with_arrays(arrays)

    def _with_arrays(self, arrays: MutableMapping[str, npt.NDArray[Any]]) -> "Rows":
        self._arrays = arrays
        return self


class LookedUp(Generic[Dtype]):
    """A figure that was looked up for each row's configuration: one entry a row, read when it is asked for.

    A field of a bundle that has the ``rows``, and the ``prefix`` of its columns' names.
    """

    def __set_name__(self, bundle: type, name: str) -> None:
        self.name = name

    def __get__(self, bundle: "Bundle", kind: type | None = None) -> npt.NDArray[Dtype]:
        values: npt.NDArray[Dtype] = bundle.rows[f"{bundle.prefix}{self.name}"]
        return values


class Bundle(Protocol):
    """Figures of rows under one prefix."""

    rows: Rows
    prefix: str


class _Source:
    """Rows of a frame, all or those at some places; what is not asked for is not taken, what is taken is kept."""

    def __init__(self, frame: pl.DataFrame, places: Indices | None) -> None:
        self.frame, self._places = frame, places
        self.height = frame.height if places is None else len(places)

    @cached_property
    def rows(self) -> pl.DataFrame:
        return self.frame if self._places is None else self.frame[self._places]

    def select(self, names: Iterable[str]) -> pl.DataFrame:
        columns = self.frame.select(names)
        return columns if self._places is None else columns[self._places]

    def array(self, name: str) -> npt.NDArray[Any]:
        values = as_array(self.frame[name])
        return values if self._places is None else values[self._places]

    def places_of(self, which: Indices) -> Indices:
        return which if self._places is None else self._places[which]


def _column(source: _Source, configurations: Configurations | None, name: str) -> npt.NDArray[Any]:
    """A column of the rows, or else of their configurations. Knows no ``Rows``: these are freed as soon as unused."""
    if configurations is not None and name not in source.frame.columns:
        return np.asarray(configurations.to_rows(configurations.rows[name]))
    return source.array(name)


class _Taken:
    """Some rows' values of a figure."""

    def __init__(self, values: "Number | _Taken", places: Flags | Indices) -> None:
        self._values, self._places = values, places

    def get(self) -> Number:
        return self._own

    @cached_property
    def _own(self) -> Number:
        values = _taken(self._values)
        return values[self._places] if isinstance(values, np.ndarray) and values.ndim else values


def _taken(values: "Number | _Taken") -> Number:
    return values.get() if isinstance(values, _Taken) else values


class _Columns(dict[str, npt.NDArray[Any]]):
    """Arrays by name; one that is not there yet is made."""

    def __init__(self, make: Callable[[str], npt.NDArray[Any]]) -> None:
        super().__init__()
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
    # most columns have no NaN, and need none looked for one by one: it would be the least
    has_nan = values.dtype.kind == "f" and bool(len(values)) and bool(np.isnan(values.min()))
    return pl.Series(name, values, nan_to_null=has_nan)
