"""Fits: parameters come back, loads not seen are predicted, bars grow where nothing was seen."""

import numpy as np
import pytest

from pipelines.reading.engines import load_priors
from tests.bench.learning import FEWEST_OF_A_TRAIT, Example, learn_priors, typical_prior
from tests.calibration.made import facts_of, grid, measured, parameters
from transforms.calibration.engine import fit_engine, prior_engine
from transforms.calibration.facts import Load
from transforms.calibration.fit import fit, sensitivities
from transforms.calibration.parameters import NAMES, TYPICAL, place, values_of
from transforms.calibration.step_model import Work, serve

TRUTH = parameters(step_s=9e-3, weight_read_fraction=0.8, kv_read_fraction=0.4, wait_s=0.04, prefill_fraction=0.35)


def test_parameters_come_back_from_a_dense_grid() -> None:
    facts = facts_of()
    rows = measured(facts, TRUTH, grid((1_000, 1_000), (8_000, 1_000), (1_000, 8_000), (16_000, 200)))
    fitted = fit(rows, facts, typical_prior())
    told = ("wait_s", "prefill_fraction")
    for name in told:
        assert np.exp(fitted.logs[NAMES.index(name)] - TRUTH[NAMES.index(name)]) == pytest.approx(1.0, abs=0.15), name


def test_three_loads_predict_another_workload() -> None:
    facts = facts_of()
    prior = load_priors().prior(facts.traits)
    rows = measured(facts, TRUTH, grid((4_000, 1_000), loads=(2, 16, 64)))
    wanted = measured(facts, TRUTH, grid((8_000, 500), loads=(4, 16, 32)))
    engine = fit_engine(rows, facts, prior)
    found = engine.predict(wanted.load)
    alone = prior_engine(facts, prior).predict(wanted.load)
    assert np.abs(found.latency_s.value / wanted.latency_s - 1).mean() < 0.15
    assert (found.latency_s.low < wanted.latency_s).all()
    assert (wanted.latency_s < found.latency_s.high).all()
    assert (found.latency_s.high / found.latency_s.low < alone.latency_s.high / alone.latency_s.low).all()


def test_bars_grow_beyond_what_was_seen() -> None:
    facts = facts_of()
    engine = fit_engine(measured(facts, TRUTH, grid((1_000, 1_000))), facts, load_priors().prior(facts.traits))
    one = np.ones(3)
    found = engine.predict(Load(np.array([16.0, 64.0, 512.0]), 1_000 * one, 1_000 * one)).latency_s
    width = found.high / found.low
    assert width[0] <= width[1] < width[2]
    longer = engine.predict(Load(16 * one, np.array([1_000.0, 16_000.0, 128_000.0]), 1_000 * one)).latency_s
    assert (np.diff(longer.high / longer.low) > 0).all()


def test_sensitivities_are_those_of_the_whole_model() -> None:
    """The derivative with the closed loop solved anew, against the one by its equation."""
    facts, load = facts_of(), grid((4_000, 300), (1_000, 1_000))
    work, free = Work.of_load(load, facts), list(range(len(NAMES)))
    by_ttft, by_tpot, _ = sensitivities(TRUTH, work, facts, free)
    for at in free:
        logs = np.tile(TRUTH, (2, 1))
        logs[:, at] += (1e-4, -1e-4)
        served = serve(work, facts, values_of(logs))
        for found, of in ((by_ttft, served.ttft_s), (by_tpot, served.tpot_s)):
            of = np.broadcast_to(of, (2, len(load.in_flight)))
            np.testing.assert_allclose(found[:, at], (np.log(of[0]) - np.log(of[1])) / 2e-4, atol=2e-3)


def test_drafts_are_accepted_only_where_there_are_any() -> None:
    facts = facts_of()
    fitted = fit(measured(facts, TRUTH, grid((1_000, 1_000))), facts, typical_prior())
    assert fitted.logs[NAMES.index("accepted_tokens")] == 0.0
    drafting = facts_of(draft_tokens=None, accepted_tokens=None)
    rows = measured(drafting, parameters(accepted_tokens=2.5), grid((1_000, 1_000), (8_000, 1_000)))
    fitted = fit(rows, drafting, typical_prior())
    assert np.exp(fitted.logs[NAMES.index("accepted_tokens")]) == pytest.approx(2.4, abs=0.35)


def test_traits_never_seen_have_no_effect() -> None:
    priors = load_priors()
    known = priors.prior(("mode agg", "engine vllm"))
    unknown = priors.prior(("mode agg", "engine vllm", "engine of-tomorrow", "gpu of-tomorrow"))
    np.testing.assert_array_equal(known.logs, unknown.logs)
    assert all("deepseek" not in trait and "model" not in trait for trait in priors.effects["mode agg"])


def test_attention_is_told_by_long_prompts_alone() -> None:
    """Prompts of 4K leave attention as open as it was, so that bars at 100K are wide; a cold prompt settles it."""
    facts, attention = facts_of(), place("attention_fraction")
    truth = parameters(attention_fraction=0.1)
    prior = load_priors().prior(facts.traits)
    before = np.sqrt(prior.covariance[attention, attention])
    short = fit_engine(measured(facts, truth, grid((1_000, 1_000), (4_000, 1_000))), facts, prior)
    assert np.sqrt(short.fitted.covariance[attention, attention]) > 0.8 * before
    cold = grid((100_000, 200), loads=(1,))
    found, seen = short.predict(cold).latency_s, measured(facts, truth, cold).latency_s
    assert found.low[0] < seen[0] < found.high[0]
    long = fit_engine(measured(facts, truth, grid((4_000, 1_000), (64_000, 200), loads=(1, 4))), facts, prior)
    assert np.exp(long.fitted.logs[attention]) == pytest.approx(0.1, rel=0.2)
    assert np.sqrt(long.fitted.covariance[attention, attention]) < 0.4 * before
    assert long.predict(cold).latency_s.value[0] == pytest.approx(seen[0], rel=0.1)


def test_what_few_deployments_have_in_common_is_no_trait() -> None:
    """One strange deployment says nothing of its engine; several do."""
    usual, strange = TYPICAL, TYPICAL + np.log(3.0)

    def learnt(number: int) -> float:
        others = [Example(f"usual {at}", ("mode agg", "engine known"), usual, 0.3) for at in range(40)]
        odd = [Example(f"odd {at}", ("mode agg", "engine odd"), strange, 0.3) for at in range(number)]
        priors = learn_priors([*others, *odd])
        one = priors.prior(("mode agg", "engine odd")).logs - priors.prior(("mode agg", "engine unheard of")).logs
        return float(one[place("step_s")])

    assert learnt(FEWEST_OF_A_TRAIT - 1) == 0.0
    assert learnt(FEWEST_OF_A_TRAIT) > 0.3
