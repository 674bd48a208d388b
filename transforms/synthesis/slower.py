"""Tables that are several times slower than the roofline of their own configurations: said beside the answers.

A TPOT of the calibrated roofline is within a factor of two of every table of measured kernels, in the middle of its
rows. What is far above has another reason than the deployment: kernels that were estimated, a GPU that was shared.
"""

from dataclasses import dataclass
from typing import Final

import polars as pl

from schemas.catalogue import HardwareCatalogue, ModelCatalogue
from transforms.synthesis.points import decode_times_ms

#: Median TPOT of a table over that of the roofline. Shipped tables: 0.6 to 2.0; estimated kernels 3.5 to 3.8.
SEVERAL_TIMES: Final = 2.5
#: Rows of a file that are enough to tell.
SAMPLE: Final = 24
_GROUP: Final = ("model", "serving_mode", "isl_tokens", "osl_tokens")


@dataclass(frozen=True)
class SlowTable:
    """Rows of one source on one GPU with one model, and how many times their TPOT is that of the roofline."""

    hardware: str
    model: str
    source: str
    times: float

    @property
    def sentence(self) -> str:
        """What to know of it."""
        return (
            f"{self.model} on {self.hardware}, {self.source}: {self.times:.1f} times slower than the roofline of the "
            "same configurations; see what the rows were taken from"
        )


def sample_rows(points: pl.DataFrame) -> pl.DataFrame:
    """Some rows of a file's points, from all over it."""
    return points.gather_every(max(points.height // SAMPLE, 1))


def slower_than_roofline(
    points: pl.DataFrame, hardware: HardwareCatalogue, models: ModelCatalogue
) -> tuple[SlowTable, ...]:
    """The GPUs and models whose rows are several times slower, the slowest first."""
    rows = points.filter(pl.col("osl_tokens") > 1, pl.col("source") != "roofline")
    if rows.is_empty():
        return ()
    parts = []
    for (model, *_), part in rows.group_by(_GROUP, maintain_order=True):
        step_ms = part["tpot_ms"] * part["accepted_tokens"].fill_null(1.0)
        times = step_ms / decode_times_ms(part, models.get(str(model)), hardware)
        parts.append(part.select("hardware", "model", "source").with_columns(times.alias("times")))
    middle = pl.concat(parts).group_by("hardware", "model", "source").agg(pl.col("times").median())
    slow = middle.filter(pl.col("times") > SEVERAL_TIMES).sort("times", descending=True)
    return tuple(SlowTable(**row) for row in slow.iter_rows(named=True))
