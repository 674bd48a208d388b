"""What a table states beside what is read of it must say the same, and products of counts must be counts."""

import pytest

from tests.sources.test_aiconfigurator import AGG_ROW, DISAGG_ROW
from tests.transforms.factory import csv_text, input_file, judged


def reasons(row: dict[str, str], **changed: str) -> list[tuple[str, str]]:
    good, bad = judged(input_file(csv_text([row | changed])))
    assert good.height + bad.height == 1
    return bad.select("reason", "detail").rows()


@pytest.mark.parametrize("row", [AGG_ROW, DISAGG_ROW])
@pytest.mark.parametrize("rate", ["0", "-1", "1e9", "1"])
def test_a_request_rate_that_is_not_that_of_the_tokens(row: dict[str, str], rate: str) -> None:
    ((reason, detail),) = reasons(row, **{"seq/s": rate})
    assert reason == "throughput_does_not_fit"
    assert detail.endswith("by the tokens/s and the output length")


def test_a_request_rate_of_three_decimals() -> None:
    """1714.286 tokens/s of 500 tokens are 3.428572 requests/s."""
    assert reasons(AGG_ROW, **{"seq/s": "3.43"}) == []
    assert reasons(AGG_ROW, **{"seq/s": ""}) == []
    assert reasons(AGG_ROW, **{"seq/s": "text"}) == [("not_a_number", "seq/s is text")]


def test_counts_whose_product_is_none() -> None:
    """Four times a million: 1e24 GPUs, 0 or a negative number where an integer wraps."""
    ((reason, detail),) = reasons(AGG_ROW, **dict.fromkeys(("tp", "pp", "dp", "cp"), "1000000"))
    assert (reason, detail) == (
        "out_of_range",
        "gpus_per_replica is 1e+24 by the parallel dimensions, more than 1,000,000",
    )
