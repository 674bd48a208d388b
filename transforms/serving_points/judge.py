"""From the rows of a file to serving points: names resolved, figures judged, repeats counted apart."""

import hashlib
from collections.abc import Sequence
from typing import Final

import polars as pl

from schemas.backends import ENGINES
from schemas.catalogue import HardwareCatalogue, ModelCatalogue
from schemas.errors import UserError
from schemas.slugs import PAIR
from schemas.tables import TABLES
from transforms.configurations import configuration_ids
from transforms.equations.closed_loop import in_flight_per_station
from transforms.serving_points.guard import row_rules
from transforms.serving_points.peaks import flag_above_peak
from transforms.serving_points.rules import Rule, flag_rows
from transforms.serving_points.schema_rules import schema_rules
from transforms.serving_points.server_memory import flag_kv_tokens
from transforms.serving_points.step_times import add_step_times
from transforms.sources.rows import LARGEST_COUNT

_QUARANTINE = TABLES["quarantine"].field_names


def judge_rows(
    rows: pl.DataFrame, hardware: HardwareCatalogue, models: ModelCatalogue
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The serving points and the quarantined rows of some files; every row is in one of the two.

    ``rows`` has the shape of ``transforms/sources/rows.py``, and ``source_file`` and ``tool_version``. Serving points
    have the columns of the table ``serving_points``; a point that stands twice in the files is still there twice.
    """
    resolved = _fill_formats(resolve_names(rows, hardware, models), models)
    judged = flag_rows(resolved, row_rules()).with_row_index("_row")
    judged = flag_kv_tokens(flag_above_peak(judged, hardware, models), hardware, models)
    judged = judged if judged["_row"].is_sorted() else judged.sort("_row")  # they come by GPU and model
    bad = judged.filter(pl.col("reason").is_not_null()).select(_QUARANTINE)
    completed = flag_rows(_complete(judged.filter(pl.col("reason").is_null()), models), schema_rules("serving_points"))
    refused = completed.filter(pl.col("reason").is_not_null()).select(_QUARANTINE)
    good = completed.filter(pl.col("reason").is_null()).select(TABLES["serving_points"].field_names)
    return good, pl.concat([bad, refused])


def new_points(points: pl.DataFrame, seen: set[str]) -> pl.DataFrame:
    """The points that say something new: neither among the ids ``seen`` nor a repeat within the frame.

    Adds their ids to ``seen``.
    """
    return points.filter(are_new(points["point_id"], seen))


def are_new(point_ids: pl.Series, seen: set[str]) -> pl.Series:
    """Which of the ids are neither among those ``seen`` nor repeats; adds them to ``seen``."""
    fresh = []
    for point_id in point_ids:
        fresh.append(point_id not in seen)
        seen.add(point_id)
    return pl.Series(fresh, dtype=pl.Boolean)


def resolve_names(rows: pl.DataFrame, hardware: HardwareCatalogue, models: ModelCatalogue) -> pl.DataFrame:
    """The rows with ``prefill_hardware``, ``decode_hardware``, ``hardware``, ``model`` and ``backend`` as the
    program names them; a row with an unknown name is flagged, and one whose own name is another's than
    ``source.yaml`` says. An unknown engine keeps its own name."""
    for column in ("prefill_hardware", "decode_hardware"):
        rows = _resolve(rows, f"{column}_name", column, hardware, "unknown_hardware", f"said_{column}")
    rows = _resolve(rows, "model_name", "model", models, "unknown_model", "said_model", alias="model_alias")
    engine = pl.col("backend").str.to_lowercase()
    named = rows.with_columns(
        hardware=pl.when(pl.col("prefill_hardware") == pl.col("decode_hardware"))
        .then("prefill_hardware")
        .otherwise(pl.concat_str("prefill_hardware", pl.lit(PAIR), "decode_hardware")),
        backend_name=pl.coalesce("backend_name", "backend"),
        backend=engine.replace(ENGINES),
        gpus_per_replica=pl.coalesce(
            _gpus(""),
            pl.col("prefill_workers") * _gpus("prefill_") + pl.col("decode_workers") * _gpus("decode_"),
        ),
    )
    return flag_rows(named, [_TOO_MANY_GPUS]).with_columns(pl.col("gpus_per_replica").cast(pl.Int64, strict=False))


def _fill_formats(rows: pl.DataFrame, models: ModelCatalogue) -> pl.DataFrame:
    """The rows with the formats that follow from the model."""
    is_dense = pl.col("model").is_in([spec.slug for spec in models if spec.moe is None])
    checkpoint = pl.col("model").replace_strict(
        {spec.slug: spec.kv_dtype for spec in models}, default=None, return_dtype=pl.String
    )
    linear = pl.when(is_dense).then(pl.coalesce("linear_dtype", "expert_dtype")).otherwise("linear_dtype")
    return rows.with_columns(
        linear_dtype=linear,
        weight_dtype=pl.when(is_dense).then(linear).otherwise("expert_dtype"),
        expert_dtype=pl.when(~is_dense).then("expert_dtype"),
        kv_dtype=pl.when(pl.col("kv_dtype_source") == "checkpoint").then(checkpoint).otherwise("kv_dtype"),
        kv_dtype_source=pl.col("kv_dtype_source").fill_null("reported"),
    )


def _gpus(prefix: str) -> pl.Expr:
    """GPUs of one worker: attention ranks times context parallelism. Experts use the same GPUs.

    A real number: the product of large counts is none that an integer holds.
    """
    return (
        pl.col(f"{prefix}tp").cast(pl.Float64) * pl.col(f"{prefix}pp") * pl.col(f"{prefix}dp") * pl.col(f"{prefix}cp")
    )


_TOO_MANY_GPUS: Final = Rule(
    "out_of_range",
    pl.col("gpus_per_replica") > LARGEST_COUNT,
    pl.format(f"gpus_per_replica is {{}} by the parallel dimensions, more than {LARGEST_COUNT:,}", "gpus_per_replica"),
)


def _lookup(
    names: pl.Series, catalogue: HardwareCatalogue | ModelCatalogue
) -> dict[str, tuple[str | None, str | None]]:
    """Name -> (slug, None), or (None, what is wrong with the name)."""
    found: dict[str, tuple[str | None, str | None]] = {}
    for name in names.drop_nulls().unique():
        try:
            found[name] = (catalogue.find(name).slug, None)
        except UserError as error:
            found[name] = (None, str(error))
    return found


def _resolve(
    rows: pl.DataFrame,
    name_column: str,
    slug_column: str,
    catalogue: HardwareCatalogue | ModelCatalogue,
    reason: str,
    said_column: str,
    alias: str | None = None,
) -> pl.DataFrame:
    """Adds the slugs of a column of names.

    ``said_column`` is what ``source.yaml`` says: it gives the slug of a name that nobody knows, and must not
    contradict a known one. ``alias`` is a second name of the input, for where the first is unknown.
    """
    absent = [name for name in (said_column, alias) if name is not None and name not in rows.columns]
    rows = rows.with_columns(pl.lit(None, pl.String).alias(name) for name in absent)

    def slug_of(column: str) -> pl.Expr:
        slugs = {name: slug for name, (slug, _) in _lookup(rows[column], catalogue).items()}
        return pl.col(column).replace_strict(slugs, default=None, return_dtype=pl.String)

    own, said = slug_of(name_column), slug_of(said_column)
    own = own if alias is None else pl.coalesce(own, slug_of(alias))
    rows = rows.with_columns(_own=own, _said=said).with_columns(pl.coalesce("_said", "_own").alias(slug_column))
    told = pl.coalesce(said_column, name_column)
    known = _lookup(rows.select(told).to_series(), catalogue)
    problems = {name: problem for name, (_, problem) in known.items()}
    rules = [
        Rule("missing_value", pl.col(name_column).is_null(), pl.lit(f"{name_column} is not given")),
        Rule(
            "sidecar_disagrees",
            pl.col("_own") != pl.col("_said"),
            pl.format(
                "the file is of {} ({}), source.yaml says {} ({}); give each its own folder, or a line under `files`",
                name_column, "_own", said_column, "_said",
            ),
        ),
        Rule(
            reason,
            pl.col(slug_column).is_null(),
            told.replace_strict(problems, default=None, return_dtype=pl.String),
        ),
    ]  # fmt: skip
    return flag_rows(rows, rules).drop("_own", "_said")


def _complete(rows: pl.DataFrame, models: ModelCatalogue) -> pl.DataFrame:
    """Rows without fault with every column of a serving point."""
    points = rows.with_columns(
        in_flight_requests=in_flight_per_station(pl.col("requests_per_s"), pl.col("request_latency_ms") / 1e3, 1),
        # as the table counts it, where it states it: AIConfigurator leaves the first token out
        output_tokens_per_s_per_gpu=pl.coalesce(
            pl.col("stated_tokens_per_s_per_gpu") * pl.col("stated_gpus") / pl.col("gpus_per_replica"),
            pl.col("requests_per_s") * pl.col("osl_tokens") / pl.col("gpus_per_replica"),
        ),
    )
    points = add_step_times(points, {spec.slug: spec.layers for spec in models})
    points = points.with_columns(point_id=point_ids(points), configuration_id=configuration_ids(points))
    # what is told of the rows that are kept
    return points.with_columns(shared_from=pl.lit(None, pl.String), slower_than_roofline=pl.lit(None, pl.Float64))


def point_ids(
    points: pl.DataFrame,
    without: Sequence[str] = ("source_file", "source_row", "database_mode", "shared_from", "slower_than_roofline"),
    table: str = "serving_points",
) -> pl.Series:
    """A key for each point: a hash of what its row says, wherever the row stands."""
    keys = {*without, "point_id", "configuration_id"}
    says = [name for name in TABLES[table].field_names if name not in keys and name in points.columns]
    texts = points.select(
        pl.concat_str([pl.col(name).cast(pl.String).fill_null("") for name in says], separator="\x1f")
    ).to_series()
    return pl.Series(
        "point_id",
        [hashlib.blake2b(text.encode(), digest_size=10).hexdigest() for text in texts],
        dtype=pl.String,
    )
