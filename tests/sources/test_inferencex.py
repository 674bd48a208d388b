"""InferenceX rows of the dashboard and of result files: units, GPUs, lengths, formats, agent runs."""

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipelines.reading.catalogues import load_hardware, load_models
from pipelines.reading.inputs import FoundFile, find_files
from pipelines.reading.judged_files import judged_files
from pipelines.reading.read_inputs import Inputs, read_inputs
from schemas.sidecar import Sidecar
from tests.sources.judging import judged_rows
from tests.sources.whole import read_file
from transforms.sources.inferencex_facts import kv_format, weight_formats
from transforms.sources.rows import FileRejectedError, InputFile, Reading

#: One run of the dashboard: 64 requests in flight, 921.6 tokens in and out on average, tp 8.
#: 0.2 s + 920.6 * 12 ms = 11.247 s; 64 / 11.247 s = 5.690 requests/s; 5,244 output tokens/s on 8 GPUs.
METRICS = {
    "mean_ttft": 0.2, "mean_tpot": 0.012, "mean_e2el": 11.2472, "mean_intvty": 1 / 0.012, "std_intvty": 40.0,
    "median_ttft": 0.15, "median_tpot": 0.0118, "median_e2el": 11.013, "median_intvty": 1 / 0.0118,
    "p99_intvty": 60.0, "output_tput_per_gpu": 655.5, "input_tput_per_gpu": 655.5, "tput_per_gpu": 1311.0,
}  # fmt: skip
API_ROW: dict[str, Any] = {
    "hardware": "b200", "framework": "sglang", "model": "dsr1", "precision": "fp8", "spec_method": "none",
    "disagg": False, "is_multinode": False, "prefill_tp": 8, "prefill_ep": 8, "prefill_dp_attention": False,
    "prefill_num_workers": 0, "decode_tp": 8, "decode_ep": 8, "decode_dp_attention": False, "decode_num_workers": 0,
    "num_prefill_gpu": 64, "num_decode_gpu": 64, "isl": 1024, "osl": 1024, "conc": 64,
    "image": "lmsysorg/sglang:v0.5.9-cu130", "metrics": METRICS, "date": "2026-03-25",
}  # fmt: skip
#: Two prefill workers of 4 GPUs, one decode worker of 8; output over 8 GPUs, input over 8.
DISAGG_ROW: dict[str, Any] = {
    **API_ROW, "framework": "dynamo-trt", "disagg": True, "is_multinode": True, "prefill_tp": 4, "prefill_ep": 4,
    "prefill_dp_attention": True, "prefill_num_workers": 2, "num_prefill_gpu": 8, "decode_num_workers": 1,
    "num_decode_gpu": 8,
    "metrics": {**METRICS, "tput_per_gpu": 655.5},
}  # fmt: skip
AGENTIC_ROW: dict[str, Any] = {
    "hw": "b200-nb_1", "users": 16, "image": "vllm/vllm-openai:v0.19.1", "model": "nvidia/DeepSeek-R1-0528-FP4",
    "infmax_model_prefix": "dsr1", "framework": "vllm", "precision": "fp4", "scenario_type": "agentic-coding",
    "tp": 4, "ep": 4, "dp_attention": "false", "offload_mode": "off", "num_requests_total": 216,
    "num_requests_successful": 213, "mean_ttft": 5.338, "median_ttft": 0.773, "mean_ttlt": 108.418, "mean_itl": 0.0325,
    "mean_input_tokens": 73466.3, "mean_output_tokens_actual": 3201.6, "mean_output_tokens_expected": 371.1,
    "theoretical_cache_hit_rate": 0.941, "server_gpu_cache_hit_rate": 0.873, "server_cpu_cache_hit_rate": None,
    "input_tput_tps": 8495.5, "output_tput_tps": 370.2, "total_tput_tps": 8865.7, "duration_seconds": 1841.96,
    "tput_per_gpu": 2216.42,
}  # fmt: skip


def api(**changed: Any) -> dict[str, Any]:
    """``API_ROW`` with other keys, those of ``METRICS`` among the metrics."""
    metrics = {name: changed.pop(name) for name in list(changed) if name in METRICS}
    base = changed.pop("base", API_ROW)
    return {**base, "metrics": {**base["metrics"], **metrics}, **changed}


