"""What must hold of every measured run, whoever measured it; and that no mutation of a good file gets a wrong
number through."""

import contextlib
import json
import random
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sources.judging import judged_rows
from tests.sources.results import (
    AIPERF_CSV,
    FACTS,
    GENAI_CSV,
    aiperf_summary,
    genai_summary,
    guidellm_csv,
    guidellm_report,
    inference_perf_report,
    input_file,
    llm_d_report,
    sglang_record,
    vllm_record,
)
from tests.sources.whole import read_file
from transforms.sources.rows import ROW_SCHEMA, FileRejectedError

JSON_FILES: dict[str, Callable[[], dict[str, Any]]] = {
    "vllm": vllm_record,
    "sglang": sglang_record,
    "aiperf": aiperf_summary,
    "genai-perf": genai_summary,
    "guidellm": guidellm_report,
    "inference-perf": inference_perf_report,
    "llm-d": llm_d_report,
}
TEXT_FILES = {name: json.dumps(make(), indent=1) for name, make in JSON_FILES.items()} | {
    "aiperf-csv": AIPERF_CSV,
    "genai-perf-csv": GENAI_CSV,
    "guidellm-csv": guidellm_csv(),
    "vllm-lines": f"{json.dumps(vllm_record())}\n{json.dumps(vllm_record(max_concurrency=17))}\n",
}


def judged(content: object, says: str = FACTS) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The serving points and the quarantine of a file; every row is in one of the two."""
    rows = read_file(input_file(content, says)).rows
    good, bad = judged_rows(rows, "result", None)
    assert good.height + bad.height == rows.height
    assert rows.schema == ROW_SCHEMA
    numbers = good.select(pl.selectors.float())
    assert numbers.select(pl.all_horizontal(pl.all().is_finite().fill_null(True)).all()).item()
    return good, bad


@pytest.mark.parametrize("name", TEXT_FILES)
def test_every_format_says_the_same_of_the_same_run(name: str) -> None:
    good, bad = judged(TEXT_FILES[name])
    assert bad.is_empty()
    for row in good.to_dicts():
        assert row["source"] == name.split("-csv")[0].split("-lines")[0]
        assert row["in_flight_requests"] == pytest.approx(16)
        assert row["output_tokens_per_s_per_gpu"] == pytest.approx(202 / 8)
        assert (row["gpus_per_replica"], row["tokens_per_s_per_user"]) == (8, pytest.approx(1000 / 75))


@pytest.mark.parametrize(
    ("lengths", "itl", "tpot", "reason"),
    [
        # long answers were slower: TPOT 72, over all tokens 75; the latency follows the tokens
        ("correlated", 75.0, 72.0, None),
        # a chunk of three tokens: the ITL is three times the TPOT and explains nothing more than 10 %
        ("bundled", 225.0, 75.0, None),
        ("bundled", 225.0, 60.0, "latency_does_not_fit_parts"),
        ("equal", 75.0, 75.0, None),
        ("equal", 72.0, 72.0, "latency_does_not_fit_parts"),
    ],
)
def test_latency_and_its_parts(lengths: str, itl: float, tpot: float, reason: str | None) -> None:
    good, bad = judged(vllm_record(mean_itl_ms=itl, mean_tpot_ms=tpot))
    assert good.height + bad.height == 1
    assert (bad["reason"].to_list() or [None]) == [reason], lengths


@pytest.mark.parametrize(("tpot", "reason"), [(72.0, None), (66.0, "latency_does_not_fit_parts")])
def test_the_wide_tolerance_where_no_itl_tells_more(tpot: float, reason: str | None) -> None:
    _, bad = judged(genai_summary(inter_token_latency={"unit": "ms", "avg": tpot}))
    assert (bad["reason"].to_list() or [None]) == [reason]


FIGURES = ("mean_ttft_ms", "mean_tpot_ms", "mean_e2el_ms", "request_throughput", "output_throughput")


@pytest.mark.parametrize("keys", [FIGURES[:1], FIGURES[1:2], FIGURES[2:3], FIGURES[:3], FIGURES[3:4], FIGURES[3:]])
@pytest.mark.parametrize("factor", [1e-3, 1e3, 8, 1 / 8])
def test_a_unit_or_a_count_of_gpus_taken_wrong_is_caught(keys: tuple[str, ...], factor: float) -> None:
    """Seconds as ms, a rate per GPU as the replica's, a replica's as the cluster's: on some or all of the figures."""
    record = vllm_record()
    good, bad = judged(record | {key: record[key] * factor for key in keys})
    assert good.is_empty()
    assert bad["reason"].item() in {
        "latency_does_not_fit_parts", "breaks_littles_law", "throughput_does_not_fit", "above_peak_bandwidth",
        "load_not_steady",
    }  # fmt: skip


@pytest.mark.parametrize("name", JSON_FILES)
@settings(max_examples=60)
@given(data=st.data())
def test_no_mutation_of_a_good_file_gets_past_with_another_number(name: str, data: st.DataObject) -> None:
    """A value replaced by any other, a key renamed or dropped: quarantined, refused, or the figures stay."""
    document = JSON_FILES[name]()
    *path, last = data.draw(st.sampled_from(sorted(_paths(document), key=str)))
    target: Any = document
    for part in path:
        target = target[part]
    odd: st.SearchStrategy[object] = st.sampled_from(
        [None, True, "", "1,146.31", "12", [], {}, [[]], float("nan"), float("inf"), -1, 0, 10**400]
    )
    match data.draw(st.sampled_from(["replace", "rename", "drop"])):
        case "replace":
            target[last] = data.draw(odd)
        case "rename" if isinstance(target, dict):
            target[f"{last}_"] = target.pop(last)
        case _:
            del target[last]
    try:
        good, _ = judged(document)
    except FileRejectedError:
        return
    for row in good.to_dicts():
        assert (row["isl_tokens"], row["osl_tokens"], row["gpus_per_replica"]) == (1000, 101, 8)
        assert row["request_latency_ms"] == pytest.approx(8000)
        assert row["requests_per_s"] == pytest.approx(2)
        assert row["concurrency_reported"] == pytest.approx(16, rel=0.02)


def _paths(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [path] if path else []
    for key, child in inner:
        found += _paths(child, (*path, key))
    return found


@pytest.mark.parametrize("name", TEXT_FILES)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_encodings_and_line_ends_change_nothing(name: str, encoding: str, line_end: str) -> None:
    plain, _ = judged(TEXT_FILES[name])
    other, _ = judged(TEXT_FILES[name].replace("\n", line_end).encode(encoding))
    assert other.equals(plain)


@pytest.mark.parametrize("name", TEXT_FILES)
def test_cut_and_changed_bytes_are_read_or_refused(name: str) -> None:
    """Mutated files, the same ones each time: never another exception, never NaN or inf, every row accounted."""
    chance = random.Random(name)
    content = TEXT_FILES[name].encode()
    for _ in range(120):
        at, length = chance.randrange(len(content)), chance.choice([1, 1, 2, 40, len(content)])
        put = bytes(chance.randrange(256) for _ in range(chance.choice([0, 0, 1, 3])))
        with contextlib.suppress(FileRejectedError):
            judged(content[:at] + put + content[at + length :])
