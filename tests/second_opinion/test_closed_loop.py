"""The product's closed loop (model.md 5.4 and 5.7) against the exact solution: where it holds and where it breaks.

Where R rises by less than n^0.6 over the numbers in flight that a turn meets, and the first row of the table has
about one request in flight, the rule is within 5 %. Past the knee of a curve (prefill-bound: R ~ n) it overstates R
and understates throughput; on the flat start of a row with more than one in flight it understates R.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import polars as pl
import pytest

from schemas.options import ClosedLoop
from tests.second_opinion import mean_value, product_form
from tests.second_opinion.real_curves import (
    TABLES,
    Replica,
    first_replica,
    operating_point,
    replicas,
    roofline_points,
    scenario,
    setting_of,
    table_points,
)
from tests.second_opinion.simulation import Loop, exponential, hit_or_miss, simulate
from transforms.agent_points.carry import carry_points
from transforms.configurations import SCHEDULE_ID

DENSE, MIXTURES = TABLES[0], TABLES[2:]
SCENARIOS = ("code-agent", "research-agent", "deep-reasoning")
SESSIONS = (2, 4, 8, 16, 32, 64)
#: Pauses in latencies of a lone session.
PAUSES = (0.3, 1.0, 3.0, 10.0, 30.0)
#: Curves of a table and scenario that are tried, each of another layout.
LAYOUTS = 5
#: Up to this log-log slope of R, and requests in flight of the first row, the rule is asked to hold.
STEEP, LONE = 0.6, 1.1


@dataclass(frozen=True)
class Case:
    """One curve with sessions and pauses, and the relative errors of a rule in R and in throughput."""

    closed_loop: ClosedLoop

    name: str
    slug: str
    sessions: int
    pause_ratio: float
    steepness: float
    first_in_flight: float
    latency: float
    turns: float

    @property
    def within_claim(self) -> bool:
        return self.steepness < STEEP and self.first_in_flight < LONE

    def __str__(self) -> str:
        return (
            f"{self.name}, {self.slug}: C {self.sessions}, Z {self.pause_ratio:g} R(1), slope {self.steepness:.2f}: "
            f"R {self.latency:+.1%}, X {self.turns:+.1%}"
        )


def all_cases() -> Iterator[Case]:
    """All curves, scenarios, sessions of one station and pauses that stay on the curve, each by both rules."""
    rooflines = [
        roofline_points("h100-sxm", model, preset).filter(serving_mode="agg")
        for model in ("llama-3-1-70b", "qwen3-235b-a22b")
        for preset in ("calibrated", "article")
    ]
    for points in [*(table_points(name) for name in TABLES), *rooflines]:
        for slug in SCENARIOS:
            layouts = {replica.curve.name: replica for replica in replicas(points, scenario(slug))}
            for replica in list(layouts.values())[:LAYOUTS]:
                yield from _cases_of(replica, slug)


def _cases_of(replica: Replica, slug: str) -> Iterator[Case]:
    curve = replica.curve.station
    lone_s, first_in_flight = float(curve.latency_s[0]), float(curve.in_flight[0])
    rules: tuple[ClosedLoop, ...] = ("arrival", "article")
    for ratio, sessions in product(PAUSES, SESSIONS):
        z = ratio * lone_s
        ours = {rule: mean_value.solve(curve, sessions, z, rule) for rule in rules}
        if ours["arrival"].turns_per_s * ours["arrival"].latency_s > 0.85 * curve.in_flight[-1]:
            continue
        exact = product_form.solve(curve, sessions, z)
        steepness = curve.steepness(*product_form.met_on_arrival(curve, sessions, z))
        for rule, figures in ours.items():
            latency, turns = figures.latency_s / exact.latency_s - 1, figures.turns_per_s / exact.turns_per_s - 1
            yield Case(rule, replica.curve.name, slug, sessions, ratio, steepness, first_in_flight, latency, turns)


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return list(all_cases())


@pytest.fixture(scope="module")
def arrival(cases: list[Case]) -> list[Case]:
    return [case for case in cases if case.closed_loop == "arrival"]


@pytest.fixture(scope="module")
def article(cases: list[Case]) -> list[Case]:
    return [case for case in cases if case.closed_loop == "article"]


def test_within_five_percent_where_the_curve_is_not_steep(arrival: list[Case]) -> None:
    claimed = [case for case in arrival if case.within_claim]
    assert len(claimed) > 600
    worst = max(claimed, key=lambda case: abs(case.latency))
    print(f"{len(claimed)} of {len(arrival)} cases claimed; worst {worst}")
    assert abs(worst.latency) <= 0.05, worst
    assert max(abs(case.turns) for case in claimed) <= 0.03


def test_a_curve_of_each_kind_is_within_five_percent_from_two_sessions_up(arrival: list[Case]) -> None:
    """Coding agents and long reasoning on 70B, whatever the load; mixtures of experts in 95 cases of 100."""
    dense = [case for case in arrival if "70b" in case.name and case.slug != "research-agent"]
    assert {case.sessions for case in dense} == set(SESSIONS)
    worst = max(dense, key=lambda case: abs(case.latency))
    print(f"dense: worst {worst}")
    assert abs(worst.latency) <= 0.05, worst
    tables = [case for case in arrival if "roofline" not in case.name and case.slug != "research-agent"]
    outside = [case for case in tables if abs(case.latency) > 0.05]
    assert 0 < len(outside) < 0.05 * len(tables)


def test_how_far_it_breaks_past_the_knee_and_on_flat_starts(arrival: list[Case]) -> None:
    """R by up to a third and throughput by 7 %, stated so that a better rule shows here."""
    steep = [case for case in arrival if case.steepness >= STEEP and case.first_in_flight < LONE]
    flat = [case for case in arrival if case.first_in_flight >= LONE]
    for name, broken in {"past the knee": steep, "first row with more than one in flight": flat}.items():
        low, high = (choose(broken, key=lambda case: case.latency) for choose in (min, max))
        outside = sum(abs(case.latency) > 0.05 for case in broken) / len(broken)
        print(f"{name}: {outside:.0%} of {len(broken)} cases outside 5 %; from {low} to {high}")
    assert 0.20 < max(case.latency for case in steep) < 0.35
    assert min(case.latency for case in steep) > -0.06
    assert -0.25 < min(case.latency for case in flat) < -0.10
    assert max(abs(case.turns) for case in arrival) < 0.07


def test_the_article_understates_latency_far_more(arrival: list[Case], article: list[Case]) -> None:
    """model.md 5.4: by up to 27 % on the curve it was tried on; on steeper ones by half."""
    lowest = min(article, key=lambda case: case.latency)
    dense = [case for case in article if "70b" in case.name and case.slug != "research-agent"]
    lowest_dense = min(dense, key=lambda case: case.latency)
    print(f"article: worst {lowest}; dense, not prefill-bound: {lowest_dense}")
    assert lowest.latency < -0.5
    assert -0.27 < lowest_dense.latency < -0.10
    ours, theirs = (sum(abs(case.latency) for case in rule) / len(rule) for rule in (arrival, article))
    print(f"mean error of R: arrival {ours:.1%}, article {theirs:.1%}")
    assert ours < 0.4 * theirs


@pytest.mark.parametrize("name", [DENSE, *MIXTURES], ids=["dense", "qwen3-235b", "deepseek-v3"])
@pytest.mark.parametrize(("sessions", "think_time_s"), [(2, 1.0), (16, 0.5), (32, 5.0), (128, 20.0)])
def test_operating_points_are_the_rule_and_within_five_percent(name: str, sessions: int, think_time_s: float) -> None:
    """All the way through the product: rows, transfer, admission, solution."""
    at = scenario("code-agent", sessions=sessions, think_time_s=think_time_s, gpus=8)
    checked = 0
    for replica in replicas(table_points(name), at):
        point = operating_point(table_points(name), replica, at, "arrival")
        if point["infeasible_reason"] is not None or point["sessions"] % 1:
            continue
        checked += 1
        share = -(-int(point["sessions"]) // replica.curve.stations)
        met = product_form.met_on_arrival(replica.curve.station, share, think_time_s)
        claimed = replica.curve.steepness(*met) < STEEP and replica.curve.in_flight[0] < LONE
        within = 0.05 if claimed else 0.10
        rule = mean_value.solve(replica.curve, point["sessions"], think_time_s)
        assert point["turn_latency_ms"] / 1e3 == pytest.approx(rule.latency_s, rel=1e-6), replica.curve.name
        exact = product_form.solve(replica.curve, int(point["sessions"]), think_time_s)
        assert point["turn_latency_ms"] / 1e3 == pytest.approx(exact.latency_s, rel=within), replica.curve.name
        assert point["turns_per_s"] == pytest.approx(exact.turns_per_s, rel=0.05), replica.curve.name
    assert checked >= 1


def test_roofline_operating_points_are_within_five_percent() -> None:
    """The roofline is solved on its own equations, not between rows: the curve here has every whole number."""
    points = roofline_points("h100-sxm", "llama-3-1-70b", "calibrated")
    for sessions, think_time_s in ((2, 0.5), (12, 2.0), (48, 10.0)):
        at = scenario("code-agent", sessions=sessions, think_time_s=think_time_s, gpus=8)
        replica = first_replica(points, at, gpus=8)
        point = operating_point(points, replica, at, "arrival")
        exact = product_form.solve(replica.curve, int(point["sessions"]), think_time_s)
        assert point["turn_latency_ms"] / 1e3 == pytest.approx(exact.latency_s, rel=0.05)
        assert point["turns_per_s"] == pytest.approx(exact.turns_per_s, rel=0.05)


def test_sessions_of_table_rows_are_within_five_percent() -> None:
    """The other way round: the sessions that a row's load belongs to give its latency back."""
    at = scenario("code-agent", think_time_s=4.0)
    points = table_points(DENSE)
    carried = carry_points(points, setting_of(points, at))
    checked = 0
    for replica in replicas(points, at):
        rows = carried.filter(pl.col(SCHEDULE_ID) == replica.schedule)
        for row in rows.filter(~rows["interpolated"]).iter_rows(named=True):
            sessions = round(row["sessions"])
            in_range = row["in_flight_requests"] < 0.85 * replica.curve.in_flight[-1]
            if sessions >= 2 and in_range:
                checked += 1
                exact = product_form.solve(replica.curve, sessions, at.think_time_s)
                turns_per_s = row["turns_per_s"] * sessions / row["sessions"]
                assert row["turn_latency_ms"] / 1e3 == pytest.approx(exact.latency_s, rel=0.05)
                assert turns_per_s == pytest.approx(exact.turns_per_s, rel=0.05)
    assert checked > 20


