"""How far the mapping is from AIConfigurator's own estimates of agent turns, beside two plain baselines.

``python -m tests.bench.bench_evaluation [FOLDER]...``. A folder holds one folder for each hardware, model and engine
with ``standard_*/{agg,disagg}`` and ``turn_*/{agg,disagg}``; by default ``tests/transforms/evaluation/engines``, and
the fidelity tables that are kept outside the repository (``AGENT_PARETO_SHARED`` names their root).
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from pipelines.reading.catalogues import load_hardware, load_models
from pipelines.reading.inputs import find_files
from pipelines.reading.read_inputs import read_inputs
from pipelines.terminal import print_table
from schemas.errors import UserError
from schemas.models import ModelSpec
from transforms.agent_points.carriers.ratio import RatioRows
from transforms.agent_points.carriers.roofline import RooflineRows
from transforms.agent_points.carriers.roofline_pools import RooflinePools
from transforms.agent_points.carriers.workload import agent_workload
from transforms.agent_points.carry import Setting, carry_points
from transforms.agent_points.prepare import Carrier, prepare_points
from transforms.agent_points.rows.rows import Rows, code
from transforms.evaluation import FIGURES, PARTNER, Carry, Pairing, compare_points

SHARED = Path(os.environ.get("AGENT_PARETO_SHARED", Path(__file__).parents[3] / "shared"))
FIDELITY = SHARED / "tables" / "aiconfigurator" / "fidelity"
ENGINES = Path(__file__).parents[1] / "transforms" / "evaluation" / "engines"
_ERRORS = ("mean", "p90", "signed")


def main(arguments: Sequence[str] = ()) -> None:
    """Prints the errors of the mapping and of the baselines, by serving mode, and by hardware and model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="*")
    folders = parser.parse_args(list(arguments)).folders or [ENGINES, FIDELITY]
    for folder in folders:
        if not folder.is_dir():
            print(f"no tables at {folder}; AGENT_PARETO_SHARED names the folder that the larger ones are kept in")
    folders = [folder for folder in folders if folder.is_dir()]
    for mode in ("agg", "disagg"):
        standard, reference = (read_points(folders, f"{kind}*/{mode}") for kind in ("standard_", "turn_"))
        if standard.is_empty() or reference.is_empty():
            continue
        results = {name: compare(standard, reference, carry) for name, carry in METHODS.items()}
        any_result = results["transfer"]
        pairs = any_result.pairs.with_columns(deployment=pl.concat_str("hardware", pl.lit(" "), "model"))
        print(
            f"\n{mode}: {pairs.height:,} of {any_result.reference_points:,} reference points have a partner, "
            f"of {configurations(pairs, reference):,} configurations"
        )
        print_table(_columns("method"), (_row(name, result.pairs) for name, result in results.items()))
        print("the transfer, by engine, by hardware and model, by turn and by batch")
        for grouping in ("backend", "deployment", "turn", "batch_range"):
            groups = pairs.sort("batch_per_rank").partition_by(grouping, as_dict=True, maintain_order=True)
            print_table(_columns(grouping.replace("_", " ")), (_row(str(key[0]), part) for key, part in groups.items()))


def read_points(folders: Sequence[Path], pattern: str) -> pl.DataFrame:
    """The serving points of the tables under the folders that match, or under a folder's own folders."""
    paths = [path for folder in folders for path in sorted(folder.glob(f"*/{pattern}")) or sorted(folder.glob(pattern))]
    try:
        files = find_files(paths)
    except UserError:
        return pl.DataFrame()
    return read_inputs(files, load_hardware(), load_models()).serving_points


def compare(standard: pl.DataFrame, reference: pl.DataFrame, carry: Carry) -> Pairing:
    return compare_points(standard, reference, load_hardware(), load_models(), carry=carry)


def _baseline(method: Callable[[Rows, ModelSpec], Carrier]) -> Carry:
    """Carries all rows by one plain method, from the same rows as the product does."""

    def carry(points: pl.DataFrame, setting: Setting) -> pl.DataFrame:
        parts = []
        for group in prepare_points(points, setting.spec, setting.hardware).groups:
            workload = agent_workload(setting.scenario, setting.spec.attention, prefill_sees_output=group.mode == "agg")
            rows = group.take(group.choose(setting.scenario).rows).rows
            carrier = method(rows, setting.spec)
            method_code = np.full(len(rows), code("transfer_method", carrier.method))
            parts.append(
                rows.with_figures(carrier.figures_at(workload), transfer_method=method_code, interpolated=False)
            )
        return pl.concat(rows.to_frame() for rows in parts)

    return carry


def _by_roofline(preset: str) -> Callable[[Rows, ModelSpec], Carrier]:
    def priced(rows: Rows, spec: ModelSpec) -> Carrier:
        pooled = rows.frame["serving_mode"].first() == "disagg"
        return RooflinePools(rows, spec, preset) if pooled else RooflineRows(rows, spec, preset)

    return priced


METHODS: dict[str, Carry] = {
    "article roofline": _baseline(_by_roofline("article")),
    "calibrated roofline": _baseline(_by_roofline("calibrated")),
    "plain ratio": _baseline(RatioRows),
    "transfer": carry_points,
}


def configurations(pairs: pl.DataFrame, reference: pl.DataFrame) -> int:
    """Deployments at one load that were compared, whatever the turn."""
    return reference.join(pairs.select("point_id"), on="point_id", how="semi").select(PARTNER).n_unique()


def _columns(first: str) -> tuple[str, ...]:
    return (first, "points", *(f"{figure.replace('_', ' ')}\n{error} %" for figure in FIGURES for error in _ERRORS))


def _row(name: str, pairs: pl.DataFrame) -> tuple[str, ...]:
    cells = []
    for figure in FIGURES:
        error = 100 * pairs[f"{figure}_error"].drop_nulls()
        cells += [
            f"{_mean(error.abs()):.2f}",
            f"{error.abs().quantile(0.9, 'linear') or 0:.2f}",
            f"{_mean(error):+.2f}",
        ]
    return (name, f"{pairs.height:,}", *cells)


def _mean(values: pl.Series) -> float:
    return float(str(values.mean()))


if __name__ == "__main__":
    main(sys.argv[1:])
