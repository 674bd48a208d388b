"""Rules name the first fault of a row and lose no row."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from transforms.serving_points.rules import Rule, flag_rows

VALUES = st.lists(st.none() | st.integers(-3, 3).map(float), max_size=30)
#: Rules "value below limit"; NULL says nothing.
LIMITS = st.lists(st.integers(-3, 3), max_size=5)


def rules_of(limits: list[int]) -> list[Rule]:
    return [
        Rule(f"below_{limit}", pl.col("value") < limit, pl.format("{} is below {}", "value", pl.lit(limit)))
        for limit in limits
    ]


@given(values=VALUES, limits=LIMITS)
def test_the_first_broken_rule_is_named_and_every_row_kept(values: list[float | None], limits: list[int]) -> None:
    frame = pl.DataFrame({"value": values}, schema={"value": pl.Float64})
    flagged = flag_rows(frame, rules_of(limits))
    assert flagged["value"].to_list() == values
    expected = [
        next((f"below_{limit}" for limit in limits if value is not None and value < limit), None) for value in values
    ]
    assert flagged["reason"].to_list() == expected
    assert flagged["detail"].is_null().to_list() == [reason is None for reason in expected]


@given(values=VALUES, first=LIMITS, second=LIMITS)
def test_an_earlier_fault_is_never_overwritten(values: list[float | None], first: list[int], second: list[int]) -> None:
    frame = pl.DataFrame({"value": values}, schema={"value": pl.Float64})
    once = flag_rows(frame, rules_of(first + second))
    twice = flag_rows(flag_rows(frame, rules_of(first)), rules_of(second))
    assert twice.equals(once)


def test_details_are_of_their_own_row() -> None:
    flagged = flag_rows(pl.DataFrame({"value": [-1.0, 5.0, -2.0]}), rules_of([0]))
    assert flagged["detail"].to_list() == ["-1.0 is below 0", None, "-2.0 is below 0"]
