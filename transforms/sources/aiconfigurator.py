"""AIConfigurator tables: ``pareto.csv``, ``best_config_topn.csv`` and candidate frames, agg and disagg.

Latencies are ms, figures are of one replica, ``isl`` contains the cached ``prefix``, tokens are
output tokens: agg ``tokens/s = seq/s * (osl - 1)``, disagg ``tokens/s = seq/s * osl``. Rates are
taken from ``tokens/s``, because ``seq/s`` is rounded to three decimals.
"""

from collections.abc import Mapping
from typing import Final

import polars as pl

from transforms.rules import Rule, flag_rows
from transforms.sources.rows import FileRejectedError, InputFile, Reading, as_rows
from transforms.sources.text import header_of, read_csv

NAME: Final = "aiconfigurator"
GIB: Final = 2.0**30

_SHARED: Final = frozenset({
    "model", "isl", "osl", "prefix", "concurrency", "request_rate", "ttft", "tpot", "request_latency",
    "encoder_latency", "seq/s", "seq/s/gpu", "tokens/s", "tokens/s/gpu", "tokens/s/user", "num_total_gpus",
    "power_w", "tokens/s/gpu_cluster", "backend",
})  # fmt: skip
_AGG: Final = _SHARED | {
    "bs", "global_bs", "encoder_memory", "tp", "pp", "dp", "moe_tp", "moe_ep", "cp", "parallel", "gemm", "kvcache",
    "fmha", "moe", "comm", "memory", "balance_score", "num_ctx_reqs", "num_gen_reqs", "num_tokens", "ctx_tokens",
    "gen_tokens", "version", "system",
}  # fmt: skip
_WORKER: Final = (
    "bs", "global_bs", "workers", "seq/s/worker", "tp", "pp", "dp", "moe_tp", "moe_ep", "cp", "parallel", "gemm",
    "kvcache", "fmha", "moe", "comm", "memory", "backend", "version", "system",
)  # fmt: skip
_DISAGG: Final = _SHARED | {f"({pool}){name}" for pool in "pd" for name in _WORKER} | {
    f"(e){name}" for name in ("workers", "tp", "pp", "bs", "parallel", "memory")
}  # fmt: skip

#: What AIConfigurator calls a number format -> what it stores.
_WEIGHTS: Final = {
    "bfloat16": "bf16", "float16": "fp16", "int8_wo": "int8", "sq": "int8", "int4_wo": "int4", "w4afp8": "int4",
    "fp8": "fp8", "fp8_static": "fp8", "fp8_ootb": "fp8", "fp8_block": "fp8-block",
    "nvfp4": "nvfp4", "nvfp4_wo": "nvfp4", "w4a16_nvfp4": "nvfp4",
    "w4a16_mxfp4": "mxfp4", "w4a8_mxfp4_mxfp8": "mxfp4", "w4a8_mxfp4_mxfp8_trtllm": "mxfp4",
    "w4a16_mxfp4_cutlass": "mxfp4",
}  # fmt: skip
_KV: Final = {"bfloat16": "bf16", "float16": "fp16", "fp8": "fp8", "int8": "int8"}
_ATTENTION: Final = {"bfloat16": "bf16", "float16": "bf16", "fp8": "fp8", "fp8_block": "fp8"}


def recognises(file: InputFile) -> bool:
    """A CSV whose header has AIConfigurator's names."""
    header = set(header_of(file.content))
    return {"ttft", "tpot", "tokens/s/user", "num_total_gpus", "isl", "osl"} <= header


def read(file: InputFile) -> Reading:
    """The rows of the file. Raises ``FileRejectedError`` for AFD and encoder tables and unknown columns."""
    raw = read_csv(file.content)
    columns = set(raw.columns) - {"source_row", "raw", "reason", "detail"}
    if "(f)workers" in columns or "(a)nodes" in columns:
        raise FileRejectedError("an attention/FFN-disaggregated (AFD) table; this kind of deployment is not supported")
    if "(a)workers" in columns:
        raise FileRejectedError("a table with separate encoder workers (EPD); this kind of deployment is not supported")
    disagg = "(p)workers" in columns
    unknown = columns - (_DISAGG if disagg else _AGG)
    if unknown:
        names = ", ".join(repr(name) for name in sorted(unknown))
        raise FileRejectedError(f"the meaning of column {names} is not known in an AIConfigurator table; remove it")
    rows = _disagg_rows(raw) if disagg else _agg_rows(raw)
    return Reading(NAME, "AIConfigurator", _release(columns, disagg), as_rows(rows))


