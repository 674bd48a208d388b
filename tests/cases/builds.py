"""A build without Prefect: the stages one after the other, and the lake's tables as readers see them."""

from pathlib import Path

import duckdb
import polars as pl

from pipelines.building import build_inputs, stages
from pipelines.lake.release import begin_release
from schemas.options import BuildOptions
from tests.pipelines.builds import carry_all


def build(lake: Path, tables: Path, models: Path | None = None) -> str:
    """The id of the release that a build of these tables publishes."""
    options = BuildOptions(tables=(tables,), models=models, out=lake)
    prepared = build_inputs.read(build_inputs.find(options))
    with begin_release(lake) as release:
        carry_all(prepared, release)
        return stages.publish(prepared, release)


def current(lake: Path, table: str) -> pl.DataFrame:
    """A table of the newest release, by the view that readers use."""
    with duckdb.connect(str(lake / "agent_pareto.duckdb"), read_only=True) as connection:
        frame: pl.DataFrame = connection.sql(f"select * from {table}").pl()
        return frame
