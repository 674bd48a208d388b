"""Columns and words of AIConfigurator tables, releases 0.1 to 0.12."""

from collections.abc import Set
from typing import Final

from transforms.sources.rows import FileRejectedError
from transforms.sources.text import listed

_SHARED: Final = frozenset({
    "model", "isl", "osl", "prefix", "concurrency", "request_rate", "ttft", "tpot", "request_latency",
    "encoder_latency", "seq/s", "seq/s/gpu", "tokens/s", "tokens/s/gpu", "tokens/s/user", "num_total_gpus",
    "power_w", "tokens/s/gpu_cluster", "backend", "nextn", "nextn_accepted",
    "database_mode",  # of the tables that this project asks for
})  # fmt: skip
AGG_COLUMNS: Final = _SHARED | {
    "bs", "global_bs", "encoder_memory", "tp", "pp", "dp", "moe_tp", "moe_ep", "cp", "parallel", "gemm", "kvcache",
    "fmha", "moe", "comm", "memory", "balance_score", "num_ctx_reqs", "num_gen_reqs", "num_tokens", "ctx_tokens",
    "gen_tokens", "version", "system",
}  # fmt: skip
_WORKER: Final = (
    "bs", "global_bs", "workers", "seq/s/worker", "tp", "pp", "dp", "moe_tp", "moe_ep", "cp", "parallel", "gemm",
    "kvcache", "fmha", "moe", "comm", "memory", "backend", "version", "system",
)  # fmt: skip
DISAGG_COLUMNS: Final = _SHARED | {f"({pool}){name}" for pool in "pd" for name in _WORKER} | {
    f"(e){name}" for name in ("workers", "tp", "pp", "bs", "parallel", "memory")
}  # fmt: skip

#: Tables of the same tool that hold no serving points of a kind that can be used: a column -> what they are.
_REFUSED: Final = {
    "(f)workers": "an attention/FFN-disaggregated (AFD) table; this kind of deployment is not supported",
    "(a)nodes": "an attention/FFN-disaggregated (AFD) table; this kind of deployment is not supported",
    "(a)workers": "a table with separate encoder workers (EPD); this kind of deployment is not supported",
    "context_latency": "a static table: the times of one batch by itself, not of a service under load",
}

#: What AIConfigurator calls a number format -> what it stores.
WEIGHTS: Final = {
    "bfloat16": "bf16", "float16": "fp16", "int8_wo": "int8", "sq": "int8", "int4_wo": "int4", "w4afp8": "int4",
    "fp8": "fp8", "fp8_static": "fp8", "fp8_ootb": "fp8", "fp8_block": "fp8-block",
    "nvfp4": "nvfp4", "nvfp4_wo": "nvfp4", "w4a16_nvfp4": "nvfp4",
    "w4a16_mxfp4": "mxfp4", "w4a8_mxfp4_mxfp8": "mxfp4", "w4a8_mxfp4_mxfp8_trtllm": "mxfp4",
    "w4a16_mxfp4_cutlass": "mxfp4",
}  # fmt: skip
KV: Final = {"bfloat16": "bf16", "float16": "fp16", "fp8": "fp8", "int8": "int8"}
ATTENTION: Final = {"bfloat16": "bf16", "float16": "bf16", "fp8": "fp8", "fp8_block": "fp8"}


def is_disaggregated(columns: Set[str]) -> bool:
    """Whether the table is of disaggregated replicas.

    Raises ``FileRejectedError`` for a kind of table that cannot be used and for a column that no release has.
    """
    for column, kind in _REFUSED.items():
        if column in columns:
            raise FileRejectedError(kind)
    disagg = "(p)workers" in columns
    unknown = sorted(columns - (DISAGG_COLUMNS if disagg else AGG_COLUMNS))
    if unknown:
        names = listed(unknown)
        raise FileRejectedError(f"the meaning of column {names} is not known in an AIConfigurator table; remove it")
    return disagg


def release(columns: Set[str], disagg: bool) -> str:
    """The releases that write these columns."""
    if disagg and "(e)bs" in columns:
        return "0.12"
    marks = {"(p)cp" if disagg else "cp": "0.10-0.12", "request_latency": "0.5-0.9", "prefix": "0.4"}
    return next((release for mark, release in marks.items() if mark in columns), "0.1-0.3")
