"""Measured agent runs against their prediction from measured standard rows: throughput, latency, cache hits.

    python -m tests.bench agentic

Prints every run and the errors, and draws .figures/agentic and .figures/agentic_hits (SVG and PNG).
"""

import polars as pl

from tests.bench.agentic_figures import draw_hits, draw_speed
from tests.bench.agentic_pilots import print_pilots
from tests.bench.agentic_replay import NEEDED, compared_runs


def main() -> None:
    """One table a deployment; then errors over the whole runs and over all."""
    missing = [str(path) for path in NEEDED if not path.exists()]
    if missing:
        print(f"Measured agent runs: {', '.join(missing)} is not there; set AGENT_PARETO_SHARED")
        return
    runs, notes = compared_runs()
    print("DeepSeek-R1 in FP4 on B200, agents replayed with vLLM (InferenceX), against measured standard rows")
    print("\n".join(notes))
    for key, part in runs.partition_by("tp", "offload", as_dict=True, maintain_order=True).items():
        wall = float(part["wall"].to_numpy().mean())
        print(f"\nTP{key[0]}, offload {key[1]}; memory full at {wall:.0f} turns; * stalled, ended early or lost turns")
        print(f"{'':9}{'output tokens/s/GPU':^29}{'mean turn latency, s':^29}{'hit rate':^24}")
        print(
            f"{'sessions':9}"
            + f"{'run':>8}{'scaled':>8}{'added':>7}{'error':>6}" * 2
            + f"{'run':>8}{'pred.':>7}{'at R':>7}"
        )
        for run in part.iter_rows(named=True):
            print(f"{run['sessions']:6.0f}{' ' if run['whole'] else '*':3}" + _speed(run) + _hits(run))
    print("\nErrors of scaled [added]: mean of |predicted / measured - 1|, mean with sign; hit rate: mean difference")
    whole, before = pl.col("whole"), pl.col("sessions") <= pl.col("wall")
    for name, which in (
        ("whole, before the wall", whole & before),
        ("whole, beyond the wall", whole & ~before),
        ("all", pl.lit(True)),
    ):
        _print_errors(name, runs.filter(which))
    print("\nFrom one pilot of each deployment, the step model and its shipped priors; whole runs but the pilot")
    print_pilots()
    print(f"drew {', '.join(str(path) for path in (*draw_speed(runs), *draw_hits(runs)))}")


def _speed(run: dict[str, float]) -> str:
    text = ""
    for figure, digits in (("throughput", 1), ("latency_s", 0)):
        measured, scaled, added = (run[f"{of}_{figure}"] for of in ("measured", "scaled", "added"))
        text += f"{measured:8.{digits}f}{scaled:8.{digits}f}{added:7.{digits}f}{scaled / measured - 1:+6.0%}"
    return text


def _hits(run: dict[str, float]) -> str:
    return f"{run['measured_hit_rate']:8.2f}{run['scaled_hit_rate']:7.2f}{run['hit_rate_at_latency']:7.2f}"


def _print_errors(name: str, runs: pl.DataFrame) -> None:
    errors = run_errors(runs)
    hits = "; ".join(
        f"{errors[of]:.2f} {how}" for of, how in (("hit_rate", "predicted"), ("hit_rate_at_latency", "at R"))
    )
    print(f"  {name:24} {runs.height:3} runs: " + ", ".join(
        f"{figure} {errors[f'scaled_{of}']:.0%} ({errors[f'scaled_{of}_signed']:+.0%}) [{errors[f'added_{of}']:.0%}]"
        for of, figure in (("throughput", "throughput"), ("latency_s", "latency"), ("tpot_ms", "TPOT"))
    ) + f"; hit rate {hits}")  # fmt: skip


def run_errors(runs: pl.DataFrame) -> dict[str, float]:
    """Mean errors of the figures: absolute and signed, relative; of hit rates the mean absolute difference."""
    c = pl.col
    errors: dict[str, pl.Expr] = {
        "hit_rate": (c("scaled_hit_rate") - c("measured_hit_rate")).abs(),
        "hit_rate_at_latency": (c("hit_rate_at_latency") - c("measured_hit_rate")).abs(),
    }
    for name in ("scaled", "added"):
        for figure in ("throughput", "latency_s", "tpot_ms"):
            relative = c(f"{name}_{figure}") / c(f"measured_{figure}") - 1
            errors |= {f"{name}_{figure}": relative.abs(), f"{name}_{figure}_signed": relative}
    return runs.select(**{name: error.mean() for name, error in errors.items()}).row(0, named=True)
