"""What makes two serving points the same configuration, and one curve."""

import hashlib
from typing import Final

import numpy as np
import polars as pl

from schemas.arrays import Indices
from schemas.tables import TABLES

#: One deployment, whatever its load and workload.
CONFIGURATION: Final = (
    "source", "tool_version", "hardware", "prefill_hardware", "decode_hardware", "model", "weight_dtype",
    "expert_dtype", "linear_dtype", "kv_dtype", "attention_dtype", "backend", "backend_version", "serving_mode",
    "tp", "pp", "dp", "cp", "moe_tp", "moe_ep",
    "prefill_workers", "prefill_tp", "prefill_pp", "prefill_dp", "prefill_cp", "prefill_moe_tp", "prefill_moe_ep",
    "prefill_batch",
    "decode_workers", "decode_tp", "decode_pp", "decode_dp", "decode_cp", "decode_moe_tp", "decode_moe_ep",
    "gpus_per_replica", "latency_statistic", "draft_tokens", "accepted_tokens", "setting",
    "shared_from",
)  # fmt: skip
#: Columns that were added when keys had been published.
_LATER: Final = ("setting",)
#: Letters of a setting in the label of a configuration.
LABEL_CHARACTERS: Final = 60
_PLACE: Final = ("hardware", "prefill_hardware", "decode_hardware", "model", "shared_from")
#: The same wherever it runs and whatever it serves.
DEPLOYMENT: Final = tuple(name for name in CONFIGURATION if name not in _PLACE)
#: Columns of small numbers that stand for the tuples above within one frame: windows over one number
#: are many times faster than over forty columns.
CONFIGURATION_ID: Final = "_configuration"
SCHEDULE_ID: Final = "_schedule"
CURVE_ID: Final = "_curve"
_NUMBERS: Final = (CONFIGURATION_ID, SCHEDULE_ID, CURVE_ID)


def number_configurations(points: pl.DataFrame) -> pl.DataFrame:
    """The points with a number for each configuration, for each configuration and its mixed steps, and
    for each curve: rows that differ only in concurrency (model.md 5.6). NULLs are alike.

    Numbers rise by hardware, serving mode and preset of a roofline first. Measured lengths vary from run to run of
    one workload: there the lengths that name it count. Fast where rows of a curve stand together.
    """
    keys = points.select(
        *CONFIGURATION,
        "context_requests_per_step",
        *(pl.coalesce(f"{name}_nominal_tokens", f"{name}_tokens").alias(f"_{name}") for name in ("isl", "osl")),
        "prefix_tokens",
    )
    # most columns are the same in all rows of a model: only the others tell rows apart
    several = keys.select(pl.all().ne_missing(pl.all().first()).any()).row(0)
    telling = [name for name, differs in zip(keys.columns, several, strict=True) if differs]
    if not telling:
        return points.with_columns(pl.lit(1, pl.UInt32).alias(name) for name in _NUMBERS)
    starts = _starts_of_runs(keys.select(telling))
    of_run = _numbered(keys[starts], telling)
    lengths = np.diff(np.r_[starts, points.height])
    return points.with_columns(pl.Series(name, np.repeat(of_run[name].to_numpy(), lengths)) for name in _NUMBERS)


def roofline_preset() -> pl.Expr:
    """The preset that a row was made by, ``_preset``; NULL of a table's row."""
    return pl.when(pl.col("source") == "roofline").then("backend_version").alias("_preset")


def in_curve_order(points: pl.DataFrame) -> pl.DataFrame:
    """The points curve after curve, each in the order of its batches: so they are numbered and carried fastest."""
    order = curve_order(number_configurations(points))
    return points if order is None else points[order]


def curve_order(numbered: pl.DataFrame) -> Indices | None:
    """The places of numbered rows in the order of their curves and batches; None where they stand so."""
    curve, batch = numbered[CURVE_ID].to_numpy(), numbered["batch_per_rank"].fill_null(-1.0).to_numpy()
    same = curve[1:] == curve[:-1]
    if ((curve[1:] > curve[:-1]) | (same & (batch[1:] >= batch[:-1]))).all():
        return None
    return np.lexsort((batch, curve))


def _starts_of_runs(keys: pl.DataFrame) -> Indices:
    """The places of rows that differ from the row before them, the first among them."""
    begins = keys.select(pl.any_horizontal(pl.all().ne_missing(pl.all().shift(1)))).to_series().to_numpy().copy()
    begins[:1] = True
    return np.flatnonzero(begins)


