"""The closed loop three ways: the product's rule, the exact solution, a simulation. Prints tables, draws a picture.

Run: ``python -m tests.bench.bench_closed_loop``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from schemas.options import RooflinePreset
from tests.bench.closed_loop_figure import WAYS, Error, draw_closed_loop
from tests.second_opinion import mean_value, product_form
from tests.second_opinion.curve import Curve
from tests.second_opinion.product_form import Figures
from tests.second_opinion.real_curves import TABLES, first_replica, roofline_points, scenario, table_points
from tests.second_opinion.simulation import Loop, constant, exponential, hit_or_miss, log_normal, simulate

#: Turns that a run measures: standard errors of about 1 %.
TURNS = 20_000
SESSIONS = (2, 8, 32)
#: Pauses in latencies of a lone session.
PAUSES = (1.0, 10.0)


@dataclass(frozen=True)
class Row:
    """One load on one curve; sessions are those of the whole replica. Errors are relative to the exact figures."""

    curve: Curve
    slug: str
    sessions: int
    think_time_s: float
    steepness: float
    exact: Figures
    ours: Figures
    article: Figures
    simulated: Figures
    standard_error: float

    @property
    def label(self) -> str:
        return f"{self.curve.name}, {self.slug}, C {self.sessions}, Z {self.think_time_s:.1f} s"


def main() -> None:
    """Prints the comparison, the worst errors and what else moves the figures."""
    console = Console(width=190)
    rows = list(compare())
    console.print(_table(rows))
    for what, text in worst(rows).items():
        console.print(f"{what}: {text}", highlight=False)
    console.print(f"Drawn: {draw_closed_loop(errors(rows))}", highlight=False)
    console.print(_spread_table())


def compare() -> Iterator[Row]:
    """All loads that stay on their curves."""
    for slug, curve in _curves():
        for ratio in PAUSES:
            for share in SESSIONS:
                z, sessions = ratio * float(curve.latency_s[0]), share * curve.stations
                ours = mean_value.solve(curve, sessions, z)
                if ours.turns_per_s * ours.latency_s > 0.85 * curve.in_flight[-1] * curve.stations:
                    continue
                met = product_form.met_on_arrival(curve.station, share, z)
                run = simulate(Loop(curve, sessions, exponential(z), hit_or_miss(0.95, 8.0)), TURNS, seed=share)
                yield Row(
                    curve, slug, sessions, z, curve.steepness(*met),
                    product_form.solve(curve, sessions, z), ours, mean_value.solve(curve, sessions, z, "article"),
                    Figures(run.turns_per_s, run.latency_s), max(run.turns_error, run.latency_error),
                )  # fmt: skip


def errors(rows: Sequence[Row]) -> Iterator[Error]:
    """What the picture shows: each way's errors at each load."""
    for way, name in zip(WAYS, ("ours", "article", "simulated"), strict=True):
        for row in rows:
            yield way, row.steepness, _error(row, name, "latency_s"), _error(row, name, "turns_per_s"), row.label


def worst(rows: Sequence[Row]) -> dict[str, str]:
    """The worst errors against the exact solution, in words."""

    def of(name: str, figure: str, among: Sequence[Row]) -> str:
        row = max(among, key=lambda row: abs(_error(row, name, figure)))
        return f"{_error(row, name, figure):+.1%} ({row.label})"

    gentle = [row for row in rows if row.steepness < 0.6 and row.curve.in_flight[0] < 1.1]
    return {
        "Worst R of the rule": of("ours", "latency_s", rows),
        "Worst R of the rule, slope below 0.6 and first row lone": of("ours", "latency_s", gentle),
        "Worst throughput of the rule": of("ours", "turns_per_s", rows),
        "Worst R of preset article": of("article", "latency_s", rows),
        "Worst throughput of preset article": of("article", "turns_per_s", rows),
        "Worst R of the simulation": of("simulated", "latency_s", rows),
        "Worst throughput of the simulation": of("simulated", "turns_per_s", rows),
        "Largest standard error of the simulation": f"{max(row.standard_error for row in rows):.1%}",
    }


