"""Cases 16 to 31 of load tests: what each file states is used, and what it cannot mean is refused.

Each stands for a kind and is built here anew; where the folder of worked cases is there, its files give the same.
"""

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from pipelines.building import build_inputs
from pipelines.cli import app
from pipelines.reading.catalogues import load_hardware, load_models
from pipelines.reading.folders import PassedOver
from pipelines.reading.inputs import find_files, search
from pipelines.reading.read_inputs import Inputs, read_inputs, superseded_in_words
from schemas.errors import UserError
from schemas.options import BuildOptions
from tests.cases.builds import build
from tests.sources.results import FACTS, aiperf_summary, row_of, sglang_record, vllm_record
from tests.transforms.factory import AIC_COLUMNS, aic_row


def read(folder: Path) -> Inputs:
    return read_inputs(find_files([folder]), load_hardware(), load_models())


def verdicts(inputs: Inputs) -> dict[str, object]:
    """Reason of each file's only row; None where it was accepted."""
    reasons: dict[str, object] = {file.path: next(iter(file.quarantined), None) for file in inputs.accounts}
    return reasons | {account.path: "rejected" for account in inputs.accounts if account.rejected_reason}


def write(folder: Path, says: str = FACTS, **files: object) -> Path:
    """A folder with a ``source.yaml`` and JSON files of these names."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "source.yaml").write_text(says)
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def test_16_and_17_no_steady_load(shared: Path) -> None:
    assert verdicts(read(shared / "cases/16-load-not-steady-guidellm")) == {
        "a_incomplete_half.json": "load_not_steady", "b_rampup.json": "changing_load",
    }  # fmt: skip
    assert verdicts(read(shared / "cases/17-load-not-steady-aiperf")) == {"profile_export_aiperf.json": "changing_load"}


class TestPrefixStated:
    def test_case_18(self, shared: Path) -> None:
        points = read(shared / "cases/18-prefix-stated-in-file").serving_points.sort("isl_tokens")
        assert points["prefix_tokens"].to_list() == [3072, 15360]

    def test_sglang(self) -> None:
        """900 of 1,000 tokens from the cache."""
        report = {"total_prompt_tokens": 200_000, "total_cached_tokens": 180_000}
        gsp = sglang_record(dataset_name="generated-shared-prefix", cache_report=report)
        assert row_of(gsp)["prefix_tokens"] == 900
        assert row_of(gsp, f"{FACTS}prefix_tokens: 900\n")["reason"] is None
        assert row_of(gsp, f"{FACTS}prefix_tokens: 500\n")["reason"] == "sidecar_disagrees"

    def test_sglang_without_a_report(self) -> None:
        """Shared prefixes are in the load; whether the server kept them, nobody says."""
        gsp = sglang_record(dataset_name="generated-shared-prefix")
        assert row_of(gsp)["reason"] == "missing_value"
        assert row_of(gsp, f"{FACTS}prefix_tokens: 900\n")["prefix_tokens"] == 900

    @pytest.mark.parametrize(
        "metric",
        [{"total_usage_prompt_cache_read_tokens": {"unit": "tokens", "avg": 50_000.0}},
         {"usage_prompt_cache_read_tokens": {"unit": "tokens", "avg": 250.0, "p50": 0.0}}],
    )  # fmt: skip
    def test_aiperf(self, metric: dict[str, object]) -> None:
        assert row_of(aiperf_summary(**metric))["prefix_tokens"] == 250

    def test_aiperf_with_turns(self) -> None:
        config = {"input": {"conversation": {"turn": {"mean": 5}}}, "loadgen": {"concurrency": 16}}
        assert "prefix_tokens" in row_of(aiperf_summary(input_config=config))["detail"]


class TestSpeculationStated:
    def test_case_19(self, shared: Path) -> None:
        points = read(shared / "cases/19-speculation-stated-in-file").serving_points.sort("draft_tokens")
        assert points.select("draft_tokens", "accepted_tokens").rows() == [(0, 1.0), (3, 2.8)]

    def test_by_totals(self) -> None:
        """100 steps drafted 200 tokens and accepted 90: 1.9 come out of a step."""
        totals = {"total_spec_decode_steps": 100, "total_draft_tokens": 200, "total_accepted_draft_tokens": 90}
        row = row_of(aiperf_summary(**{name: {"unit": "count" if "steps" in name else "tokens", "avg": value}
                                       for name, value in totals.items()}))  # fmt: skip
        assert (row["draft_tokens"], row["accepted_tokens"]) == (2, pytest.approx(1.9))

    def test_a_length_alone_does_not_say_how_many_were_drafted(self) -> None:
        row = row_of(aiperf_summary(spec_decode_acceptance_length={"unit": "ratio", "avg": 1.9}))
        assert row["detail"].endswith("values: `draft_tokens: 3`")

    def test_case_30(self, shared: Path) -> None:
        accounts = read(shared / "cases/30-drafts-and-acceptance").accounts
        assert all("from 1 to 2 tokens" in str(account.rejected_reason) for account in accounts)

    @pytest.mark.parametrize(("drafted", "accepted", "fits"), [(3, 4.0, True), (3, 4.2, False), (0, 1.5, False)])
    def test_more_than_drafted(self, tmp_path: Path, drafted: int, accepted: float, fits: bool) -> None:
        """The file's own figures, against each other."""
        run = vllm_record(spec_decode_num_drafts=100, spec_decode_draft_tokens=100 * drafted,
                          spec_decode_acceptance_length=accepted)  # fmt: skip
        assert verdicts(read(write(tmp_path, run=run))) == {"run.json": None if fits else "drafts_do_not_fit"}