def reading(content: object, sidecar: Sidecar | None = None) -> Reading:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return read_file(InputFile("benchmarks.json", raw, "", {}, sidecar))


def judged(content: object, sidecar: Sidecar | None = None) -> tuple[pl.DataFrame, pl.DataFrame]:
    found = reading(content, sidecar)
    assert found.format == "inferencex"
    return judged_rows(found.rows, "benchmarks.json", None)


def one(row: object, sidecar: Sidecar | None = None) -> dict[str, Any]:
    good, bad = judged([row], sidecar)
    assert bad["detail"].to_list() == []
    return good.row(0, named=True)


def fault(row: object) -> str:
    good, bad = judged([row])
    assert good.is_empty()
    return str(bad["reason"][0])


class TestForms:
    def test_list_object_of_lists_and_single_row(self) -> None:
        rows = [api(conc=64), api(base=DISAGG_ROW)]
        for content in (rows, {"total": 2, "benchmarks": rows}, {"dsr1": rows[:1], "later": rows[1:]}):
            assert reading(content).rows["source_row"].to_list() == [1, 2]
        assert reading(API_ROW).rows.height == 1

    def test_gzipped(self, tmp_path: Path) -> None:
        path = tmp_path / "benchmarks.json.gz"
        path.write_bytes(gzip.compress(json.dumps([API_ROW]).encode()))
        (outcome,) = judged_files([FoundFile(path, path.name)], load_hardware(), load_models())
        (account,) = outcome.accounts
        assert (account.format, account.rows_accepted) == ("inferencex", 1)

    def test_rows_that_are_no_objects(self) -> None:
        good, bad = judged([API_ROW, 7, None, "\ud800"])
        assert good.height == 1
        assert bad.select("source_row", "reason").rows() == [(2, "not_json"), (3, "not_json"), (4, "not_json")]

    def test_other_json_is_not_taken_for_it(self) -> None:
        with pytest.raises(FileRejectedError):
            reading([{"hw": "b200", "name": "x"}])


class TestUnits:
    def test_seconds_become_ms(self) -> None:
        point = one(API_ROW)
        assert (point["ttft_ms"], point["tpot_ms"]) == pytest.approx((200.0, 12.0))
        assert point["latency_statistic"] == "mean"

    def test_mean_of_the_lengths_drawn(self) -> None:
        """0.9 of 1,024; nominal lengths stand beside. Rate and latency are of the mean length."""
        point = one(API_ROW)
        assert (point["isl_tokens"], point["osl_tokens"]) == (922, 922)
        assert (point["isl_nominal_tokens"], point["osl_nominal_tokens"]) == (1024, 1024)
        assert point["requests_per_s"] == pytest.approx(8 * 655.5 / 922)
        assert point["request_latency_ms"] == pytest.approx(200 + 12 * 921)
        assert point["in_flight_requests"] == pytest.approx(64, rel=0.01)

    def test_exact_lengths(self) -> None:
        """A run that draws no lengths shows it in its latency: 0.2 s + 1,023 * 12 ms."""
        point = one(api(mean_e2el=0.2 + 1023 * 0.012, conc=64, output_tput_per_gpu=655.0, input_tput_per_gpu=655.0,
                        tput_per_gpu=1310.0))  # fmt: skip
        assert (point["isl_tokens"], point["osl_tokens"], point["osl_nominal_tokens"]) == (1024, 1024, None)

    def test_medians_where_there_are_no_means(self) -> None:
        row = api()
        row["metrics"] = {name: value for name, value in METRICS.items() if not name.startswith("mean")}
        point = one(row)
        assert (point["ttft_ms"], point["tpot_ms"], point["latency_statistic"]) == (150.0, pytest.approx(11.8), "p50")

    def test_a_unit_slip_is_not_guessed_at(self) -> None:
        assert fault(api(mean_tpot=12.0, mean_e2el=0.2 + 920.6 * 12)) == "tpot_does_not_fit_speed"
        assert fault(api(mean_tpot=12.0)) == "latency_does_not_fit_parts"

    def test_lengths_that_are_neither(self) -> None:
        assert fault(api(mean_e2el=0.2 + 512 * 0.012)) == "latency_does_not_fit_parts"


