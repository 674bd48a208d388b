"""Rows that are several times slower than the roofline of their own configuration: said beside the answers.

A TPOT of the calibrated roofline is within a factor of two of every table of measured kernels, in the middle of its
rows. What is far above has another reason than the deployment: kernels that were estimated, a GPU that was shared.
"""

from dataclasses import dataclass
from typing import Final

import polars as pl

from schemas.catalogue import HardwareCatalogue, ModelCatalogue
from transforms.synthesis.points import decode_times_ms

#: TPOT of a row over that of the roofline. Medians of the shipped tables 0.96 to 1.8, 1 % of their rows beyond;
#: estimated kernels 3.5 to 3.8.
SEVERAL_TIMES: Final = 2.5
#: Rows whose lengths agree to so many digits are priced together, at the rounded lengths.
LENGTH_DIGITS: Final = 2
_TABLE: Final = ("hardware", "model", "source")
#: What ``slow_tables`` needs of points.
TABLE_COLUMNS: Final = (*_TABLE, "slower_than_roofline")


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
            "same configurations"
        )


def add_slower_than_roofline(points: pl.DataFrame, hardware: HardwareCatalogue, models: ModelCatalogue) -> pl.DataFrame:
    """The serving points with ``slower_than_roofline``: how many times, NULL where it is not several.

    A TPOT of 60 ms, two tokens a step, where the roofline's step takes 30 ms: 60*2/30 = 4 times.
    """
    lengths = {f"_{name}": pl.col(name).round_sig_figs(LENGTH_DIGITS) for name in ("isl_tokens", "osl_tokens")}
    rows = points.with_row_index("_row").with_columns(**lengths)
    rows = rows.filter(pl.col("osl_tokens") > 1, pl.col("source") != "roofline")
    parts = [pl.DataFrame(schema={"_row": pl.UInt32, "slower_than_roofline": pl.Float64})]
    for (model, _, isl, osl), part in rows.group_by("model", "serving_mode", *lengths, maintain_order=True):
        step_ms = part["tpot_ms"] * part["accepted_tokens"].fill_null(1.0)
        roofline_ms = decode_times_ms(part, models.get(str(model)), hardware, float(str(isl)), float(str(osl)))
        parts.append(part.select("_row").with_columns(slower_than_roofline=step_ms / roofline_ms))
    slow = pl.concat(parts).filter(pl.col("slower_than_roofline") > SEVERAL_TIMES)
    found = points.drop("slower_than_roofline", strict=False).with_row_index("_row")
    return found.join(slow, on="_row", how="left", maintain_order="left").select(points.columns)


def slow_tables(points: pl.DataFrame) -> tuple[SlowTable, ...]:
    """The GPUs and models more than half of whose rows are several times slower, the slowest first.

    ``times`` is the median of the rows.
    """
    middle = points.group_by(_TABLE).agg(times=pl.col("slower_than_roofline").fill_null(0.0).median())
    slow = middle.filter(pl.col("times") > SEVERAL_TIMES).sort("times", *_TABLE, descending=[True, False, False, False])
    return tuple(SlowTable(**row) for row in slow.iter_rows(named=True))
