"""Rules that a row must keep: the first one broken names why the row goes to quarantine."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True)
class Rule:
    """``broken`` is true on rows that break the rule; ``detail`` says in words what is wrong."""

    reason: str
    broken: pl.Expr
    detail: pl.Expr


def flag_rows(frame: pl.DataFrame, rules: Sequence[Rule]) -> pl.DataFrame:
    """The frame with ``reason`` and ``detail`` set where they were NULL and a rule is broken.

    Rules are tried in order; a rule whose expression is NULL on a row says nothing about it.
    """
    if "reason" not in frame.columns:
        frame = frame.with_columns(reason=pl.lit(None, pl.String), detail=pl.lit(None, pl.String))
    if not rules:
        return frame
    first = pl.coalesce(pl.when(rule.broken).then(number) for number, rule in enumerate(rules))
    frame = frame.with_columns(_rule=pl.when(pl.col("reason").is_null()).then(first))
    # words are made for the few rules that are broken, not for all
    for number in frame["_rule"].drop_nulls().unique(maintain_order=True).to_list():
        hit = pl.col("_rule") == number
        frame = frame.with_columns(
            reason=pl.when(hit).then(pl.lit(rules[number].reason)).otherwise("reason"),
            detail=pl.when(hit).then(rules[number].detail).otherwise("detail"),
        )
    return frame.drop("_rule")


def rounding_error(column: str, decimals: int = 3) -> pl.Expr:
    """Largest relative error of a figure that is printed with so many decimals."""
    return 0.5 * 10.0**-decimals / pl.col(column).abs()
