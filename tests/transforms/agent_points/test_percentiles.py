"""Percentiles of agent points: the engine's own turns, the identity, and what varies in the rows' hit rates."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from schemas.scenarios import Scenario
from tests.transforms import factory
from transforms.agent_points.agent import Agent
from transforms.agent_points.carriers.workload import Prefill, agent_workload
from transforms.agent_points.carry import Setting
from transforms.agent_points.percentiles import add_percentiles
from transforms.agent_points.prepare import RowGroup, prepare_points
from transforms.agent_points.rows.columns import PREFILL_SLOPES
from transforms.agent_points.rows.rows import Rows
from transforms.agent_points.service import Service
from transforms.equations.context import turn_profile
from transforms.equations.kv_memory import attention_flops

H100_70B = "runs/h100_sxm__llama-3.1-70b__isl4000_osl1000"
SHARES = ("p50", "p90", "p95", "p99")
#: A row of one session on one GPU, which waits for nobody.
ALONE = {
    "sessions": 1.0, "activity_fraction": 0.5, "_stations": 1.0, "ttft_ms": 500.0, "_rank_tp": 1.0,
    "_kv_element_bytes": 2.0, "_decode_hbm_bandwidth_bytes_per_s": 3.35e12,
}  # fmt: skip


def groups(points: pl.DataFrame, shared: Setting) -> tuple[RowGroup, ...]:
    return prepare_points(points, shared.spec, shared.hardware).groups


def latencies_of_turns(group: RowGroup, shared: Setting) -> tuple[np.ndarray, np.ndarray]:
    """The engine's latency of each turn as a hit and as a miss, ``(rows, turns)``, and the weight of each."""
    scenario, groups = shared.scenario, shared.spec.attention
    workload = agent_workload(scenario, groups, prefill_sees_output=group.aggregated)
    turns = turn_profile(scenario, prefill_sees_output=group.aggregated)
    columns, weights = [], []
    for chance, news in ((scenario.cache_hit_rate, turns.new_on_hit), (1 - scenario.cache_hit_rate, turns.new_on_miss)):
        for context, new in zip(turns.context, news, strict=True):
            flops = float(attention_flops(groups, context - new, new))
            at = np.empty(len(group.rows))
            for carrier, places in group.carriers:
                # what a turn differs from the mean by, as the first one does
                at[places] = carrier.figures_at(replace(workload, first=Prefill(new, flops)))["first_turn_latency_ms"]
            columns.append(at)
            weights.append(chance / len(news))
    return np.stack(columns, axis=1), np.array(weights)


@pytest.mark.parametrize("slug", ["code-agent", "research-agent"])
@pytest.mark.parametrize("kind", ["table", "roofline"])
def test_percentiles_of_turns_are_those_of_the_engines_turns(slug: str, kind: str) -> None:
    """Each turn priced by the engine model itself, hit and miss: its percentiles within 3 % on every row."""
    scenario = factory.article_scenario(slug)
    if kind == "table":
        shared = factory.setting("h100-sxm", "llama-3-1-70b", scenario)
        points = factory.shipped_points(H100_70B)
    else:
        shared = factory.setting("b200", "llama-3-1-70b", scenario)
        points = factory.roofline_points("b200", "llama-3-1-70b", "calibrated")
    for group in groups(points, shared):
        turns, weights = latencies_of_turns(group, shared)
        order = np.argsort(turns, axis=1)
        total = np.cumsum(weights[order], axis=1)
        workload = agent_workload(scenario, shared.spec.attention, prefill_sees_output=group.aggregated)
        carried = [(carrier.figures_at(workload), places) for carrier, places in group.carriers]
        figures = {name: np.empty(len(group.rows)) for name in ("turn_latency_ms", "tpot_ms")}
        for found, places in carried:
            for name, values in figures.items():
                values[places] = found[name]
        alone = {name: ALONE[name] for name in ("sessions", "activity_fraction", "ttft_ms")}
        rows = group.rows.with_figures(figures, **alone)
        agent = Agent.of(scenario, shared.spec, aggregated=group.aggregated)
        slopes = Service(group, agent, np.zeros(len(rows), np.bool_), None).prefill_slopes()
        rows = add_percentiles(rows.with_figures(slopes), scenario.cache_hit_rate, agent)
        for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
            # where a share falls between two turns, any latency between theirs is its percentile
            found = rows[f"turn_latency_{name}_ms"]
            low, high = (
                np.take_along_axis(turns, np.take_along_axis(order, place[:, None], axis=1), axis=1)[:, 0]
                for place in ((total < share + off).sum(axis=1) for off in (-1e-9, 1e-9))
            )
            assert np.abs(found / np.clip(found, low, high) - 1).max() < 0.03


