"""From measured agent runs of a file to the table ``measured_agentic``: names resolved, figures judged."""

from typing import Final

import polars as pl

from schemas.catalogue import HardwareCatalogue, ModelCatalogue
from schemas.fields import FIELDS
from schemas.tables import TABLES
from transforms.serving_points.judge import point_ids, resolve_names
from transforms.serving_points.rules import flag_rows
from transforms.serving_points.schema_rules import schema_rules

_FIELDS: Final = tuple(FIELDS[name] for name in TABLES["measured_agentic"].field_names)
#: Columns of the table that are no figure of the run and made here.
_MADE: Final = ("point_id", "source_file", "source_row", "tool_version")


def judge_agentic(
    runs: pl.DataFrame, hardware: HardwareCatalogue, models: ModelCatalogue
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The agent runs and the quarantined ones of some files.

    ``runs`` has the shape of ``sources/agentic.py``, and ``source_file`` and ``tool_version``.
    """
    named = runs.with_columns(
        pl.col("hardware_name").alias("prefill_hardware_name"),
        pl.col("hardware_name").alias("decode_hardware_name"),
        **{f"{pool}_{name}": pl.lit(1) for pool in ("prefill", "decode") for name in ("pp", "cp")},
    )
    gpus = named["gpus_per_replica"]
    judged = resolve_names(named, hardware, models).with_columns(gpus.alias("gpus_per_replica"))
    judged = flag_rows(judged, schema_rules("measured_agentic", _MADE))
    table = TABLES["measured_agentic"].field_names
    good = judged.filter(pl.col("reason").is_null())
    good = good.with_columns(pl.col(field.name).cast(field.dtype) for field in _FIELDS if field.name in good.columns)
    good = good.with_columns(point_id=point_ids(good, table="measured_agentic")).select(table)
    return good, judged.filter(pl.col("reason").is_not_null()).select(TABLES["quarantine"].field_names)
