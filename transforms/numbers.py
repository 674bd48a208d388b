"""The few operations that floats, NumPy arrays and Polars expressions spell differently.

Their names are not NumPy's, which rows of arrays use themselves. With these, every equation in
``transforms/equations`` is one plain function that takes any of the three. Mixed arguments are fine as long as at
most one kind of vector is among them.
"""

import math
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.arrays import Flags

#: A float, a NumPy array or a Polars expression. ``Any``, because arithmetic between the three is
#: resolved at run time and no annotation says "the same kind as the arguments" for all of them.
Number = Any


def smallest(*values: Number) -> Number:
    """The smallest of the values, element by element."""
    if any(isinstance(value, pl.Expr) for value in values):
        return pl.min_horizontal(*(_as_expr(value) for value in values))
    return reduce(np.minimum, values) if _any_array(values) else min(values)


def largest(*values: Number) -> Number:
    """The largest of the values, element by element."""
    if any(isinstance(value, pl.Expr) for value in values):
        return pl.max_horizontal(*(_as_expr(value) for value in values))
    return reduce(np.maximum, values) if _any_array(values) else max(values)


def if_else(condition: Number, then: Number, otherwise: Number) -> Number:
    """``then`` where the condition holds, else ``otherwise``, element by element."""
    if any(isinstance(value, pl.Expr) for value in (condition, then, otherwise)):
        return pl.when(_as_expr(condition)).then(_as_expr(then)).otherwise(_as_expr(otherwise))
    if _any_array((condition, then, otherwise)):
        return np.where(condition, then, otherwise)
    return then if condition else otherwise


def rounded_up(value: Number) -> Number:
    """The smallest whole number not below the value."""
    if isinstance(value, pl.Expr):
        return value.ceil()
    return np.ceil(value) if isinstance(value, np.ndarray) else float(math.ceil(value))


def rounded_down(value: Number) -> Number:
    """The largest whole number not above the value."""
    if isinstance(value, pl.Expr):
        return value.floor()
    return np.floor(value) if isinstance(value, np.ndarray) else float(math.floor(value))


def square_root(value: Number) -> Number:
    """The square root."""
    if isinstance(value, pl.Expr):
        return value.sqrt()
    return np.sqrt(value) if isinstance(value, np.ndarray) else math.sqrt(value)


def log_to_base_2(value: Number) -> Number:
    """The logarithm to the base 2."""
    if isinstance(value, pl.Expr):
        return value.log(2)
    return np.log2(value) if isinstance(value, np.ndarray) else math.log2(value)


def e_to_the(value: Number) -> Number:
    """The exponential."""
    if isinstance(value, pl.Expr):
        return value.exp()
    return np.exp(value) if isinstance(value, np.ndarray) else math.exp(value)


def begins_run(*columns: npt.NDArray[Any]) -> Flags:
    """Whether each row is the first, or differs in one of the columns from the row before it. Arrays of one length."""
    begins = np.zeros(len(columns[0]), np.bool_)
    begins[:1] = True
    for column in columns:
        begins[1:] |= column[1:] != column[:-1]
    return begins


def _as_expr(value: Number) -> pl.Expr:
    return value if isinstance(value, pl.Expr) else pl.lit(value)


def _any_array(values: tuple[Number, ...]) -> bool:
    return any(isinstance(value, np.ndarray) for value in values)
