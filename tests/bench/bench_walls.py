"""Predicted KV walls beside measured ones: sessions that fit by the engine's defaults, and where hits are lost.

    python -m tests.bench.bench_walls [FOLDER_OF_AGENTIC_RUNS…] [--kv-dtype FORMAT] [--hardware FILE] [--models FILE]

Reads measured agentic runs (InferenceX) of any hardware and model of the catalogues, those without offload. Nothing is
tuned: memory by the engine's defaults over the measured mean context. The runs do not say their KV format; logs and
recipes of the handed ones have FP8. A wall lies between the most sessions that still hit and the fewest beyond that do
not: they hit where at least half of the prompts are found that a cache without end would find, or, where that is not
told, half of the most that a run of the series found.
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import polars as pl

from pipelines.reading.catalogues import load_hardware, load_models
from pipelines.reading.inputs import find_files
from pipelines.reading.read_inputs import read_inputs
from tests.bench.targets import compare
from transforms.agentic.runs import RunDeployment, run_deployments

SHARED: Final = Path(os.environ.get("AGENT_PARETO_SHARED", Path(__file__).parents[3] / "shared"))
MEASURED: Final = SHARED / "tables" / "measured"
#: Share of a bracket's end by which a wall may lie beyond it.
TOLERANCE: Final = 0.15


def main(arguments: Sequence[str] = ()) -> None:
    """One line for each deployment that was measured without offload."""
    parser = argparse.ArgumentParser(prog="bench_walls")
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--kv-dtype", default="fp8")
    parser.add_argument("--hardware", type=Path)
    parser.add_argument("--models", type=Path)
    given = parser.parse_args(list(arguments))
    folders = given.folders or sorted(MEASURED.glob("agentic_*"))
    if not folders or not all(folder.exists() for folder in folders):
        print(f"Measured walls: {MEASURED}/agentic_* is not there; name folders, or set AGENT_PARETO_SHARED")
        return
    hardware, models = load_hardware(given.hardware), load_models(given.models)
    runs = read_inputs(find_files(folders), hardware, models).measured_agentic
    resident = runs.filter(pl.col("offload_mode").fill_null("off") == "off")
    specs = {spec.slug: spec for spec in models}
    print(f"Walls by the engines' defaults, KV in {given.kv_dtype}, against where measured runs lose their hits:")
    for deployment in run_deployments(resident, specs, hardware, kv_dtype=given.kv_dtype):
        _print_wall(deployment)


def bracket(runs: pl.DataFrame) -> tuple[float | None, float | None]:
    """The most sessions that hit, and the fewest beyond that do not; None where there is none."""
    c = pl.col
    hits = c("server_gpu_cache_hit_rate")
    reachable = pl.coalesce("theoretical_infinite_cache_hit_rate", hits.max())
    told = runs.filter(hits.is_not_null()).with_columns(_hit=hits >= reachable / 2)
    inside = told.filter("_hit")["sessions"].max()
    beyond = told.filter(~c("_hit") & (c("sessions") > (inside or 0)))["sessions"].min()
    return inside, beyond  # type: ignore[return-value]


def _print_wall(deployment: RunDeployment) -> None:
    runs = pl.DataFrame([run.row for run in deployment.runs], infer_schema_length=None)
    inside, beyond = bracket(runs)
    context = float(str(runs["mean_input_tokens"].mean()))
    memory = deployment.runs[0].memory_tokens
    wall = memory / context
    off = max((inside or 0.0) / wall - 1.0, wall / beyond - 1.0 if beyond else 0.0, 0.0)
    between = f"{inside or 0:.0f} to {beyond:.0f}" if beyond else f"above {inside or 0:.0f}"
    print(f"{deployment.name}: {memory:,.0f} tokens over {context:,.0f} are {wall:.1f} sessions, measured {between}")
    compare("share outside the bracket", off, TOLERANCE)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
