"""What a build did, on the terminal."""

import os
import shlex
import shutil
import sys
from collections import Counter
from pathlib import Path

from pipelines.building.incremental import PartitionRecord
from pipelines.building.report import BuildReport
from pipelines.lake.places import is_remote, shown, url_of
from pipelines.reading.folders import passed_over_in_words
from pipelines.reading.read_inputs import Inputs, superseded_in_words
from pipelines.terminal import print_table, say

PROGRAM = "agent-pareto"
#: What a summary suggests to try; its answer fits any screen.
FIRST_QUERY = (
    "select hardware, model, scenario, round(max(tasks_per_hour_per_gpu)) as best "
    "from agent_frontier group by all order by best desc limit 5"
)


def print_summary(report: BuildReport, lake: Path, seconds: float) -> None:
    """Rows in and what became of them, points, the best of each hardware, model and scenario, the time, the place."""
    if report.inputs is None:
        say(
            f"Nothing has changed since release {report.release} of {shown(lake)}; nothing was published. "
            f"That took {seconds:.1f} s; --full computes it anew."
        )
        return
    accounts = report.inputs.accounts
    rejected = [account for account in accounts if account.rejected_reason is not None]
    totals = {
        name: sum(getattr(account, f"rows_{name}") for account in accounts)
        for name in ("read", "accepted", "duplicate", "superseded", "quarantined")
    }
    say(
        f"\nRows read {totals['read']:,} from {len(accounts):,} files: {totals['accepted']:,} accepted, "
        f"{totals['duplicate']:,} duplicates, {totals['superseded']:,} superseded, "
        f"{totals['quarantined']:,} quarantined; {len(rejected):,} files rejected."
    )
    reasons: Counter[str] = Counter()
    for account in accounts:
        reasons.update(account.quarantined)
    for reason, count in reasons.most_common():
        say(f"  quarantined, {reason}: {count:,}")
    for account in rejected:
        say(f"  rejected, {account.path}: {account.rejected_reason}")
    slow = [f"slow, {table.sentence}" for table in report.inputs.slow]
    for line in (*superseded_in_words(accounts), *slow, passed_over_in_words(report.inputs.passed_over)):
        if line:
            say(f"  {line}")
    points, feasible, frontier = (
        sum(getattr(summary, name) for summary in report.partitions)
        for name in ("agent_points", "feasible", "frontier")
    )
    if report.shared:
        say(f"Rows that serve other models of their architecture too: {report.shared:,} (shared_from).")
    say(
        f"Roofline points {report.synthesized:,}. Agent points {points:,}: {feasible:,} feasible, "
        f"{frontier:,} on a frontier."
    )
    say(
        f"Agent points computed {report.rows_computed:,} in {report.computed:,} partitions, carried over "
        f"{report.rows_carried_over:,} in {len(report.partitions) - report.computed:,}. The build took {seconds:.1f} s."
    )
    if report.damaged:
        say(f"Damaged files of the release before: {report.damaged:,} partitions were computed anew.")
    if report.unpriced:
        say(f"Without a price: {', '.join(report.unpriced)}. Their cost columns are NULL.")
    _print_best(report, report.inputs)
    if report.pruned:
        say(f"Deleted releases: {', '.join(report.pruned)}")
    say(f"Release {report.release} in {shown(lake)}")
    place = url_of(lake) if is_remote(lake) else str(lake)
    say(f'Try: {_command()} query "{FIRST_QUERY}" --lake {shlex.quote(place)}')


def _command() -> str:
    """How this program is called from here; its name where something else runs the build, a worker say."""
    name = Path(sys.argv[0]).name
    return os.path.relpath(sys.argv[0]) if name == PROGRAM and not shutil.which(name) else PROGRAM


def _print_best(report: BuildReport, inputs: Inputs) -> None:
    """A table for each scenario: models down, hardware across."""
    measured = set(inputs.serving_points.select("hardware", "model").unique().iter_rows())
    hardware = sorted({summary.hardware for summary in report.partitions})
    models = sorted({summary.model for summary in report.partitions})
    for scenario in dict.fromkeys(summary.scenario for summary in report.partitions):
        best = {
            (summary.hardware, summary.model): summary for summary in report.partitions if summary.scenario == scenario
        }
        rows = [
            (model, *(_figure(best.get((gpu, model)), (gpu, model) in measured) for gpu in hardware))
            for model in models
        ]
        say(f"\n{scenario}: best tasks an hour per GPU at any load that fits")
        print_table(("model", *(gpu.replace("-", "\n", 1) for gpu in hardware)), rows)
    say("~ from the roofline, which is rougher than a table: compare like with like; ' in FP8; - nothing fits\n")


def _figure(summary: PartitionRecord | None, from_table: bool) -> str:
    if summary is None or summary.best_tasks_per_hour_per_gpu is None:
        return "-"
    value = summary.best_tasks_per_hour_per_gpu
    figure = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{'' if from_table else '~'}{figure}{chr(39) if summary.best_weight_dtype == 'fp8' else ''}"