def _curves() -> Iterator[tuple[str, Curve]]:
    """Dense, disaggregated, mixtures on many ranks, and the roofline's presets."""
    presets: tuple[RooflinePreset, ...] = ("calibrated", "article")
    for slug in ("code-agent", "research-agent"):
        at = scenario(slug)
        yield slug, first_replica(table_points(TABLES[0]), at, gpus=4).curve
        yield slug, first_replica(table_points(TABLES[2]), at, gpus=8, stations=8).curve
        yield slug, first_replica(table_points(TABLES[3]), at, gpus=8, stations=8).curve
        for preset in presets:
            yield slug, first_replica(roofline_points("h100-sxm", "llama-3-1-70b", preset), at, gpus=8).curve
            yield slug, first_replica(roofline_points("h100-sxm", "qwen3-235b-a22b", preset), at, 4, stations=4).curve


def _table(rows: Sequence[Row]) -> Table:
    table = Table("curve", "scenario", "C", "Z s", "slope", title="The closed loop against its exact solution")
    for name in ("exact X/s", "exact R s", "rule R s", "sim R s", "rule X", "rule R", "article R", "sim X", "sim R"):
        table.add_column(name, justify="right")
    for row in rows:
        errors = [
            ("ours", "turns_per_s"), ("ours", "latency_s"), ("article", "latency_s"),
            ("simulated", "turns_per_s"), ("simulated", "latency_s"),
        ]  # fmt: skip
        table.add_row(
            row.curve.name, row.slug, str(row.sessions), f"{row.think_time_s:.1f}", f"{row.steepness:.2f}",
            f"{row.exact.turns_per_s:.3f}", f"{row.exact.latency_s:.3f}", f"{row.ours.latency_s:.3f}",
            f"{row.simulated.latency_s:.3f}", *(f"{_error(row, *which):+.1%}" for which in errors),
        )  # fmt: skip
    return table


def _error(row: Row, name: str, figure: str) -> float:
    figures: Figures = getattr(row, name)
    return float(getattr(figures, figure) / getattr(row.exact, figure)) - 1.0


def _spread_table() -> Table:
    """What the mean-value view does not see, on one dense curve and one of eight ranks: R beside the exact R."""
    table = Table("curve", "C", "what", title="R when something is not as the rule takes it")
    table.add_column("R s", justify="right")
    table.add_column("of the exact R", justify="right")
    table.add_column("of the rule's R", justify="right")
    dense = first_replica(table_points(TABLES[0]), scenario("research-agent"), gpus=4).curve
    ranks = first_replica(table_points(TABLES[2]), scenario("code-agent"), gpus=8, stations=8).curve
    for curve, sessions in ((dense, 8), (dense, 32), (ranks, 16), (ranks, 64)):
        z = 3.0 * float(curve.latency_s[0])
        pause, heavy = exponential(z), log_normal(1.0, 4.0)
        loops = {
            "constant pauses, 95 % hits": Loop(curve, sessions, constant(z), hit_or_miss(0.95, 8.0)),
            "constant pauses and work: who starts together stays so": Loop(curve, sessions, constant(z)),
            "log-normal pauses, squared variation 4": Loop(curve, sessions, log_normal(z, 4.0)),
            "log-normal work, squared variation 4, shared": Loop(curve, sessions, pause, heavy),
            "the same work, first come first served": Loop(curve, sessions, pause, heavy, discipline="first-come"),
        }
        if curve.stations > 1:
            loops["ranks drawn for each turn"] = Loop(curve, sessions, pause, assignment="drawn-each-turn")
            loops["turns to the emptiest rank"] = Loop(curve, sessions, pause, assignment="least-loaded")
        exact = product_form.solve(curve, sessions, z).latency_s
        rule = mean_value.solve(curve, sessions, z).latency_s
        for what, loop in loops.items():
            latency_s = simulate(loop, 2 * TURNS, seed=21).latency_s
            table.add_row(
                curve.name, str(sessions), what, f"{latency_s:.3f}",
                f"{latency_s / exact - 1:+.1%}", f"{latency_s / rule - 1:+.1%}",
            )  # fmt: skip
    return table


if __name__ == "__main__":
    main()
