"""How far the mapping is from AIConfigurator's own estimates of agent turns, beside two plain baselines.

``python -m tests.bench.bench_evaluation [FOLDER]``. The folder holds one folder for each hardware and model with
``standard_*/{agg,disagg}`` and ``turn_*/{agg,disagg}``; by default the fidelity tables kept outside the repository
(``AGENT_PARETO_SHARED`` names their root).
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl

from pipelines.catalogues import load_hardware, load_models
from pipelines.commands.tables import print_table
from pipelines.inputs import find_files
from pipelines.reading import read_inputs
from schemas.errors import UserError
from transforms.agent_points.carry import Setting, carry_points
from transforms.agent_points.columns import ROW_FIGURES
from transforms.agent_points.gpu import Gpu, add_gpu_columns
from transforms.agent_points.ratio import carry_by_ratio
from transforms.agent_points.roofline_points import carry_roofline
from transforms.agent_points.select import select_rows
from transforms.agent_points.workload import Workload, agent_workload
from transforms.configurations import number_configurations
from transforms.evaluation import FIGURES, Carry, Comparison, compare_points

SHARED = Path(os.environ.get("AGENT_PARETO_SHARED", Path(__file__).parents[3] / "shared"))
FIDELITY = SHARED / "tables" / "aiconfigurator" / "fidelity"
_ERRORS = ("mean", "p90", "signed")


def main(arguments: Sequence[str] = ()) -> None:
    """Prints the errors of the mapping and of the baselines, by serving mode, and by hardware and model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=FIDELITY)
    folder = parser.parse_args(list(arguments)).folder
    if not folder.is_dir():
        print(f"evaluation skipped: no tables at {folder}; AGENT_PARETO_SHARED names the folder they are kept in")
        return
    for mode in ("agg", "disagg"):
        standard, reference = (read_points(folder, f"{kind}*/{mode}") for kind in ("standard_", "turn_"))
        if standard.is_empty() or reference.is_empty():
            continue
        results = {name: compare(standard, reference, carry) for name, carry in METHODS.items()}
        any_result = results["transfer"]
        print(
            f"\n{mode}: {any_result.pairs.height:,} of {any_result.reference_points:,} reference points have a partner"
        )
        print_table(_columns("method"), (_row(name, result.pairs) for name, result in results.items()))
        pairs = any_result.pairs.with_columns(deployment=pl.concat_str("hardware", pl.lit(" "), "model"))
        print("the transfer, by hardware and model, by turn and by batch")
        for grouping in ("deployment", "turn", "batch_range"):
            groups = pairs.sort("batch_per_rank").partition_by(grouping, as_dict=True, maintain_order=True)
            print_table(_columns(grouping.replace("_", " ")), (_row(str(key[0]), part) for key, part in groups.items()))


def read_points(folder: Path, pattern: str) -> pl.DataFrame:
    """The serving points of the tables under the folders that match, or under a folder's own folders."""
    paths = sorted(folder.glob(f"*/{pattern}")) or sorted(folder.glob(pattern))
    try:
        files = find_files(paths)
    except UserError:
        return pl.DataFrame()
    return read_inputs(files, load_hardware(), load_models()).serving_points


def compare(standard: pl.DataFrame, reference: pl.DataFrame, carry: Carry) -> Comparison:
    return compare_points(standard, reference, load_hardware(), load_models(), carry=carry)


def _baseline(method: Callable[[pl.DataFrame, Workload, Setting], pl.DataFrame]) -> Carry:
    """Carries all rows by one plain method, from the same rows as the product does."""

    def carry(points: pl.DataFrame, setting: Setting) -> pl.DataFrame:
        rows = select_rows(
            number_configurations(add_gpu_columns(points.rename(ROW_FIGURES), setting.hardware)), setting.scenario
        )
        workload = agent_workload(setting.scenario, setting.spec.attention)
        return method(rows, workload, setting).with_columns(interpolated=pl.lit(False))

    return carry


def _by_ratio(rows: pl.DataFrame, workload: Workload, setting: Setting) -> pl.DataFrame:
    return carry_by_ratio(rows, workload, setting.spec, Gpu.of_pool("prefill"), Gpu.of_pool("decode"))


def _by_roofline(preset: str) -> Callable[[pl.DataFrame, Workload, Setting], pl.DataFrame]:
    def method(rows: pl.DataFrame, workload: Workload, setting: Setting) -> pl.DataFrame:
        as_preset = rows.with_columns(row_backend_version="backend_version", backend_version=pl.lit(preset))
        carried = carry_roofline(as_preset, workload, setting.spec, Gpu.of_pool("decode"))
        return carried.with_columns(backend_version="row_backend_version")

    return method


METHODS: dict[str, Carry] = {
    "article roofline": _baseline(_by_roofline("article")),
    "calibrated roofline": _baseline(_by_roofline("calibrated")),
    "plain ratio": _baseline(_by_ratio),
    "transfer": carry_points,
}


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
