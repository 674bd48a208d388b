"""Steps of sessions, worked out by hand."""

import math
from collections import Counter

import pytest

from tests.traces.reading import measured
from transforms.traces.requests import Request
from transforms.traces.sessions import Sessions


def test_growth_retention_and_new_tokens() -> None:
    sessions = measured(
        Request("s", 1000, 100, reused_tokens=0),
        Request("s", 1150, 50, reused_tokens=1000),  # grows by 150: the output and 50 new
        Request("s", 1170, 80, reused_tokens=1100),  # by 20, less than the output of 50
        Request("s", 1160, 10, reused_tokens=1000),  # a trim: nothing new, nothing kept
        Request("s", 400, 10, reused_tokens=300),  # a compaction
        Request("s", 460, 10, reused_tokens=400),  # by 60: 10 of output, 50 new
    )
    assert sessions.counts == {"growth_below_output": 1, "trims": 1, "compactions": 1}
    assert sessions.new_tokens.count == 4
    assert sessions.new_tokens.mean == (50 + 0 + 0 + 50) / 4
    assert sessions.output_retention_fraction == (100 + 20 + 0 + 10) / (100 + 50 + 80 + 10)
    assert (sessions.turns.mean, sessions.initial_prompt.mean, sessions.peak.mean) == (6, 1000, 1250)
    # Reusable: the shorter of the two inputs; found: of it, what the trace says.
    assert sessions.own_reuse.reusable == 1000 + 1150 + 1160 + 400 + 400
    assert sessions.own_reuse.reused == 1000 + 1100 + 1000 + 300 + 400
    assert sessions.all_reuse.rate == pytest.approx(3800 / 5340)  # of all input


@pytest.mark.parametrize(("after", "found"), [(900, {"compactions": 1}), (901, {"trims": 1}), (1000, {})])
def test_a_tenth_less_is_a_compaction(after: float, found: dict[str, int]) -> None:
    sessions = measured(Request("s", 1000, 0.5), Request("s", after, 0.5))
    del sessions.counts["growth_below_output"]
    assert sessions.counts == found


def test_pauses_by_kind_and_what_is_wrong_with_them() -> None:
    sessions = measured(
        Request("s", 10, 1, start_s=0, service_s=2),
        Request("s", 10, 1, start_s=5, service_s=1, pause_kind="tool"),  # 5 - 2 = 3
        Request("s", 10, 1, start_s=5.5, service_s=1, pause_kind="tool"),  # begins before the end
        Request("s", 10, 1, start_s=5),  # begins before the last began
        Request("s", 10, 1, start_s=9, pause_kind="person"),  # no service: arrival to arrival
        Request("s", 10, 1, pause_s=100, pause_kind="person"),
        Request("s", 10, 1, pause_s=7),
        cap_pauses_s=50,
    )
    assert sessions.counts == {
        "overlapping_steps": 1, "time_reversals": 1, "pauses_from_arrivals": 1, "pauses_capped": 1,
        "growth_below_output": 6,
    }  # fmt: skip
    assert {kind: found.mean for kind, found in sessions.pauses.items()} == {
        "all": 16, "tool": 3, "person": 27, "unknown": 7,
    }  # fmt: skip


def test_subagents_and_files_stand_apart() -> None:
    sessions = Sessions(Counter())
    for file in (0, 1):
        sessions.add(Request("s", 100, 10), file)
        sessions.add(Request("s", 40, 3, stream="a"), file)
        sessions.add(Request("s", 50, 3, stream="a", reused_tokens=40), file)
        sessions.add(Request("s", 130, 10), file)
    sessions.finish()
    assert (sessions.turns.count, sessions.requests, sessions.subagent_requests) == (2, 4, 4)
    assert (sessions.turns.mean, sessions.subagent_turns.mean) == (2, 2)
    assert sessions.input.mean == 115


@pytest.mark.parametrize(
    "wrong",
    [
        Request("s", 0, 1),
        Request("s", -1, 1),
        Request("s", math.nan, 1),
        Request("s", 10, -1),
        Request("s", 10, math.inf),
        Request("s", 10, 1, reused_tokens=-5),
    ],
)
def test_impossible_rows_are_left_out_and_counted(wrong: Request) -> None:
    sessions = measured(Request("s", 10, 1), wrong)
    assert sessions.counts == {"impossible_rows": 1}
    assert sessions.requests == 1


def test_turns_out_of_order_make_no_step() -> None:
    sessions = measured(
        Request("s", 10, 1, turn=0), Request("s", 30, 1, turn=2, pause_s=1), Request("s", 20, 1, turn=1, pause_s=1)
    )
    assert sessions.counts == {"turns_out_of_order": 1}
    assert sessions.pauses["all"].count == 1


def test_more_reused_than_input_is_cut() -> None:
    sessions = measured(Request("s", 100, 1, reused_tokens=0), Request("s", 110, 1, reused_tokens=500))
    assert sessions.counts == {"reused_more_than_input": 1}
    assert sessions.all_reuse.reused == 110


def test_hits_within_time_outs() -> None:
    sessions = measured(
        Request("s", 100, 0, reused_tokens=0),
        Request("s", 100, 0, reused_tokens=100, pause_s=10),
        Request("s", 100, 0, reused_tokens=100, pause_s=100),
        Request("s", 100, 0, reused_tokens=50, pause_s=5000),
    )
    found = dict(zip(sessions.own_reuse.timeouts_s, sessions.own_reuse.rate_within, strict=True))
    assert found[10.0] == pytest.approx(1 / 3)  # a pause of the time-out itself still hits
    assert found[60.0] == pytest.approx(1 / 3)
    assert found[300.0] == pytest.approx(2 / 3)
    assert sessions.own_reuse.rate == pytest.approx(2.5 / 3)
    assert sessions.all_reuse.rate == pytest.approx(2.5 / 4)


def test_a_session_is_forgotten_when_the_next_begins_where_they_come_one_by_one() -> None:
    sessions = Sessions(Counter(), one_by_one=True)
    for name in ("a", "a", "b", "b", "b"):
        sessions.add(Request(name, 10, 1))
    assert sessions.turns.count == 1
    sessions.finish()
    assert (sessions.turns.count, sessions.turns.mean) == (2, 2.5)
