"""What all rows of one deployment tell of its steps: the linear work of a prefill over its tokens, and how decode
steps grow with the context.

Linear work is what a step that prefills takes beside attention: products with weights, collectives,
launches. Rows that prefill one, two or more requests in a step, and tables of several prompt lengths, are
samples of one curve; between them it is read off, beyond them one read of the weights is what stays fixed.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from schemas.arrays import Array, Flags, Indices
from transforms.equations.transfer import fixed_part_ms, growth_ms_per_token, moved_decode_step_ms
from transforms.numbers import Number, if_else, largest

#: Two samples make a line if the higher has so many times the tokens of the lower.
FAR_APART = 1.2


@dataclass(frozen=True)
class StepsApart:
    """Steps of rows in their parts, one entry a row; the prefills of a step, a decode step.

    ``linear_ms`` without attention at ``step_tokens``, of which ``prompt_tokens`` are new tokens of prompts; physics'
    attention counts by ``attention_share``. ``decode_ms`` at ``context_tokens``, with reads of KV that physics prices
    at ``read_ms``. ``weight_read_ms``: one read of the weights, as far as the row tells it.
    """

    prompt_tokens: Array
    step_tokens: Array
    linear_ms: Array
    attention_share: Array
    weight_read_ms: Array
    decode_ms: Array
    read_ms: Array
    context_tokens: Array

    def take(self, which: Flags | Indices) -> "StepsApart":
        """Those of the rows."""
        return StepsApart(**{name: getattr(self, name)[which] for name in self.__dataclass_fields__})


@dataclass(frozen=True)
class MovableSteps:
    """Steps of rows in their parts, and what all rows of their deployments say of how both parts move.

    ``curve_ms``: the curve of linear work at the row's own tokens; ``read_correction``: what physics' reads are
    multiplied by.
    """

    apart: StepsApart
    curves: "LinearCurves"
    curve_ms: Array
    read_correction: Array

    @classmethod
    def of(cls, apart: StepsApart, deployments: pl.DataFrame, prefilling: str, decoding: str) -> "MovableSteps":
        """``deployments``: ``batch_per_rank`` of the rows, and columns that number what prefills and what decodes."""
        samples = deployments.with_columns(
            pl.Series(name, getattr(apart, name), nan_to_null=True) for name in StepsApart.__dataclass_fields__
        )
        curves = LinearCurves.of_rows(samples, prefilling)
        return cls(apart, curves, curves.at(apart.step_tokens), read_corrections(samples, decoding))

    def take(self, which: Flags | Indices) -> "MovableSteps":
        """Those of the rows; what the others have told of them stays."""
        curves, curve_ms = self.curves.take(which), self.curve_ms[which]
        return MovableSteps(self.apart.take(which), curves, curve_ms, self.read_correction[which])

    def linear_ms(self, tokens: Number) -> Number:
        """Linear work of a step of so many tokens; the row's own distance from its deployment's curve is kept."""
        return moved_linear_ms(self.apart.linear_ms, self.curve_ms, self.curves.at(tokens))

    def decode_ms(self, read_ms: Number) -> Number:
        """A decode step with reads of KV that physics prices so."""
        own_ms, correction = self.apart.read_ms, self.read_correction
        return moved_decode_step_ms(self.apart.decode_ms, correction * own_ms, correction * read_ms)


@dataclass(frozen=True)
class LinearCurves:
    """The curves of some deployments, each in straight pieces: below its first sample, between two, beyond its last.

    ``ends_at_tokens``, ``intercept_ms`` and ``slope_ms``: of the pieces, a row for each deployment, as many columns as
    the most pieces need, a power of two; what a deployment has fewer ends at infinity, its last piece too. Samples are
    as many as prompts in a step and prompt lengths go together, some tens. ``deployment``: the place of each row's. A
    deployment without samples has NaN.
    """

    ends_at_tokens: Array
    intercept_ms: Array
    slope_ms: Array
    deployment: Indices

    @classmethod
    def of_rows(cls, rows: pl.DataFrame, of: str) -> "LinearCurves":
        """Needs the columns of ``StepsApart``: one sample for each deployment (column ``of``) and number of prompt
        tokens in a step."""
        rows = rows.with_columns(pl.col(of).rank("dense").cast(pl.Int64) - 1)
        samples = (
            rows.filter(pl.col("linear_ms") > 0)
            .group_by(of, "prompt_tokens", maintain_order=True)
            .agg(
                _tokens=pl.col("step_tokens").mean(),
                _ms=pl.col("linear_ms").mean(),
                _weight_read=pl.col("weight_read_ms").mean(),
            )
            .sort(of, "_tokens")
            # more tokens are never less work
            .with_columns(pl.col("_ms").cum_max().over(of))
            .with_columns(_fixed=_fixed_at_sample(of))
        )
        deployment = rows[of].to_numpy()
        figures = (samples[name].to_numpy() for name in (of, "_tokens", "_ms", "_fixed"))
        return cls(*_pieces(int(deployment.max(initial=-1)) + 1, *figures), deployment)

    def take(self, which: Flags | Indices) -> "LinearCurves":
        """The curves of those rows."""
        return LinearCurves(self.ends_at_tokens, self.intercept_ms, self.slope_ms, self.deployment[which])

    def at(self, tokens: Array) -> Array:
        """The curve of each row's deployment at so many ``tokens`` of a step, in ms; NaN where it has no sample."""
        width = self.ends_at_tokens.shape[1]
        ends, intercept, slope = (each.ravel() for each in (self.ends_at_tokens, self.intercept_ms, self.slope_ms))
        piece = self.deployment * width
        half = width // 2
        while half:  # the first piece that ends beyond the tokens
            piece += half * (ends[piece + (half - 1)] <= tokens)
            half //= 2
        return np.asarray(intercept[piece] + slope[piece] * tokens)