class TestGpus:
    def test_aggregated_rows_have_tp_gpus_not_tp_times_ep(self) -> None:
        """With 64 GPUs eight times the requests that were sent would be in flight."""
        point = one(API_ROW)
        assert (point["gpus_per_replica"], point["tp"], point["moe_ep"], point["moe_tp"]) == (8, 8, 8, 1)
        assert abs(point["in_flight_requests"] / 64 - 1) < 0.1

    def test_attention_data_parallelism_splits_the_same_gpus(self) -> None:
        point = one(api(prefill_dp_attention="true", decode_dp_attention="true", conc=64))
        shape = {name: point[name] for name in ("tp", "dp", "moe_tp", "moe_ep", "gpus_per_replica", "batch_per_rank")}
        assert shape == {"tp": 1, "dp": 8, "moe_tp": 1, "moe_ep": 8, "gpus_per_replica": 8, "batch_per_rank": 8}
        assert one(api(prefill_dp_attention="false", decode_dp_attention="false"))["dp"] == 1

    def test_disaggregated_pools(self) -> None:
        point = one(DISAGG_ROW)
        assert point["gpus_per_replica"] == 8 + 8
        assert (point["prefill_workers"], point["prefill_tp"], point["prefill_dp"], point["prefill_moe_ep"]) == (
            2,
            1,
            4,
            4,
        )
        assert (point["decode_workers"], point["decode_tp"], point["decode_dp"]) == (1, 8, 1)
        assert point["requests_per_s"] == pytest.approx(8 * 655.5 / 922)

    def test_workers_that_name_attention_tp_1(self) -> None:
        """The other spelling of the same: tp 1 with attention data parallelism over the worker's GPUs."""
        point = one(api(base=DISAGG_ROW, prefill_tp=1, prefill_ep=1))
        assert (point["prefill_tp"], point["prefill_dp"], point["gpus_per_replica"]) == (1, 4, 16)

    @pytest.mark.parametrize(
        ("changed", "reason"),
        [
            ({"prefill_num_workers": 0}, "missing_value"),
            ({"decode_tp": 4}, "gpus_do_not_fit_shape"),
            ({"decode_ep": 3}, "experts_do_not_fit_gpus"),
            ({"num_decode_gpu": 16}, "gpus_do_not_fit_shape"),
            ({"output_tput_per_gpu": 300.0}, "throughput_does_not_fit"),
            ({"output_tput_per_gpu": 300.0, "tput_per_gpu": 477.75}, "input_does_not_fit_output"),
            ({"dcp_size": 2}, "unknown_shape"),
            ({"decode_dp_attention": "maybe"}, "unknown_word"),
        ],
    )
    def test_shapes_that_do_not_fit(self, changed: dict[str, Any], reason: str) -> None:
        assert fault(api(base=DISAGG_ROW, **changed)) == reason

    def test_a_run_that_lost_most_of_its_throughput(self) -> None:
        low = {"output_tput_per_gpu": 16.4, "input_tput_per_gpu": 16.4, "tput_per_gpu": 32.8}
        assert fault(api(**low)) == "breaks_littles_law"

    def test_total_throughput_alone_does_not_tell_output(self) -> None:
        row = api()
        row["metrics"] = {name: value for name, value in METRICS.items() if "put_tput" not in name}
        assert fault(row) == "missing_value"