def _agg_rows(raw: pl.DataFrame) -> pl.DataFrame:
    numbers = (
        "isl", "osl", "concurrency", "bs", "ttft", "tpot", "tokens/s", "tokens/s/gpu", "tokens/s/user",
        "num_total_gpus", "tp", "pp", "dp", "moe_tp", "moe_ep",
    )  # fmt: skip
    optional = {"prefix": 0.0, "cp": 1.0, "encoder_latency": 0.0}
    stated = ("request_latency", "memory", "ctx_tokens")
    frame = _with_numbers(raw, numbers, optional, stated)
    texts = ("model", "system", "backend", "gemm", "moe", "kvcache", "fmha")
    frame = _with_texts(frame, texts)
    frame = flag_rows(frame, [*_dtype_rules({"gemm": _WEIGHTS, "moe": _WEIGHTS, "kvcache": _KV, "fmha": _ATTENTION}),
                              _encoder_rule()])  # fmt: skip
    return frame.with_columns(
        **_shared_columns(tokens_per_request=pl.col("osl") - 1),
        serving_mode=pl.lit("agg"),
        hardware_name="system",
        prefill_hardware_name="system",
        decode_hardware_name="system",
        linear_dtype=_translated("gemm", _WEIGHTS),
        expert_dtype=_translated("moe", _WEIGHTS),
        kv_dtype=_translated("kvcache", _KV),
        attention_dtype=_translated("fmha", _ATTENTION),
        backend_version=_text_or_null(raw, "version"),
        batch_per_rank="bs",
        context_tokens_per_step="ctx_tokens",
        context_requests_per_step=pl.col("ctx_tokens") / pl.col("isl"),
        memory_bytes_per_gpu=pl.col("memory") * GIB,
    )


def _disagg_rows(raw: pl.DataFrame) -> pl.DataFrame:
    pools = {"(p)": "prefill", "(d)": "decode"}
    numbers = ("isl", "osl", "concurrency", "ttft", "tpot", "tokens/s", "tokens/s/gpu", "tokens/s/user",
               "num_total_gpus")  # fmt: skip
    shape = ("tp", "pp", "dp", "moe_tp", "moe_ep", "workers", "bs")
    pooled = tuple(f"{pool}{name}" for pool in pools for name in shape)
    optional = {"prefix": 0.0, "(p)cp": 1.0, "(d)cp": 1.0, "encoder_latency": 0.0, "(e)workers": 0.0}
    frame = _with_numbers(raw, (*numbers, *pooled), optional, ("request_latency", "(p)memory", "(d)memory"))
    texts = ("gemm", "moe", "kvcache", "fmha", "system", "backend")
    frame = _with_texts(frame, ("model", *(f"{pool}{name}" for pool in pools for name in texts)))
    vocabularies = {"gemm": _WEIGHTS, "moe": _WEIGHTS, "kvcache": _KV, "fmha": _ATTENTION}
    frame = flag_rows(
        frame,
        [
            *_dtype_rules({f"{pool}{name}": words for pool in pools for name, words in vocabularies.items()}),
            _encoder_rule(),
            *(_same_in_both_pools(name) for name in ("gemm", "moe", "kvcache", "backend")),
        ],
    )
    return frame.with_columns(
        **_shared_columns(tokens_per_request=pl.col("osl")),
        **{f"{word}_{name}": pl.col(f"{pool}{name}") for pool, word in pools.items()
           for name in ("workers", "tp", "pp", "dp", "cp", "moe_tp", "moe_ep")},
        **{f"{word}_batch": pl.col(f"{pool}bs") for pool, word in pools.items()},
        serving_mode=pl.lit("disagg"),
        hardware_name=pl.when(pl.col("(p)system") == pl.col("(d)system"))
        .then("(p)system")
        .otherwise(pl.concat_str("(p)system", pl.lit(" and "), "(d)system")),
        prefill_hardware_name="(p)system",
        decode_hardware_name="(d)system",
        linear_dtype=_translated("(d)gemm", _WEIGHTS),
        expert_dtype=_translated("(d)moe", _WEIGHTS),
        kv_dtype=_translated("(d)kvcache", _KV),
        attention_dtype=_translated("(p)fmha", _ATTENTION),
        backend="(d)backend",
        backend_version=_text_or_null(raw, "(d)version"),
        batch_per_rank="(d)bs",
        memory_bytes_per_gpu=pl.max_horizontal("(p)memory", "(d)memory") * GIB,
    )  # fmt: skip


def _shared_columns(tokens_per_request: pl.Expr) -> dict[str, pl.Expr]:
    """Columns that both modes give in the same way, except for what ``tokens/s`` counts."""
    decode_ms = (pl.col("request_latency") - pl.col("ttft")) / (pl.col("osl") - 1)
    inclusive = _tpot_is_inclusive()
    return {
        "source": pl.lit(NAME),
        "model_name": pl.col("model"),
        "isl_tokens": pl.col("isl"),
        "osl_tokens": pl.col("osl"),
        "prefix_tokens": pl.col("prefix"),
        "concurrency_reported": pl.col("concurrency"),
        "ttft_ms": pl.col("ttft"),
        "tpot_ms": pl.when(inclusive).then(decode_ms).otherwise("tpot"),
        "tpot_source": pl.when(inclusive).then(pl.lit("recovered")).otherwise(pl.lit("reported")),
        "request_latency_ms": pl.coalesce("request_latency", pl.col("ttft") + pl.col("tpot") * (pl.col("osl") - 1)),
        "requests_per_s": pl.col("tokens/s") / tokens_per_request,
        "tokens_per_s_per_user": pl.col("tokens/s/user"),
        "stated_gpus": pl.col("num_total_gpus"),
        "stated_tokens_per_s_per_gpu": pl.col("tokens/s/gpu"),
        "latency_statistic": pl.lit("mean"),
        "draft_tokens": pl.lit(0),
        "accepted_tokens": pl.lit(1.0),
    }


