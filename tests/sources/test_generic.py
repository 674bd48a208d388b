"""Tables of one's own: CSV and Parquet by a mapping of fields to columns and units."""

import io
import json
from collections.abc import Mapping

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import UserError
from tests.sources.results import FACTS, RUN, input_file, row_of, rows_of, sidecar
from tests.sources.whole import read_file
from transforms.sources.rows import FileRejectedError

COLUMNS = """\
format: generic
columns:
  isl_tokens: {column: in, unit: tokens}
  osl_tokens: {column: out, unit: tokens}
  concurrency_reported: {column: users, unit: requests}
  ttft_ms: {column: TTFT, unit: s}
  tpot_ms: {column: TPOT, unit: us}
  request_latency_ms: {column: E2E, unit: ms}
  output_tokens_per_s: {column: tok/s, unit: tokens/s}
  memory_bytes_per_gpu: {column: mem, unit: GiB}
"""
SAYS = FACTS + COLUMNS
ROW = {"in": 1000, "out": 101, "users": 16, "TTFT": 0.5, "TPOT": 75_000, "E2E": 8000.0, "tok/s": 202.0, "mem": 60.0}


def csv(*rows: Mapping[str, object]) -> str:
    return pl.DataFrame(list(rows)).write_csv()


def parquet(*rows: Mapping[str, object]) -> bytes:
    buffer = io.BytesIO()
    pl.DataFrame(list(rows)).write_parquet(buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("write", [csv, parquet])
def test_a_table_in_its_own_units(write: object) -> None:
    content = write(ROW)  # type: ignore[operator]
    row = row_of(content, SAYS)
    assert {name: pytest.approx(row[name]) for name in RUN} == RUN
    assert row["memory_bytes_per_gpu"] == 60 * 2**30
    assert (row["source"], row["reason"], row["backend"], row["tp"]) == ("generic", None, "vllm", 8)
    assert json.loads(row["raw"]).keys() == ROW.keys()


def test_facts_can_be_columns() -> None:
    says = COLUMNS + (
        "  hardware: {column: gpu}\n  model: {column: model}\n  weight_dtype: {column: weights}\n"
        "  kv_dtype: {column: kv}\n  backend: {column: engine}\n  tp: {column: tp}\n"
    )
    own = {"gpu": "h100", "model": "m", "weights": "fp8", "kv": "bf16", "engine": "sglang", "tp": 4}
    rows = rows_of(csv({**ROW, **own}, {**ROW, **own, "gpu": " b200 ", "tp": 8}), says)
    assert [(row["hardware_name"], row["tp"], row["backend"]) for row in rows] == [
        ("h100", 4, "sglang"), ("b200", 8, "sglang"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("own", "reason"),
    [
        ({"weights": "fp7"}, "unknown_dtype"),
        ({"weights": "FP8"}, "unknown_dtype"),
        ({"tp": "8.5"}, "not_whole"),
        ({"tp": "eight"}, "not_a_number"),
        ({"tp": None}, "missing_value"),
        ({"tp": "1e12"}, "not_whole"),
    ],
)
def test_facts_in_columns_are_checked(own: dict[str, object], reason: str) -> None:
    says = SAYS.replace("tp: 8\n", "").replace("weight_dtype: fp8\n", "")
    says += "  tp: {column: tp}\n  weight_dtype: {column: weights}\n"
    assert row_of(csv({**ROW, "tp": "8", "weights": "fp8", **own}), says)["reason"] == reason


def test_rows_of_both_modes_in_one_table() -> None:
    says = SAYS.replace("tp: 8\n", "") + (
        "  tp: {column: tp}\n  prefill_workers: {column: pw}\n  prefill_tp: {column: ptp}\n"
        "  decode_workers: {column: dw}\n  decode_tp: {column: dtp}\n"
    )
    single = {"tp": 8, "pw": None, "ptp": None, "dw": None, "dtp": None}
    pools = {"tp": None, "pw": 2, "ptp": 4, "dw": 1, "dtp": 8}
    rows = rows_of(csv({**ROW, **single}, {**ROW, **pools}, {**ROW, **pools, "tp": 8}), says)
    assert [row["serving_mode"] for row in rows] == ["agg", "disagg", "disagg"]
    assert [row["reason"] for row in rows] == [None, None, "mixed_shape"]
    assert (rows[1]["prefill_workers"], rows[1]["decode_tp"], rows[1]["decode_dp"]) == (2, 8, 1)


def test_a_rate_per_gpu_is_of_all_the_replicas_gpus() -> None:
    """202 output tokens/s on 8 GPUs."""
    says = SAYS.replace("output_tokens_per_s: {column: tok/s, unit: tokens/s}",
                        "output_tokens_per_s_per_gpu: {column: tok/s, unit: tokens/s/gpu}")  # fmt: skip
    assert row_of(csv({**ROW, "tok/s": 202 / 8}), says)["requests_per_s"] == pytest.approx(2.0)


def test_a_latency_and_a_ttft_give_the_tpot() -> None:
    says = SAYS.replace("  tpot_ms: {column: TPOT, unit: us}\n", "")
    row = row_of(csv({name: value for name, value in ROW.items() if name != "TPOT"}), says)
    assert (row["tpot_ms"], row["tpot_source"]) == (75, "recovered")


def test_a_statistic_other_than_the_mean_is_said_once() -> None:
    assert row_of(csv(ROW), SAYS + "latency_statistic: p50\n")["latency_statistic"] == "p50"


@pytest.mark.parametrize("write", [csv, parquet])
def test_columns_that_the_mapping_does_not_name(write: object) -> None:
    content = write({**ROW, "power": 700})  # type: ignore[operator]
    with pytest.raises(FileRejectedError, match="does not say what column 'power' means"):
        read_file(input_file(content, SAYS))
    assert row_of(content, SAYS + "ignore_other_columns: true\n")["reason"] is None


@pytest.mark.parametrize("write", [csv, parquet])
def test_a_column_that_is_not_there_names_the_nearest(write: object) -> None:
    content = write({("ttft" if name == "TTFT" else name): value for name, value in ROW.items()})  # type: ignore[operator]
    with pytest.raises(
        FileRejectedError, match=r"column 'TTFT', which the table does not have\. Did you mean 'ttft'\?"
    ):
        read_file(input_file(content, SAYS))


@pytest.mark.parametrize(
    ("cell", "reason"),
    [("0.5", None), (" 0.5 ", None), ("5e-1", None), ("0,5", "not_a_number"), ("1,146.31", "not_a_number"),
     ("NaN", "not_a_number"), ("inf", "not_a_number"), ("1_0", "not_a_number"), ("0x1", "not_a_number"),
     ("", "missing_value"), ("-0.5", None)],
)  # fmt: skip
def test_cells_of_a_csv(cell: str, reason: str | None) -> None:
    row = row_of(csv({**ROW, "TTFT": cell}), SAYS)
    assert row["reason"] == reason
    if reason is None:
        assert abs(row["ttft_ms"]) == 500  # a negative one is the guard's


@pytest.mark.parametrize(
    ("value", "reason"),
    [(float("nan"), "not_a_number"), (float("inf"), "not_a_number"), (None, "missing_value"), (0.5, None)],
)
def test_cells_of_a_parquet_file(value: float | None, reason: str | None) -> None:
    rows = rows_of(parquet(ROW, {**ROW, "TTFT": value}), SAYS)
    assert [row["reason"] for row in rows] == [None, reason]


@pytest.mark.parametrize(
    ("series", "named"),
    [
        (pl.Series("TTFT", [[0.5]]), "large_list"),
        (pl.Series("TTFT", [{"a": 0.5}]), "struct"),
        (pl.Series("TTFT", [True]), "bool"),
        (pl.Series("TTFT", [b"0.5"]), "large_binary"),
        (pl.Series("TTFT", [0]).cast(pl.Datetime), "timestamp"),
        (pl.Series("TTFT", [0]).cast(pl.Duration), "duration"),
    ],
)
def test_types_that_are_neither_numbers_nor_text(series: pl.Series, named: str) -> None:
    buffer = io.BytesIO()
    pl.DataFrame([ROW]).with_columns(series).write_parquet(buffer)
    with pytest.raises(FileRejectedError, match=f"column 'TTFT' is of type {named}.*neither numbers nor text"):
        read_file(input_file(buffer.getvalue(), SAYS))


@pytest.mark.parametrize("dtype", [pl.Float32, pl.Int16, pl.UInt64, pl.Decimal(10, 2), pl.String, pl.Categorical])
def test_types_that_hold_numbers(dtype: pl.DataType) -> None:
    buffer = io.BytesIO()
    frame = pl.DataFrame([ROW]).with_columns(pl.col("E2E").cast(pl.Int64).cast(pl.String).cast(dtype))
    frame.write_parquet(buffer)
    assert row_of(buffer.getvalue(), SAYS)["request_latency_ms"] == 8000


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('{"in": 1000}', "a table with `format: generic` is CSV or Parquet"),
        ("raw,in\n1,2\n", "the column name 'raw' is used for the account of rows"),
        (",".join(ROW) + "\n", "the table has no rows"),
        (b"PAR1" + b"\0" * 100, "the Parquet file is damaged"),
    ],
)
def test_files_that_are_refused(content: str | bytes, sentence: str) -> None:
    with pytest.raises(FileRejectedError, match=sentence):
        read_file(input_file(content, SAYS))


