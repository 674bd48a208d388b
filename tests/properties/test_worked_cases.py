"""Three worked cases: ties with faults and infeasible rows, replicas in a cluster, TPOT that contains TTFT.

The rows are written out here, with what is right for them; where the folder of cases is at hand, its files must
say the same.
"""

import csv
import io
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from pipelines.reading.catalogues import load_hardware, load_models
from pipelines.reading.inputs import FoundFile
from pipelines.reading.read_inputs import Inputs, read_inputs
from tests.transforms.factory import agent_points, aic_row, csv_text, identity_scenario, setting

SEED = 4


def case_01() -> dict[str, dict[str, str]]:
    """Rows by their names in the case, in file order."""
    one: dict[str, object] = {
        "osl": 501, "bs": 24, "ttft": 750.0, "tpot": 12.5, "request_latency": 7000.0, "seq/s": 3.429,
        "seq/s/gpu": 0.857, "tokens/s": 1714.286, "tokens/s/gpu": 428.571, "tokens/s/user": 80.0,
    }  # fmt: skip
    rows: dict[str, dict[str, object]] = {
        "A": {"seq/s": 1.455, "bs": 8, "ttft": 500.0, "tpot": 10.0, "request_latency": 5500.0, "seq/s/gpu": 0.364,
              "tokens/s": 727.273, "tokens/s/gpu": 181.818, "tokens/s/user": 100.0},
        "B": one,
        "C": {**one, "seq/s": 2.376, "ttft": 3850.0, "request_latency": 10100.0, "seq/s/gpu": 0.594,
              "tokens/s": 1188.119, "tokens/s/gpu": 297.03},
        "D": {**one, "bs": 48, "ttft": 4000.0, "tpot": 20.0, "request_latency": 14000.0, "tokens/s/user": 50.0},
        "E": one,
        "E2": {**one, "tp": 8, "bs": 48, "seq/s": 6.857, "tokens/s": 3428.571},
        "F": {"seq/s": 5.6, "bs": 56, "ttft": 2000.0, "tpot": 16.0, "request_latency": 10000.0, "seq/s/gpu": 1.4,
              "tokens/s": 2800.0, "tokens/s/gpu": 700.0, "tokens/s/user": 62.5},
        "G": {"seq/s": 5.333, "bs": 56, "ttft": 2000.0, "tpot": 17.0, "request_latency": 10500.0, "seq/s/gpu": 1.333,
              "tokens/s": 2666.667, "tokens/s/gpu": 666.667, "tokens/s/user": 58.824},
        "H": {"seq/s": 6.154, "bs": 40, "ttft": "", "tpot": 11.0, "request_latency": "NaN", "seq/s/gpu": 1.538,
              "tokens/s": 3076.923, "tokens/s/gpu": 769.231, "tokens/s/user": 90.909},
        "I": {"seq/s": 4.706, "bs": 40, "ttft": 1000.0, "tpot": 15.0, "request_latency": 8500.0, "seq/s/gpu": 1.176,
              "tokens/s": "inf", "tokens/s/gpu": "inf", "tokens/s/user": 66.667},
        "J": {"seq/s": 6.667, "bs": 40, "ttft": 1000.0, "tpot": 0.0, "request_latency": 1000.0, "seq/s/gpu": 1.667,
              "tokens/s": 20000.0, "tokens/s/gpu": 5000.0, "tokens/s/user": 0.0},
        "K": {"seq/s": 8.0, "bs": 192, "ttft": 4000.0, "tpot": 40.0, "request_latency": 24000.0, "seq/s/gpu": 2.0,
              "tokens/s": 4000.0, "tokens/s/gpu": 1000.0, "tokens/s/user": 25.0},
        "L": {"seq/s": 16.0, "bs": 128, "ttft": 1000.0, "tpot": 14.0, "request_latency": 8000.0, "seq/s/gpu": 4.0,
              "tokens/s": 8000.0, "tokens/s/gpu": 2000.0, "tokens/s/user": 71.429, "memory": 160.0},
    }  # fmt: skip
    return {name: aic_row(**row) for name, row in rows.items()}


def case_02() -> list[dict[str, str]]:
    """Replicas of 4, 12, 24 and 40 GPUs."""
    shared = {"isl": 2000, "osl": 101}
    return [
        aic_row(**row, **shared)
        for row in (
            {"bs": 32, "ttft": 666.667, "tpot": 20.0, "request_latency": 2666.667, "seq/s": 12.0, "seq/s/gpu": 3.0,
             "tokens/s": 1200.0, "tokens/s/gpu": 300.0, "tokens/s/user": 50.0},
            {"bs": 48, "ttft": 777.778, "tpot": 22.222, "request_latency": 3000.0, "seq/s": 48.0, "seq/s/gpu": 4.0,
             "tokens/s": 4800.0, "tokens/s/gpu": 400.0, "tokens/s/user": 45.0, "pp": 3},
            {"bs": 120, "ttft": 500.0, "tpot": 25.0, "request_latency": 3000.0, "seq/s": 120.0, "seq/s/gpu": 5.0,
             "tokens/s": 12000.0, "tokens/s/gpu": 500.0, "tokens/s/user": 40.0, "tp": 8, "pp": 3},
            {"bs": 168, "ttft": 642.857, "tpot": 28.571, "request_latency": 3500.0, "seq/s": 240.0, "seq/s/gpu": 6.0,
             "tokens/s": 24000.0, "tokens/s/gpu": 600.0, "tokens/s/user": 35.0, "tp": 8, "pp": 5},
        )
    ]  # fmt: skip


