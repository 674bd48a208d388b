"""The common shape of what a format module returns, before names are resolved and rows are judged."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from schemas.fields import FIELDS
from schemas.sidecar import Sidecar
from transforms.serving_points.rules import Rule, flag_rows

#: Columns of a row as a format gives it; a column that a format does not know is NULL.
#: Hardware and model are still the input's own words.
#: ``model_alias`` is a second name that the input gives the model, looked up where the first is unknown.
#: ``said_…`` is what ``source.yaml`` says where the file names something itself: it must not contradict a known name.
_NAMES: Final = (
    "hardware_name", "prefill_hardware_name", "decode_hardware_name", "model_name", "model_alias",
    "said_model", "said_prefill_hardware", "said_decode_hardware",
)  # fmt: skip
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
    "setting", "database_mode", "kv_tokens", "measured_at", "backend_name", "precision_name", "kv_dtype_source",
    "isl_nominal_tokens", "osl_nominal_tokens",
)  # fmt: skip
#: What the table itself states and the guard recomputes.
_STATED: Final = {
    name: pl.Float64() for name in ("stated_gpus", "stated_tokens_per_s_per_gpu", "stated_requests_per_s")
}

ROW_SCHEMA: Final[dict[str, pl.DataType]] = {
    "source_row": pl.Int64(),
    **{name: pl.String() for name in _NAMES},
    **{name: FIELDS[name].dtype for name in _FIELDS},
    **_STATED,
    "reason": pl.String(),
    "detail": pl.String(),
    "raw": pl.String(),
}
#: Bytes of a large table that are taken apart and judged at a time; its columns and JSON take some ten times as many.
SLICE_BYTES: Final = 4 * 2**20
#: No count of GPUs, workers or drafts is larger.
LARGEST_COUNT: Final = 1_000_000
#: No KV cache holds more tokens.
LARGEST_KV_TOKENS: Final = 10**12
_COUNTS: Final = tuple(
    name for name, dtype in ROW_SCHEMA.items() if dtype == pl.Int64() and name != "source_row"
)  # fmt: skip


class FileRejectedError(Exception):
    """The whole file cannot be used. The message says why and, where it can, the line."""


@dataclass(frozen=True)
class InputFile:
    """A file as read: ``path`` is for messages, ``content`` is unpacked.

    ``beside`` holds other files of its folder that a format may read, ``sidecar`` what ``source.yaml``
    says of this file. ``given_as_run``: whoever asked for it said that it is a run of agents.
    """

    path: str
    content: bytes
    sha256: str
    beside: Mapping[str, bytes] = field(default_factory=dict)
    sidecar: Sidecar | None = None
    given_as_run: bool = False

    @property
    def is_agent_run(self) -> bool:
        """Whether a log of turns, which could be read as one standard row, is a run of agents."""
        return self.given_as_run or bool(self.sidecar and self.sidecar.agent_run)


@dataclass(frozen=True)
class Reading:
    """What one file says, or a slice of it: one row of ``ROW_SCHEMA`` for each data row, flagged ones included.

    ``agentic`` are its measured agent runs, of the shape of ``agentic.py``; they are in no other row.
    ``columns`` are the file's own names of fields, where they are known.
    """

    format: str
    tool: str
    tool_version: str | None
    rows: pl.DataFrame
    agentic: pl.DataFrame | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def rows_read(self) -> int:
        """Data rows of the slice."""
        return self.rows.height + (0 if self.agentic is None else self.agentic.height)


def as_rows(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame in the common shape: known columns in order and type, absent ones NULL.

    A count that is a fraction or beyond all counts is flagged, never cut.
    """
    limits = {name: LARGEST_KV_TOKENS if name == "kv_tokens" else LARGEST_COUNT for name in _COUNTS}
    frame = flag_rows(frame, [count_rule(name, most) for name, most in limits.items() if name in frame.columns])
    return frame.select(
        pl.col(name).cast(dtype, strict=False) if name in frame.columns else pl.lit(None, dtype).alias(name)
        for name, dtype in ROW_SCHEMA.items()
    )


def count_rule(name: str, largest: int = LARGEST_COUNT) -> Rule:
    """The column holds whole numbers of a size that can be."""
    value = pl.col(name)
    return Rule(
        "not_whole",
        (value != value.round()) | (value.abs() > largest),
        pl.format(name + f" is {{}}, must be a whole number up to {largest:,}", value),
    )
