"""Reruns: the later run of a configuration counts, in whatever order the files are read."""

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pipelines.reading.catalogues import load_hardware, load_models
from pipelines.reading.inputs import FoundFile
from pipelines.reading.read_inputs import Inputs, read_inputs
from tests.sources.test_inferencex import api
from tests.transforms.factory import aic_row, csv_text


def slower(by: float, **changed: Any) -> dict[str, Any]:
    """The run of ``API_ROW`` with all times ``by`` times as long."""
    times = {name: value * by for name, value in api()["metrics"].items() if "_t" in name and "tput" not in name}
    times |= {f"{word}_e2el": api()["metrics"][f"{word}_e2el"] * by for word in ("mean", "median")}
    rates = {name: value / by for name, value in api()["metrics"].items() if "tput" in name or "intvty" in name}
    return api(**{**times, **rates, **changed})


def read(folder: Path, files: Mapping[str, object], order: list[str] | None = None) -> Inputs:
    found = []
    for name in order or list(files):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        content = files[name]
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        if path.suffix == ".json":
            found.append(FoundFile(path, name))
    return read_inputs(found, load_hardware(), load_models())


def superseded(inputs: Inputs) -> dict[str, int]:
    return {account.path: account.rows_superseded for account in inputs.accounts}


def check_account(inputs: Inputs) -> None:
    for account in inputs.accounts:
        kinds = account.rows_accepted, account.rows_duplicate, account.rows_superseded, account.rows_quarantined
        assert account.rows_read == sum(kinds)
        assert min(kinds) >= 0
    total = inputs.serving_points.height + inputs.measured_agentic.height
    assert sum(account.rows_accepted for account in inputs.accounts) == total
    assert sum(account.rows_quarantined for account in inputs.accounts) == inputs.quarantine.height


class TestDatedRuns:
    @pytest.mark.parametrize("order", list(itertools.permutations(["a.json", "b.json", "c.json"])))
    def test_the_latest_counts_in_any_order(self, order: tuple[str, ...], tmp_path: Path) -> None:
        files = {"a.json": [slower(1.2, date="2026-01-05")], "b.json": [slower(1.1, date="2026-02-05")],
                 "c.json": [slower(1.0, date="2026-03-05")]}  # fmt: skip
        inputs = read(tmp_path, files, list(order))
        assert inputs.serving_points["measured_at"].to_list() == ["2026-03-05T00:00:00+00:00"]
        assert superseded(inputs) == {name: int(name != "c.json") for name in order}
        check_account(inputs)

    def test_runs_of_different_configurations_stay(self, tmp_path: Path) -> None:
        rows = [api(date="2026-01-05"), slower(1.1, date="2026-02-05", image="lmsysorg/sglang:v0.6")]
        others: list[dict[str, Any]] = [
            {"conc": 60}, {"framework": "trt"}, {"precision": "fp4"}, {"spec_method": "mtp"}, {"hardware": "b300"},
            {"decode_ep": 4}, {"decode_dp_attention": True}, {"isl": 1023, "osl": 1023},
        ]  # fmt: skip
        rows += [slower(1.1, date="2026-02-06", **other) for other in others]
        inputs = read(tmp_path, {"a.json": rows})
        assert sorted(inputs.serving_points["source_row"]) == list(range(2, len(rows) + 1))
        assert superseded(inputs) == {"a.json": 1}

    def test_a_quarantined_run_replaces_nothing(self, tmp_path: Path) -> None:
        inputs = read(tmp_path, {"a.json": [api(date="2026-01-05"), api(date="2026-02-05", mean_tpot=12.0)]})
        assert inputs.serving_points["measured_at"].to_list() == ["2026-01-05T00:00:00+00:00"]
        check_account(inputs)

    def test_means_go_before_the_medians_of_the_same_day(self, tmp_path: Path) -> None:
        medians = api()
        medians["metrics"] = {name: value for name, value in medians["metrics"].items() if not name.startswith("mean")}
        inputs = read(tmp_path, {"history.json": [medians], "latest.json": [api()]})
        assert inputs.serving_points["latency_statistic"].to_list() == ["mean"]
        assert superseded(inputs) == {"history.json": 1, "latest.json": 0}

    def test_what_cannot_be_put_in_order_is_kept(self, tmp_path: Path) -> None:
        undated = read(tmp_path / "1", {"a.json": [api(date=None), slower(1.1, date=None)]})
        assert undated.serving_points.height == 2
        one_day = read(tmp_path / "2", {"a.json": [api(), slower(1.1)]})
        assert one_day.serving_points.height == 2

    def test_exact_repeats_are_counted_apart(self, tmp_path: Path) -> None:
        inputs = read(tmp_path, {"a.json": [slower(1.1, date="2026-01-05"), api()], "b.json": [api(), api()]})
        (a, b) = inputs.accounts
        assert (a.rows_accepted, a.rows_superseded, b.rows_duplicate) == (1, 1, 2)
        check_account(inputs)


class TestSidecarDates:
    def test_measured_at_of_the_folder(self, tmp_path: Path) -> None:
        files: dict[str, object] = {
            "old/source.yaml": "measured_at: 2026-03-01\n",
            "new/source.yaml": "measured_at: 2026-03-01T12:00:00+02:00\n",
            "old/agg.json": [slower(1.1, date=None)],
            "new/agg.json": [api(date=None)],
        }
        inputs = read(tmp_path, files)
        assert superseded(inputs) == {"old/agg.json": 1, "new/agg.json": 0}
        assert inputs.serving_points["measured_at"].to_list() == ["2026-03-01T10:00:00+00:00"]

    def test_the_rows_own_day_goes_before_the_folders(self, tmp_path: Path) -> None:
        files: dict[str, object] = {"source.yaml": "measured_at: 2026-09-09\n", "a.json": [api()]}
        assert read(tmp_path, files).serving_points["measured_at"].to_list() == ["2026-03-25T00:00:00+00:00"]

    def test_modelled_tables_are_rerun_too(self, tmp_path: Path) -> None:
        found = []
        for day, bs, ttft in (("2026-03-01", 24, 750.0), ("2026-03-02", 24, 760.0), ("2026-03-01", 32, 900.0)):
            folder = tmp_path / f"{day}-{bs}"
            folder.mkdir()
            (folder / "source.yaml").write_text(f"measured_at: {day}\n")
            latency = ttft + 12.5 * 500
            rates = {
                "seq/s": bs / latency * 1e3,
                "tokens/s": bs / latency * 5e5,
                "tokens/s/gpu": bs / latency * 5e5 / 4,
            }
            row = aic_row(bs=bs, ttft=ttft, tpot=12.5, request_latency=latency, **{
                **{name: round(rate, 3) for name, rate in rates.items()}, "seq/s/gpu": 1.0, "tokens/s/user": 80.0,
            })  # fmt: skip
            (folder / "pareto.csv").write_text(csv_text([row]))
            found.append(FoundFile(folder / "pareto.csv", folder.name))
        inputs = read_inputs(found, load_hardware(), load_models())
        assert inputs.serving_points["ttft_ms"].to_list() == [760.0, 900.0]
        check_account(inputs)
