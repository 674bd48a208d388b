"""InferenceX results: rows of the dashboard's API, and the ``agg_*.json`` of its runs. Latencies are SECONDS.

``tput_per_gpu`` counts input and output; in a disaggregated row output is divided by the GPUs that decode and
input by those that prefill. ``isl`` and ``osl`` are nominal: lengths are drawn below them, and everything here
is brought to the mean of the draw (``isl_tokens``, ``osl_tokens``), with the nominal ones beside it. ``intvty``
is 1/TPOT. Agent runs (``scenario_type`` agentic) are read by ``inferencex_agentic``.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import polars as pl

from schemas.sidecar import Sidecar
from transforms.sources.agentic import AGENTIC_SCHEMA
from transforms.sources.inferencex_agentic import agentic_row, flattened, is_agentic
from transforms.sources.inferencex_facts import MEAN_SHARES
from transforms.sources.inferencex_row import identity_of
from transforms.sources.inferencex_shape import Shape
from transforms.sources.json_text import JsonFile, looks_like_json, read_json
from transforms.sources.measured import as_serving_rows, runs_frame
from transforms.sources.record import Record, as_json, ratio
from transforms.sources.rows import SLICE_BYTES, FileRejectedError, InputFile, Reading

NAME: Final = "inferencex"

#: Bytes of a row of the dashboard's API.
_ROW_BYTES: Final = 1024
#: Output by latency over nominal output may be this far from the mean of the draw: samples of 40 requests and
#: more with means; sums of medians are of no one request.
LENGTH_TOLERANCE: Final = {"mean": 0.055, "p50": 0.25}
#: Throughput per GPU against its parts, and input against output by their lengths (0.975-1.035 in 1,850 rows).
RATE_TOLERANCE: Final = 0.01
BALANCE_TOLERANCE: Final = 0.05
_STATISTICS: Final = (("mean", "mean"), ("median", "p50"))


def recognises(file: InputFile) -> bool:
    """JSON whose first row has InferenceX's hardware and framework, and its metrics or throughput."""
    if not looks_like_json(file.content):
        return False
    try:
        rows = _rows(read_json(file.content))
    except FileRejectedError:
        return False
    return any(isinstance(row, Mapping) and _is_row(row) for row in rows[:1])


