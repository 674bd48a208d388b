"""Facts of a run: what ``source.yaml`` adds to what a file says, what need not be said, what is missing."""

from collections.abc import Mapping
from typing import Any, Final

import polars as pl

from schemas.dtypes import KV_DTYPES, WEIGHT_DTYPES
from schemas.fields import FIELDS
from schemas.moments import as_text
from schemas.sidecar import POOL_SHAPE, SHAPE, Sidecar
from transforms.serving_points.rules import Rule, flag_rows
from transforms.sources.rows import LARGEST_COUNT

#: Measured mean length over the nominal one that ``source.yaml`` names: lengths are drawn up to the
#: nominal (0.8 to 1 of it where a benchmark says "range 0.8"), or around it.
LENGTH_RANGE: Final = (0.75, 1.05)
#: A mean that ``source.yaml`` gives with two digits, over the file's own.
ROUNDED_RANGE: Final = (0.99, 1.01)

NAMES: Final = (
    "hardware", "prefill_hardware", "decode_hardware", "model", "weight_dtype", "linear_dtype", "expert_dtype",
    "kv_dtype", "attention_dtype", "backend", "backend_version", "serving_mode",
)  # fmt: skip
COUNTS: Final = ("replicas", *SHAPE, *POOL_SHAPE, "draft_tokens", "kv_tokens")
#: Mean length -> its nominal length.
LENGTHS: Final = {"isl_tokens": "isl_nominal_tokens", "osl_tokens": "osl_nominal_tokens"}
MEANS: Final = (*LENGTHS, "prefix_tokens", "concurrency_reported", "accepted_tokens")

_VOCABULARIES: Final[Mapping[str, tuple[str, ...]]] = {
    "weight_dtype": WEIGHT_DTYPES,
    "linear_dtype": WEIGHT_DTYPES,
    "expert_dtype": WEIGHT_DTYPES,
    "kv_dtype": KV_DTYPES,
    "attention_dtype": FIELDS["attention_dtype"].allowed or (),
    "serving_mode": FIELDS["serving_mode"].allowed or (),
}
_FOUR_BIT: Final = ("int4", "nvfp4", "mxfp4")
#: Words of formats -> bits of a number: our own, and those of checkpoints' names and engines' arguments.
BITS: Final[Mapping[str, int]] = {
    "bf16": 16, "fp16": 16, "bfloat16": 16, "float16": 16, "fp8": 8, "fp8-block": 8, "fp8_e4m3": 8, "fp8_e5m2": 8,
    "int8": 8, "w8a8": 8, "w8a16": 8, "int4": 4, "nvfp4": 4, "mxfp4": 4, "fp4": 4, "w4a16": 4, "w4a8": 4, "awq": 4,
}  # fmt: skip
#: Names that a file may give itself, and that are looked up in the catalogues.
_NAMED_IN_FILES: Final = ("hardware", "prefill_hardware", "decode_hardware", "model")
#: What only some formats name, and the guard compares with the sidecar.
STATED: Final = ("precision_name", "stated_kv_dtype", *(f"said_{name}" for name in _NAMED_IN_FILES))


def add_facts(runs: pl.DataFrame, sidecar: Sidecar | None) -> pl.DataFrame:
    """The runs with what the sidecar says, and flagged where the two disagree.

    Names are the sidecar's where it gives them: a file has the path or alias that a model was served
    under. A file that names another known model or GPU is found out where names are looked up
    (``said_model``, ``said_…_hardware``), another precision here. Figures, counts and dates are the file's; a
    length of the sidecar is the nominal one of a file that has its own.
    """
    said = sidecar.said if sidecar else {}
    c = pl.col
    numbers = [name for name in (*COUNTS, *MEANS) if name in said]
    rules = [_disagreement(name, float(said[name])) for name in numbers]
    runs = flag_rows(runs, [*rules, *_other_precisions(said)])
    return runs.with_columns(
        *(pl.lit(said[name], pl.String).alias(name) for name in NAMES if name in said and name not in _NAMED_IN_FILES),
        *(_own_name(name, said[name]) for name in _NAMED_IN_FILES if name in said),
        *(pl.lit(said[name], pl.String).alias(f"said_{name}") for name in _NAMED_IN_FILES if name in said),
        *(c(name).fill_null(float(said[name])) for name in numbers),
        *(
            pl.when(c(name) != float(said[name])).then(pl.lit(float(said[name]))).alias(nominal)
            for name, nominal in LENGTHS.items()
            if name in said
        ),
        *([c("measured_at").fill_null(as_text(said["measured_at"]))] if "measured_at" in said else []),
    )


