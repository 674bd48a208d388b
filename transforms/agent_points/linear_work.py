"""The linear work of a prefill over its tokens, as all rows of one deployment tell it.

Linear work is what a step that prefills takes beside attention: products with weights, collectives,
launches. Rows that prefill one, two or more requests in a step, and tables of several prompt lengths, are
samples of one curve; between them it is read off, beyond them one read of the weights is what stays fixed.
"""

import polars as pl

from transforms.equations.transfer import fixed_part_ms, moved_prefill_ms
from transforms.numbers import Number, maximum

#: Two samples make a line if the higher has so many times the tokens of the lower.
FAR_APART = 1.2


def linear_samples(points: pl.DataFrame, of: str) -> pl.DataFrame:
    """One sample for each deployment (column ``of``) and number of prompt tokens in a step, in rising order.

    Needs ``_prompt_tokens``, ``_step_tokens``, ``_linear`` and ``_weight_read`` of rows taken apart.
    """
    return (
        points.filter(pl.col("_linear") > 0)
        .group_by(of, "_prompt_tokens")
        .agg(
            _sample_tokens=pl.col("_step_tokens").mean(),
            _sample_ms=pl.col("_linear").mean(),
            _weight_read=pl.col("_weight_read").mean(),
        )
        .sort("_sample_tokens")
        # more tokens are never less work
        .with_columns(pl.col("_sample_ms").cum_max().over(of))
        .with_columns(_sample_fixed=_fixed_at_sample(of))
        .select(of, "_sample_tokens", "_sample_ms", "_sample_fixed")
    )


def linear_ms(points: pl.DataFrame, samples: pl.DataFrame, tokens: Number, of: str) -> pl.Series:
    """The curve of each row's deployment at ``tokens`` of a step, in ms; NULL where it has no sample."""
    wanted = points.select(of, _row=pl.int_range(pl.len()), _tokens=tokens).sort("_tokens")
    for side, strategy in (("low", "backward"), ("high", "forward")):
        wanted = wanted.join_asof(
            samples.rename({name: f"{name}_{side}" for name in samples.columns if name != of}),
            left_on="_tokens",
            right_on=f"_sample_tokens_{side}",
            by=of,
            strategy=strategy,  # type: ignore[arg-type]
            check_sortedness=False,
        )
    c = pl.col
    span = c("_sample_tokens_high") - c("_sample_tokens_low")
    share = pl.when(span > 0).then((c("_tokens") - c("_sample_tokens_low")) / span).otherwise(0.0)
    between = c("_sample_ms_low") + share * (c("_sample_ms_high") - c("_sample_ms_low"))
    return wanted.with_columns(_ms=pl.coalesce(between, _beyond("low"), _beyond("high"))).sort("_row")["_ms"]


def moved_linear_ms(linear_ms: pl.Expr, curve_before_ms: pl.Expr, curve_after_ms: pl.Expr) -> pl.Expr:
    """A row's linear work moved along its deployment's curve: its own distance from the curve is kept."""
    return pl.when(linear_ms > 0).then(linear_ms * curve_after_ms / curve_before_ms).otherwise(0.0)


def _beyond(side: str) -> Number:
    """The nearest sample moved to other tokens: what is fixed stays, the rest is proportional."""
    c = pl.col
    return moved_prefill_ms(
        c(f"_sample_ms_{side}"), c(f"_sample_fixed_{side}"), c(f"_sample_tokens_{side}"), c("_tokens")
    )


def _fixed_at_sample(of: str) -> Number:
    """What stays fixed when a sample is moved beyond the others: one read of the weights. At the highest of
    several, what the line through the two highest leaves at no token speaks too, where it says more: the mean
    of both, as a line through two samples bends with either."""
    c = pl.col
    lower_tokens, lower_ms = (c(name).shift(1).over(of) for name in ("_sample_tokens", "_sample_ms"))
    slope = (c("_sample_ms") - lower_ms) / (c("_sample_tokens") - lower_tokens)
    far_apart = c("_sample_tokens") >= FAR_APART * lower_tokens
    of_line = pl.when(far_apart).then(c("_sample_ms") - slope * c("_sample_tokens")).fill_null(0.0)
    return fixed_part_ms(c("_sample_ms"), (c("_weight_read") + maximum(c("_weight_read"), of_line)) / 2)