def test_a_parquet_file_without_a_mapping_says_what_to_write() -> None:
    with pytest.raises(FileRejectedError, match="`format: generic`"):
        read_file(input_file(parquet(ROW), FACTS))


def test_the_users_word_goes_before_a_format_that_would_recognise_the_file() -> None:
    header = "ttft,tpot,tokens/s/user,num_total_gpus,isl,osl"
    says = FACTS + "format: generic\nignore_other_columns: true\ncolumns:\n  ttft_ms: {column: ttft, unit: ms}\n"
    assert row_of(f"{header}\n1,2,3,4,5,6\n", says)["source"] == "generic"


@pytest.mark.parametrize(
    ("field", "unit"),
    [("ttft_ms", "tokens"), ("ttft_ms", "sec"), ("isl_tokens", "ms"), ("output_tokens_per_s", "requests/s"),
     ("requests_per_s", "tokens/s"), ("memory_bytes_per_gpu", "gb"), ("tp", "gpus")],
)  # fmt: skip
def test_a_unit_that_does_not_fit_its_field(field: str, unit: str) -> None:
    with pytest.raises(UserError, match=rf"source\.yaml \(line 3\): columns\.{field}\.unit "):
        sidecar(f"format: generic\ncolumns:\n  {field}: {{column: a, unit: {unit}}}\n")


def test_a_column_with_a_unit_must_say_it() -> None:
    with pytest.raises(UserError, match=r"line 3\): columns\.ttft_ms\.unit is missing"):
        sidecar("format: generic\ncolumns:\n  ttft_ms: {column: a}\n")


CUT = parquet(*[ROW] * 50)


@given(st.integers(0, len(CUT)), st.binary(max_size=4), st.integers(0, 8))
def test_a_damaged_parquet_file_is_read_or_refused(at: int, put: bytes, cut: int) -> None:
    """Bytes replaced, put in or cut out anywhere: never another exception, never NaN or inf."""
    damaged = CUT[:at] + put + CUT[at + cut :]
    try:
        rows = read_file(input_file(damaged, SAYS)).rows
    except FileRejectedError:
        return
    numbers = rows.select(pl.selectors.float()).fill_null(0.0)
    assert numbers.select(pl.all_horizontal(pl.all().is_finite())).to_series().all()