def _disagreement(name: str, said: float) -> Rule:
    means = ROUNDED_RANGE if name in MEANS else (1 - 1e-9, 1 + 1e-9)
    low, high = LENGTH_RANGE if name in LENGTHS else means
    return Rule(
        "sidecar_disagrees",
        ~pl.col(name).is_between(low * said, high * said),
        pl.format(f"{name} is {{}} in the file, {said:g} in source.yaml", name),
    )


def _own_name(name: str, said: str) -> pl.Expr:
    """The name that the file gives, as it stands there; the sidecar's where it gives none."""
    return pl.col(name).fill_null(said).alias(name)


def _other_precisions(said: Mapping[str, Any]) -> list[Rule]:
    """Formats that the file itself names must be of the width that the sidecar gives.

    A file names them in ``precision_name`` and ``stated_kv_dtype``, and in the model's own name (``…-FP8``).
    """
    rules = []
    weights, cache = said.get("weight_dtype"), said.get("kv_dtype")
    if weights is not None:
        own = pl.coalesce(_bits_of_word("precision_name"), _bits_in_name("model"))
        rules.append(
            Rule(
                "sidecar_disagrees",
                own != BITS[weights],
                pl.format(
                    f"the file names weights of {{}} bits ({{}}), source.yaml says weight_dtype {weights}",
                    own, pl.coalesce("precision_name", "model"),
                ),
            )
        )  # fmt: skip
    if cache is not None:
        rules.append(
            Rule(
                "sidecar_disagrees",
                _bits_of_word("stated_kv_dtype") != BITS[cache],
                pl.format(f"the file names a KV cache of {{}}, source.yaml says {cache}", "stated_kv_dtype"),
            )
        )
    return rules


def _bits_of_word(column: str) -> pl.Expr:
    return pl.col(column).str.to_lowercase().replace_strict(BITS, default=None, return_dtype=pl.Int64)


def _bits_in_name(column: str) -> pl.Expr:
    """Bits of a weight that the last word of a format in a checkpoint's name says: ``…-70B-Instruct-FP8-dynamic``."""
    words = "|".join(sorted(BITS, key=len, reverse=True))
    found = pl.col(column).str.to_lowercase().str.extract_all(rf"[-_.](?:{words})(?:[-_.]|$)").list.last()
    return found.str.strip_chars("-_.").replace_strict(BITS, default=None, return_dtype=pl.Int64)


def fill_defaults(runs: pl.DataFrame) -> pl.DataFrame:
    """The runs with what nobody need say: dimensions of 1, no cached prefix, no drafts, and what follows."""
    c = pl.col
    pooled = pl.any_horizontal(c(name).is_not_null() for name in POOL_SHAPE)
    mode = pl.when(pooled).then(pl.lit("disagg")).otherwise(pl.lit("agg"))
    runs = runs.with_columns(serving_mode=c("serving_mode").fill_null(mode))
    disagg = c("serving_mode") == "disagg"
    ones = dict.fromkeys(("pp", "dp", "cp"), ~disagg)
    ones |= {f"{pool}_{name}": disagg for pool in ("prefill", "decode") for name in ("pp", "dp", "cp")}
    has_kv16 = c("kv_dtype").is_in(["bf16", "fp16"])
    no_drafts = c("draft_tokens").fill_null(0.0) == 0
    return runs.with_columns(
        *(c(name).fill_null(pl.when(holds).then(1.0)) for name, holds in ones.items()),
        replicas=c("replicas").fill_null(1.0),
        # a load that shares prefixes says nothing of what was found of them in the cache
        prefix_tokens=c("prefix_tokens").fill_null(pl.when(~c("shares_prefix").fill_null(False)).then(0.0)),
        # a run that says nothing of drafts had none; one that says what was accepted had some
        draft_tokens=c("draft_tokens").fill_null(pl.when(c("accepted_tokens").is_null()).then(0.0)),
        accepted_tokens=c("accepted_tokens").fill_null(pl.when(no_drafts).then(1.0)),
        # four-bit checkpoints of mixtures often keep their attention in 8 or 16 bits: that must be said
        linear_dtype=c("linear_dtype").fill_null(pl.when(~c("weight_dtype").is_in(_FOUR_BIT)).then("weight_dtype")),
        expert_dtype=pl.coalesce("expert_dtype", "weight_dtype"),
        # attention over a 16-bit cache computes in 16 bits
        attention_dtype=c("attention_dtype").fill_null(pl.when(has_kv16).then(pl.lit("bf16"))),
    )


