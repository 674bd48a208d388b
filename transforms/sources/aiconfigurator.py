"""AIConfigurator tables: ``pareto.csv``, ``best_config_topn.csv`` and candidate frames, agg and disagg.

Latencies are ms, figures are of one replica, ``isl`` contains the cached ``prefix``, tokens are
output tokens: agg ``tokens/s = seq/s * (osl - 1)``, disagg ``tokens/s = seq/s * osl``. Rates are
taken from ``tokens/s/gpu`` or ``tokens/s``, because ``seq/s`` is rounded to three decimals.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

import polars as pl

from transforms.serving_points.rules import Rule, flag_rows, rounding_error
from transforms.sources.aiconfigurator_columns import ATTENTION, KV, WEIGHTS, is_disaggregated, release
from transforms.sources.aiconfigurator_drafts import Drafts, add_drafts, drafts_beside
from transforms.sources.csv_table import check_header, open_csv
from transforms.sources.parquet_table import is_parquet, parquet_columns, parquet_slices
from transforms.sources.rows import SLICE_BYTES, FileRejectedError, InputFile, Reading, as_rows
from transforms.sources.text import header_of

NAME: Final = "aiconfigurator"
GIB: Final = 2.0**30
#: How far figures that print the same number are apart, besides their rounding.
EXACT_TOLERANCE: Final = 1e-3
#: What the columns of a field are called in the file.
_OWN_NAMES: Final = {
    "isl_tokens": "isl", "osl_tokens": "osl", "prefix_tokens": "prefix", "concurrency_reported": "concurrency",
    "ttft_ms": "ttft", "tpot_ms": "tpot", "request_latency_ms": "request_latency",
    "tokens_per_s_per_user": "tokens/s/user", "output_tokens_per_s_per_gpu": "tokens/s/gpu",
    "requests_per_s": "tokens/s",
}  # fmt: skip
_POOLS: Final = {"(p)": "prefill", "(d)": "decode"}
#: Columns that every table of a mode has: numbers and texts.
_AGG_NUMBERS: Final = (
    "isl", "osl", "concurrency", "bs", "ttft", "tpot", "tokens/s", "tokens/s/gpu", "tokens/s/user",
    "num_total_gpus", "tp", "pp", "dp", "moe_tp", "moe_ep",
)  # fmt: skip
_AGG_TEXTS: Final = ("model", "system", "backend", "gemm", "moe", "kvcache", "fmha")
_DISAGG_NUMBERS: Final = (
    "isl", "osl", "concurrency", "ttft", "tpot", "tokens/s", "tokens/s/gpu", "tokens/s/user", "num_total_gpus",
    *(f"{pool}{name}" for pool in _POOLS for name in ("tp", "pp", "dp", "moe_tp", "moe_ep", "workers", "bs")),
)  # fmt: skip
_DISAGG_TEXTS: Final = (
    "model",
    *(f"{pool}{name}" for pool in _POOLS for name in ("gemm", "moe", "kvcache", "fmha", "system", "backend")),
)
_DRAFTS: Final = ("nextn", "nextn_accepted")
#: Up to here ``tokens/s/gpu`` says what ``tokens/s`` says, and rows that tie in it must tie here.
TIE_TOLERANCE: Final = 1e-5


def recognises(file: InputFile) -> bool:
    """A CSV or a Parquet file whose columns have AIConfigurator's names."""
    header = set(parquet_columns(file.content) if is_parquet(file.content) else header_of(file.content))
    return {"ttft", "tpot", "tokens/s/user", "num_total_gpus", "isl", "osl"} <= header