def _numbered(keys: pl.DataFrame, telling: list[str]) -> pl.DataFrame:
    """The ``_NUMBERS`` of each row; ``telling``: the columns that tell rows apart."""
    # sorting the few curves that there are is cheaper than sorting all rows
    curves = keys.unique(telling, keep="any")
    of_configuration = [name for name in CONFIGURATION if name in telling]
    ranked: dict[str, tuple[str | pl.Expr, ...]] = {
        CONFIGURATION_ID: ("hardware", "serving_mode", roofline_preset(), *of_configuration),
        SCHEDULE_ID: (CONFIGURATION_ID, "context_requests_per_step"),
        CURVE_ID: (SCHEDULE_ID, "_isl", "_osl", "prefix_tokens"),
    }
    for name, columns in ranked.items():
        fields = [
            pl.col(column).alias(str(at)) if isinstance(column, str) else column for at, column in enumerate(columns)
        ]
        curves = curves.with_columns(pl.struct(fields).rank("dense").alias(name))
    return keys.select(telling).join(
        curves.select(*telling, *_NUMBERS), on=telling, how="left", nulls_equal=True, maintain_order="left"
    )


def configuration_ids(points: pl.DataFrame) -> pl.Series:
    """``configuration_id``: a hash of what makes the points' deployments. NULLs are alike.

    A column that came later counts where it says something only: keys of before stay.
    """
    first = (pl.col(name).cast(pl.String).fill_null("") for name in DEPLOYMENT if name not in _LATER)
    later = (pl.format(f"{name}={{}}", name) for name in _LATER)
    texts = points.select(pl.concat_str((*first, *later), separator="\x1f", ignore_nulls=True)).to_series()
    ids = {text: hashlib.blake2b(text.encode(), digest_size=6).hexdigest() for text in texts.unique()}
    return texts.replace_strict(ids, return_dtype=pl.String).alias("configuration_id")


def deployments(points: pl.DataFrame) -> pl.DataFrame:
    """The rows of the table ``dim_configuration`` for these serving points."""
    columns = [name for name in TABLES["dim_configuration"].field_names if name != "configuration"]
    one_of_each = points.filter(pl.col("configuration_id").is_first_distinct()).select(columns).sort("configuration_id")
    return one_of_each.with_columns(configuration=_label())


def _label() -> pl.Expr:
    """``TP4 PP1 DP1, fp8, KV fp8, trtllm 1.2.0`` or ``2 x prefill TP4 + 1 x decode TP8, …``."""
    c = pl.col
    pools = (
        pl.format("{} x {} TP{}{}", f"{pool}_workers", pl.lit(pool), f"{pool}_tp", _beyond_one(f"{pool}_", "pp", "dp"))
        for pool in ("prefill", "decode")
    )
    one_pool = pl.format("TP{} PP{} DP{}{}", "tp", "pp", "dp", _beyond_one(""))
    shape = pl.when(c("serving_mode") == "agg").then(one_pool).otherwise(pl.concat_str(pools, separator=" + "))
    version = (" " + c("backend_version")).fill_null("")
    drafts = pl.when(c("draft_tokens") > 0).then(pl.format(", {} drafts", "draft_tokens")).otherwise(pl.lit(""))
    medians = pl.when(c("latency_statistic") == "p50").then(pl.lit(", medians")).otherwise(pl.lit(""))
    setting = (", " + c("setting").str.slice(0, LABEL_CHARACTERS)).fill_null("")
    words = (drafts, medians, setting)
    return pl.format("{}, {}, KV {}, {}{}{}{}{}", shape, "weight_dtype", "kv_dtype", "backend", version, *words)


def _beyond_one(prefix: str, *always_one: str) -> pl.Expr:
    """The further parallel dimensions that are more than one: `` EP8``."""
    parts = [
        pl.when(pl.col(f"{prefix}{name}") > 1).then(pl.format(f" {short}{{}}", f"{prefix}{name}")).otherwise(pl.lit(""))
        for name, short in (*((name, name.upper()) for name in always_one), ("cp", "CP"), ("moe_ep", "EP"))
    ]
    return pl.concat_str(parts)


def schedule_number() -> pl.Expr:
    """A number for each configuration and its mixed steps among the agent points of one model and scenario: the rows
    of one differ in their load only. NULLs are alike."""
    return pl.struct(*CONFIGURATION, "context_requests_per_step").rank("dense")
