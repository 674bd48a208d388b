"""What prefills leave to decoding, and the wait for them, by hand."""

import pytest

from transforms.equations.shared_engine import output_token_time, prefill_wait


def test_prefills_that_take_a_fifth_stretch_the_rest() -> None:
    assert output_token_time(8.0, 0.2) == pytest.approx(10.0)


def test_the_wait_is_that_of_a_single_server() -> None:
    """Half busy with prefills of 1 s: M/D/1 waits 0.5 s; where one of two takes nothing, M/G/1 waits twice as long."""
    assert prefill_wait(0.5, 1.0, 1.0, 100.0) == pytest.approx(0.5)
    assert prefill_wait(0.5, 1.0, 2.0, 100.0) == pytest.approx(1.0)


def test_nobody_waits_for_more_than_one_prefill_of_each_other() -> None:
    assert prefill_wait(0.99, 1.0, 8.0, 3.0) == 3.0
    assert prefill_wait(0.5, 1.0, 1.0, 0.0) == 0.0
