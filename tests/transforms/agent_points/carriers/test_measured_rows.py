"""Measured rows carried by their deployment's engine: right where the engine is known, ranges that say how sure."""

from dataclasses import replace
from functools import cache

import numpy as np
import polars as pl
import pytest

from pipelines.building.build_inputs import calibrate_points, engine_library
from pipelines.reading.catalogues import load_hardware, load_models, load_scenarios
from pipelines.reading.engines import load_priors
from schemas.arrays import Array
from schemas.engines import NO_ENGINES, EnginesFile
from tests.calibration.made import facts_of, grid, measured, parameters, points
from tests.transforms.factory import article_scenario, identity_scenario
from transforms.agent_points.carriers.workload import agent_workload
from transforms.agent_points.carry import Setting, carry_points
from transforms.agent_points.unmeasured_loads import add_unmeasured_loads, unmeasured_loads
from transforms.calibration.engine import BAND_DEVIATIONS
from transforms.calibration.fit import expected_logs
from transforms.calibration.known_engines import Engines, deployment_key
from transforms.calibration.parameters import values_of
from transforms.calibration.step_model import Work, serve
from transforms.equations.kv_memory import attention_flops
from transforms.frontier import mark_frontiers

LOAD = grid((1_000, 1_000), (8_000, 1_000), loads=(2, 8, 32))
#: An engine that differs from what is expected of its kind.
LOGS = parameters(step_s=0.009, prefill_fraction=0.35, kv_read_fraction=0.6)


@cache
def rows() -> pl.DataFrame:
    made = points(LOAD, measured(facts_of(), LOGS, LOAD))
    identity = pl.format("row-{}", "source_row")
    return made.with_columns(point_id=identity, batch_per_rank="concurrency_reported", configuration_id=pl.lit("made"))


@cache
def fitted() -> EnginesFile:
    return calibrate_points(rows(), load_hardware(), load_models(), load_scenarios())


def library(file: EnginesFile) -> Engines:
    return engine_library(file, load_hardware(), load_models())


def carried(engines: Engines | None, scenario: str = "code-agent", served: pl.DataFrame | None = None) -> pl.DataFrame:
    shared = Setting(article_scenario(scenario), load_models().get("llama-3-1-70b"), load_hardware(), engines=engines)
    return carry_points(rows() if served is None else served, shared)


def true_turns(scenario: str, in_flight: float, logs: Array = LOGS) -> tuple[float, float]:
    """TTFT and TPOT of the mean turn on the engine that made the rows, in ms."""
    facts, agent, p = facts_of(), article_scenario(scenario), values_of(logs)
    turn = agent_workload(agent, facts.spec.attention)
    # each turn as a hit and as a miss, weighed by the hit rate: how much the prefills vary
    contexts = [agent.initial_prompt_tokens + turn * 628 for turn in range(8)]
    seconds, shares = [], []
    for context in contexts:
        for new, share in ((500.0, 0.95), (context, 0.05)):
            flops = float(attention_flops(facts.spec.attention, context - new, new))
            seconds.append(float((facts.token_s * new / p["prefill_fraction"])[0]
                                 + (facts.attention_flop_s * flops / p["attention_fraction"])[0]))  # fmt: skip
            shares.append(share / 8)
    mean = float(np.average(seconds, weights=shares))
    weights_s = (facts.prefill_non_expert_read_s + facts.prefill_experts_read_s) / float(p["weight_read_fraction"][0])
    variance = float(np.average((np.array(seconds) - mean) ** 2, weights=shares))
    work = Work(
        np.array([in_flight]),
        np.array([turn.output_tokens - 1.0]),
        np.array([float(facts.decode_attention_s(turn.decode_context_tokens))]),
        np.array([facts.token_s * float(turn.mean.new_tokens)]),
        np.array([facts.attention_flop_s * float(turn.mean.attention_flops)]),
        np.array([1.0]),
        np.array([1.0 + variance / (mean + weights_s) ** 2]),
    )
    served = serve(work, facts, p)
    return 1e3 * float(served.ttft_s[0]), 1e3 * float(served.tpot_s[0])