def _tpot_is_inclusive() -> pl.Expr:
    """Rows written with inclusive TPOT: ``(ttft + tpot*(osl-1))/osl`` stands where TPOT should.

    Then tpot * tokens/s/user is not 1000 (beyond 1 %: both carry three decimals), while the
    latency's own TPOT agrees with the speed.
    """
    recovered = (pl.col("request_latency") - pl.col("ttft")) / (pl.col("osl") - 1)
    speed = pl.col("tokens/s/user") / 1000
    stated_fits = (pl.col("tpot") * speed - 1).abs() <= 0.01
    inclusive_fits = (pl.col("request_latency") / pl.col("osl") / pl.col("tpot") - 1).abs() <= 0.01
    return (~stated_fits & inclusive_fits & ((recovered * speed - 1).abs() <= 0.01)).fill_null(False)


def _with_numbers(
    raw: pl.DataFrame, required: tuple[str, ...], optional: Mapping[str, float], stated: tuple[str, ...]
) -> pl.DataFrame:
    """Text to numbers. A required cell that is empty or no number flags its row; so does a filled
    optional one that is none. An absent optional column has the value that the releases before it meant."""
    missing = [name for name in required if name not in raw.columns]
    if missing:
        raise FileRejectedError(f"the column {missing[0]!r} of an AIConfigurator table is missing")
    present = [name for name in (*required, *optional, *stated) if name in raw.columns]
    rules = [
        *(Rule("missing_value", pl.col(name).is_null(), pl.lit(f"{name} is empty")) for name in required),
        *(
            Rule(
                "not_a_number",
                pl.col(name).is_not_null() & ~pl.col(name).cast(pl.Float64, strict=False).is_finite().fill_null(False),
                pl.format(name + " is {}", pl.col(name).fill_null("empty")),
            )
            for name in present
        ),
    ]
    frame = flag_rows(raw, rules)
    absent = {name: pl.lit(default) for name, default in optional.items() if name not in raw.columns}
    absent |= {name: pl.lit(None, pl.Float64) for name in stated if name not in raw.columns}
    return frame.with_columns(
        *(_finite_or_null(name).fill_null(optional[name]) if name in optional else _finite_or_null(name)
          for name in present),
        **absent,
    )  # fmt: skip


def _with_texts(frame: pl.DataFrame, names: tuple[str, ...]) -> pl.DataFrame:
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise FileRejectedError(f"the column {missing[0]!r} of an AIConfigurator table is missing")
    return flag_rows(
        frame, [Rule("missing_value", pl.col(name).is_null(), pl.lit(f"{name} is empty")) for name in names]
    )


def _finite_or_null(name: str) -> pl.Expr:
    value = pl.col(name).cast(pl.Float64, strict=False)
    return pl.when(value.is_finite()).then(value).alias(name)


def _translated(name: str, words: Mapping[str, str]) -> pl.Expr:
    return pl.col(name).replace_strict(words, default=None, return_dtype=pl.String)


def _text_or_null(raw: pl.DataFrame, name: str) -> pl.Expr:
    return pl.col(name) if name in raw.columns else pl.lit(None, pl.String)


def _dtype_rules(columns: Mapping[str, Mapping[str, str]]) -> list[Rule]:
    return [
        Rule(
            "unknown_dtype",
            ~pl.col(name).is_in(list(words)),
            pl.format(name + " is '{}', not one of " + ", ".join(words), pl.col(name).fill_null("empty")),
        )
        for name, words in columns.items()
    ]


def _encoder_rule() -> Rule:
    return Rule("encoder_stage", pl.col("encoder_latency") > 0, pl.lit("the row has an encoder stage (image input)"))


def _same_in_both_pools(name: str) -> Rule:
    return Rule(
        "pools_differ",
        pl.col(f"(p){name}") != pl.col(f"(d){name}"),
        pl.format(name + " is {} in the prefill pool and {} in the decode pool", f"(p){name}", f"(d){name}"),
    )


def _release(columns: set[str], disagg: bool) -> str:
    """The releases that write these columns."""
    if disagg and "(e)bs" in columns:
        return "0.12"
    marks = {"(p)cp" if disagg else "cp": "0.10-0.12", "request_latency": "0.5-0.9", "prefix": "0.4"}
    return next((release for mark, release in marks.items() if mark in columns), "0.1-0.3")
