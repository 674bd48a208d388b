"""Case 11: a second run with fewer rows, one more column and other types, and a file that is cut off."""

import csv
from pathlib import Path

import polars as pl
import pytest

from pipelines.reading.catalogues import load_hardware, load_models
from pipelines.reading.inputs import FoundFile
from pipelines.reading.read_inputs import Inputs, read_inputs
from tests.cases.builds import build, current
from tests.cases.test_partition_values import add_models
from tests.transforms.factory import AIC_COLUMNS, aic_row

LOADS = ((8, 10.0), (16, 12.0), (24, 14.0))


def rows(models: str, ttft: str, power: str) -> list[dict[str, str]]:
    made = []
    for model in models:
        for batch, tpot in LOADS:
            latency = float(ttft) + 200 * tpot
            rate = 1e3 * batch / (200.0 + 200 * tpot)
            made.append(
                aic_row(model=f"m-{model}", isl=1000, osl=201, bs=batch, ttft=ttft, tpot=tpot, power_w=power,
                        request_latency=f"{latency:.3f}", **{
                            "seq/s": round(rate, 3), "seq/s/gpu": round(rate / 4, 3), "tokens/s": round(200 * rate, 3),
                            "tokens/s/gpu": round(50 * rate, 3), "tokens/s/user": round(1e3 / tpot, 3),
                        })
            )  # fmt: skip
    return made


RUN_1 = rows("abc", "200.0", "")
RUN_2 = rows("ab", "200.5", "650.0")


def text(run: list[dict[str, str]], without: tuple[str, ...] = ()) -> str:
    names = [name for name in AIC_COLUMNS if name not in without]
    return "\n".join([",".join(names), *(",".join(row[name] for name in names) for row in run)]) + "\n"


TEXT_1, TEXT_2 = text(RUN_1, without=("cp",)), text(RUN_2)
#: The last row has 16 of the 42 cells.
TRUNCATED = "\n".join([*TEXT_2.splitlines()[:6], ",".join(TEXT_2.splitlines()[6].split(",")[:16])])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tables").mkdir()
    add_models(tmp_path, ("m-a", "m-b", "m-c"))
    return tmp_path


def refresh(folder: Path, content: str) -> str:
    """A build after the same file was written anew."""
    (folder / "tables" / "pareto.csv").write_text(content)
    return build(folder / "lake", folder / "tables", folder / "models.yaml")


def test_the_runs_here_are_those_of_the_case(shared: Path) -> None:
    case = shared / "cases/11-rerun-drift-stale"
    for path, made, count in (("run1/pareto.csv", TEXT_1, 9), ("run2/pareto.csv", TEXT_2, 6)):
        given = list(csv.DictReader((case / path).read_text().splitlines()))
        own = list(csv.DictReader(made.splitlines()))
        assert len(given) == count
        assert [set(row) for row in given] == [set(row) for row in own]
        names = ("model", "bs", "ttft", "tpot", "tokens/s", "power_w", "concurrency")
        assert [[row[name] for name in names] for row in given] == [[row[name] for name in names] for row in own]
    cut = (case / "run3_truncated_pareto.csv").read_text().splitlines()
    assert [line.count(",") + 1 for line in cut] == [line.count(",") + 1 for line in TRUNCATED.splitlines()]


def test_nothing_stale_stays(folder: Path) -> None:
    first = refresh(folder, TEXT_1)
    assert current(folder / "lake", "serving_points").height == 9
    second = refresh(folder, TEXT_2)
    points = current(folder / "lake", "serving_points")
    assert (points.height, set(points["model"])) == (6, {"m-a", "m-b"})
    for table in ("agent_points", "agent_frontier"):
        assert set(current(folder / "lake", table)["model"]) == {"m-a", "m-b"}
    # history is kept: both releases are whole
    for release, count in ((first, 9), (second, 6)):
        files = folder / "lake/releases" / release / "serving_points/**/*.parquet"
        assert pl.read_parquet(files, hive_partitioning=True).height == count


@pytest.mark.parametrize("whole", ["200.0", "200"])
def test_types_are_the_same_from_both_runs(whole: str, folder: Path) -> None:
    refresh(folder, text(rows("abc", whole, ""), without=("cp",)))
    first = current(folder / "lake", "serving_points")
    refresh(folder, TEXT_2)
    second = current(folder / "lake", "serving_points")
    assert first.schema == second.schema
    assert first["ttft_ms"].dtype == pl.Float64
    # a release that does not know context parallelism has none
    assert set(first["cp"]) == set(second["cp"]) == {1}


def test_a_file_that_is_cut_off_loses_the_cut_row_alone(folder: Path) -> None:
    (folder / "tables" / "pareto.csv").write_text(TRUNCATED)
    inputs = _read(folder)
    assert inputs.serving_points.height == 5
    ((row, reason, detail),) = inputs.quarantine.select("source_row", "reason", "detail").rows()
    assert (row, reason) == (6, "wrong_number_of_cells")
    assert detail == "line 7 has 16 cells, the header 42"


def test_the_same_input_twice_gives_the_same_rows(folder: Path) -> None:
    tables = []
    for _ in range(2):
        refresh(folder, TEXT_2)
        tables.append(current(folder / "lake", "agent_points").sort("point_id", "scenario"))
    assert tables[0].equals(tables[1])


def test_a_failed_build_leaves_the_lake_as_it_was(folder: Path) -> None:
    from schemas.errors import UserError

    refresh(folder, TEXT_1)
    before = current(folder / "lake", "serving_points").sort("point_id")
    with pytest.raises(UserError, match="No row of the tables can be used"):
        refresh(folder, TRUNCATED.splitlines()[0] + "\n")
    assert current(folder / "lake", "serving_points").sort("point_id").equals(before)
    assert len(list((folder / "lake/releases").iterdir())) == 1


def _read(folder: Path) -> Inputs:
    found = [FoundFile(folder / "tables/pareto.csv", "pareto.csv")]
    return read_inputs(found, load_hardware(), load_models(folder / "models.yaml"))