class TestSweeps:
    def test_case_20(self, shared: Path) -> None:
        inputs = read(shared / "cases/20-sweep-is-no-rerun")
        assert inputs.serving_points.height == 4
        at_16 = inputs.serving_points.filter(pl.col("concurrency_reported") == 16).sort("tpot_ms")
        assert at_16["tpot_ms"][0] == pytest.approx(19.72)
        assert "max_num_batched_tokens=2048" in at_16["setting"][0]
        assert at_16["configuration_id"].n_unique() == 2

    @pytest.mark.parametrize(
        ("early", "late"),
        [({"max_num_seqs": 128}, {"max_num_seqs": 256}), ({"label": "eager"}, {"label": "graphs"}),
         ({"gpu_memory_utilization": 0.8}, {"gpu_memory_utilization": 0.95})],
    )  # fmt: skip
    def test_flags_and_labels(self, tmp_path: Path, early: dict[str, object], late: dict[str, object]) -> None:
        write(tmp_path, a=vllm_record(**early), b=vllm_record(date="20260302-120000", **late))
        assert read(tmp_path).serving_points.height == 2

    def test_names_of_runs(self, tmp_path: Path) -> None:
        for run, day in (("tuned", 1), ("default", 2)):
            write(tmp_path / run, f"{FACTS}run: {run}\n", a=vllm_record(date=f"2026030{day}-120000"))
        assert read(tmp_path).serving_points["setting"].to_list() == ["run=default", "run=tuned"]

    @pytest.mark.parametrize("figure", [{"mean_power_w": 700.0}, {"run_number": 2}, {"host": "node-7"}])
    def test_a_figure_and_a_clock_are_no_setting(self, tmp_path: Path, figure: dict[str, object]) -> None:
        """A rerun it is; the summary says which file replaced which."""
        write(tmp_path, a=vllm_record(), b=vllm_record(date="20260302-120000", **figure))
        inputs = read(tmp_path)
        assert inputs.serving_points["source_file"].to_list() == ["b.json"]
        assert superseded_in_words(inputs.accounts) == ["superseded, a.json: 1 row by b.json"]


class TestSidecarAgainstFile:
    def test_case_21(self, shared: Path) -> None:
        inputs = read(shared / "cases/21-sidecar-contradicts-file")
        assert verdicts(inputs) == {
            "lora.json": None, "other_model.json": "sidecar_disagrees", "path.json": None, "quantised.json": None,
        }  # fmt: skip
        assert "sql-lora" in inputs.serving_points["model_name"].to_list()
        assert set(inputs.serving_points["model"]) == {"llama-3-1-70b"}

    @pytest.mark.parametrize(
        ("model", "says", "reason"),
        [
            ("Qwen/Qwen3-32B", "", "sidecar_disagrees"),
            ("meta-llama/Llama-3.1-70B-Instruct", "", None),
            ("/mnt/checkpoints/step-9000", "", None),
            ("our/Llama-3.1-70B-Instruct-AWQ", "", "sidecar_disagrees"),
            ("our/Llama-3.1-70B-Instruct-FP8-dynamic", "", None),
        ],
    )
    def test_names_of_models(self, tmp_path: Path, model: str, says: str, reason: str | None) -> None:
        write(tmp_path, FACTS + says, run=vllm_record(model_id=model))
        assert verdicts(read(tmp_path)) == {"run.json": reason}

    @pytest.mark.parametrize(("says", "reason"), [("kv_dtype: fp8", "sidecar_disagrees"), ("kv_dtype: bf16", None)])
    def test_the_cache_that_a_server_names(self, tmp_path: Path, says: str, reason: str | None) -> None:
        server = {"tp_size": 8, "kv_cache_dtype": "bfloat16", "quantization": "fp8"}
        facts = FACTS.replace("kv_dtype: bf16", f"{says}\nattention_dtype: bf16")
        write(tmp_path, facts, run=sglang_record(server_info=server))
        assert verdicts(read(tmp_path)) == {"run.json": reason}


