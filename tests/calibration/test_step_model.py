"""The step model against figures worked by hand, and what must hold at any load."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.calibration.made import facts_of, grid, parameters
from transforms.calibration.facts import Facts, Load
from transforms.calibration.parameters import values_of
from transforms.calibration.step_model import Work, prefill_s, serve, step_s


def test_facts_by_hand() -> None:
    """Llama-3.1-70B in FP8 on four H200: 4.8e12 bytes/s and 1,979e12 FLOP/s each; KV 327,680 bytes a token."""
    facts = facts_of()
    linear = facts.spec.parameters.attention + facts.spec.parameters.dense_mlp
    kept = facts.spec.stored_bytes.embedding + facts.spec.stored_bytes.output_head + facts.spec.stored_bytes.norms
    assert facts.non_expert_read_s == pytest.approx((linear + kept) / 4 / 4.8e12)
    assert facts.token_s == pytest.approx(2 * facts.spec.parameters_total / (4 * 1979e12))
    assert facts.decode_attention_s(10_000.0) == pytest.approx(10_000 * 327_680 / 4 / 4.8e12)
    assert facts.attention_s(2_000.0, 0.0) == pytest.approx(4 * 80 * 64 * 128 * 2_000 * 1_000 / (4 * 989e12))


def test_one_request_by_hand() -> None:
    """A request alone: no queue, its own prefill between answers."""
    facts, p = facts_of(), values_of(parameters(displaced=1.0))
    load = Load(np.array([1.0]), np.array([2_000.0]), np.array([101.0]))
    work = Work.of_load(load, facts)
    prefill, step = float(prefill_s(work, facts, p)[0]), 6e-3 + facts.non_expert_read_s / 0.65
    served = serve(work, facts, p)
    assert served.ttft_s[0] == pytest.approx(0.07 + prefill)
    busy, decoding = float(served.busy[0]), float(served.decoding[0])
    assert busy == pytest.approx(float(served.requests_per_s[0]) * prefill)
    attention = float(facts.decode_attention_s(2_050.5)) * decoding / 0.5 + 3e-5 * decoding
    assert served.tpot_s[0] == pytest.approx((step + attention) / (1 - busy))
    assert served.requests_per_s[0] * served.latency_s(load.output_tokens)[0] == pytest.approx(1.0, rel=1e-6)


def test_experts_touched() -> None:
    """256 experts, 8 a token: one token reads 1/32 of them, 64 tokens ``1 - (1 - 1/32)^64``."""
    facts = facts_of(model="deepseek-r1", weight_dtype="fp8-block", linear_dtype="fp8-block",
                     expert_dtype="fp8-block", tp=8, moe_tp=8, gpus_per_replica=8)  # fmt: skip
    assert facts.touched(1.0) == pytest.approx(8 / 256)
    assert facts.touched(64.0) == pytest.approx(1 - (31 / 32) ** 64)


@given(
    st.floats(1, 512),
    st.floats(64, 32_000),
    st.floats(2, 4_000),
    st.floats(1.05, 4),
    st.floats(0.5, 2.0),
    st.booleans(),
)
def test_more_in_flight_is_more_throughput_and_no_less_latency(
    in_flight: float, prompt: float, output: float, factor: float, displaced: float, apart: bool
) -> None:
    facts = _disaggregated() if apart else facts_of()
    load = Load(*(np.array([each] * 2) for each in (in_flight, prompt, output)))
    load = Load(load.in_flight * np.array([1.0, factor]), load.input_tokens, load.output_tokens)
    served = serve(Work.of_load(load, facts), facts, values_of(parameters(displaced=displaced)))
    assert np.isfinite(served.ttft_s).all()
    assert np.isfinite(served.tpot_s).all()
    # the queue of bursts grows with the root of the others: steepest at one
    assert served.requests_per_s[1] >= served.requests_per_s[0] * 0.98
    latency = served.latency_s(load.output_tokens)
    assert latency[1] >= latency[0] * (1 - 1e-6)
    np.testing.assert_allclose(served.requests_per_s * latency, load.in_flight, rtol=1e-3)


def _disaggregated() -> Facts:
    pool = {f"{pool}_{name}": value for pool in ("prefill", "decode") for name, value in
            {"workers": 1, "tp": 4, "pp": 1, "dp": 1, "cp": 1, "moe_tp": 4, "moe_ep": 1}.items()}  # fmt: skip
    alone = dict.fromkeys(("tp", "pp", "dp", "cp", "moe_tp", "moe_ep"))
    return facts_of(serving_mode="disagg", gpus_per_replica=8, **pool, **alone)


def test_longer_contexts_are_slower() -> None:
    facts, p = facts_of(), values_of(parameters())
    served = serve(Work.of_load(grid((1_000, 200), (8_000, 200), (64_000, 200), loads=(8,)), facts), facts, p)
    assert (np.diff(served.ttft_s) > 0).all()
    assert (np.diff(served.tpot_s) > 0).all()
    assert step_s(np.array([8.0]), np.array([1e-5]), facts, p) > step_s(np.array([4.0]), np.array([1e-5]), facts, p)
