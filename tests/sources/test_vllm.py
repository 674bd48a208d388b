"""vLLM's results: each key's meaning, the family in seconds, failed requests, open and closed loops."""

import json
from pathlib import Path

import pytest

from tests.sources.results import FACTS, RUN, row_of, rows_of, vllm_record


def test_a_run_in_ms() -> None:
    row = row_of(vllm_record())
    assert {name: row[name] for name in RUN} == RUN
    assert row["reason"] is None
    assert (row["model_name"], row["hardware_name"], row["tp"], row["backend"]) == (
        "served-name", "h100-sxm", 8, "vllm",
    )  # fmt: skip
    assert (row["source"], row["latency_statistic"], row["measured_at"]) == (
        "vllm",
        "mean",
        "2026-03-01T12:00:00+00:00",
    )
    assert json.loads(row["raw"]) == vllm_record()


def in_seconds(record: dict[str, object]) -> dict[str, object]:
    """The same record in the family without suffix."""
    return {
        key.removesuffix("_ms"): value / 1000 if key.endswith("_ms") and isinstance(value, float) else value
        for key, value in record.items()
    }


def test_the_family_in_seconds_is_known_by_its_keys() -> None:
    row = row_of(in_seconds(vllm_record()))
    assert {name: pytest.approx(row[name]) for name in RUN} == RUN
    assert row["reason"] is None


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_the_unit_is_never_told_by_magnitude(scale: float) -> None:
    """Latencies a thousand times off break Little's law instead of being repaired."""
    keys = ("mean_ttft_ms", "mean_tpot_ms", "mean_e2el_ms")
    record = vllm_record()
    row = row_of(record | {key: record[key] * scale for key in keys})
    assert row["ttft_ms"] == 500 * scale
    assert row["concurrency_reported"] == 16
    in_flight = row["requests_per_s"] * row["request_latency_ms"] / 1000
    assert in_flight == pytest.approx(16 * scale)
    assert row["reason"] == ("breaks_littles_law" if scale > 1 else "load_not_steady")


def test_latencies_of_both_families_in_one_record() -> None:
    row = row_of(vllm_record(mean_ttft=0.5, mean_ttft_ms=...))
    assert row["reason"] == "unknown_unit"


def test_without_end_to_end_latency_it_is_the_sum_of_its_parts() -> None:
    row = row_of(vllm_record(mean_e2el_ms=..., p99_e2el_ms=...))
    assert row["request_latency_ms"] == 500 + 75 * 100
    assert row["reason"] is None


@pytest.mark.parametrize("key", ["mean_e2el_including_client_queue_ms", "mean_client_queue_time_ms"])
def test_the_wait_for_a_slot_is_in_no_figure(key: str) -> None:
    assert row_of(vllm_record(**{key: 99_999.0}))["request_latency_ms"] == 8000


def test_requests_at_a_rate_of_their_own_have_no_slots() -> None:
    """8 s at 2/s are 16 in flight, whatever the most that were let through."""
    row = row_of(vllm_record(request_rate=2.5, max_concurrency=256))
    assert row["concurrency_reported"] == pytest.approx(16)
    assert row["reason"] is None


@pytest.mark.parametrize("slots", [None, ...])
def test_a_burst_without_slots(slots: object) -> None:
    """All requests at once, each in a slot of its own, and one after the other gone: no load of any one size."""
    row = row_of(vllm_record(max_concurrency=slots))
    assert row["concurrency_reported"] == 200
    assert row["reason"] == "load_not_steady"


@pytest.mark.parametrize("request_rate", ["inf", float("inf"), None])
def test_an_infinite_rate_in_every_spelling(request_rate: object) -> None:
    assert row_of(vllm_record(request_rate=request_rate, max_concurrency=17))["concurrency_reported"] == 17


def test_more_in_flight_than_slots_cannot_be() -> None:
    assert row_of(vllm_record(max_concurrency=15))["reason"] == "breaks_littles_law"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"num_prompts": 202}, None),  # 2 of 202: 0.99 %
        ({"num_prompts": 203}, "failed_requests"),  # 3 of 203: 1.5 %
        ({"failed": 3}, "failed_requests"),
        ({"failed": 0, "num_prompts": 300}, None),  # the tool's own count goes before
        ({"completed": 0, "mean_ttft_ms": 0.0}, "failed_requests"),
        ({"completed": -200}, "negative"),
        ({"failed": 10**30}, "failed_requests"),
        ({"ramp_up_strategy": "linear"}, "changing_load"),
        ({"total_input_sequences": 200}, "no_decode"),
        ({"output_throughput": 2202.0}, "throughput_does_not_fit"),  # the total taken for the output
        ({"mean_ttft_ms": ...}, "missing_value"),
        ({"request_throughput": ..., "output_throughput": ...}, "missing_value"),
        ({"mean_ttft_ms": "500"}, "not_a_number"),
        ({"mean_ttft_ms": float("nan")}, "not_a_number"),
        ({"mean_ttft_ms": True}, "not_a_number"),
        ({"mean_ttft_ms": [500.0]}, "not_a_number"),
        ({"completed": 10**400 // 7}, "not_a_number"),
        ({"model_id": 7}, "not_text"),
    ],
)
def test_what_is_wrong_with_a_record(changes: dict[str, object], reason: str | None) -> None:
    row = row_of(vllm_record(**changes))
    assert row["reason"] == reason
    assert (row["detail"] is None) == (reason is None)


