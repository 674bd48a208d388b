"""Files read whole: their slices put together."""

from dataclasses import replace

import polars as pl

from transforms.sources import formats
from transforms.sources.csv_table import open_csv
from transforms.sources.rows import SLICE_BYTES, InputFile, Reading


def read_file(file: InputFile, slice_bytes: int = SLICE_BYTES) -> Reading:
    """All that the file says. Raises ``FileRejectedError``."""
    slices = list(formats.read_file(file, slice_bytes))
    runs = [each.agentic for each in slices if each.agentic is not None]
    rows = pl.concat(each.rows for each in slices)
    return replace(slices[0], rows=rows, agentic=pl.concat(runs) if runs else None)


def read_csv(content: bytes, slice_bytes: int = SLICE_BYTES) -> pl.DataFrame:
    """All rows of the CSV. Raises ``FileRejectedError``."""
    return pl.concat(open_csv(content).slices(slice_bytes))