def fact_rules() -> list[Rule]:
    """Formats and modes are words of the dictionary, replicas a whole number. The row checks its own counts."""
    replicas = pl.col("replicas")
    single, pooled = (pl.any_horizontal(pl.col(name).is_not_null() for name in names) for names in (SHAPE, POOL_SHAPE))
    return [
        Rule(
            "mixed_shape",
            pl.when(pl.col("serving_mode") == "disagg").then(single).otherwise(pooled),
            pl.format(
                "serving_mode is {} and the shape is not: tp, dp, ... are of an aggregated replica, prefill_tp,"
                " decode_tp, ... of a disaggregated one",
                "serving_mode",
            ),
        ),
        Rule(
            "not_whole",
            (replicas != replicas.round()) | ~replicas.is_between(1, LARGEST_COUNT),
            pl.format(f"replicas is {{}}, must be a whole number from 1 to {LARGEST_COUNT:,}", replicas),
        ),
        *(
            Rule(
                "unknown_dtype" if name.endswith("dtype") else "unknown_word",
                ~pl.col(name).is_in(list(words)),
                pl.format(name + " is '{}', not one of " + ", ".join(words), name),
            )
            for name, words in _VOCABULARIES.items()
        ),
    ]


def missing_facts_rule() -> Rule:
    """What neither the file nor the sidecar says, all of it in one sentence with what to write."""
    c = pl.col
    disagg = c("serving_mode") == "disagg"
    one_gpu = c("hardware").is_not_null()
    two_gpus = c("prefill_hardware").is_not_null() & c("decode_hardware").is_not_null()
    weights = c("weight_dtype").is_not_null()
    gaps = {
        "hardware: h200-sxm": ~one_gpu & ~two_gpus,
        "model: llama-3-1-70b": c("model").is_null(),
        "weight_dtype: fp8": c("linear_dtype").is_null() & ~weights,
        "linear_dtype: bf16": c("linear_dtype").is_null() & weights,
        "kv_dtype: fp8": c("kv_dtype").is_null(),
        "attention_dtype: bf16": c("attention_dtype").is_null() & c("kv_dtype").is_not_null(),
        "backend: vllm": c("backend").is_null(),
        "tp: 8": c("tp").is_null() & ~disagg,
        "prefill_workers: 2": c("prefill_workers").is_null() & disagg,
        "prefill_tp: 4": c("prefill_tp").is_null() & disagg,
        "decode_workers: 1": c("decode_workers").is_null() & disagg,
        "decode_tp: 8": c("decode_tp").is_null() & disagg,
        "draft_tokens: 3": c("draft_tokens").is_null(),
        "accepted_tokens: 1.6": c("accepted_tokens").is_null(),
        "prefix_tokens: 3000": c("prefix_tokens").is_null(),
        "isl_tokens: 4000": c("isl_tokens").is_null(),
        "osl_tokens: 1000": c("osl_tokens").is_null(),
    }
    lines = listed({f"`{line}`": gap for line, gap in gaps.items()})
    return Rule(
        "missing_value",
        pl.any_horizontal(gaps.values()),
        pl.format("the file does not say it; write into source.yaml beside it, with your own values: {}", lines),
    )


def listed(words: Mapping[str, pl.Expr]) -> pl.Expr:
    """The words whose condition holds, with commas."""
    shown = [pl.when(holds).then(pl.lit(word)) for word, holds in words.items()]
    return pl.concat_str(shown, separator=", ", ignore_nulls=True)