def test_over_the_wall_the_simulation_gives_the_operating_point_at_the_wall() -> None:
    """Twice the sessions that memory holds: the replica serves what it holds, the others wait outside."""
    points = table_points(DENSE)
    at = scenario("code-agent", think_time_s=4.0)
    replica = first_replica(points, at, gpus=4)
    admitted, wanted = int(replica.max_sessions), 2 * int(replica.max_sessions)
    point = operating_point(points, replica, scenario("code-agent", think_time_s=4.0, sessions=wanted), "arrival")
    assert point["sessions_wanted"] == wanted
    assert point["sessions_admitted"] == admitted
    loop = Loop(replica.curve, wanted, exponential(4.0), hit_or_miss(0.95, 8.0), max_sessions=admitted)
    measured = simulate(loop, 50_000, seed=11)
    assert measured.turns_error < 0.012
    assert measured.latency_error < 0.012
    assert measured.turns_per_s == pytest.approx(point["cluster_turns_per_s"], rel=0.05)
    assert measured.latency_s == pytest.approx(point["turn_latency_ms"] / 1e3, rel=0.05)


def test_how_the_stations_are_chosen_matters_little() -> None:
    """The rule deals sessions out evenly. Drawn at random, turns meet more of each other; the emptiest, fewer."""
    at = scenario("code-agent")
    curve = first_replica(table_points(MIXTURES[0]), at, gpus=8, stations=8).curve
    for sessions in (8, 32, 128):
        z = 2.0 * float(curve.latency_s[0])
        ours = mean_value.solve(curve, sessions, z)
        even, drawn = (product_form.solve(curve, sessions, z, how) for how in ("even", "drawn-each-turn"))
        emptiest = simulate(Loop(curve, sessions, exponential(z), assignment="least-loaded"), 20_000, seed=12)
        print(
            f"8 stations, {sessions} sessions: R of the rule {ours.latency_s:.3f} s; even {even.latency_s:.3f},"
            f" drawn {drawn.latency_s:.3f}, emptiest {emptiest.latency_s:.3f}"
        )
        assert ours.latency_s == pytest.approx(even.latency_s, rel=0.05)
        assert even.latency_s <= drawn.latency_s * (1 + 1e-9)
        assert emptiest.latency_s <= even.latency_s * 1.02
        assert drawn.latency_s < even.latency_s * 1.15