def test_a_rate_of_output_tokens_stands_for_a_missing_rate_of_requests() -> None:
    assert row_of(vllm_record(request_throughput=...))["requests_per_s"] == pytest.approx(2.0)


def test_speculative_decoding_is_read_where_the_server_told() -> None:
    row = row_of(
        vllm_record(
            spec_decode_num_drafts=1000, spec_decode_draft_tokens=3000, spec_decode_acceptance_length=2.4,
            spec_decode_accepted_tokens=1400,
        )
    )  # fmt: skip
    assert (row["draft_tokens"], row["accepted_tokens"], row["reason"]) == (3, 2.4, None)


@pytest.mark.parametrize(
    ("model_id", "model"),
    [
        ("/models/models--MiniMaxAI--MiniMax-M2.5/snapshots/f710177d/", "MiniMaxAI/MiniMax-M2.5"),
        ("models--openai--gpt-oss-120b", "openai/gpt-oss-120b"),
        ("meta-llama/Llama-3.1-70B-Instruct", "meta-llama/Llama-3.1-70B-Instruct"),
        ("/data/models/mine", "/data/models/mine"),
    ],
)
def test_a_path_of_the_hub_cache_names_the_model(model_id: str, model: str) -> None:
    facts = FACTS.replace("model: llama-3-1-70b\n", "")
    assert row_of(vllm_record(model_id=model_id), facts)["model_name"] == model


def test_lines_are_runs_and_a_cut_line_is_a_row_of_its_own() -> None:
    first, second = json.dumps(vllm_record()), json.dumps(vllm_record(max_concurrency=17))
    rows = rows_of(f"{first}\n{second}\n{second[:200]}")
    assert [(row["source_row"], row["reason"]) for row in rows] == [(1, None), (2, None), (3, "not_json")]
    assert rows[2]["raw"] == second[:200]


def test_a_pool_of_replicas_is_divided() -> None:
    """4 replicas served 2 requests/s with 16 in flight: one served 0.5 with 4."""
    row = row_of(vllm_record(), FACTS + "replicas: 4\n")
    assert (row["requests_per_s"], row["concurrency_reported"], row["batch_per_rank"]) == (0.5, 4.0, 4.0)
    assert row["request_latency_ms"] == 8000


def test_real_runs_in_ms(shared: Path) -> None:
    """MiniMax-M2.5 at 128 slots; figures as printed in the file, lengths 1310720/1280."""
    (path,) = (shared / "tables" / "measured" / "fixed").glob("*minimax-m2.5__concurrency_128_*.json")
    pools = FACTS.replace("tp: 8\n", "prefill_workers: 1\nprefill_tp: 8\ndecode_workers: 1\ndecode_tp: 8\n")
    row = row_of(path.read_bytes(), pools.replace("model: llama-3-1-70b\n", ""))
    assert row["reason"] is None
    assert row["model_name"] == "MiniMaxAI/MiniMax-M2.5"
    assert (row["isl_tokens"], row["osl_tokens"], row["concurrency_reported"]) == (1024, 1024, 128)
    assert row["ttft_ms"] == 354.4963012025619
    assert row["ttft_ms"] + row["tpot_ms"] * 1023 == pytest.approx(row["request_latency_ms"], rel=1e-6)
    assert row["requests_per_s"] * row["request_latency_ms"] / 1000 == pytest.approx(127.009, abs=0.001)


def test_real_lines_with_words_of_the_users_own(shared: Path) -> None:
    """Two runs at 10 and 30 requests/s on 4 replicas: 8.3254 requests/s x 3.7093 s / 4 = 7.72 in flight."""
    path = shared / "tables" / "loadgen" / "vllm" / "nerdalert_vllm-bench_results.jsonl"
    rows = rows_of(path.read_bytes(), FACTS + "replicas: 4\n")
    assert [row["reason"] for row in rows] == [None, None]
    assert [row["isl_tokens"] for row in rows] == [999, 999]
    assert rows[0]["osl_tokens"] == pytest.approx(81050 / 300)
    assert rows[0]["requests_per_s"] == pytest.approx(8.325406649602808 / 4)
    assert [row["concurrency_reported"] for row in rows] == pytest.approx([7.7204, 35.1494], abs=1e-4)