class TestNamesAndFormats:
    def test_names_are_resolved_and_kept(self) -> None:
        point = one(api(hardware="H200-dgxc-slurm_5", framework="trt", image=None))
        assert (point["hardware"], point["hardware_name"]) == ("h200-sxm", "H200-dgxc-slurm_5")
        assert (point["model"], point["model_name"]) == ("deepseek-r1", "dsr1")
        assert (point["backend"], point["backend_name"], point["precision_name"]) == ("trtllm", "trt", "fp8")

    def test_unknown_runner_and_model(self) -> None:
        assert fault(api(hardware="h200-acme")) == "unknown_hardware"
        assert fault(api(model="dsr9")) == "unknown_model"

    def test_fp4_is_no_format(self) -> None:
        nvidia, amd = one(api(precision="fp4")), one(api(precision="fp4", hardware="mi355x", framework="atom"))
        assert (nvidia["weight_dtype"], amd["weight_dtype"]) == ("nvfp4", "mxfp4")
        assert nvidia["linear_dtype"] == amd["linear_dtype"] == "bf16"
        assert nvidia["precision_name"] == "fp4"

    def test_fp4_of_a_model_without_a_fact(self) -> None:
        row = api(model="moonshotai/Kimi-K2.5", precision="fp4")
        assert fault(row) == "unknown_dtype"
        said = Sidecar(weight_dtype="nvfp4", linear_dtype="bf16")
        assert one(row, said)["weight_dtype"] == "nvfp4"

    def test_a_path_tells_the_formats_apart(self) -> None:
        assert weight_formats("llama70b", "fp4", "b200", "nvidia/Llama-3.3-70B-Instruct-NVFP4") == ("nvfp4", "nvfp4")
        assert weight_formats("new", "fp4", "b200", "org/New-MXFP4") == (None, "mxfp4")
        assert weight_formats("new", "fp4", "b200", "org/New") == (None, None)
        assert weight_formats("new", "fp8", "b200", "org/New") == ("fp8", "fp8")

    def test_kv_format_is_a_fact_of_the_recipe_of_the_day(self) -> None:
        assert kv_format("dsr1", "sglang", "fp8", "mi355x", "2026-02-27") == "bf16"
        assert kv_format("dsr1", "sglang", "fp8", "mi355x", "2026-03-05") == "fp8"
        assert kv_format("dsr1", "sglang", "fp8", "mi355x", None) == "fp8"
        assert kv_format("dsr1", "sglang", "fp8", "h200", "2026-03-25") == "bf16"
        assert kv_format("dsr1", "vllm", "fp8", "h200", None) is None

    def test_who_says_the_kv_format(self) -> None:
        assert (one(API_ROW)["kv_dtype"], one(API_ROW)["kv_dtype_source"]) == ("fp8", "recipe")
        unknown = one(api(framework="vllm"))
        assert (unknown["kv_dtype"], unknown["kv_dtype_source"]) == ("bf16", "checkpoint")
        said = one(API_ROW, Sidecar(kv_dtype="bf16"))
        assert (said["kv_dtype"], said["kv_dtype_source"]) == ("bf16", "reported")

    def test_drafts_of_unknown_number(self) -> None:
        point = one(api(spec_method="mtp"))
        assert (point["draft_tokens"], point["accepted_tokens"]) == (None, None)
        assert (one(API_ROW)["draft_tokens"], one(API_ROW)["accepted_tokens"]) == (0, 1.0)
        said = one(api(spec_method="mtp"), Sidecar(draft_tokens=3, accepted_tokens=2.6))
        assert (said["draft_tokens"], said["accepted_tokens"]) == (3, 2.6)


