"""Rows and runs of one file, judged as a build judges those of all."""

import polars as pl

from pipelines.reading.catalogues import load_hardware, load_models
from transforms.serving_points.judge import judge_rows
from transforms.serving_points.measured_agentic import judge_agentic


def judged_rows(rows: pl.DataFrame, path: str, tool_version: str | None = None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The serving points and the quarantined rows of a file."""
    return judge_rows(_of_file(rows, path, tool_version), load_hardware(), load_models())


def judged_runs(runs: pl.DataFrame, path: str, tool_version: str | None = None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The agent runs and the quarantined ones of a file."""
    return judge_agentic(_of_file(runs, path, tool_version), load_hardware(), load_models())


def _of_file(rows: pl.DataFrame, path: str, tool_version: str | None) -> pl.DataFrame:
    return rows.with_columns(source_file=pl.lit(path), tool_version=pl.lit(tool_version, pl.String))
