"""Agent points of mixes: a mix of like scenarios is the scenario, shares and means, percentiles against simulation."""

import numpy as np
import polars as pl
import pytest

from schemas.scenarios import Scenario
from tests.transforms import factory
from tests.transforms.spread.simulation import simulate
from transforms.agent_points.carriers.workload import agent_workload
from transforms.agent_points.carry import carry_points
from transforms.agent_points.mixing import mix_components
from transforms.spread.forms import percentiles
from transforms.spread.work import scenario_nodes

H100_70B = "runs/h100_sxm__llama-3.1-70b__isl4000_osl1000"
FIGURES = ("turn_latency_ms", "turn_latency_p90_ms", "task_time_p99_s", "sessions", "tasks_per_hour_per_gpu",
           "max_sessions", "kv_bytes_per_gpu")  # fmt: skip


def mix_of(*parts: tuple[Scenario, float], **more: object) -> Scenario:
    mix = tuple({"scenario": scenario, "weight": weight} for scenario, weight in parts)
    return Scenario.model_validate({"slug": "both", "mix": mix} | more)


CODE = factory.article_scenario("code-agent")
RESEARCH = factory.article_scenario("research-agent")


@pytest.mark.parametrize("points", ["table", "roofline"])
def test_a_mix_of_one_and_the_same_is_the_scenario(points: str) -> None:
    twin = CODE.model_copy(update={"slug": "twin"})
    mix = mix_of((CODE, 2), (twin, 5))
    if points == "table":
        rows, gpu = factory.shipped_points(H100_70B), "h100-sxm"
    else:
        rows, gpu = factory.roofline_points("b200", "llama-3-1-70b", "calibrated"), "b200"
    alone, together = (
        factory.agent_points(rows, factory.setting(gpu, "llama-3-1-70b", scenario)).sort("point_id")
        for scenario in (CODE, mix)
    )
    assert alone["point_id"].to_list() == together["point_id"].to_list()
    for name in FIGURES:
        assert together[name].to_list() == pytest.approx(alone[name].to_list(), rel=1e-9)


def test_scenarios_of_a_mix_add_up_to_it() -> None:
    """On each point: R and X over the turns; sessions by Little's law, each scenario's own."""
    mix = mix_of((CODE, 3), (RESEARCH, 1))
    carried = carry_points(factory.shipped_points(H100_70B), factory.setting("h100-sxm", "llama-3-1-70b", mix))
    components = mix_components(carried, mix)
    assert components.height == 2 * carried.height
    # 24 of 39 turns are the code agents'
    code = components.filter(pl.col("component") == "code-agent").sort("point_id")
    research = components.filter(pl.col("component") == "research-agent").sort("point_id")
    carried = carried.sort("point_id")
    assert code["turn_share_fraction"].unique().to_list() == pytest.approx([24 / 39])
    mean = 24 / 39 * code["turn_latency_ms"] + 15 / 39 * research["turn_latency_ms"]
    assert mean.to_list() == pytest.approx(carried["turn_latency_ms"].to_list(), rel=1e-9)
    there = code["session_share_fraction"] + research["session_share_fraction"]
    assert there.to_list() == pytest.approx([1.0] * len(there))
    tasks = code["tasks_per_hour_per_gpu"] + research["tasks_per_hour_per_gpu"]
    assert tasks.to_list() == pytest.approx(carried["tasks_per_hour_per_gpu"].to_list())
    # sessions of research agents: their tasks a second times the time that one of them takes
    by_little = research["tasks_per_hour_per_gpu"] / 3600 * research["task_time_s"]
    expected = carried["sessions_per_gpu"] * research["session_share_fraction"]
    assert by_little.to_list() == pytest.approx(expected.to_list(), rel=1e-9)


def test_memory_lies_between_that_of_the_scenarios() -> None:
    mix = mix_of((CODE, 3), (RESEARCH, 1))
    rows = factory.shipped_points(H100_70B)
    code, both, research = (
        factory.agent_points(rows, factory.setting("h100-sxm", "llama-3-1-70b", scenario))
        .filter(~pl.col("interpolated"))
        .sort("point_id")
        for scenario in (CODE, mix, RESEARCH)
    )
    assert (both["kv_bytes_per_session_mean"] > code["kv_bytes_per_session_mean"]).all()
    assert (both["kv_bytes_per_session_mean"] < research["kv_bytes_per_session_mean"]).all()
    shown = both.filter("feasible")
    assert (shown["sessions"] <= shown["max_sessions"] * (1 + 1e-9)).all()
    assert both["transfer_method"].unique().to_list() == ["transfer"]


def test_what_the_engine_sees_of_a_mix() -> None:
    """Prefills by turns; what decodes by output tokens: 24 turns of 128 tokens, 15 of 64."""
    groups = factory.model("llama-3-1-70b").attention
    mix, code, research = (agent_workload(each, groups) for each in (mix_of((CODE, 3), (RESEARCH, 1)), CODE, RESEARCH))
    assert mix.mean.new_tokens == pytest.approx((24 * code.mean.new_tokens + 15 * research.mean.new_tokens) / 39)
    assert mix.first.attention_flops == pytest.approx(
        0.75 * code.first.attention_flops + 0.25 * research.first.attention_flops
    )
    tokens = 24 * 128 + 15 * 64
    assert mix.output_tokens == pytest.approx(tokens / 39)
    expected = (24 * 128 * code.decode_context_tokens + 15 * 64 * research.decode_context_tokens) / tokens
    assert mix.decode_context_tokens == pytest.approx(expected)


def test_percentiles_of_a_mix_against_simulation() -> None:
    groups = factory.model("llama-3-1-70b").attention
    nodes = scenario_nodes(mix_of((CODE, 4), (RESEARCH, 1)), groups)
    drawn = [simulate(scenario, groups, tasks) for scenario, tasks in ((CODE, 40_000), (RESEARCH, 10_000))]
    row = np.array([0.3, 8e-5, 1e-15, 0.02, 1.0])
    shares = (0.5, 0.9, 0.99)
    for place, known in enumerate((nodes.turns, nodes.tasks)):
        factors = row[: known.values.shape[1]]
        simulated = np.concatenate([each[place] for each in drawn]) @ factors
        found = percentiles(known, list(factors[:, None]), shares)[:, 0].tolist()
        assert found == pytest.approx(np.quantile(simulated, shares, method="inverted_cdf").tolist(), rel=0.02)
