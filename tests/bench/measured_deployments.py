"""Measured deployments as the bench holds them apart: one engine version, or one month where none is stated."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from pipelines.reading.catalogues import load_hardware, load_models
from pipelines.reading.inputs import find_files
from pipelines.reading.judged_files import judged_files
from tests.bench.learning import Example, typical_prior
from transforms.calibration.deployments import Deployment, deployment_columns, deployments
from transforms.calibration.fit import fit
from transforms.calibration.parameters import place
from transforms.calibration.refusals import refusals

SHARED: Final = Path(os.environ.get("AGENT_PARETO_SHARED", Path(__file__).parents[3] / "shared"))
MEASURED: Final = SHARED / "tables" / "measured"
STANDARD: Final = (MEASURED / "inferencex_api", MEASURED / "fixed")
LONG_PROMPTS: Final = MEASURED / "long_prompts_vllm"
#: What one deployment has, whatever its dates.
_OF_A_DATE: Final = ("backend_version", "latency_statistic")


@dataclass(frozen=True)
class Known:
    """A deployment at one version, ``key`` the same at all of its versions, and what its own rows alone say of it."""

    key: str
    gpu: str
    deployment: Deployment
    example: Example


def standard_rows(paths: tuple[Path, ...] = STANDARD) -> pl.DataFrame:
    """All rows that can be used, reruns of other versions too; of one version's reruns the last."""
    outcomes = judged_files(find_files(list(paths)), load_hardware(), load_models())
    points = pl.concat([outcome.rows.points for outcome in outcomes]).with_columns(
        backend_version=pl.coalesce("backend_version", pl.col("measured_at").str.slice(0, 7))
    )
    load = [*deployment_columns(), "isl_tokens", "osl_tokens", "prefix_tokens", "concurrency_reported"]
    means_first = pl.col("latency_statistic") == "mean"
    ordered = points.with_columns(_mean=means_first).sort("_mean", "measured_at")
    return ordered.unique(
        [each for each in load if each != "latency_statistic"], keep="last", maintain_order=True
    ).drop("_mean")


def known_deployments(points: pl.DataFrame, model: str, workloads: int = 2) -> Iterator[Known]:
    """Those of one model with so many workloads at least, each fitted to all of its rows, no prior learnt."""
    of_model = points.filter(pl.col("model") == model).with_columns(latency_statistic=pl.lit("mean"))
    for deployment in deployments(of_model, load_models(), load_hardware()):
        rows = deployment.rows
        if rows.select("isl_tokens", "osl_tokens").n_unique() < workloads:
            continue
        named = {name: value for name, value in deployment.identity.items() if name not in _OF_A_DATE}
        key = "|".join(str(value) for value in named.values())
        facts, measured = deployment.facts, deployment.measured
        refused = [row for row, _, _ in refusals(measured, facts.disaggregated)]
        used = np.delete(np.arange(len(measured)), refused)
        if not len(used):
            continue
        attention = place("attention_fraction")
        fitted = fit(measured.take(used), facts, typical_prior())
        example = Example(key, facts.traits, fitted.logs, float(fitted.covariance[attention, attention]))
        yield Known(key, rows["hardware"][0], deployment, example)
