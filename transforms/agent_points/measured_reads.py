"""How decode steps grow with the context, where tables of several contexts tell."""

import polars as pl

#: Two contexts tell if one is so many times the other.
FAR_APART = 1.5
#: Tables correct physics within these bounds; beyond them something else differs between their rows.
CORRECTIONS = (0.5, 2.0)


def with_read_correction(points: pl.DataFrame, known: pl.DataFrame, of: str) -> pl.DataFrame:
    """The points with ``_read_correction``, 1 where nothing tells.

    What the decode steps (``_t_decode``) of a deployment (column ``of``) grow by from the shortest to the longest
    ``_context`` of the rows ``known``, over what physics says (``_read_before``). All loads count at once, so that
    long reads weigh most.
    """
    c = pl.col
    shortest, longest = c("_context") == c("_context").min(), c("_context") == c("_context").max()
    at_load = known.group_by(of, "batch_per_rank").agg(
        _ratio=c("_context").max() / c("_context").min(),
        _measured=c("_t_decode").filter(longest).mean() - c("_t_decode").filter(shortest).mean(),
        _priced=c("_read_before").filter(longest).mean() - c("_read_before").filter(shortest).mean(),
    )
    corrections = (
        at_load.filter(c("_ratio") >= FAR_APART)
        .group_by(of)
        .agg(_read_correction=(c("_measured").sum() / c("_priced").sum()).clip(*CORRECTIONS))
    )
    joined = points.join(corrections, on=of, how="left", maintain_order="left")
    return joined.with_columns(c("_read_correction").fill_nan(None).fill_null(1.0))
