"""A large collection of tables: the shipped AIConfigurator ones, copied and jittered, and ten scenarios."""

import tempfile
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
import yaml

from pipelines.reading.catalogues import SHIPPED, load_scenarios
from schemas.scenarios import Scenario
from tests.pipelines import builds

SCENARIOS: Final = 10
TIMES: Final = ("ttft", "tpot", "request_latency")
RATES: Final = ("request_rate", "seq/s", "seq/s/gpu", "tokens/s", "tokens/s/gpu", "tokens/s/user")
COPIES_A_FILE: Final = 10


def write_tables(folder: Path, copies: int) -> None:
    """Each aggregated shipped table so many times, every copy a version of its own with other times.

    Copies of one table share files of some thousand rows, as a tool's sweeps do.
    """
    folder.mkdir()
    random = np.random.default_rng(20260417)
    for path in sorted(builds.CANDIDATES.glob("*__agg.csv.gz")):
        table = pl.read_csv(path, infer_schema_length=None)
        for file in range(0, copies, COPIES_A_FILE):
            jittered = [_jittered(table, copy, random) for copy in range(file, min(file + COPIES_A_FILE, copies))]
            pl.concat(jittered).write_csv(folder / f"{path.name.removesuffix('.csv.gz')}__{file:04}.csv")


def _jittered(table: pl.DataFrame, copy: int, random: np.random.Generator) -> pl.DataFrame:
    stretch = pl.Series(random.uniform(1.0, 1.02, table.height))
    return table.with_columns(
        *((pl.col(name) * stretch).round(3) for name in TIMES),
        *((pl.col(name) / stretch).round(6) for name in RATES),
        version=pl.col("version").cast(pl.String) + f".{copy}",
    )


def write_scenarios(path: Path) -> None:
    """The shipped scenarios of plain numbers with other pauses."""
    shipped = yaml.safe_load((SHIPPED / "scenarios.yaml").read_text(encoding="utf-8"))["scenarios"]
    shipped = [entry for entry in shipped if "distributions" not in entry and not isinstance(entry["turns"], dict)]
    scenarios = []
    for number in range(SCENARIOS):
        scenario = dict(shipped[number % len(shipped)])
        scenario |= {"slug": f"{scenario['slug']}-v{number}", "name": f"{scenario['name']} {number}"}
        scenario["think_time_s"] = scenario["think_time_s"] * (1 + number // len(shipped))
        scenarios.append(scenario)
    path.write_text(yaml.safe_dump({"scenarios": scenarios}), encoding="utf-8")


def scenarios() -> list[Scenario]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "scenarios.yaml")
        write_scenarios(path)
        return list(load_scenarios([str(path)]))