def _pieces(
    deployments: int, deployment: Indices, tokens: Array, ms: Array, fixed_ms: Array
) -> tuple[Array, Array, Array]:
    """End, intercept and slope of the pieces that samples make, those of a deployment in the order of their tokens."""
    counts = np.bincount(deployment, minlength=deployments)
    width = 1 << int(counts.max(initial=0)).bit_length()
    ends = np.full((deployments, width), np.inf)
    intercept, slope = np.full((2, deployments, width), np.nan)
    number = np.arange(len(tokens)) - (np.cumsum(counts) - counts)[deployment]
    ends[deployment, number] = tokens
    growth = growth_ms_per_token(ms, fixed_ms, tokens)
    for sample, piece in ((np.flatnonzero(number == 0), 0), (np.flatnonzero(number == counts[deployment] - 1), 1)):
        of_piece = deployment[sample], number[sample] + piece
        intercept[of_piece], slope[of_piece] = fixed_ms[sample], growth[sample]
    high = np.flatnonzero(number > 0)
    low, apart = high - 1, tokens[high] - tokens[high - 1]
    between = np.divide(ms[high] - ms[low], apart, out=np.zeros(len(high)), where=apart > 0)
    of_piece = deployment[high], number[high]
    intercept[of_piece], slope[of_piece] = ms[low] - between * tokens[low], between
    return ends, intercept, slope


def moved_linear_ms(linear_ms: Number, curve_before_ms: Number, curve_after_ms: Number) -> Number:
    """A row's linear work moved along its deployment's curve: its own distance from the curve is kept."""
    return if_else(linear_ms > 0, linear_ms * curve_after_ms / curve_before_ms, 0.0)


def _fixed_at_sample(of: str) -> Number:
    """What stays fixed when a sample is moved beyond the others: one read of the weights. At the highest of
    several, what the line through the two highest leaves at no token speaks too, where it says more: the mean
    of both, as a line through two samples bends with either."""
    c = pl.col
    lower_tokens, lower_ms = (c(name).shift(1).over(of) for name in ("_tokens", "_ms"))
    slope = (c("_ms") - lower_ms) / (c("_tokens") - lower_tokens)
    far_apart = c("_tokens") >= FAR_APART * lower_tokens
    of_line = pl.when(far_apart).then(c("_ms") - slope * c("_tokens")).fill_null(0.0)
    return fixed_part_ms(c("_ms"), (c("_weight_read") + largest(c("_weight_read"), of_line)) / 2)


#: Two contexts tell if one is so many times the other.
FAR_APART = 1.5
#: Tables correct physics within these bounds; beyond them something else differs between their rows.
CORRECTIONS = (0.5, 2.0)


def read_corrections(rows: pl.DataFrame, of: str) -> Array:
    """What to multiply physics' reads of each row with, 1 where nothing tells.

    What the decode steps of a deployment (column ``of``) grow by from the shortest to the longest context, over what
    physics says of their reads. All loads count at once, so that long reads weigh most.
    """
    c = pl.col
    load = of, "batch_per_rank"
    at_context = rows.group_by(*load, "context_tokens", maintain_order=True).agg(c("decode_ms", "read_ms").mean())
    at_load = (
        at_context.filter(c("context_tokens").is_not_null())
        .sort("context_tokens", maintain_order=True)
        .group_by(load, maintain_order=True)
        .agg(
            _ratio=c("context_tokens").last() / c("context_tokens").first(),
            _measured=c("decode_ms").last() - c("decode_ms").first(),
            _priced=c("read_ms").last() - c("read_ms").first(),
        )
    )
    corrections = (
        at_load.filter(c("_ratio") >= FAR_APART)
        .group_by(of, maintain_order=True)
        .agg(_read_correction=(c("_measured").sum() / c("_priced").sum()).clip(*CORRECTIONS))
    )
    joined = rows.select(of).join(corrections, on=of, how="left", maintain_order="left")
    return joined["_read_correction"].fill_nan(None).fill_null(1.0).to_numpy()
