"""inference-perf, llm-d's benchmark report, GuideLLM's CSV and vLLM's multi-turn statistics."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.sources.results import (
    FACTS,
    RUN,
    guidellm_csv,
    inference_perf_report,
    input_file,
    llm_d_report,
    multi_turn_stats,
    row_of,
)
from tests.sources.whole import read_file
from transforms.sources.rows import FileRejectedError

CACHED = f"{FACTS}prefix_tokens: 600\n"


@pytest.mark.parametrize(
    ("content", "says", "format_", "version"),
    [
        (inference_perf_report(), FACTS, "inference-perf", None),
        (llm_d_report(), FACTS, "llm-d", "0.2"),
        (yaml.safe_dump(llm_d_report()), FACTS, "llm-d", "0.2"),
        (guidellm_csv(), FACTS, "guidellm", "0.7.3"),
        (multi_turn_stats(), CACHED, "vllm-multi-turn", None),
    ],
    ids=["inference-perf", "llm-d-json", "llm-d-yaml", "guidellm-csv", "multi-turn"],
)
def test_the_one_imaginary_run(content: object, says: str, format_: str, version: str | None) -> None:
    reading = read_file(input_file(content, says))
    (row,) = reading.rows.to_dicts()
    assert {name: row[name] for name in RUN} == pytest.approx(RUN)
    assert (reading.format, reading.tool_version, row["reason"]) == (format_, version, None)
    assert row["prefix_tokens"] == (600 if says is CACHED else 0)


class TestInferencePerf:
    def test_what_its_cache_held(self) -> None:
        report = inference_perf_report()
        report["successes"]["prompt_tokens"]["cached"] = 150_000.0
        assert row_of(report)["prefix_tokens"] == 750

    def test_without_streaming(self) -> None:
        report = inference_perf_report()
        report["successes"]["latency"]["time_to_first_token"] = None
        assert row_of(report)["reason"] == "not_streamed"

    def test_a_token_too_many_in_each_chunk(self) -> None:
        """Half the TPOT: 0.5 s and 100 steps of 37.5 ms make 4.25 of the 8 s; the clocks say 75 ms."""
        report = inference_perf_report()
        report["successes"]["latency"]["time_per_output_token"]["mean"] = 0.0375
        row = row_of(report)
        assert (row["tpot_ms"], row["tpot_source"], row["reason"]) == (75, "recovered", None)

    def test_the_summary_of_all_stages(self) -> None:
        assert row_of(inference_perf_report(load_summary={"count": 200}))["reason"] == "changing_load"

    @pytest.mark.parametrize(("sent", "reason"), [(2.3, None), (1.9, "load_not_steady")])
    def test_a_rate_that_was_not_sent(self, sent: float, reason: str | None) -> None:
        load = {"count": 200, "requested_rate": 2.3, "achieved_rate": sent}
        assert row_of(inference_perf_report(load_summary=load))["reason"] == reason

    def test_failures(self) -> None:
        assert row_of(inference_perf_report(failures={"count": 20}))["reason"] == "failed_requests"

    def test_real_stages(self, shared: Path) -> None:
        """51.64 requests/s of 1.2835 s are 66.3 in flight; the TPOT of 10.79 ms is of two tokens for each one."""
        folder = shared / "cases/24-inference-perf-report"
        says = FACTS.replace("h100", "h200")
        row = row_of((folder / "stage_3_lifecycle_metrics.json").read_bytes(), says)
        assert row["requests_per_s"] == pytest.approx(51.637, abs=1e-3)
        assert row["concurrency_reported"] == pytest.approx(66.28, abs=0.01)
        assert row["ttft_ms"] == pytest.approx(50.57, abs=0.01)
        assert (row["isl_tokens"], row["osl_tokens"]) == pytest.approx((201.5, 63.0), abs=0.1)
        assert row["tpot_ms"] == pytest.approx((1283.547 - 50.573) / 61.981, rel=1e-4)
        assert (row["tpot_source"], row["reason"]) == ("recovered", None)
        assert row_of((folder / "stage_0_lifecycle_metrics.json").read_bytes(), says)["reason"] is None
        # 104 requests/s asked for, 72.6 sent
        assert row_of((folder / "stage_6_lifecycle_metrics.json").read_bytes(), says)["reason"] == "load_not_steady"


class TestLlmD:
    def test_the_stack(self) -> None:
        row = row_of(llm_d_report(), "weight_dtype: fp8\nkv_dtype: bf16\nmodel: llama-3-1-70b\n")
        assert (row["hardware_name"], row["tp"], row["backend"]) == ("NVIDIA-H100-80GB-HBM3", 8, "vllm")
        assert (row["setting"], row["measured_at"]) == ("--max-num-seqs=256", "2026-03-01T12:00:00+00:00")
        assert row["reason"] is None

    def test_replicas_share_the_load(self) -> None:
        report = llm_d_report()
        report["scenario"]["stack"][0]["standardized"]["replicas"] = 2
        assert row_of(report)["requests_per_s"] == 1.0

    def test_pools(self) -> None:
        report = llm_d_report()
        engine = report["scenario"]["stack"][0]
        pools = [{**engine, "standardized": {**engine["standardized"], "role": role, "replicas": count}}
                 for role, count in (("prefill", 3), ("decode", 1))]  # fmt: skip
        report["scenario"]["stack"] = pools
        row = row_of(report, FACTS.replace("tp: 8\n", ""))
        assert (row["serving_mode"], row["prefill_workers"], row["decode_workers"]) == ("disagg", 3, 1)
        assert (row["prefill_tp"], row["decode_tp"], row["reason"]) == (8, 8, None)

    def test_engines_that_differ(self) -> None:
        report = llm_d_report()
        other = {**report["scenario"]["stack"][0]["standardized"]}
        other["accelerator"] = {"model": "NVIDIA-H100-80GB-HBM3", "count": 4, "parallelism": {"tp": 4}}
        report["scenario"]["stack"].append({"standardized": other})
        assert row_of(report)["reason"] == "unknown_shape"

    def test_a_count_that_does_not_fit(self) -> None:
        report = llm_d_report()
        report["scenario"]["stack"][0]["standardized"]["accelerator"]["count"] = 16
        assert row_of(report)["reason"] == "gpus_do_not_fit_shape"

    @pytest.mark.parametrize("load", [{"prefix": {"num_prefixes": 8}}, {"multi_turn": {"enabled": True}}])
    def test_prefixes_of_the_load_are_no_hits(self, load: dict[str, Any]) -> None:
        report = llm_d_report()
        report["scenario"]["load"]["standardized"] |= load
        assert "prefix_tokens" in row_of(report)["detail"]
        assert row_of(report, CACHED)["prefix_tokens"] == 600

    def test_an_unknown_unit(self) -> None:
        report = llm_d_report(latency={"time_to_first_token": {"units": "us", "mean": 5e5}})
        assert row_of(report)["reason"] == "unknown_unit"

    def test_a_load_of_a_rate_that_was_cut_off(self) -> None:
        report = llm_d_report()
        report["scenario"]["load"]["standardized"] |= {"rate_qps": 2.0, "concurrency": None}
        assert row_of(report)["concurrency_reported"] == 16
        report["results"]["request_performance"]["aggregate"]["requests"]["incomplete"] = 60
        assert row_of(report)["reason"] == "incomplete_requests"

    def test_another_version(self) -> None:
        with pytest.raises(FileRejectedError, match=r"version '0\.1'; 0\.2 and 0\.2\.1 are read"):
            read_file(input_file(llm_d_report() | {"version": "0.1"}))


class TestGuidellmCsv:
    def test_medians(self) -> None:
        row = row_of(guidellm_csv(), f"{FACTS}latency_statistic: p50\n")
        assert (row["request_latency_ms"], row["latency_statistic"]) == (7900, "p50")
        assert row["reason"] == "missing_value"  # this file has no median of TTFT

    def test_ramp_and_cut(self) -> None:
        ramped = '{"type_": "concurrent", "streams": 16, "rampup_duration": 50}'
        assert row_of(guidellm_csv(profile=ramped))["reason"] == "changing_load"
        assert row_of(guidellm_csv(request_counts=60))["reason"] == "failed_requests"

    def test_several_strategies_name_no_streams(self) -> None:
        profile = '{"type_": "concurrent", "streams": [1, 16]}'
        assert row_of(guidellm_csv(profile=profile))["concurrency_reported"] == pytest.approx(16)

    def test_a_column_twice(self) -> None:
        with pytest.raises(FileRejectedError, match="Request Latency / Successful Sec / Mean stands in the file twice"):
            read_file(input_file(guidellm_csv(twice="Request Latency")))

    def test_an_early_release(self) -> None:
        lines = list(csv.reader(io.StringIO(guidellm_csv())))
        text = io.StringIO()
        csv.writer(text).writerows([*lines[:2], lines[3]])
        with pytest.raises(FileRejectedError, match=r"before 0\.4.*benchmarks\.json"):
            read_file(input_file(text.getvalue()))


class TestMultiTurn:
    def test_what_the_cache_held_must_be_said(self) -> None:
        row = row_of(multi_turn_stats())
        assert (row["prefix_tokens"], row["reason"]) == (None, "missing_value")
        assert row["detail"].endswith("values: `prefix_tokens: 3000`")

    def test_answers_of_nothing(self) -> None:
        stats = multi_turn_stats()
        for request in stats[::10]:
            request["output_num_tokens"] = 0
        assert row_of(stats, CACHED)["reason"] == "failed_requests"

    def test_clients_that_waited(self) -> None:
        stats = multi_turn_stats()
        for request in stats:
            request["start_time_ms"] *= 2
        assert row_of(stats, CACHED)["reason"] == "load_not_steady"

    def test_a_request_without_figures(self) -> None:
        stats = multi_turn_stats()
        stats[2]["latency_ms"] = None
        with pytest.raises(FileRejectedError, match="request 3 has no number"):
            read_file(input_file(stats, CACHED))