class TestAgentRuns:
    def judged(self, *rows: dict[str, Any], tmp_path: Path) -> tuple[Inputs, pl.DataFrame]:
        path = tmp_path / "agg.json"
        path.write_text(json.dumps(list(rows)))
        inputs = read_inputs([FoundFile(path, path.name)], load_hardware(), load_models())
        return inputs, inputs.measured_agentic

    def test_are_in_a_table_of_their_own(self, tmp_path: Path) -> None:
        inputs, runs = self.judged(AGENTIC_ROW, API_ROW, tmp_path=tmp_path)
        assert (runs.height, inputs.serving_points.height) == (1, 1)
        (account,) = inputs.accounts
        assert (account.rows_read, account.rows_accepted, account.rows_quarantined) == (2, 2, 0)
        run = runs.row(0, named=True)
        expected = {
            "source_file": "agg.json", "source_row": 1, "hardware": "b200", "hardware_name": "b200-nb_1",
            "model": "deepseek-r1", "precision_name": "fp4", "backend": "vllm", "serving_mode": "agg", "tp": 4, "dp": 1,
            "moe_ep": 4, "gpus_per_replica": 4, "sessions": 16.0, "offload_mode": "off", "requests_total": 216,
            "requests_successful": 213, "duration_s": 1841.96, "server_gpu_cache_hit_rate": 0.873,
            "server_cpu_cache_hit_rate": None, "theoretical_cache_hit_rate": 0.941, "mean_input_tokens": 73466.3,
            "mean_output_tokens": 3201.6, "input_tokens_per_s": 8495.5, "output_tokens_per_s": 370.2,
        }  # fmt: skip
        assert {name: run[name] for name in expected} == expected
        in_ms = (run["ttft_ms"], run["ttft_p50_ms"], run["turn_latency_ms"], run["itl_ms"])
        assert in_ms == pytest.approx((5338.0, 773.0, 108_418.0, 32.5))
        assert run["failed_fraction"] == pytest.approx(3 / 216)
        assert run["total_tokens_per_s_per_gpu"] == pytest.approx(2216.42, rel=1e-4)

    def test_containers_of_later_versions(self, tmp_path: Path) -> None:
        flat = {name: value for name, value in AGENTIC_ROW.items() if not name.startswith(("mean_", "median_"))}
        for name in (
            "input_tput_tps",
            "output_tput_tps",
            "total_tput_tps",
            "duration_seconds",
            "offload_mode",
            "users",
        ):
            flat.pop(name)
        nested = {
            **flat, "conc": 16, "kv_offloading": "dram",
            "request_metrics": {
                "latency": {"ttft": {"mean": 5.338, "p50": 0.773}, "e2el": {"mean": 108.418}},
                "throughput": {"input": {"tokens_per_second": 8495.5}, "output": {"tokens_per_second": 370.2},
                               "total": {"tokens_per_second": 8865.7}, "duration_seconds": 1841.96},
            },
        }  # fmt: skip
        (run,) = self.judged(nested, tmp_path=tmp_path)[1].rows(named=True)
        assert (run["sessions"], run["offload_mode"], run["turn_latency_ms"]) == (16.0, "on", 108_418.0)

    @pytest.mark.parametrize(
        ("changed", "reason"),
        [
            ({"num_requests_successful": 0}, "failed_requests"),
            ({"hw": ""}, "missing_value"),
            ({"hw": "b200-acme"}, "unknown_hardware"),
            ({"input_tput_tps": None}, "missing_value"),
            ({"output_tput_tps": 900.0}, "throughput_does_not_fit"),
            ({"tp": 8, "ep": 8}, "gpus_do_not_fit_shape"),
            ({"server_gpu_cache_hit_rate": 87.3}, "out_of_range"),
            ({"users": 0}, "out_of_range"),
            ({"duration_seconds": "1 h"}, "not_a_number"),
        ],
    )
    def test_faults(self, changed: dict[str, Any], reason: str, tmp_path: Path) -> None:
        inputs, runs = self.judged({**AGENTIC_ROW, **changed}, tmp_path=tmp_path)
        assert runs.is_empty()
        assert inputs.quarantine["reason"].to_list() == [reason]


class TestSharedTables:
    """The dashboard's rows of DeepSeek-R1 and 44 agent runs."""

    def test_littles_law(self, shared: Path) -> None:
        """Within 10 % on every aggregated row with mean latencies; on 1 in 200 by nominal lengths."""
        path = shared / "tables/measured/inferencex_api/benchmarks.json"
        points = read_inputs(find_files([path]), load_hardware(), load_models()).serving_points
        agg = points.filter(pl.col("serving_mode") == "agg", pl.col("latency_statistic") == "mean")
        held = (agg["in_flight_requests"] / agg["concurrency_reported"] - 1).abs() <= 0.1
        assert agg.height == 196
        assert held.all()
        gpus = agg.select("hardware", "gpus_per_replica").unique().sort("hardware", "gpus_per_replica").rows()
        assert {count for _, count in gpus} == {4, 8}

    def test_gpus_and_account(self, shared: Path) -> None:
        inputs = read_inputs(find_files([shared / "tables/measured"]), load_hardware(), load_models())
        r1 = inputs.serving_points.filter(pl.col("model") == "deepseek-r1")
        assert r1["hardware"].n_unique() == 9
        assert inputs.measured_agentic.height == 108
        for account in inputs.accounts:
            parts = account.rows_accepted, account.rows_duplicate, account.rows_superseded, account.rows_quarantined
            assert account.rows_read == sum(parts)
        assert sum(account.rows_superseded for account in inputs.accounts) > 1000

    def test_hit_rate_collapses_between_16_and_24_sessions(self, shared: Path) -> None:
        folder = shared / "tables/measured/agentic_b200_dsr1"
        runs = read_inputs(find_files([folder]), load_hardware(), load_models()).measured_agentic
        tp4 = runs.filter(pl.col("tp") == 4, pl.col("offload_mode") == "off")
        rates = dict(tp4.select("sessions", "server_gpu_cache_hit_rate").iter_rows())
        assert rates[16] > 0.85
        assert rates[24] < 0.1
