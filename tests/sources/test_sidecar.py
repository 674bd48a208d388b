"""``source.yaml``: what it may say, how it joins what a file says, what its faults are called."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.reading.catalogues import load_hardware, load_models
from pipelines.reading.inputs import find_files, open_file
from pipelines.reading.read_inputs import read_inputs
from schemas.errors import UserError
from schemas.fields import FIELDS
from schemas.sidecar import POOL_SHAPE, SHAPE, Sidecar
from tests.sources.results import AIPERF_CSV, FACTS, row_of, sidecar, vllm_record
from transforms.sources.facts import COUNTS, LENGTHS, MEANS, NAMES
from transforms.sources.rows import FileRejectedError

EXAMPLE = Path(__file__).parent / "example"
PAGE = Path(__file__).parents[2] / "docs" / "tables.md"


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("2026-03-01", datetime(2026, 3, 1, tzinfo=UTC)),
        ("2026-03-01T14:30:00", datetime(2026, 3, 1, 14, 30, tzinfo=UTC)),
        ("2026-03-01T14:30:00+02:00", datetime(2026, 3, 1, 12, 30, tzinfo=UTC)),
        ('"2026-03-01 14:30"', datetime(2026, 3, 1, 14, 30, tzinfo=UTC)),
    ],
)
def test_moments(written: str, moment: datetime) -> None:
    assert sidecar(f"run: r\nmeasured_at: {written}").measured_at == moment


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty; it must hold fields"),
        ("- hardware", "is a list; it must hold fields"),
        ("run: r\nhardwar: x", r"\(line 2\): hardwar is not a field\. Did you mean 'hardware'\?"),
        ("run: r\nhardware: x\nrun: s", r"\(line 3\): 'run' is given twice"),
        ("measured_at: 2026-13-01", r"\(line 1\): measured_at is '2026-13-01', must be a date or a time"),
        ("measured_at: 2026", r"\(line 1\): measured_at is 2026, must be a date or a time"),
        ("measured_at: 0001-01-01T00:00:00+14:00", r"\(line 1\): measured_at is "),
        ("tp: 8.5", r"\(line 1\): tp is 8\.5, must be a whole number"),
        ("tp: '8'", r"\(line 1\): tp is '8', must be a whole number"),
        ("tp: 0", r"\(line 1\): tp is 0, must be 1 or more"),
        ("isl_tokens: .nan", r"\(line 1\): isl_tokens is \.nan"),
        ("isl_tokens: 1,000", r"\(line 1\): isl_tokens is '1,000', must be a number"),
        ("run: r\nkv_dtype: fp9", r"\(line 2\): kv_dtype is 'fp9', must be 'bf16', 'fp16', 'fp8', 'int8' or 'nvfp4'"),
        ("tp: 4\nprefill_tp: 4", "prefill_tp is of a disaggregated replica, tp of an aggregated one"),
        ("serving_mode: agg\nprefill_tp: 4", "prefill_tp is of a disaggregated replica, serving_mode is agg"),
        ("serving_mode: disagg\ntp: 4", "tp is of an aggregated replica: give prefill_tp, decode_tp"),
        ("format: generic", "needs `columns`"),
        ("columns:\n  ttft_ms: {column: a, unit: s}", "write `format: generic` too"),
        ("format: generic\ncolumns:\n  ttft: {column: a, unit: s}", r"\(line 3\): columns\.ttft is not a field\. Did"),
        ("format: generic\ncolumns:\n  run: {column: a}", r"\(line 3\): columns\.run is not a field"),
        ("format: generic\ntp: 4\ncolumns:\n  tp: {column: a}", "tp is given twice"),
        ("format: generic\ncolumns:\n  tp: {column: a}\n  pp: {column: a}", "column 'a' is both tp and pp"),
        (
            "files:\n  'a*':\n    hardwar: x",
            r"\(line 3\): files\.a\*\.hardwar is not a field\. Did you mean 'hardware'",
        ),
    ],
)
def test_faults_are_named_with_their_line(text: str, sentence: str) -> None:
    with pytest.raises(UserError, match=r"^source\.yaml.*" + sentence):
        sidecar(text)


@given(st.text(max_size=80) | st.binary(max_size=80))
def test_any_text_is_read_or_refused_with_a_sentence(written: str | bytes) -> None:
    try:
        said = sidecar(written if isinstance(written, str) else written.decode("latin-1"))
    except (UserError, UnicodeEncodeError):
        return
    assert isinstance(said, Sidecar)


def test_every_fact_that_a_row_holds_is_a_field_or_says_how_to_get_one() -> None:
    """Names of the sidecar are those of the dictionary, but for what becomes another field."""
    becomes_another = {"replicas", "weight_dtype", "model", "hardware"}
    assert {*COUNTS, *MEANS, *NAMES} - becomes_another <= FIELDS.keys()
    assert {*COUNTS, *MEANS, *NAMES} <= Sidecar.model_fields.keys()
    assert {*SHAPE, *POOL_SHAPE} < set(COUNTS)


def folder_of(tmp_path: Path, says: str, **files: str) -> Path:
    (tmp_path / "source.yaml").write_text(says)
    for name, content in files.items():
        (tmp_path / name.replace("__", ".")).write_text(content)
    return tmp_path


def test_a_bad_sidecar_rejects_the_files_beside_it(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "run: r\ntp: eight", a__csv=AIPERF_CSV, b__csv=AIPERF_CSV)
    inputs = read_inputs(find_files([folder]), load_hardware(), load_models())
    assert [account.rejected_reason for account in inputs.accounts] == [
        "source.yaml (line 2): tp is 'eight', must be a whole number (no quotes, no thousands separators)."
    ] * 2


def test_a_sidecar_speaks_for_its_own_folder_only(tmp_path: Path) -> None:
    folder_of(tmp_path, "run: r\n", a__csv=AIPERF_CSV)
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "b.csv").write_text(AIPERF_CSV)
    found = {file.shown: open_file(file).sidecar for file in find_files([tmp_path])}
    assert found["below/b.csv"] is None
    assert found["a.csv"] == sidecar("run: r\n")


def test_globs_say_more_of_some_files(tmp_path: Path) -> None:
    says = "tp: 8\nhardware: h100\nfiles:\n  'a*.csv': {hardware: h200, isl_tokens: 550}\n  'ab.csv': {tp: 4}\n"
    folder = folder_of(tmp_path, says, ab__csv=AIPERF_CSV, ac__csv=AIPERF_CSV, b__csv=AIPERF_CSV)
    found = {file.shown: open_file(file).sidecar for file in find_files([folder])}
    said = {name: (known.hardware, known.tp, known.isl_tokens) for name, known in found.items() if known}
    assert said == {"ab.csv": ("h200", 4, 550), "ac.csv": ("h200", 8, 550), "b.csv": ("h100", 8, None)}


@pytest.mark.parametrize(
    ("says", "sentence"),
    [
        ("files:\n  'c*': {tp: 4}\n", r"source\.yaml \(line 2\): no file beside it has a name like 'c\*'"),
        ("files:\n  'a*': {tp: 4}\n  '*.csv': {tp: 8}\n", r"'a\*' and '\*\.csv' both give tp of a\.csv"),
        ("tp: 4\nfiles:\n  'a*': {prefill_tp: 8}\n", r"what `files` says of a\.csv: .*aggregated"),
    ],
)
def test_globs_that_say_nothing_or_too_much(tmp_path: Path, says: str, sentence: str) -> None:
    (found,) = find_files([folder_of(tmp_path, says, a__csv=AIPERF_CSV)])
    with pytest.raises(FileRejectedError, match=sentence):
        open_file(found)


@pytest.mark.parametrize(
    ("name", "says", "reads"),
    [
        ("m25_dep8_conc4.json", "tp: 8\nmoe_ep: 8", False),
        ("m25_tep8_conc4.json", "tp: 8\nmoe_ep: 8", True),
        ("m25_tep8_conc4.json", "tp: 1\ndp: 8", False),
        ("sweep-tp4.json", "tp: 8", False),
        ("sweep-tp8.json", "tp: 1\ndp: 8", True),  # of 8 GPUs
        ("sweep_tp4_dp2.json", "tp: 4\ndp: 2", True),
        ("TP4.json", "dp: 2", False),
        ("from_tp4_to_tp8.json", "tp: 8", True),  # of which it is nobody says
        ("http4_setup8_dp-4_tp_4k.json", "tp: 8", True),
        ("m25_dep8_conc4.json", "tp: 8\nfiles:\n  '*dep8*': {tp: 8, setting: named so}", True),
        ("m25_dep8_conc4.json", "tp: 8\nfiles:\n  '*dep8*': {setting: named so}", False),
        ("m25_dep8_conc4.json", "prefill_workers: 1\nprefill_tp: 4\ndecode_workers: 1\ndecode_tp: 8", True),
    ],
)
def test_a_shape_said_of_all_files_must_not_contradict_a_name(name: str, says: str, reads: bool) -> None:
    said = sidecar(says)
    if reads:
        assert said.for_file(name).tp in (said.tp, 8)
    else:
        with pytest.raises(ValueError, match=r"of all files, and this one's name says (dep8|tep8|tp4): say the shape"):
            said.for_file(name)


def test_what_a_file_does_not_say_is_named_in_one_sentence() -> None:
    row = row_of(vllm_record(model_id=...), None)
    assert row["reason"] == "missing_value"
    assert row["detail"] == (
        "the file does not say it; write into source.yaml beside it, with your own values: `hardware: h200-sxm`,"
        " `model: llama-3-1-70b`, `weight_dtype: fp8`, `kv_dtype: fp8`, `backend: vllm`, `tp: 8`"
    )


@pytest.mark.parametrize(
    ("says", "missing"),
    [
        ("kv_dtype: bf16\nweight_dtype: fp8\ntp: 8", None),
        ("kv_dtype: fp8\nweight_dtype: fp8\ntp: 8", "`attention_dtype: bf16`"),
        ("kv_dtype: fp8\nattention_dtype: fp8\nweight_dtype: fp8\ntp: 8", None),
        ("kv_dtype: bf16\nweight_dtype: nvfp4\ntp: 8", "`linear_dtype: bf16`"),
        ("kv_dtype: bf16\nweight_dtype: nvfp4\nlinear_dtype: fp8\ntp: 8", None),
        ("kv_dtype: bf16\nlinear_dtype: bf16\nexpert_dtype: mxfp4\ntp: 8", None),
        ("kv_dtype: bf16\nweight_dtype: fp8\nprefill_tp: 4",
         "`prefill_workers: 2`, `decode_workers: 1`, `decode_tp: 8`"),
        ("kv_dtype: bf16\nweight_dtype: fp8\nserving_mode: disagg",
         "`prefill_workers: 2`, `prefill_tp: 4`, `decode_workers: 1`, `decode_tp: 8`"),
        ("kv_dtype: bf16\nweight_dtype: fp8\ntp: 8\ndraft_tokens: 3", "`accepted_tokens: 1.6`"),
        ("kv_dtype: bf16\nweight_dtype: fp8\ntp: 8\naccepted_tokens: 2.5", "`draft_tokens: 3`"),
        ("kv_dtype: bf16\nweight_dtype: fp8\ntp: 8\ndraft_tokens: 0", None),
    ],
)  # fmt: skip
def test_what_follows_from_what_is_said(says: str, missing: str | None) -> None:
    row = row_of(vllm_record(), f"hardware: h100\nmodel: m\nbackend: vllm\n{says}\n")
    assert row["reason"] == (None if missing is None else "missing_value")
    assert missing is None or row["detail"].endswith(f"values: {missing}")


def test_defaults_of_an_aggregated_and_a_disaggregated_replica() -> None:
    row = row_of(vllm_record())
    assert [row[name] for name in ("serving_mode", *SHAPE)] == ["agg", 8, 1, 1, 1, None, None]
    assert [row[name] for name in POOL_SHAPE] == [None] * 14
    pools = FACTS.replace(
        "tp: 8\n", "prefill_workers: 2\nprefill_tp: 4\ndecode_workers: 2\ndecode_tp: 8\ndecode_dp: 2\n"
    )
    row = row_of(vllm_record(), pools)
    assert [row[name] for name in SHAPE] == [None] * 6
    assert [row[name] for name in ("prefill_workers", "prefill_dp", "decode_workers", "decode_pp")] == [2, 1, 2, 1]
    assert row["batch_per_rank"] == row["decode_batch"] == 16 / (2 * 2)


def test_pools_on_two_gpus() -> None:
    pools = FACTS.replace("tp: 8\n", "prefill_workers: 1\nprefill_tp: 8\ndecode_workers: 1\ndecode_tp: 8\n")
    row = row_of(vllm_record(), pools.replace("hardware: h100-sxm", "prefill_hardware: b200\ndecode_hardware: h200"))
    assert row["reason"] is None
    assert [row[f"{part}hardware_name"] for part in ("", "prefill_", "decode_")] == ["b200 and h200", "b200", "h200"]


@pytest.mark.parametrize(
    ("said", "nominal", "reason"),
    [
        ("isl_tokens: 1000", None, None),
        ("isl_tokens: 1024", 1024, None),
        ("isl_tokens: 1250", 1250, None),  # drawn from 0.6 to 1 of it
        ("isl_tokens: 1400", 1400, "sidecar_disagrees"),
        ("isl_tokens: 900", 900, "sidecar_disagrees"),
    ],
)
def test_a_length_of_the_sidecar_is_the_nominal_one(said: str, nominal: float | None, reason: str | None) -> None:
    row = row_of(vllm_record(), f"{FACTS}{said}\n")
    assert (row["isl_tokens"], row["isl_nominal_tokens"], row["reason"]) == (1000, nominal, reason)


def test_lengths_that_a_file_lacks_are_the_sidecars() -> None:
    record = vllm_record(total_input_tokens=..., total_output_tokens=...)
    row = row_of(record, FACTS + "isl_tokens: 1000\nosl_tokens: 101\n")
    assert (row["isl_tokens"], row["isl_nominal_tokens"], row["osl_tokens"]) == (1000, None, 101)
    assert set(LENGTHS) == {"isl_tokens", "osl_tokens"}


def test_the_date_of_the_sidecar_is_for_files_without_one() -> None:
    assert row_of(vllm_record(), FACTS + "measured_at: 2026-05-01\n")["measured_at"] == "2026-03-01T12:00:00+00:00"
    assert row_of(AIPERF_CSV, FACTS + "measured_at: 2026-05-01\n")["measured_at"] == "2026-05-01T00:00:00+00:00"


def test_the_example_is_read_whole() -> None:
    """Row 2: 909 tokens/s / 1000 = 0.909 requests/s x (0.55 s + 999 x 17 ms) = 15.9 of 16 in flight."""
    inputs = read_inputs(find_files([EXAMPLE]), load_hardware(), load_models())
    (account,) = inputs.accounts
    assert (account.format, account.rows_read, account.rows_accepted) == ("generic", 3, 3)
    row = inputs.serving_points.row(1, named=True)
    assert (row["hardware"], row["model"], row["gpus_per_replica"]) == ("h200-sxm", "llama-3-1-70b", 4)
    assert (row["ttft_ms"], row["requests_per_s"]) == (550, 0.909)
    assert row["in_flight_requests"] == pytest.approx(0.909 * (0.55 + 16.983))


def test_the_page_on_tables_shows_the_example_that_is_tested() -> None:
    assert (EXAMPLE / "source.yaml").read_text() in PAGE.read_text(encoding="utf-8")
