"""The columns of the release that the page reads, and its partitions as the files that the page fetches."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import polars as pl

from pipelines.lake.parts import read_file
from schemas.errors import UserError
from transforms.configurations import schedule_number

_SHAPE = (
    "serving_mode", "tp", "pp", "dp", "cp", "moe_ep",
    "prefill_workers", "prefill_tp", "prefill_pp", "prefill_dp", "prefill_moe_ep", "prefill_batch",
    "decode_workers", "decode_tp", "decode_pp", "decode_dp", "decode_moe_ep", "decode_batch",
    "gpus_per_replica",
)  # fmt: skip
#: What else stands in a row follows from these by the closed loop; the page works it out.
AGENT_COLUMNS: Final = (
    "point_id", "source", "source_file", "source_row", "weight_dtype", "kv_dtype", "backend", "backend_version",
    *_SHAPE, "concurrency_reported", "batch_per_rank",
    "interpolated", "transfer_method", "expected_error_fraction", "extrapolated", "database_mode",
    "slower_than_roofline", "unmeasured_load",
    "serving_requests_per_s", "sessions", "cache_hit_rate", "ttft_ms", "tpot_ms", "turn_latency_ms",
    "turn_latency_all_hits_ms", "turn_latency_all_misses_ms",
    "serving_requests_per_s_all_hits", "serving_requests_per_s_all_misses",
    "kv_bytes_per_session_mean", "kv_bytes_per_session_peak", "kv_bytes_available", "max_sessions",
    "max_parked_sessions", "max_in_flight_requests", "infeasible_reason", "binding_limit", "usd_per_gpu_hour",
)  # fmt: skip
SERVING_COLUMNS: Final = (
    "source", "weight_dtype", "backend", *_SHAPE,
    "isl_tokens", "osl_tokens", "prefix_tokens", "isl_nominal_tokens", "osl_nominal_tokens",
    "request_latency_ms", "tpot_ms", "output_tokens_per_s_per_gpu",
)  # fmt: skip
#: Which rows of ``agent_points`` differ in concurrency only; a number within the file.
CURVE: Final = "curve"


def read_agent_points(release: Path, hardware: str, model: str, scenario: str) -> pl.DataFrame:
    """A partition of ``agent_points``: all of its rows, the page's columns that it has, and ``curve``."""
    folder = release / "agent_points" / f"hardware={hardware}" / f"model={model}" / f"scenario={scenario}"
    keyed = _read(folder).with_columns(hardware=pl.lit(hardware), model=pl.lit(model))
    return _chosen(keyed.with_columns(schedule_number().alias(CURVE)), (*AGENT_COLUMNS, CURVE))


def read_serving_points(release: Path, hardware: str, model: str) -> pl.DataFrame:
    """A partition of ``serving_points``: all of its rows, the page's columns that it has."""
    return _chosen(_read(release / "serving_points" / f"hardware={hardware}" / f"model={model}"), SERVING_COLUMNS)


def _read(folder: Path) -> pl.DataFrame:
    try:
        return pl.concat(read_file(path) for path in sorted(folder.glob("*.parquet")))
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        raise UserError(f"{folder} cannot be read: {error}") from error


def _chosen(frame: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    return frame.select(name for name in columns if name in frame.columns)


def encode_for_browser(frame: pl.DataFrame) -> bytes:
    """Parquet for the page: whole numbers in 32 bits where they fit, as 64 bits are no numbers in JavaScript, and no
    column that is NULL throughout, as the page takes a missing column for one."""
    frame = frame.select(column for column in frame if column.null_count() < frame.height)
    narrow = [name for name in frame.columns if frame[name].dtype == pl.Int64 and _fits(frame[name])]
    buffer = io.BytesIO()
    frame.with_columns(pl.col(narrow).cast(pl.Int32)).write_parquet(buffer, compression="zstd", statistics=False)
    return buffer.getvalue()


def _fits(values: pl.Series) -> bool:
    most = values.abs().max()
    return most is None or bool(most < 2**31)  # type: ignore[operator]
