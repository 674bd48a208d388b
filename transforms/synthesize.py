"""Roofline serving points for hardware and models that no table covers (MODEL section 3)."""

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Final

import polars as pl

from schemas.catalogue import HardwareCatalogue
from schemas.hardware import Hardware
from schemas.models import ModelSpec
from schemas.options import RooflinePreset
from schemas.tables import TABLES
from transforms.agent_points.gpu import Gpu, add_gpu_columns
from transforms.agent_points.roofline_points import turn_times
from transforms.agent_points.roofline_replica import RooflineReplica
from transforms.agent_points.workload import table_workload
from transforms.equations.roofline import latency_s
from transforms.serving_points import point_ids

#: The standard workload that the points are priced at; agents are priced at their own (MODEL 5.9).
ISL_TOKENS: Final = 4000.0
OSL_TOKENS: Final = 1000.0
BATCHES: Final = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
GPU_COUNTS: Final = (1, 2, 4, 8)
SOURCE: Final = "roofline"


def synthesize_points(
    pairs: Iterable[tuple[Hardware, ModelSpec]], hardware: HardwareCatalogue, preset: RooflinePreset = "calibrated"
) -> pl.DataFrame:
    """Serving points of each pair of GPU and model, by precision, layout and batch, as the table has them.

    Precisions: the checkpoint's own, and FP8 where that is 16-bit and the GPU computes in FP8.
    Layouts: tensor parallelism within the scale-up network; on a mixture of experts also attention data
    parallelism with the experts spread over all GPUs. Whether weights fit is judged with the agent points.
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
    shapes = [
        {
            "hardware": gpu.slug, "hardware_name": gpu.name, "prefill_hardware": gpu.slug, "decode_hardware": gpu.slug,
            "tp": tp, "dp": dp, "linear_dtype": linear, "expert_dtype": expert, "batch_per_rank": float(batch),
        }
        for gpu in gpus
        for (linear, expert), (tp, dp), batch in product(_precisions(gpu, spec), _layouts(gpu, spec), BATCHES)
    ]  # fmt: skip
    fixed = {
        "source": SOURCE, "source_file": SOURCE, "model": spec.slug, "model_name": spec.name,
        "kv_dtype": spec.kv_dtype, "attention_dtype": "bf16", "backend": SOURCE, "backend_version": preset,
        "serving_mode": "agg", "pp": 1, "cp": 1, "isl_tokens": ISL_TOKENS, "osl_tokens": OSL_TOKENS,
        "prefix_tokens": 0.0, "latency_statistic": "mean", "tpot_source": "reported", "draft_tokens": 0,
        "accepted_tokens": 1.0,
    }  # fmt: skip
    c = pl.col
    frame = pl.DataFrame(shapes, schema_overrides={"linear_dtype": pl.String, "expert_dtype": pl.String}).with_columns(
        **{name: pl.lit(value) for name, value in fixed.items()}
    )
    frame = frame.with_columns(
        source_row=pl.int_range(1, pl.len() + 1).over("hardware"),
        weight_dtype=pl.coalesce("expert_dtype", "linear_dtype"),
        # tensor parallelism splits the experts too, data parallelism spreads them whole
        moe_tp=pl.when(c("expert_dtype").is_not_null() & (c("dp") == 1)).then("tp").otherwise(1),
        moe_ep=pl.when(c("expert_dtype").is_not_null()).then("dp").otherwise(1),
        gpus_per_replica=c("tp") * c("dp"),
        concurrency_reported=c("batch_per_rank") * c("dp"),
    )
    frame = _as_serving_points(frame)
    workload = table_workload(ISL_TOKENS, OSL_TOKENS, spec.attention)
    replica = RooflineReplica.of_rows(
        add_gpu_columns(frame, hardware), spec, Gpu.of_pool("decode"), workload.decode_context_tokens
    )
    times = turn_times(preset, replica, frame["batch_per_rank"].to_numpy(), workload, spec)
    frame = frame.with_columns(
        ttft_ms=pl.Series(1e3 * times.mean_ttft_s),
        tpot_ms=pl.Series(1e3 * times.tpot_s),
        requests_per_s=pl.Series(times.requests_per_s),
    )
    frame = frame.with_columns(request_latency_ms=latency_s(c("ttft_ms"), c("tpot_ms"), OSL_TOKENS))
    frame = frame.with_columns(
        in_flight_requests=c("requests_per_s") * c("request_latency_ms") / 1e3,
        tokens_per_s_per_user=1e3 / c("tpot_ms"),
        output_tokens_per_s_per_gpu=c("requests_per_s") * OSL_TOKENS / c("gpus_per_replica"),
    )
    return frame.with_columns(point_id=point_ids(frame))


def _precisions(gpu: Hardware, spec: ModelSpec) -> Iterator[tuple[str, str | None]]:
    """(format of the linear layers, format of the experts) that the GPU would serve."""
    linear, own = spec.stored.attention, spec.weight_dtype
    yield linear, (own if spec.moe else None)
    if own in ("bf16", "fp16") and gpu.flops_per_s.fp8 is not None:
        yield "fp8", ("fp8" if spec.moe else None)


def _layouts(gpu: Hardware, spec: ModelSpec) -> Iterator[tuple[int, int]]:
    """(tp, dp) of the replicas."""
    counts = [count for count in GPU_COUNTS if count <= gpu.scale_up_gpus]
    yield from ((count, 1) for count in counts)
    if spec.moe:
        yield from ((1, count) for count in counts if count > 1)


def _as_serving_points(frame: pl.DataFrame) -> pl.DataFrame:
    """The columns of the table in order; those that the frame does not have are NULL."""
    return frame.select(
        (pl.col(field.name) if field.name in frame.columns else pl.lit(None)).cast(field.dtype).alias(field.name)
        for field in TABLES["serving_points"].fields
    )