class TestCalibrated:
    def test_turns_are_what_the_engine_that_made_the_rows_takes(self) -> None:
        """Six rows of two short workloads tell an agent's turns at 18,000 tokens of context within 15 %."""
        found = carried(library(fitted())).filter(pl.col("interpolated").not_())
        assert found["transfer_method"].unique().to_list() == ["calibrated"]
        for row in found.iter_rows(named=True):
            _, tpot = true_turns("code-agent", row["concurrency_reported"])
            assert row["tpot_ms"] == pytest.approx(tpot, rel=0.15)

    def test_the_truth_lies_within_the_ranges(self) -> None:
        found = carried(library(fitted())).filter(pl.col("interpolated").not_())
        for row in found.iter_rows(named=True):
            ttft, tpot = true_turns("code-agent", row["concurrency_reported"])
            latency = ttft + tpot * (article_scenario().output_tokens_per_turn - 1)
            assert row["turn_latency_ms_low"] < latency < row["turn_latency_ms_high"]

    def test_tasks_an_hour_are_fewest_where_turns_are_slowest(self) -> None:
        """At the same sessions: tasks/h/GPU = 3600 * C / (R + Z) / N / G."""
        row = carried(library(fitted())).filter(pl.col("interpolated").not_()).row(0, named=True)
        agent = article_scenario()
        slowest = row["turn_latency_ms_high"] / 1e3 + agent.think_time_s
        by_hand = 3600 * row["sessions"] / slowest / agent.turns / row["gpus_per_replica"]
        assert row["tasks_per_hour_per_gpu_low"] == pytest.approx(by_hand, rel=1e-12)

    def test_loads_nobody_measured_are_points_and_those_beyond_on_no_frontier(self) -> None:
        found = mark_frontiers(carried(library(fitted())))
        beyond = found.filter(pl.col("unmeasured_load") == "beyond")
        assert set(found["unmeasured_load"]) == {None, "between", "beyond"}
        assert beyond["extrapolated"].all()
        assert not beyond.select(pl.any_horizontal("on_frontier", "on_frontier_3d")).to_series().any()
        assert not found.filter(pl.col("unmeasured_load").ne_missing("beyond"))["extrapolated"].any()

    def test_the_rows_own_workload_is_direct_and_gives_the_row_back(self) -> None:
        own = rows().filter(pl.col("isl_tokens") == 8_000)
        shared = Setting(identity_scenario(8_000, 1_000), load_models().get("llama-3-1-70b"), load_hardware(),
                         engines=library(fitted()))  # fmt: skip
        found = (
            carry_points(rows(), shared).filter(pl.col("point_id").is_in(own["point_id"].implode())).sort("point_id")
        )
        assert found["transfer_method"].unique().to_list() == ["direct"]
        np.testing.assert_allclose(found["ttft_ms"], own.sort("point_id")["ttft_ms"], rtol=1e-9)
        assert found["turn_latency_ms_low"].null_count() == found.height

    def test_the_range_is_that_of_the_engine(self) -> None:
        """Far below the wall: 80 % of a normal distribution of the logarithm."""
        row = carried(library(fitted())).filter(pl.col("concurrency_reported") == 2).row(0, named=True)
        assert row["sessions"] < 0.7 * row["max_sessions"]
        spread = np.log(row["turn_latency_ms_high"] / row["turn_latency_ms"]) / BAND_DEVIATIONS
        assert row["expected_error_fraction"] == pytest.approx(0.798 * spread, rel=1e-9)