def case_04(kind: str) -> list[dict[str, str]]:
    """Two runs, their ``tpot`` column with or without the TTFT."""
    tpot = {"plain": (20.0, 10.0), "inclusive": (29.8, 12.9)}[kind]
    shared = {"osl": 100}
    return [
        aic_row(**row, **shared)
        for row in (
            {"bs": 32, "ttft": 1000.0, "tpot": tpot[0], "request_latency": 2980.0, "seq/s": 10.738,
             "seq/s/gpu": 2.685, "tokens/s": 1063.087, "tokens/s/gpu": 265.772, "tokens/s/user": 50.0},
            {"bs": 16, "ttft": 300.0, "tpot": tpot[1], "request_latency": 1290.0, "seq/s": 12.403,
             "seq/s/gpu": 3.101, "tokens/s": 1227.907, "tokens/s/gpu": 306.977, "tokens/s/user": 100.0},
        )
    ]  # fmt: skip


def read(tmp_path: Path, rows: list[dict[str, str]]) -> Inputs:
    path = tmp_path / "pareto.csv"
    path.write_text(csv_text(rows))
    return read_inputs([FoundFile(path, "pareto.csv")], load_hardware(), load_models())


@pytest.mark.parametrize(
    ("file", "rows"),
    [
        ("01-pareto-ties-nan-infeasible/pareto.csv", list(case_01().values())),
        ("02-replica-vs-cluster/pareto.csv", case_02()),
        ("04-inclusive-tpot/plain/pareto.csv", case_04("plain")),
        ("04-inclusive-tpot/inclusive/pareto.csv", case_04("inclusive")),
    ],
)
def test_the_rows_here_are_those_of_the_cases(shared: Path, file: str, rows: list[dict[str, str]]) -> None:
    text = (shared / "cases" / file).read_text()
    assert list(csv.DictReader(io.StringIO(text))) == rows


class TestTiesFaultsAndInfeasible:
    """Case 01."""

    def test_every_row_is_accounted_for(self, tmp_path: Path) -> None:
        inputs = read(tmp_path, list(case_01().values()))
        (account,) = inputs.accounts
        assert account.rows_read == 13
        assert account.rows_accepted == inputs.serving_points.height == 9
        assert account.rows_duplicate == 1
        assert account.rows_quarantined == inputs.quarantine.height == 3
        names = list(case_01())
        faults = {names[row - 1]: reason for row, reason in inputs.quarantine["source_row", "reason"].iter_rows()}
        assert faults == {"H": "missing_value", "I": "not_a_number", "J": "no_decode"}
        assert account.quarantined == Counter(faults.values())

    @pytest.mark.parametrize("hit_rate", [0.0, 0.5, 1.0])
    @pytest.mark.parametrize("shuffled", [False, True])
    def test_front(self, tmp_path: Path, shuffled: bool, hit_rate: float) -> None:
        names = pl.Series(list(case_01()))
        if shuffled:
            names = names.shuffle(SEED)
        inputs = read(tmp_path, [case_01()[name] for name in names])
        scenario = identity_scenario(4000, 501, hit_rate=hit_rate)
        points = agent_points(inputs.serving_points, setting("h200-sxm", "qwen3-32b", scenario))
        row = pl.col("source_row")
        points = points.with_columns(name=row.map_elements(lambda number: names[number - 1], return_dtype=pl.String))
        front = points.filter("on_frontier")
        # which of two rows that are alike in every column is the duplicate depends on their order
        assert set(front["name"].replace("E", "B")) == {"A", "B", "E2", "F", "K"}
        coordinates = front.select("turn_latency_ms", "turns_per_s_per_gpu")
        assert (coordinates.height, coordinates.n_unique()) == (5, 4)
        assert set(front.filter(pl.col("tpot_ms") <= 30)["name"].replace("E", "B")) == {"A", "B", "E2", "F"}
        infeasible = points.filter(~pl.col("feasible")).select("name", "infeasible_reason").rows()
        assert infeasible == [("L", "table_memory_exceeds_gpu")]

    @pytest.mark.parametrize("hit_rate", [0.0, 0.5, 1.0])
    def test_figures_are_the_tables(self, tmp_path: Path, hit_rate: float) -> None:
        """Of two rows at one configuration and load (B and C, F and G) each has its own, hits and misses alike."""
        inputs = read(tmp_path, list(case_01().values()))
        scenario = identity_scenario(4000, 501, hit_rate=hit_rate)
        points = agent_points(inputs.serving_points, setting("h200-sxm", "qwen3-32b", scenario))
        points = points.filter(~pl.col("interpolated"))
        assert points.height == 9
        names = list(case_01())
        for point in points.iter_rows(named=True):
            stated = case_01()[names[point["source_row"] - 1]]
            assert point["ttft_ms"] == float(stated["ttft"])
            assert point["turn_latency_ms"] == pytest.approx(float(stated["request_latency"]), rel=1e-12)
            assert point["serving_requests_per_s"] == pytest.approx(float(stated["seq/s"]), abs=1e-3)
            for end in ("_all_hits", "_all_misses"):
                at_end = point[f"serving_requests_per_s{end}"]
                assert at_end == pytest.approx(point["serving_requests_per_s"], rel=1e-12)
            assert point["decode_tokens_per_s_per_user"] == pytest.approx(float(stated["tokens/s/user"]), rel=1e-4)
            assert 500 * point["turns_per_s_per_gpu"] == pytest.approx(float(stated["tokens/s/gpu"]), rel=1e-5)


