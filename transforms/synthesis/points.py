"""Roofline serving points for hardware and models that no table covers (model.md 3)."""

from collections.abc import Iterable
from typing import Final

import polars as pl

from schemas.catalogue import HardwareCatalogue
from schemas.hardware import Hardware
from schemas.models import ModelSpec
from schemas.options import RooflinePreset
from schemas.tables import TABLES
from transforms.agent_points.carriers.roofline import RooflineReplica, TurnTimes, turn_times
from transforms.agent_points.carriers.roofline_pools import pool_times
from transforms.agent_points.carriers.workload import table_workload
from transforms.agent_points.rows.gpu import Gpu
from transforms.agent_points.rows.lookups import add_private_columns
from transforms.agent_points.rows.rows import Rows
from transforms.configurations import configuration_ids
from transforms.equations.roofline import latency_s
from transforms.serving_points.judge import point_ids
from transforms.synthesis.replicas import aggregated_replicas, disaggregated_replicas

#: The standard workload that the points are priced at; agents are priced at their own (model.md 5.9).
ISL_TOKENS: Final = 4000.0
OSL_TOKENS: Final = 1000.0
SOURCE: Final = "roofline"


def synthesize_points(
    pairs: Iterable[tuple[Hardware, ModelSpec]], hardware: HardwareCatalogue, preset: RooflinePreset = "calibrated"
) -> pl.DataFrame:
    """Serving points of each pair of GPU and model, by precision, replica and batch, as the table has them.

    The replicas are those of ``synthetic_replicas``. Whether weights fit is judged with the agent points.
    """
    gpus: dict[str, list[Hardware]] = {}
    specs: dict[str, ModelSpec] = {}
    for gpu, spec in pairs:
        gpus.setdefault(spec.slug, []).append(gpu)
        specs[spec.slug] = spec
    parts = [_points(gpus[slug], spec, hardware, preset) for slug, spec in specs.items()]
    none = pl.DataFrame(schema={field.name: field.dtype for field in TABLES["serving_points"].fields})
    return pl.concat([none, *parts])


def _points(
    gpus: Iterable[Hardware], spec: ModelSpec, hardware: HardwareCatalogue, preset: RooflinePreset
) -> pl.DataFrame:
    """The points of one model."""
    gpus = list(gpus)
    shapes = [shape for gpu in gpus for shape in (*aggregated_replicas(gpu, spec), *disaggregated_replicas(gpu, spec))]
    fixed = {
        "source": SOURCE, "source_file": SOURCE, "model": spec.slug, "model_name": spec.name,
        "kv_dtype": spec.kv_dtype, "attention_dtype": "bf16", "backend": SOURCE, "backend_version": preset,
        "isl_tokens": ISL_TOKENS, "osl_tokens": OSL_TOKENS, "prefix_tokens": 0.0, "latency_statistic": "mean",
        "tpot_source": "reported", "draft_tokens": 0, "accepted_tokens": 1.0,
    }  # fmt: skip
    frame = pl.DataFrame(shapes, infer_schema_length=None).with_columns(
        source_row=pl.int_range(1, pl.len() + 1).over("hardware"),
        weight_dtype=pl.coalesce("expert_dtype", "linear_dtype"),
        **{name: pl.lit(value) for name, value in fixed.items()},
    )
    frame = _as_serving_points(frame)
    parts = [_priced(part, spec, hardware, preset) for part in frame.partition_by("serving_mode", maintain_order=True)]
    priced = pl.concat(parts)
    return priced.with_columns(point_id=point_ids(priced), configuration_id=configuration_ids(priced))


def _priced(frame: pl.DataFrame, spec: ModelSpec, hardware: HardwareCatalogue, preset: RooflinePreset) -> pl.DataFrame:
    """Rows of one model and mode with their figures."""
    c = pl.col
    times = _times(Rows(add_private_columns(frame, spec, hardware)), spec, preset)
    frame = frame.with_columns(
        ttft_ms=pl.Series(1e3 * times.mean_ttft_s),
        tpot_ms=pl.Series(1e3 * times.tpot_s),
        requests_per_s=pl.Series(times.requests_per_s),
    )
    frame = frame.with_columns(request_latency_ms=latency_s(c("ttft_ms"), c("tpot_ms"), OSL_TOKENS))
    return frame.with_columns(
        in_flight_requests=c("requests_per_s") * c("request_latency_ms") / 1e3,
        tokens_per_s_per_user=1e3 / c("tpot_ms"),
        output_tokens_per_s_per_gpu=c("requests_per_s") * OSL_TOKENS / c("gpus_per_replica"),
    )


def decode_times_ms(
    rows: pl.DataFrame, spec: ModelSpec, hardware: HardwareCatalogue, isl: float, osl: float
) -> pl.Series:
    """TPOT of the calibrated roofline for rows of one model and mode at a workload, a token a step."""
    priced = _times(Rows(add_private_columns(rows, spec, hardware)), spec, "calibrated", isl, osl)
    return pl.Series("tpot_ms", priced.figures(osl)["tpot_ms"])


def _times(
    rows: Rows, spec: ModelSpec, preset: RooflinePreset, isl: float = ISL_TOKENS, osl: float = OSL_TOKENS
) -> TurnTimes:
    workload = table_workload(isl, osl, spec.attention)
    if rows.frame["serving_mode"].first() == "disagg":
        return pool_times(preset, rows, workload, spec)
    replica = RooflineReplica.of_rows(rows, spec, Gpu(rows, "decode"), workload.decode_context_tokens)
    return turn_times(preset, replica, rows["batch_per_rank"], workload, spec)


def _as_serving_points(frame: pl.DataFrame) -> pl.DataFrame:
    """The columns of the table in order; those that the frame does not have are NULL."""
    return frame.select(
        (pl.col(field.name) if field.name in frame.columns else pl.lit(None)).cast(field.dtype).alias(field.name)
        for field in TABLES["serving_points"].fields
    )
