"""The common shape of measured agent runs, before names are resolved and rows are judged."""

from typing import Final

import polars as pl

from schemas.fields import FIELDS
from schemas.tables import TABLES

#: Columns that are made when a run is judged.
_MADE: Final = ("point_id", "source_file", "tool_version", "hardware", "model", "hardware_name", "model_name")

#: Columns of a run; hardware and model are still the input's own words. Counts are reals: checked, not cut.
AGENTIC_SCHEMA: Final[dict[str, pl.DataType]] = {
    "hardware_name": pl.String(),
    "model_name": pl.String(),
    "model_alias": pl.String(),
    **{
        name: pl.Float64() if FIELDS[name].dtype == pl.Int64() and name != "source_row" else FIELDS[name].dtype
        for name in TABLES["measured_agentic"].field_names
        if name not in _MADE
    },
    "reason": pl.String(),
    "detail": pl.String(),
    "raw": pl.String(),
}