def multinode(**changes: object) -> dict[str, object]:
    """Two replicas of TP8 in the keys of a prefill pool: 16 slots at 8 s are 2 requests/s of 202 tokens on 16 GPUs."""
    return {
        "hw": "gb200-nv", "framework": "dynamo-trt", "precision": "fp8", "spec_decoding": "none",
        "model": "deepseek-ai/DeepSeek-R1-0528", "infmax_model_prefix": "dsr1", "isl": 1000, "osl": 101, "conc": 16,
        "disagg": False, "is_multinode": True, "prefill_tp": 8, "prefill_ep": 8, "prefill_dp_attention": "false",
        "prefill_num_workers": 2, "decode_tp": 0, "decode_ep": 0, "decode_dp_attention": "false",
        "decode_num_workers": 0, "num_prefill_gpu": 16, "num_decode_gpu": 0, "tput_per_gpu": 2202 / 16,
        "output_tput_per_gpu": 202 / 16, "input_tput_per_gpu": 2000 / 16, "mean_ttft": 0.5, "mean_tpot": 0.075,
        "mean_e2el": 8.0, "mean_intvty": 1 / 0.075, **changes,
    }  # fmt: skip


@pytest.mark.parametrize(
    "left_over",
    [{}, {"decode_tp": 8, "decode_ep": 8, "decode_num_workers": 1}, {"decode_tp": 4, "decode_dp_attention": "true"}],
)
def test_22_an_aggregated_replica_over_nodes(left_over: dict[str, object]) -> None:
    row = row_of(multinode(**left_over), None)
    assert (row["serving_mode"], row["tp"], row["reason"]) == ("agg", 8, None)
    assert row["requests_per_s"] == pytest.approx(1.0)
    assert row["concurrency_reported"] == 8


def test_22_as_it_was_published(shared: Path) -> None:
    inputs = read(shared / "cases/22-inferencex-agg-multinode")
    (point,) = inputs.serving_points.to_dicts()
    assert (point["gpus_per_replica"], point["requests_per_s"]) == (8, pytest.approx(1.63, abs=0.01))


class TestMediansAlone:
    def test_case_25(self, shared: Path) -> None:
        points = read(shared / "cases/25-vllm-medians-only").serving_points
        assert points["latency_statistic"].unique().to_list() == ["p50"]
        at_16 = points.row(by_predicate=pl.col("concurrency_reported") == 16, named=True)
        assert (at_16["ttft_ms"], at_16["tpot_ms"]) == pytest.approx((2090.38, 118.06), rel=1e-3)
        assert at_16["request_latency_ms"] == pytest.approx(17728.7, rel=1e-4)

    def test_in_seconds(self) -> None:
        medians = {f"median_{name}": value for name, value in (("ttft", 0.5), ("tpot", 0.075), ("e2el", 8.0))}
        run = {key: value for key, value in vllm_record().items() if "_ms" not in key}
        row = row_of(run | medians)
        assert (row["ttft_ms"], row["request_latency_ms"], row["latency_statistic"]) == (500, 8000, "p50")
        assert row["reason"] is None

    def test_asked_for(self) -> None:
        """Means and medians are there: the sidecar's word decides."""
        row = row_of(vllm_record(median_e2el_ms=7950.0), f"{FACTS}latency_statistic: p50\n")
        assert (row["ttft_ms"], row["request_latency_ms"], row["latency_statistic"]) == (490, 7950, "p50")


