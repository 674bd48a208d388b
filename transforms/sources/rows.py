"""The common shape of what a format module returns, before names are resolved and rows are judged."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from schemas.fields import FIELDS

#: Columns of a row as a format gives it; a column that a format does not know is NULL.
#: Hardware and model are still the input's own words.
_NAMES: Final = ("hardware_name", "prefill_hardware_name", "decode_hardware_name", "model_name")
_FIELDS: Final = (
    "source", "linear_dtype", "expert_dtype", "kv_dtype", "attention_dtype", "backend", "backend_version",
    "serving_mode", "tp", "pp", "dp", "cp", "moe_tp", "moe_ep",
    "prefill_workers", "prefill_tp", "prefill_pp", "prefill_dp", "prefill_cp", "prefill_moe_tp", "prefill_moe_ep",
    "prefill_batch",
    "decode_workers", "decode_tp", "decode_pp", "decode_dp", "decode_cp", "decode_moe_tp", "decode_moe_ep",
    "decode_batch",
    "isl_tokens", "osl_tokens", "prefix_tokens", "concurrency_reported", "batch_per_rank",
    "context_requests_per_step", "context_tokens_per_step", "ttft_ms", "tpot_ms", "request_latency_ms",
    "requests_per_s", "tokens_per_s_per_user", "memory_bytes_per_gpu", "latency_statistic", "tpot_source",
    "draft_tokens", "accepted_tokens",
)  # fmt: skip
#: What the table itself states and the guard recomputes.
_STATED: Final = {"stated_gpus": pl.Float64(), "stated_tokens_per_s_per_gpu": pl.Float64()}

ROW_SCHEMA: Final[dict[str, pl.DataType]] = {
    "source_row": pl.Int64(),
    **{name: pl.String() for name in _NAMES},
    **{name: FIELDS[name].dtype for name in _FIELDS},
    **_STATED,
    "reason": pl.String(),
    "detail": pl.String(),
    "raw": pl.String(),
}


class FileRejectedError(Exception):
    """The whole file cannot be used. The message says why and, where it can, the line."""


@dataclass(frozen=True)
class InputFile:
    """A file as read: ``path`` is for messages, ``content`` is unpacked, ``beside`` are its sidecars."""

    path: str
    content: bytes
    sha256: str
    beside: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Reading:
    """What one file says: one row of ``ROW_SCHEMA`` for each data row, flagged ones included."""

    format: str
    tool: str
    tool_version: str | None
    rows: pl.DataFrame


def as_rows(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame in the common shape: known columns in order and type, absent ones NULL."""
    return frame.select(
        pl.col(name).cast(dtype, strict=False) if name in frame.columns else pl.lit(None, dtype).alias(name)
        for name, dtype in ROW_SCHEMA.items()
    )
