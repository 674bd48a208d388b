"""SGLang's results: achieved against admitted concurrency, what the server tells of itself."""

from pathlib import Path

import pytest

from tests.sources.results import FACTS, RUN, row_of, rows_of, sglang_record

NO_SHAPE = FACTS.replace("tp: 8\n", "").replace("backend: vllm\n", "")


def test_a_run() -> None:
    row = row_of(sglang_record())
    assert {name: row[name] for name in RUN} == RUN
    assert (row["source"], row["reason"]) == ("sglang", None)


def test_arguments_are_not_lengths() -> None:
    """random_input_len and random_output_len are 4096 and 512; the requests were 1000 + 101."""
    row = row_of(sglang_record())
    assert (row["isl_tokens"], row["osl_tokens"]) == (1000, 101)


def test_the_engine_is_the_one_that_the_client_asked_for() -> None:
    assert row_of(sglang_record(), FACTS.replace("backend: vllm\n", ""))["backend"] == "sglang"
    other = row_of(sglang_record(backend="gserver"), FACTS.replace("backend: vllm\n", ""))
    assert other["backend"] is None
    assert other["reason"] == "missing_value"
    assert "`backend: vllm`" in other["detail"]


def test_a_rate_leaves_the_admitted_concurrency_without_meaning() -> None:
    row = row_of(sglang_record(request_rate=2.5, max_concurrency=256))
    assert (row["concurrency_reported"], row["reason"]) == (16, None)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"concurrency": 16.1}, None),
        ({"concurrency": 12.0}, "breaks_littles_law"),
        ({"max_concurrency": 15}, "breaks_littles_law"),
        ({"output_throughput": 2202.0}, "throughput_does_not_fit"),
        ({"mean_tpot_ms": None}, None),  # recovered from the latency
        ({"mean_ttft_ms": None}, "missing_value"),
        ({"accept_length": 2.5}, "missing_value"),  # drafts were used and nobody says how many
    ],
)
def test_what_is_wrong_with_a_record(changes: dict[str, object], reason: str | None) -> None:
    assert row_of(sglang_record(**changes))["reason"] == reason


def server(**changes: object) -> dict[str, object]:
    """The server's own arguments, as newer files carry them."""
    return {
        "model_path": "meta-llama/Llama-3.1-70B-Instruct", "version": "0.5.2", "tp_size": 8, "pp_size": 1,
        "dp_size": 1, "ep_size": 1, "enable_dp_attention": False, "kv_cache_dtype": "auto",
        "disaggregation_mode": "null", **changes,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "shape"),
    [
        ({}, (8, 1, 1, 8, 1, 2.0)),
        ({"dp_size": 4}, (8, 1, 1, 8, 1, 0.5)),  # four whole replicas
        ({"dp_size": 4, "enable_dp_attention": True}, (2, 1, 4, 8, 1, 2.0)),  # one replica, attention in four ranks
        ({"ep_size": 8}, (8, 1, 1, 1, 8, 2.0)),
        ({"pp_size": 2}, (8, 2, 1, 8, 1, 2.0)),
    ],
)
def test_the_servers_shape(changes: dict[str, object], shape: tuple[float, ...]) -> None:
    row = row_of(sglang_record(server_info=server(**changes)), NO_SHAPE)
    assert (row["tp"], row["pp"], row["dp"], row["moe_tp"], row["moe_ep"], row["requests_per_s"]) == shape
    assert (row["reason"], row["backend"], row["backend_version"]) == (None, "sglang", "0.5.2")


def test_a_sidecar_that_says_another_shape_than_the_server() -> None:
    row = row_of(sglang_record(server_info=server(tp_size=4)), FACTS)
    assert row["reason"] == "sidecar_disagrees"
    assert row["detail"] == "tp is 4.0 in the file, 8 in source.yaml"


def test_drafts_of_the_server() -> None:
    """Four tokens verified at once are three drafts and the target's own."""
    info = server(speculative_num_draft_tokens=4)
    row = row_of(sglang_record(server_info=info, accept_length=2.5), NO_SHAPE)
    assert (row["draft_tokens"], row["accepted_tokens"], row["reason"]) == (3, 2.5, None)


def test_one_pool_is_no_whole_replica() -> None:
    row = row_of(sglang_record(server_info=server(disaggregation_mode="decode")), NO_SHAPE)
    assert row["tp"] is None
    assert row["reason"] == "missing_value"


def test_a_real_run_under_its_limit(shared: Path) -> None:
    """5 requests/s, at most 256 at once, 11.78 in flight: 4.889 x 2.4095 s."""
    path = shared / "tables" / "loadgen" / "sglang" / "bench_serving_sharegpt_conc256.jsonl"
    (row,) = rows_of(path.read_bytes())
    assert row["reason"] is None
    assert row["concurrency_reported"] == pytest.approx(11.780263, abs=1e-6)
    assert (row["isl_tokens"], row["osl_tokens"]) == (302.118, 195.775)
    assert (row["ttft_ms"], row["request_latency_ms"]) == (91.69221715730964, 2409.499004891637)
