"""Engine steps from measured rows: steps that are known come back; rows that contradict themselves are refused."""

import numpy as np
import polars as pl
import pytest

from tests.agentic.made_rows import TOKEN_MS, TYPICAL, WAIT_MS, known_steps, rest_ms, spec, standard_rows
from transforms.agentic import measured_steps, usable_deployments


def test_known_steps_come_back() -> None:
    steps = measured_steps(standard_rows(), spec())
    assert steps.token_ms == pytest.approx(TOKEN_MS)
    assert steps.wait_ms == pytest.approx(WAIT_MS)
    assert steps.batch == pytest.approx([1, 4, 16, 64])
    assert steps.rest_ms == pytest.approx([rest_ms(load) for load in (1, 4, 16, 64)])


def test_decode_steps_at_another_context() -> None:
    """Added: what attention takes more. Scaled: the ratio of the physics. Between the loads along the line."""
    steps, load = known_steps(), np.array([10.0])
    assert steps.decode_ms(load, 60_000.0, "added") == pytest.approx(rest_ms(10) + steps.attention_ms(load, 60_000.0))
    scaled = steps.decode_ms(np.array([4.0]), 60_000.0, "scaled") / steps.decode_ms(np.array([4.0]), TYPICAL, "scaled")
    physics = steps.physics_ms(np.array([4.0]), 60_000.0) / steps.physics_ms(np.array([4.0]), TYPICAL)
    assert scaled == pytest.approx(physics)
    # at the table's own context both are the row's
    both = [steps.decode_ms(np.array([16.0]), TYPICAL, overheads)[0] for overheads in ("added", "scaled")]
    assert both[0] == pytest.approx(both[1])


def test_loads_beyond_those_measured() -> None:
    steps, loads = known_steps(), np.array([0.2, 100.0])
    further = steps.decode_ms(loads, TYPICAL, "added") - steps.attention_ms(loads, TYPICAL)
    assert further == pytest.approx([rest_ms(1), rest_ms(100)])  # alone is alone; the line goes on


def test_a_prefill_has_its_attention() -> None:
    steps = known_steps()
    cached = steps.prefill_ms(1000.0, 59_000.0) - steps.prefill_ms(1000.0, 0.0)
    assert cached > 0
    # 64 layers of 64 heads of 128, 1,000 tokens against 59,000 more each, on two H200 at vLLM's share of 989 TFLOP/s
    assert cached == pytest.approx(1e3 * 4 * 64 * 64 * 128 * 1000 * 59_000 / (2 * 989e12 * 0.61))


def test_one_prompt_length_tells_nothing() -> None:
    with pytest.raises(ValueError, match="one prompt length"):
        measured_steps(standard_rows(lengths=(4000.0,)), spec())


def test_ttft_that_cannot_be_a_prefill_is_refused() -> None:
    """Long prompts that waited seconds for kernels to be compiled."""
    rows = standard_rows(slower_ttft=lambda length, _load: 9000.0 if length > 1000 else 0.0)
    with pytest.raises(ValueError, match="not that of a prefill"):
        measured_steps(rows, spec())


def test_deployments_with_most_rows_come_first_and_faults_are_named() -> None:
    rows = pl.concat([
        standard_rows(loads=(1.0, 4.0)), standard_rows(backend="sglang"), standard_rows((4000.0,), backend="trtllm"),
    ])  # fmt: skip
    usable, faults = usable_deployments(rows, spec())
    assert [steps.row["backend"][0] for steps in usable] == ["sglang", "vllm"]
    assert len(faults) == 1
    assert faults[0].startswith("trtllm TP2 DP1 EP1 (4 rows): one prompt length")
