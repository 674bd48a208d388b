"""Engines fitted to measured rows, held against rows that they have not seen.

    python -m tests.bench measured

Prints errors of latency, TTFT and throughput by method, and how many rows lie in the 80 % bands.
"""

import time
from collections.abc import Sequence

import polars as pl

from tests.bench.measured_deployments import LONG_PROMPTS, STANDARD, Known, known_deployments, standard_rows
from tests.bench.measured_errors import METHODS, Apart, Case, long_prompt_errors, workload_errors
from tests.bench.targets import compare

MODEL = "deepseek-r1"
_NAMES = {"fitted": "fitted", "step_ratio": "ratio of the step model", "ratio": "ratio of the article's roofline",
          "prior": "prior, no row of its own"}  # fmt: skip


def main() -> None:
    """Leave one workload out and one to another, with priors of other deployments and of other GPUs."""
    if not all(path.exists() for path in STANDARD):
        print("Measured rows are not there; set AGENT_PARETO_SHARED")
        return
    began = time.perf_counter()
    known = list(known_deployments(standard_rows(), MODEL))
    rows = sum(each.deployment.rows.height for each in known)
    print(f"{rows:,} rows of {len({each.key for each in known})} deployments of {MODEL} at {len(known)} versions")
    cases: list[tuple[Case, str]] = [("left out", "One workload left out"), ("pair", "One workload to another")]
    apart: list[tuple[Apart, str]] = [("deployment", "other deployments"), ("gpu", "other GPUs")]
    for case, title in cases:
        for held, words in apart:
            bars = case == "left out" and held == "deployment"
            errors = workload_errors(known, case, held, bars=bars)
            print(f"\n{title}; constants and priors from {words}; errors in %: mean / median / 90th percentile")
            _print_errors(errors)
            _compare(errors, f"{title.lower()}, {words}")
            if bars:
                _print_coverage(errors)
    _print_long_prompts(known)
    compare("seconds, all priors learnt anew", time.perf_counter() - began, 300)


def _print_long_prompts(known: Sequence[Known]) -> None:
    """Prompts of 4K and below to 8K and above, of other models; and what is refused as lockstep."""
    if not LONG_PROMPTS.exists():
        return
    print("\nLong prompts: fitted to 4K and below, held against 8K and above; rows in lockstep are refused")
    for name, counts, errors in long_prompt_errors(LONG_PROMPTS, known):
        print(f"  {name}: {counts}")
        for method in ("fitted", "ratio"):
            print(f"    {_NAMES[method]:32}latency {_three(errors[f'{method}_latency'])}")
        if "lockstep" not in counts.partition(" to ")[0]:
            compare(f"{name}: latency, mean", _mean(errors, "fitted_latency"), 8)


def _print_errors(errors: pl.DataFrame) -> None:
    for mode, disaggregated in (("aggregated", False), ("disaggregated", True)):
        for which, rows in _subsets(errors.filter(pl.col("disaggregated") == disaggregated)):
            print(f"  {mode}, {which}: {rows.height} rows")
            for method in METHODS:
                if disaggregated and method in ("step_ratio", "prior"):
                    continue
                texts = [f"{name} {_three(rows[f'{method}_{name}'])}" for name in ("latency", "ttft", "throughput")]
                print(f"    {_NAMES[method]:32}" + "   ".join(texts))


def _subsets(errors: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    return [("the load is known", errors.filter("load_known")), ("all", errors)]


def _three(values: pl.Series) -> str:
    errors = values.abs() * 100
    return f"{_number(errors.mean())} / {_number(errors.median())} / {_number(errors.quantile(0.9))}"


def _number(value: object) -> str:
    return f"{float(str(value)):5.1f}"


def _mean(errors: pl.DataFrame, column: str) -> float:
    return 100 * float(errors[column].abs().to_numpy().mean())


def _median(errors: pl.DataFrame, column: str) -> float:
    return 100 * float(errors.select(pl.col(column).abs().median()).item())


def _compare(errors: pl.DataFrame, title: str) -> None:
    agg, disagg = (errors.filter(pl.col("disaggregated") == which) for which in (False, True))
    known = agg.filter("load_known")
    compare(f"{title}: latency, load known, mean", _mean(known, "fitted_latency"), 9.5)
    compare(f"{title}: latency, load known, median", _median(known, "fitted_latency"), 6.5)
    compare(f"{title}: latency, all, mean", _mean(agg, "fitted_latency"), 11)
    compare(f"{title}: latency, all, median", _median(agg, "fitted_latency"), 7)
    compare(f"{title}: TTFT, load known, median", _median(known, "fitted_ttft"), 20)
    compare(f"{title}: disaggregated, mean", _mean(disagg, "fitted_latency"), 14)
    compare(f"{title}: disaggregated, median", _median(disagg, "fitted_latency"), 8.5)
    compare(f"{title}: without a fit, load known, mean", _mean(known, "step_ratio_latency"), 12.5)
    compare(f"{title}: without a fit, all, mean", _mean(agg, "step_ratio_latency"), 15)


def _print_coverage(errors: pl.DataFrame) -> None:
    for name in ("latency", "ttft"):
        share = 100 * float(errors[f"{name}_inside"].cast(pl.Float64).to_numpy().mean())
        compare(f"rows in the 80 % band, {name}, %", share, 70, at_least=True)
        compare(f"rows in the 80 % band, {name}, %", share, 90)