class TestRatio:
    def test_a_row_that_is_slower_than_its_kind_stays_so_much_slower(self) -> None:
        """Rows of the expected engine, TTFT times 1.2 and TPOT times 0.9: so are the turns, at any load."""
        facts = facts_of()
        expected = expected_logs(load_priors().prior(facts.traits), facts)
        figures = measured(facts, expected, LOAD)
        made = points(LOAD, replace(figures, ttft_s=1.2 * figures.ttft_s, tpot_s=0.9 * figures.tpot_s)).with_columns(
            point_id=pl.format("row-{}", "source_row"), batch_per_rank="concurrency_reported",
            configuration_id=pl.lit("made"),
        )  # fmt: skip
        found = carried(library(NO_ENGINES), served=made).filter(pl.col("interpolated").not_())
        assert found["transfer_method"].unique().to_list() == ["ratio"]
        for row in found.iter_rows(named=True):
            ttft, tpot = true_turns("code-agent", row["concurrency_reported"], expected)
            assert row["ttft_ms"] == pytest.approx(1.2 * ttft, rel=1e-6)
            assert row["tpot_ms"] == pytest.approx(0.9 * tpot, rel=1e-6)

    def test_lockstep_keeps_the_plain_ratio_and_is_marked(self) -> None:
        """64 prompts of 8,000 tokens take longer than their 128 decode steps."""
        load = grid((8_000, 128), loads=(64,))
        figures = measured(facts_of(), LOGS, load)
        together = points(load, figures).with_columns(
            point_id=pl.lit("one"), batch_per_rank="concurrency_reported", ttft_ms=pl.lit(6_500.0),
            tpot_ms=pl.lit(20.0), request_latency_ms=pl.lit(6_500.0 + 20.0 * 127), requests_per_s=pl.lit(64 / 9.04),
            configuration_id=pl.lit("made"),
        )  # fmt: skip
        found, plain = (carried(engines, served=together) for engines in (library(NO_ENGINES), None))
        assert found["lockstep"].all()
        assert found["ttft_ms"].to_list() == plain["ttft_ms"].to_list()


def test_loads_between_and_beyond_by_hand() -> None:
    assert unmeasured_loads(np.array([4.0, 8.0])) == {
        5.0: "between", 6.0: "between", 9.0: "beyond", 11.0: "beyond", 13.0: "beyond", 16.0: "beyond",
    }  # fmt: skip
    assert unmeasured_loads(np.array([1.0])) == {2.0: "beyond"}


def test_each_workload_has_the_loads_of_all() -> None:
    lacking = rows().filter(~((pl.col("isl_tokens") == 8_000) & (pl.col("concurrency_reported") == 8)))
    found = add_unmeasured_loads(lacking, load_models().get("llama-3-1-70b"), library(fitted()))
    loads = found.group_by("isl_tokens").agg(pl.col("concurrency_reported").sort())
    assert loads["concurrency_reported"].n_unique() == 1
    assert found["point_id"].is_unique().all()


def test_a_deployment_is_found_whether_numbers_were_read_as_whole_or_not() -> None:
    whole = deployment_key({"model": "m", "tp": 8, "pp": 1.0, "setting": None}, {})
    assert whole == deployment_key({"pp": 1, "tp": 8.0, "model": "m"}, {})


def test_models_of_one_architecture_share_an_engine() -> None:
    """Rows named Llama 3.3 70B, on the engine that was fitted to those of Llama 3.1 70B."""
    named = rows().with_columns(model=pl.lit("llama-3-3-70b"), shared_from=pl.lit("llama-3-1-70b"))
    shared = Setting(article_scenario(), load_models().get("llama-3-3-70b"), load_hardware(), engines=library(fitted()))
    ours, theirs = carry_points(named, shared), carried(library(fitted()))
    assert ours["turn_latency_ms"].to_list() == theirs["turn_latency_ms"].to_list()


def test_an_engine_from_a_file_is_the_engine() -> None:
    again = EnginesFile.model_validate_json(fitted().model_dump_json())
    assert carried(library(again)).equals(carried(library(fitted())))


def test_priors_are_of_other_deployments_alone() -> None:
    assert library(NO_ENGINES).priors is load_priors()