def read(file: InputFile, slice_bytes: int = SLICE_BYTES) -> Iterator[Reading]:
    """Fixed-length rows and agent runs of the file, a slice at a time. Raises ``FileRejectedError``."""
    rows = _rows(read_json(file.content))
    at_once = max(1, slice_bytes // _ROW_BYTES)
    for begin in range(0, len(rows), at_once):
        yield _reading(rows[begin : begin + at_once], begin + 1, file.sidecar)


def _reading(rows: Sequence[object], first: int, sidecar: Sidecar | None) -> Reading:
    """Some rows of a file, counted from ``first``."""
    fixed: list[dict[str, object]] = []
    extra: list[dict[str, object]] = []
    agentic: list[dict[str, object]] = []
    for number, row in enumerate(rows, first):
        if not isinstance(row, Mapping):
            fixed.append({"source_row": number, "raw": as_json({"row": row})[:1000], "reason": "not_json",
                          "detail": f"row {number} is no JSON object"})  # fmt: skip
            extra.append({})
            continue
        values = _flat(row)
        if is_agentic(values):
            agentic.append(agentic_row(values, number, sidecar))
            continue
        columns, beside = _fixed_row(values, number, sidecar)
        fixed.append(columns)
        extra.append(beside)
    own = pl.DataFrame(extra, schema=_BESIDE, orient="row")
    served = as_serving_rows(runs_frame(fixed).hstack(own.select("model_alias")), NAME, sidecar)
    found = pl.DataFrame(agentic, schema=AGENTIC_SCHEMA, orient="row") if agentic else None
    return Reading(NAME, "InferenceX", None, _with_own_words(served, own, sidecar), found)


def _with_own_words(served: pl.DataFrame, own: pl.DataFrame, sidecar: Sidecar | None) -> pl.DataFrame:
    """The rows with what each says for itself, where ``source.yaml`` speaks for the whole file at most."""
    served = served.with_columns(
        **{name: own[name] for name in ("backend_name", "kv_dtype_source")},
        measured_at=own["measured_at"].fill_null(served["measured_at"]),
    )
    if sidecar is not None and sidecar.accepted_tokens is not None:
        return served
    # a run that drafted says neither how many tokens nor how many of them came out
    return served.with_columns(
        pl.when(own["drafted"].not_()).then(name).alias(name) for name in ("draft_tokens", "accepted_tokens")
    )


_BESIDE: Final[dict[str, pl.DataType]] = {
    "model_alias": pl.String(), "measured_at": pl.String(), "backend_name": pl.String(),
    "kv_dtype_source": pl.String(), "drafted": pl.Boolean(),
}  # fmt: skip


def _rows(file: JsonFile) -> Sequence[object]:
    """The rows of a list, of one object that is a row, or of the lists in an object."""
    values = [document.value for document in file.documents]
    first = values[0] if len(values) == 1 else None
    if isinstance(first, Mapping) and not _is_row(first):
        inner = [row for value in first.values() if isinstance(value, list) for row in value]
        if inner:
            return inner
    return values


def _is_row(row: Mapping[str, Any]) -> bool:
    hardware = "hw" in row or "hardware" in row
    return hardware and "framework" in row and (
        isinstance(row.get("metrics"), Mapping)
        or isinstance(row.get("request_metrics"), Mapping)
        or any(key.endswith(("_per_gpu", "_tpot", "_ttft", "_tps")) for key in row)
    )  # fmt: skip


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the API in the keys of an ``agg_*.json``, metrics beside the rest."""
    metrics = row.get("metrics")
    values = {**row, **metrics} if isinstance(metrics, Mapping) else dict(row)
    values.pop("metrics", None)
    if "hw" not in values:
        values["hw"] = values.pop("hardware", None)
    if "spec_decoding" not in values:
        values["spec_decoding"] = values.pop("spec_method", None)
    return flattened(values)


def _fixed_row(
    values: dict[str, Any], number: int, sidecar: Sidecar | None
) -> tuple[dict[str, object], dict[str, object]]:
    """The run's columns, and those beside them."""
    run = Record(values)
    identity = identity_of(run, sidecar)
    shape = identity.shape
    statistic, ttft, tpot, latency, speed = _latencies(run)
    isl, osl = run.number("isl"), run.number("osl")
    share = _share(run, statistic, ttft, tpot, latency, osl)
    output = run.number("output_tput_per_gpu")
    if shape is not None and output is not None:
        _check_rates(run, shape, output, isl, osl)
    if output is None:
        run.flag("missing_value", "output_tput_per_gpu is not given: how much of the throughput is output")
    columns: dict[str, object] = {
        **identity.columns,
        "isl_tokens": isl and float(round(isl * share)),
        "osl_tokens": osl and float(round(osl * share)),
        "concurrency_reported": run.number("conc"),
        "ttft_ms": ttft and 1e3 * ttft,
        "tpot_ms": tpot and 1e3 * tpot,
        "tokens_per_s_per_user": speed,
        "latency_statistic": statistic,
        "output_tokens_per_s": output * shape.decode_gpus if shape is not None and output is not None else None,
    }
    columns |= {f"{name}_nominal_tokens": value for name, value in (("isl", isl), ("osl", osl)) if share != 1.0}
    return run.row(number, columns, run.scalars), identity.beside


def _latencies(run: Record) -> tuple[str, float | None, float | None, float | None, float | None]:
    """(statistic, TTFT s, TPOT s, latency s, tokens/s): means, or medians where there are no means."""
    found = [(run.number(f"{word}_ttft"), run.number(f"{word}_tpot")) for word, _ in _STATISTICS]
    word, statistic = _STATISTICS[0] if found[0] != (None, None) or found[1] == (None, None) else _STATISTICS[1]
    ttft, tpot = found[0] if word == "mean" else found[1]
    return statistic, ttft, tpot, run.number(f"{word}_e2el"), run.number(f"{word}_intvty")


def _share(
    run: Record, statistic: str, ttft: float | None, tpot: float | None, latency: float | None, osl: float | None
) -> float:
    """Mean length over nominal length, as the latencies show it with means; medians show it less well."""
    if None in (ttft, tpot, latency, osl) or not tpot or not osl:
        return MEAN_SHARES[0]
    shown = ((latency - ttft) / tpot + 1.0) / osl  # type: ignore[operator]
    shares = MEAN_SHARES if statistic == "mean" else MEAN_SHARES[:1]
    nearest = min(shares, key=lambda share: abs(shown - share))
    if not abs(shown / nearest - 1.0) <= LENGTH_TOLERANCE[statistic]:
        run.flag(
            "latency_does_not_fit_parts",
            f"by TTFT, TPOT and latency a request has {shown * osl:.0f} output tokens, {osl:g} are named: neither all "
            f"nor {MEAN_SHARES[0]:g} of them",
        )
    return nearest


def _check_rates(run: Record, shape: Shape, output: float, isl: float | None, osl: float | None) -> None:
    total, given = run.number("tput_per_gpu"), run.number("input_tput_per_gpu")
    if given is None or total is None:
        return
    tokens = given * shape.prefill_gpus, output * shape.decode_gpus
    parts = sum(tokens) / shape.gpus if shape.disaggregated else given + output
    if not abs((ratio(parts, total) or 0.0) - 1.0) <= RATE_TOLERANCE:
        run.flag(
            "throughput_does_not_fit",
            f"input and output make {parts:g} tokens/s on each of {shape.gpus:g} GPUs, tput_per_gpu is {total:g}",
        )
    balance = ratio(ratio(*tokens), ratio(isl, osl))
    if balance is not None and not abs(balance - 1.0) <= BALANCE_TOLERANCE:
        run.flag(
            "input_does_not_fit_output",
            f"by throughput a request has {balance:.2f} times the input that isl and osl name for its output",
        )
