"""Each format by small files whose requests are worked out by hand."""

import json

import pytest

from tests.traces.reading import detected, reading_of, requests_of
from transforms.traces.formats import UnknownTraceError


def jsonl(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


WEKA = {
    "id": "s",
    "block_size": 64,
    "tool_tokens": 100,
    "system_tokens": 20,
    "requests": [
        {"t": 0, "type": "n", "in": 130, "out": 10, "hash_ids": [1, 2, 3], "stop": "tool_use", "api_time": 2.5,
         "think_time": 0},
        {
            "t": 4, "type": "n", "in": 200, "out": 5, "hash_ids": [1, 2, 4, 5], "stop": "end_turn", "api_time": 1,
            "think_time": 1.5, "input_types": ["tool_result"],
        },
        {"type": "subagent", "agent_id": "a", "requests": [{"t": 5, "in": 64, "out": 1, "hash_ids": [1]}]},
        {"t": 60, "type": "s", "in": 60, "out": 7, "hash_ids": [9], "think_time": 55},
    ],
}  # fmt: skip


@pytest.mark.parametrize("text", [json.dumps(WEKA), json.dumps(WEKA, indent=1), json.dumps([WEKA])])
def test_weka(text: str) -> None:
    assert detected(text).name == "weka"
    requests, counts = requests_of(text)
    assert [(r.stream, r.turn, r.input_tokens, r.output_tokens) for r in requests] == [
        ("", 0, 130, 10),
        ("", 1, 200, 5),
        ("/a", 0, 64, 1),
        ("", 2, 60, 7),
    ]
    assert [r.reused_tokens for r in requests] == [0, 128, 64, 0]  # two blocks of 64; the subagent shares one
    assert [r.pause_s for r in requests] == [None, 1.5, None, 55]
    assert [r.pause_kind for r in requests] == [None, "tool", None, "person"]
    assert requests[0].system_tokens == 120
    assert not counts


def test_weka_sessions_one_a_line_are_apart() -> None:
    requests, counts = requests_of(jsonl(WEKA, WEKA) + '{"no": 1}\n')
    assert len({r.session for r in requests}) == 2
    assert [r.reused_tokens for r in requests[4:]] == [0, 128, 64, 0]  # ids mean nothing outside their session
    assert counts == {"unreadable_rows": 1}


def tracelab_round(index: int, total: int, prefix: int, output: int, **more: object) -> dict[str, object]:
    return {
        "session_id": "s",
        "round_index": index,
        "input_tokens_total": total,
        "prefix_tokens": prefix,
        "output_tokens": output,
    } | more


def event(kind: str, second: float) -> dict[str, object]:
    return {"event_type": kind, "timestamp": f"2026-06-01T05:00:{second:06.3f}Z"}


def test_tracelab_rounds() -> None:
    tools = [
        {"emitted_at": "2026-06-01T05:00:04Z", "result_at": "2026-06-01T05:00:05.5Z"},
        {"emitted_at": "2026-06-01T05:00:04Z", "result_at": "2026-06-01T05:00:07Z"},
    ]
    text = jsonl(
        tracelab_round(0, 100, 60, 9, timing_events=[event("user_message", 1), event("tool_call", 4)], tools=tools),
        tracelab_round(1, 150, 100, 9, timing_events=[event("tool_result", 7), event("text", 9)], tools=[]),
        tracelab_round(2, 180, 90, 9, timing_events=[event("user_message", 29), event("text", 30)], tools=[]),
    )
    assert reading_of(text).reuse == "observed"
    requests, _ = requests_of(text)
    assert [r.pause_s for r in requests] == [None, 3, 20]  # the slower tool; from the last text to the message
    assert [r.pause_kind for r in requests] == ["person", "tool", "person"]
    assert [r.service_s for r in requests] == [3, 2, 1]
    assert [r.reused_tokens for r in requests] == [60, 100, 90]


def test_tracelab_replay() -> None:
    text = (
        "session_id,arrival_time,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms\n"
        "0,117,0,0,2318,200,300\n0,117,1,2518,348,131,154\n"
    )
    requests, _ = requests_of(text)
    assert [(r.input_tokens, r.reused_tokens, r.output_tokens) for r in requests] == [(2318, 0, 200), (2866, 2518, 131)]
    assert [r.pause_s for r in requests] == [None, pytest.approx(0.3)]


def test_aiperf_rows_are_increments() -> None:
    text = jsonl(
        {"session_id": "a", "input_length": 1000, "output_length": 50, "hash_ids": [0, 1], "timestamp": 0},
        {"session_id": "a", "input_length": 100, "output_length": 60, "hash_ids": [2], "delay": 1500},
        {"session_id": "b", "input_length": 1100, "output_length": 1, "hash_ids": [0, 1, 3], "timestamp": 7},
        {"session_id": "a", "input_length": 30, "output_length": 5, "hash_ids": [4], "delay": 10},
    )
    requests, _ = requests_of(text)
    assert [r.input_tokens for r in requests] == [1000, 1150, 1100, 1240]  # 1000+50+100, 1150+60+30
    assert [r.reused_tokens for r in requests] == [0, 1050, 1024, 1210]  # b begins with two of a's blocks of 512
    assert [r.pause_s for r in requests] == [None, 1.5, None, pytest.approx(0.01)]


def test_aiperf_rows_that_hold_the_whole_input_are_taken_so() -> None:
    text = jsonl(
        {"session_id": "a", "input_length": 1024, "output_length": 50, "hash_ids": [0, 1]},
        {"session_id": "a", "input_length": 1300, "output_length": 60, "hash_ids": [0, 1, 2]},
    )
    requests, _ = requests_of(text)
    assert [(r.input_tokens, r.reused_tokens) for r in requests] == [(1024, 0), (1300, 1024)]


def test_mooncake_sessions_are_inferred_from_blocks() -> None:
    text = jsonl(
        {"timestamp": 0, "input_length": 1030, "output_length": 5, "hash_ids": [0, 1, 2]},
        {"timestamp": 500, "input_length": 700, "output_length": 5, "hash_ids": [7, 8]},
        {"timestamp": 9000, "input_length": 1600, "output_length": 5, "hash_ids": [0, 1, 3, 4]},
        {"timestamp": 9500, "input_length": 520, "output_length": 5, "hash_ids": [0, 5]},
    )
    requests, counts = requests_of(text)
    # The third goes on from the first, whose full blocks are 0 and 1; the fourth shares a template only.
    assert [(r.session, r.turn) for r in requests] == [("1", 0), ("2", 0), ("1", 1), ("3", 0)]
    assert [r.reused_tokens for r in requests] == [0, 0, 1024, 512]
    assert requests[2].start_s == 9
    assert counts == {"sessions_inferred": 3}


def test_lmcache_text_is_sorted_and_estimated() -> None:
    def row(at: int, given: str, output: str, session: str = "s") -> dict[str, object]:
        return {"timestamp": at, "input": given, "output": output, "session_id": session}

    text = jsonl(
        row(1_000_000, "a" * 40, "x" * 8),
        row(9_000_000, "a" * 40 + "b" * 40, ""),
        row(3_000_000, "a" * 40 + "b" * 20, "x" * 4),
        row(4_000_000, "z" * 16, "x" * 4),
        row(1_000_000, "a" * 40, "x" * 4, "t"),
    )
    requests, counts = requests_of(text)
    assert [r.input_tokens for r in requests] == [10, 15, 4, 20, 10]  # characters / 4, in the order of the times
    assert [r.reused_tokens for r in requests] == [0, 10, 0, 15, 0]
    assert [r.output_tokens for r in requests] == [2, 1, 1, 0, 1]
    assert len({r.session for r in requests}) == 3  # another conversation under the same id; another id
    assert counts["sessions_inferred"] == 1


def test_table() -> None:
    text = (
        "session_id,agent,input_tokens,output_tokens,cached_tokens,pause_ms,service_s,prev_stop\n"
        "s,main,100,10,0,,1.5,\ns,sub,30,1,0,,,\ns,main,150,x,90,2500,2,end_turn\ns,main,150,5,90,2500,2,tool_use\nbroken\n"
    )
    requests, counts = requests_of(text)
    assert [(r.stream, r.input_tokens, r.reused_tokens) for r in requests] == [
        ("", 100, 0),
        ("sub", 30, 0),
        ("", 150, 90),
        ("", 150, 90),
    ]
    assert [r.pause_s for r in requests] == [None, None, 2.5, 2.5]
    assert [r.pause_kind for r in requests] == [None, None, "person", "tool"]
    assert counts == {"unreadable_rows": 1}


def test_a_table_says_by_its_column_whether_a_server_observed_the_hits() -> None:
    assert reading_of("session,isl,osl,cached_tokens\na,9,1,0\n").reuse == "observed"
    assert reading_of("session,isl,osl,hit_tok\na,9,1,0\n").reuse == "bounded"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n1,2,3\n", "single requests without a session"),
        ("session,isl\n1,2\n", "is a table without a column output_tokens or osl"),
        ("# Title\n", "no header of a table"),
        ('{"a": 1}\n', "fields of no known trace format (a)"),
        ('{"a": \n', "begins like JSON and is none"),
        ("[1, 2]\n", "without an object"),
        ('[{"input_length": 1}]\n', "objects that are no sessions (input_length)"),
        ('{"input_length": 1, "output_length": 2}\n', "no session can be told apart"),
    ],
)
def test_what_is_no_trace_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(UnknownTraceError) as caught:
        detected(text)
    assert said in str(caught.value)
