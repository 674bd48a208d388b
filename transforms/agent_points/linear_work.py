"""The linear work of a prefill over its tokens, as all rows of one deployment tell it.

Linear work is what a step that prefills takes beside attention: products with weights, collectives,
launches. Rows that prefill one, two or more requests in a step, and tables of several prompt lengths, are
samples of one curve; between them it is read off, beyond them one read of the weights is what stays fixed.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from transforms.agent_points.rows import Array, Flags, Indices
from transforms.equations.transfer import fixed_part_ms, moved_prefill_ms
from transforms.numbers import Number, maximum, where

#: Two samples make a line if the higher has so many times the tokens of the lower.
FAR_APART = 1.2


@dataclass(frozen=True)
class LinearCurves:
    """The curves of some deployments: their samples, one deployment's after the other's, in rising order of tokens.

    ``first`` and ``count`` say where those of each row's deployment stand; a row without any has count 0.
    """

    tokens: Array
    ms: Array
    fixed_ms: Array
    first: Indices
    count: Indices

    @classmethod
    def of_rows(cls, rows: pl.DataFrame, of: str) -> "LinearCurves":
        """Needs ``_prompt_tokens``, ``_step_tokens``, ``_linear`` and ``_weight_read`` of rows taken apart.

        One sample for each deployment (column ``of``) and number of prompt tokens in a step.
        """
        samples = (
            rows.filter(pl.col("_linear") > 0)
            .group_by(of, "_prompt_tokens", maintain_order=True)
            .agg(
                _tokens=pl.col("_step_tokens").mean(),
                _ms=pl.col("_linear").mean(),
                _weight_read=pl.col("_weight_read").mean(),
            )
            .sort(of, "_tokens")
            # more tokens are never less work
            .with_columns(pl.col("_ms").cum_max().over(of))
            .with_columns(_fixed=_fixed_at_sample(of))
        )
        deployments = samples.select(of, _first=pl.int_range(pl.len())).group_by(of).agg(
            pl.col("_first").min(), _count=pl.len().cast(pl.Int64)
        )  # fmt: skip
        places = rows.select(of).join(deployments, on=of, how="left", maintain_order="left").fill_null(0)
        return cls(
            *(samples[name].to_numpy() for name in ("_tokens", "_ms", "_fixed")),
            *(places[name].to_numpy() for name in ("_first", "_count")),
        )

    def take(self, which: Flags | Indices) -> "LinearCurves":
        """The curves of those rows."""
        return LinearCurves(self.tokens, self.ms, self.fixed_ms, self.first[which], self.count[which])

    def at(self, tokens: Array) -> Array:
        """The curve of each row's deployment at so many ``tokens`` of a step, in ms; NaN where it has no sample."""
        if not len(self.tokens):
            return np.full(len(self.first), np.nan)
        below = self._samples_up_to(tokens)
        low, high = self.first + below - 1, self.first + below
        nearest = np.where(below > 0, low, self.first)
        ms = moved_prefill_ms(self.ms[nearest], self.fixed_ms[nearest], self.tokens[nearest], tokens)
        between = np.flatnonzero((below > 0) & (below < self.count))
        if len(between):
            low, high, tokens = low[between], high[between], tokens[between]
            share = (tokens - self.tokens[low]) / (self.tokens[high] - self.tokens[low])
            ms[between] = self.ms[low] + share * (self.ms[high] - self.ms[low])
        return np.where(self.count > 0, ms, np.nan)

    def _samples_up_to(self, tokens: Array) -> Indices:
        """How many samples of each row's deployment have at most so many tokens, by halving."""
        held, rest = np.zeros_like(self.count), self.count.copy()
        for _ in range(int(self.count.max(initial=0)).bit_length()):
            half = (rest + 1) // 2
            sample = np.minimum(self.first + held + half - 1, len(self.tokens) - 1)
            fits = (rest > 0) & (self.tokens[sample] <= tokens)
            held = np.where(fits, held + half, held)
            rest = np.where(fits, rest - half, np.where(rest > 0, half - 1, 0))
        return held


def moved_linear_ms(linear_ms: Number, curve_before_ms: Number, curve_after_ms: Number) -> Number:
    """A row's linear work moved along its deployment's curve: its own distance from the curve is kept."""
    return where(linear_ms > 0, linear_ms * curve_after_ms / curve_before_ms, 0.0)


def _fixed_at_sample(of: str) -> Number:
    """What stays fixed when a sample is moved beyond the others: one read of the weights. At the highest of
    several, what the line through the two highest leaves at no token speaks too, where it says more: the mean
    of both, as a line through two samples bends with either."""
    c = pl.col
    lower_tokens, lower_ms = (c(name).shift(1).over(of) for name in ("_tokens", "_ms"))
    slope = (c("_ms") - lower_ms) / (c("_tokens") - lower_tokens)
    far_apart = c("_tokens") >= FAR_APART * lower_tokens
    of_line = pl.when(far_apart).then(c("_ms") - slope * c("_tokens")).fill_null(0.0)
    return fixed_part_ms(c("_ms"), (c("_weight_read") + maximum(c("_weight_read"), of_line)) / 2)
