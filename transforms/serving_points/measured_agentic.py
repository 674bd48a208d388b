"""From measured agent runs of a file to the table ``measured_agentic``: names resolved, figures judged."""

from typing import Final

import polars as pl

from schemas.catalogue import HardwareCatalogue, ModelCatalogue
from schemas.fields import FIELDS
from schemas.tables import TABLES
from transforms.serving_points.judge import point_ids, resolve_names
from transforms.serving_points.rules import Rule, flag_rows
from transforms.sources.rows import count_rule

_FIELDS: Final = tuple(FIELDS[name] for name in TABLES["measured_agentic"].field_names)
_LARGEST: Final = 1e18
_LARGEST_COUNT: Final = 10**12


def judge_agentic(
    runs: pl.DataFrame,
    path: str,
    tool_version: str | None,
    hardware: HardwareCatalogue,
    models: ModelCatalogue,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The file's agent runs and its quarantined ones; ``runs`` has the shape of ``sources/agentic.py``."""
    named = runs.with_columns(
        pl.col("hardware_name").alias("prefill_hardware_name"),
        pl.col("hardware_name").alias("decode_hardware_name"),
        source_file=pl.lit(path),
        tool_version=pl.lit(tool_version, pl.String),
        **{f"{pool}_{name}": pl.lit(1) for pool in ("prefill", "decode") for name in ("pp", "cp")},
    )
    gpus = named["gpus_per_replica"]
    judged = resolve_names(named, hardware, models).with_columns(gpus.alias("gpus_per_replica"))
    judged = flag_rows(judged, _rules())
    table = TABLES["measured_agentic"].field_names
    good = judged.filter(pl.col("reason").is_null())
    good = good.with_columns(pl.col(field.name).cast(field.dtype) for field in _FIELDS if field.name in good.columns)
    good = good.with_columns(point_id=point_ids(good, table="measured_agentic")).select(table)
    return good, judged.filter(pl.col("reason").is_not_null()).select(TABLES["quarantine"].field_names)


def _rules() -> list[Rule]:
    """What the dictionary of fields demands of each column: given, finite, within its range, whole."""
    c = pl.col
    rules: list[Rule] = []
    for field in _FIELDS:
        name = field.name
        if name in ("point_id", "source_file", "source_row", "tool_version"):
            continue
        if not field.nullable:
            rules.append(Rule("missing_value", c(name).is_null(), pl.lit(f"{name} is not given")))
        if field.dtype.is_numeric():
            rules.append(Rule("out_of_range", ~(c(name).abs() <= _LARGEST), pl.format(name + " is {}", name)))
            low = field.above if field.above is not None else field.at_least
            if low is not None:
                broken = c(name) <= low if field.above is not None else c(name) < low
                rules.append(Rule("out_of_range", broken, pl.format(name + " is {}, too small", name)))
            if field.at_most is not None:
                broken = c(name) > field.at_most
                rules.append(Rule("out_of_range", broken, pl.format(name + f" is {{}}, above {field.at_most:g}", name)))
        if field.dtype == pl.Int64():
            rules.append(count_rule(name, _LARGEST_COUNT))
    return rules
