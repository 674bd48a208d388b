"""How decode steps grow with the context, where tables of several contexts tell."""

import polars as pl

from schemas.arrays import Array

#: Two contexts tell if one is so many times the other.
FAR_APART = 1.5
#: Tables correct physics within these bounds; beyond them something else differs between their rows.
CORRECTIONS = (0.5, 2.0)


def read_corrections(rows: pl.DataFrame, of: str) -> Array:
    """What to multiply physics' reads of each row with, 1 where nothing tells.

    What the decode steps (``_t_decode``) of a deployment (column ``of``) grow by from the shortest to the longest
    ``_context``, over what physics says (``_read_before``). All loads count at once, so that long reads weigh most.
    """
    c = pl.col
    load = of, "batch_per_rank"
    at_context = rows.group_by(*load, "_context", maintain_order=True).agg(c("_t_decode", "_read_before").mean())
    at_load = (
        at_context.filter(c("_context").is_not_null())
        .sort("_context", maintain_order=True)
        .group_by(load, maintain_order=True)
        .agg(
            _ratio=c("_context").last() / c("_context").first(),
            _measured=c("_t_decode").last() - c("_t_decode").first(),
            _priced=c("_read_before").last() - c("_read_before").first(),
        )
    )
    corrections = (
        at_load.filter(c("_ratio") >= FAR_APART)
        .group_by(of, maintain_order=True)
        .agg(_read_correction=(c("_measured").sum() / c("_priced").sum()).clip(*CORRECTIONS))
    )
    joined = rows.select(of).join(corrections, on=of, how="left", maintain_order="left")
    return joined["_read_correction"].fill_nan(None).fill_null(1.0).to_numpy()