def read(file: InputFile, slice_bytes: int = SLICE_BYTES) -> Iterator[Reading]:
    """The rows of the file, a slice at a time.

    Raises ``FileRejectedError`` for tables of another kind, and for unknown and missing columns.
    """
    if is_parquet(file.content):
        columns, slices = set(parquet_columns(file.content)), _parquet(file, slice_bytes)
    else:
        table = open_csv(file.content)
        columns, slices = set(table.header), table.slices(slice_bytes)
    disagg = is_disaggregated(columns)
    _check_columns(columns, (*_DISAGG_NUMBERS, *_DISAGG_TEXTS) if disagg else (*_AGG_NUMBERS, *_AGG_TEXTS))
    drafts = drafts_beside(file.beside)
    for raw in slices:
        rows = _disagg_rows(raw, drafts) if disagg else _agg_rows(raw, drafts)
        yield Reading(NAME, "AIConfigurator", release(columns, disagg), as_rows(rows), columns=_OWN_NAMES)


def _parquet(file: InputFile, slice_bytes: int) -> Iterator[pl.DataFrame]:
    """The cells as a CSV has them: text."""

    def every(names: list[str]) -> list[str]:
        check_header(names)
        return names

    for cells in parquet_slices(file.content, every, slice_bytes):
        yield cells.with_columns(pl.exclude("source_row").cast(pl.String))


def _check_columns(present: Collection[str], needed: Collection[str]) -> None:
    missing = [name for name in needed if name not in present]
    if missing:
        raise FileRejectedError(f"the column {missing[0]!r} of an AIConfigurator table is missing")


def _agg_rows(raw: pl.DataFrame, drafts: Drafts | None) -> pl.DataFrame:
    optional = {"prefix": 0.0, "cp": 1.0, "encoder_latency": 0.0}
    stated = ("request_latency", "memory", "ctx_tokens", "seq/s", *_DRAFTS)
    frame = add_drafts(_with_numbers(raw, _AGG_NUMBERS, optional, stated), drafts)
    frame = _with_texts(frame, _AGG_TEXTS)
    frame = flag_rows(frame, [*_dtype_rules({"gemm": WEIGHTS, "moe": WEIGHTS, "kvcache": KV, "fmha": ATTENTION}),
                              _encoder_rule(disagg=False)])  # fmt: skip
    return frame.with_columns(
        **_shared_columns(tokens_per_request=pl.col("osl") - 1),
        serving_mode=pl.lit("agg"),
        hardware_name="system",
        prefill_hardware_name="system",
        decode_hardware_name="system",
        linear_dtype=_translated("gemm", WEIGHTS),
        expert_dtype=_translated("moe", WEIGHTS),
        kv_dtype=_translated("kvcache", KV),
        attention_dtype=_translated("fmha", ATTENTION),
        backend_version=_text_or_null(raw, "version"),
        batch_per_rank="bs",
        context_tokens_per_step="ctx_tokens",
        context_requests_per_step=pl.col("ctx_tokens") / pl.col("isl"),
        memory_bytes_per_gpu=pl.col("memory") * GIB,
    )