def test_without_spread_all_percentiles_are_the_mean() -> None:
    shared = factory.setting("h100-sxm", "llama-3-1-70b", factory.identity_scenario(4000, 1000))
    points = factory.agent_points(factory.shipped_points(H100_70B), shared)
    assert points.height > 20
    for name in SHARES:
        assert points[f"turn_latency_{name}_ms"].to_list() == pytest.approx(points["turn_latency_ms"].to_list())
        assert points[f"task_time_{name}_s"].to_list() == pytest.approx(points["task_time_s"].to_list())
    assert points["e2e_tokens_per_s_per_user_p90"].to_list() == pytest.approx(
        points["e2e_tokens_per_s_per_user"].to_list()
    )


def test_what_varies_more_has_the_higher_percentiles() -> None:
    """The same means, outputs of 20 to 1,000 tokens: the tail is longer, the wall points and rows alike."""
    plain = factory.article_scenario("code-agent", think_time_s=0.0)
    fields = plain.model_dump(exclude={"distributions", "statistics", "mix"})
    varied = Scenario.model_validate(fields | {"output_tokens_per_turn": {"mean": 128, "p50": 60, "p90": 300}})
    points = factory.shipped_points(H100_70B)
    few, many = (
        factory.agent_points(points, factory.setting("h100-sxm", "llama-3-1-70b", scenario)).sort("point_id")
        for scenario in (plain, varied)
    )
    assert few["interpolated"].any()
    assert (few["turn_latency_ms"] - many["turn_latency_ms"]).abs().max() == pytest.approx(0, abs=1e-9)
    assert (many["turn_latency_p90_ms"] > few["turn_latency_p90_ms"]).all()
    assert (many["task_time_p99_s"] > few["task_time_p99_s"]).all()
    # half of the turns generate less than half of the mean
    assert (many["turn_latency_p50_ms"] < many["turn_latency_ms"]).all()
    for frame in (few, many):
        for figure in ("turn_latency_{}_ms", "task_time_{}_s"):
            names = [figure.format(name) for name in SHARES]
            assert all((frame[low] <= frame[high]).all() for low, high in pairwise(names))


def test_rows_of_different_hit_rates_have_the_percentiles_of_each() -> None:
    scenario = factory.article_scenario("code-agent")
    spec = factory.model("llama-3-1-70b")
    figures = ALONE | {"turn_latency_ms": 2000.0, "tpot_ms": 8.0, PREFILL_SLOPES[0]: 0.2, PREFILL_SLOPES[1]: 1e-12}
    frame = pl.DataFrame({"row": [0, 1, 2, 3]})
    rows = Rows(frame, {name: np.full(4, value) for name, value in figures.items()})
    agent = Agent.of(scenario, spec, aggregated=True)
    rates = np.array([0.5, 0.95])
    together = add_percentiles(rows, np.array([*rates, np.nan, 0.9999]), agent)
    for place, rate in ((0, rates[0]), (1, rates[1]), (3, 1.0)):
        alone = add_percentiles(rows, float(rate), agent)
        for name in ("turn_latency_p50_ms", "turn_latency_p90_ms", "task_time_p99_s"):
            assert together[name][place] == pytest.approx(alone[name][place])
    # at even chances nine of ten turns are no longer than a long miss
    assert together["turn_latency_p90_ms"][0] > together["turn_latency_p90_ms"][1]


def test_a_row_that_does_not_tell_its_prefill_has_no_percentiles() -> None:
    scenario, spec = factory.article_scenario("code-agent"), factory.model("llama-3-1-70b")
    figures = {"turn_latency_ms": [2000.0, 2000.0], "tpot_ms": [8.0, 8.0], PREFILL_SLOPES[0]: [np.nan, 0.2]}
    rows = Rows(pl.DataFrame({"row": [0, 1]}), {name: np.array(values) for name, values in figures.items()})
    rows = rows.with_figures({**ALONE, PREFILL_SLOPES[1]: 0.0})
    found = add_percentiles(rows, 0.95, Agent.of(scenario, spec, aggregated=True))["turn_latency_p90_ms"]
    assert np.isnan(found[0])
    assert found[1] > 0
    nobody = rows.take(np.array([0, 0]))
    alone = add_percentiles(nobody, 0.95, Agent.of(scenario, spec, aggregated=True))
    assert np.isnan(alone["task_time_p50_s"]).tolist() == [True, True]