class TestReplicasInACluster:
    """Case 02: 32 GPUs."""

    def points(self, tmp_path: Path, **options: object) -> pl.DataFrame:
        inputs = read(tmp_path, case_02())
        assert inputs.serving_points.height == 4
        shared = setting("h200-sxm", "qwen3-32b", identity_scenario(2000, 101), **options)
        return agent_points(inputs.serving_points, shared).sort("gpus_per_replica")

    def test_cluster_view(self, tmp_path: Path) -> None:
        points = self.points(tmp_path, cluster_gpus=32)
        assert points["gpus_per_replica"].to_list() == [4, 12, 24, 40]
        assert points["cluster_replicas"].to_list() == [8, 2, 1, 0]
        assert points["infeasible_reason"].to_list() == [None, None, None, "replica_larger_than_cluster"]
        per_gpu = (100 * points["turns_per_s_per_gpu"]).to_list()
        assert per_gpu == pytest.approx([300, 400, 500, 600], rel=1e-5)
        # neither 0 nor 600 where no replica fits
        per_cluster_gpu = (100 * points["turns_per_s_per_cluster_gpu"]).to_list()
        assert per_cluster_gpu == [pytest.approx(300, rel=1e-5), pytest.approx(300, rel=1e-5), pytest.approx(375), None]
        tasks = points["tasks_per_hour_per_cluster_gpu"].to_list()
        assert tasks == [None if turns is None else pytest.approx(36 * turns) for turns in per_cluster_gpu]
        in_cluster = points.select(
            tokens=100 * pl.col("turns_per_s") * pl.col("cluster_replicas"),
            sessions=pl.col("sessions") * pl.col("cluster_replicas"),
        )
        assert in_cluster["tokens"].to_list()[:3] == pytest.approx([9600, 9600, 12000], rel=1e-5)
        assert in_cluster["sessions"].to_list()[:3] == pytest.approx([256, 288, 360], rel=1e-4)

    def test_front_per_cluster_gpu(self, tmp_path: Path) -> None:
        points = self.points(tmp_path, cluster_gpus=32)
        assert points["on_frontier"].to_list() == [True, False, True, False]

    def test_without_a_cluster_every_replica_can_be_deployed(self, tmp_path: Path) -> None:
        points = self.points(tmp_path)
        assert points["feasible"].all()
        assert points["on_frontier"].to_list() == [True, True, True, True]
        assert points["turns_per_s_per_cluster_gpu"].null_count() == 4

    def test_littles_law_and_pipeline_stages(self, tmp_path: Path) -> None:
        """Concurrency counts pp (144 in row 2), and is rate times latency."""
        points = read(tmp_path, case_02()).serving_points.sort("gpus_per_replica")
        assert points["concurrency_reported"].to_list() == [32, 144, 360, 840]
        assert points["in_flight_requests"].to_list() == pytest.approx([32, 144, 360, 840], rel=1e-5)


class TestInclusiveTpot:
    """Case 04."""

    def test_decode_time_is_recovered(self, tmp_path: Path) -> None:
        for kind, source in (("plain", "reported"), ("inclusive", "recovered")):
            points = read(tmp_path, case_04(kind)).serving_points
            assert points["tpot_ms"].to_list() == pytest.approx([20.0, 10.0])
            assert points["tpot_source"].to_list() == [source, source]

    def test_both_folders_give_one_frontier(self, tmp_path: Path) -> None:
        figures = ("ttft_ms", "tpot_ms", "turn_latency_ms", "sessions", "turns_per_s_per_gpu", "on_frontier")
        shared = setting("h200-sxm", "qwen3-32b", identity_scenario(4000, 100))
        plain, inclusive = (
            agent_points(read(tmp_path, case_04(kind)).serving_points, shared).select(figures).sort("tpot_ms")
            for kind in ("plain", "inclusive")
        )
        assert plain["on_frontier"].to_list() == [True, False]
        for name in figures:
            assert inclusive[name].to_list() == pytest.approx(plain[name].to_list(), rel=1e-9)