class TestFolders:
    def test_case_26(self, shared: Path) -> None:
        found = search([shared / "cases/26-files-passed-over"])
        assert {file.shown for file in found.files} == {
            "c16.json", "c32.txt", "c64", "benchmark_report_v0.2.yaml", "benchmarks.csv",
        }  # fmt: skip
        assert {item.path for item in found.passed_over} == {"expected.md", "statistics_8_clients.xlsx"}

    def test_any_ending(self, tmp_path: Path) -> None:
        write(tmp_path, a=vllm_record())
        for name in ("b.txt", "c", "d.result.log"):
            (tmp_path / name).write_text(json.dumps(vllm_record(max_concurrency=17)))
        (tmp_path / "plot.png").write_bytes(b"\x89PNG\r\n\x1a\n\0")
        (tmp_path / "notes.md").write_text("# Notes\n{not json}\n")
        (tmp_path / ".cache").mkdir()
        (tmp_path / ".cache" / "x.json").write_text("{}")
        result = CliRunner().invoke(app, ["check", "--tables", str(tmp_path), "--format", "json"])
        told = json.loads(result.stdout)
        assert [file["path"] for file in told["files"]] == ["a.json", "b.txt", "c", "d.result.log"]
        assert {item["path"]: item["why"] for item in told["passed_over"]} == {
            ".cache": "hidden", "notes.md": "no results of a form that is known",
            "plot.png": "no results of a form that is known",
        }  # fmt: skip

    def test_27_a_lake_among_the_tables(self, tmp_path: Path) -> None:
        write(tmp_path, a=vllm_record())
        before = build_inputs.find(BuildOptions(tables=(tmp_path,), out=tmp_path / "lake")).inputs_sha256
        build(tmp_path / "lake", tmp_path)
        found = search([tmp_path])
        assert [file.shown for file in found.files] == ["a.json"]
        assert found.passed_over == [PassedOver("lake", "a lake")]
        # nothing has changed: the next build publishes nothing
        assert build_inputs.find(BuildOptions(tables=(tmp_path,), out=tmp_path / "lake")).inputs_sha256 == before
        with pytest.raises(UserError, match="is a lake, which holds no inputs"):
            search([tmp_path / "lake"])

    def test_a_lake_whose_first_release_is_not_whole(self, tmp_path: Path) -> None:
        write(tmp_path, a=vllm_record())
        staged = write(tmp_path / "out/releases/.staging-x", b=vllm_record(max_concurrency=17))
        assert staged.exists()
        assert [file.shown for file in search([tmp_path]).files] == ["a.json"]


def table_row() -> dict[str, str]:
    """A row of AIConfigurator: 8 requests of 200 + 200 * 10 ms at a time."""
    rate = 8 / 2.2
    derived = {"seq/s": rate, "seq/s/gpu": rate / 4, "tokens/s": 200 * rate, "tokens/s/gpu": 50 * rate}
    figures = {"ttft": 200.0, "tpot": 10.0, "request_latency": 2200.0, "tokens/s/user": 100.0}
    return aic_row(isl=1000, osl=201, bs=8, **figures, **derived, **{"tokens/s/gpu_cluster": 50 * rate})


class TestDatabaseMode:
    @pytest.mark.parametrize(
        ("config", "mode", "setting"),
        [
            ("database_mode: SILICON\n", "SILICON", None),
            ("mode: patch\nconfig:\n  database_mode: HYBRID\n", "HYBRID", "database_mode=HYBRID"),
            ("nextn: 0\n", None, None),
            (None, None, None),
        ],
    )
    def test_31_is_a_fact_of_each_row(
        self, tmp_path: Path, config: str | None, mode: str | None, setting: str | None
    ) -> None:
        row = table_row()
        (tmp_path / "pareto.csv").write_text(",".join(AIC_COLUMNS) + "\n" + ",".join(row[name] for name in AIC_COLUMNS))
        if config is not None:
            (tmp_path / "exp_config.yaml").write_text(config)
        (point,) = read(tmp_path).serving_points.to_dicts()
        assert (point["database_mode"], point["setting"]) == (mode, setting)

    def test_a_column_of_the_tables_that_are_asked_for(self, tmp_path: Path) -> None:
        row, names = table_row() | {"database_mode": "EMPIRICAL"}, [*AIC_COLUMNS, "database_mode"]
        (tmp_path / "pareto.csv").write_text(",".join(names) + "\n" + ",".join(row[name] for name in names))
        assert read(tmp_path).serving_points["database_mode"].to_list() == ["EMPIRICAL"]


def test_kv_tokens_in_a_column_and_in_the_sidecar(tmp_path: Path) -> None:
    says = f"{FACTS}format: generic\ncolumns:\n" + "".join(
        f"  {name}: {{column: {column}, unit: {unit}}}\n"
        for name, column, unit in (
            ("isl_tokens", "isl", "tokens"), ("osl_tokens", "osl", "tokens"), ("ttft_ms", "ttft", "ms"),
            ("tpot_ms", "tpot", "ms"), ("requests_per_s", "rate", "requests/s"), ("kv_tokens", "cache", "tokens"),
        )
    )  # fmt: skip
    (tmp_path / "source.yaml").write_text(says)
    (tmp_path / "a.csv").write_text("isl,osl,ttft,tpot,rate,cache\n1000,101,500,75,2,3512000\n")
    write(tmp_path / "b", f"{FACTS}kv_tokens: 912000\n", run=vllm_record())
    points = read(tmp_path).serving_points
    assert sorted(points["kv_tokens"].to_list()) == [912_000, 3_512_000]