def _disagg_rows(raw: pl.DataFrame, drafts: Drafts | None) -> pl.DataFrame:
    optional = {"prefix": 0.0, "(p)cp": 1.0, "(d)cp": 1.0, "encoder_latency": 0.0, "(e)workers": 0.0}
    stated = ("request_latency", "(p)memory", "(d)memory", "seq/s", *_DRAFTS)
    frame = add_drafts(_with_numbers(raw, _DISAGG_NUMBERS, optional, stated), drafts)
    frame = _with_texts(frame, _DISAGG_TEXTS)
    if "backend" not in frame.columns:
        frame = frame.with_columns(backend="(d)backend")
    vocabularies = {"gemm": WEIGHTS, "moe": WEIGHTS, "kvcache": KV, "fmha": ATTENTION}
    frame = flag_rows(
        frame,
        [
            *_dtype_rules({f"{pool}{name}": words for pool in _POOLS for name, words in vocabularies.items()}),
            _encoder_rule(disagg=True),
            *(_same_in_both_pools(name) for name in ("gemm", "moe", "kvcache", "backend")),
            # `backend=auto` writes it again, at the end of the row
            Rule("pools_differ", pl.col("backend") != pl.col("(d)backend"),
                 pl.format("the row is of backend {}, its pools of {}", "backend", "(d)backend")),
        ],
    )  # fmt: skip
    return frame.with_columns(
        **_shared_columns(tokens_per_request=pl.col("osl")),
        **{f"{word}_{name}": pl.col(f"{pool}{name}") for pool, word in _POOLS.items()
           for name in ("workers", "tp", "pp", "dp", "cp", "moe_tp", "moe_ep")},
        **{f"{word}_batch": pl.col(f"{pool}bs") for pool, word in _POOLS.items()},
        serving_mode=pl.lit("disagg"),
        hardware_name=pl.when(pl.col("(p)system") == pl.col("(d)system"))
        .then("(p)system")
        .otherwise(pl.concat_str("(p)system", pl.lit(" and "), "(d)system")),
        prefill_hardware_name="(p)system",
        decode_hardware_name="(d)system",
        linear_dtype=_translated("(d)gemm", WEIGHTS),
        expert_dtype=_translated("(d)moe", WEIGHTS),
        kv_dtype=_translated("(d)kvcache", KV),
        attention_dtype=_translated("(p)fmha", ATTENTION),
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
        "requests_per_s": _tokens_per_s() / tokens_per_request,
        "tokens_per_s_per_user": pl.col("tokens/s/user"),
        "stated_gpus": pl.col("num_total_gpus"),
        "stated_tokens_per_s_per_gpu": pl.col("tokens/s/gpu"),
        "stated_requests_per_s": pl.col("seq/s"),
        "latency_statistic": pl.lit("mean"),
    }


def _tokens_per_s() -> pl.Expr:
    """``tokens/s``, by way of ``tokens/s/gpu`` where three decimals of that are enough.

    Tables rank by the figure per GPU: replicas of different sizes that tie in it differ by the rounding
    of ``tokens/s``, and one would beat the other.
    """
    per_gpu = pl.col("tokens/s/gpu") * pl.col("num_total_gpus")
    same = ((per_gpu / pl.col("tokens/s") - 1).abs() <= TIE_TOLERANCE).fill_null(False)
    return pl.when(same).then(per_gpu).otherwise("tokens/s")


def _tpot_is_inclusive() -> pl.Expr:
    """Rows written with inclusive TPOT: ``(ttft + tpot*(osl-1))/osl`` stands where TPOT should.

    Then the latency is TPOT times OSL, and the TPOT within the latency, not the stated one, agrees with
    the speed (tokens/s/user, which keeps its meaning). Both to what three decimals allow.
    """
    c = pl.col
    recovered = (c("request_latency") - c("ttft")) / (c("osl") - 1)
    speed = c("tokens/s/user")
    tolerance = EXACT_TOLERANCE + rounding_error("tpot") + rounding_error("tokens/s/user")
    stated_fits = (c("tpot") * speed / 1e3 - 1).abs() <= tolerance
    recovered_fits = (recovered * speed / 1e3 - 1).abs() <= tolerance
    inclusive_fits = (c("request_latency") / c("osl") / c("tpot") - 1).abs() <= tolerance
    return (~stated_fits & inclusive_fits & recovered_fits).fill_null(False)


def _with_numbers(
    raw: pl.DataFrame, required: tuple[str, ...], optional: Mapping[str, float], stated: tuple[str, ...]
) -> pl.DataFrame:
    """Text to numbers. A required cell that is empty or no number flags its row; so does a filled
    optional one that is none. An absent optional column has the value that the releases before it meant."""
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


def _encoder_rule(disagg: bool) -> Rule:
    used = (pl.col("encoder_latency") > 0) | (pl.col("(e)workers") > 0 if disagg else pl.lit(False))
    return Rule("encoder_stage", used, pl.lit("the row has an encoder stage (image input)"))


def _same_in_both_pools(name: str) -> Rule:
    return Rule(
        "pools_differ",
        pl.col(f"(p){name}") != pl.col(f"(d){name}"),
        pl.format(name + " is {} in the prefill pool and {} in the decode pool", f"(p){name}", f"(d){name}"),
    )
