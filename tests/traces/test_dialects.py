"""A trace says by its own arithmetic what its numbers mean, or it is refused in a sentence."""

import json
import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.reading.traces import FitOptions, fit_scenario
from schemas.caches import FixedCache, LeastRecentlyUsedCache
from schemas.errors import UserError
from schemas.scenarios import Scenario
from schemas.trace_statistics import TraceStatistics


def fitted(path: Path, text: str, **options: Any) -> tuple[Scenario, TraceStatistics]:
    path.write_text(text)
    scenario = fit_scenario([path], FitOptions("fitted", **options))
    assert scenario.statistics is not None
    return scenario, scenario.statistics


def jsonl(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def csv_of(rows: list[dict[str, Any]]) -> str:
    return "\n".join([",".join(rows[0]), *(",".join(str(row[name]) for name in rows[0]) for row in rows)]) + "\n"


def block_rows(
    block: int, unit: float, *, sessions: int = 6, turns: int = 3, parents: bool = True
) -> list[dict[str, Any]]:
    """Sessions that share 320 tokens, begin with 624, grow by 304 and 368, answer with 96 and 112, each 32 s."""
    inputs, outputs = [624, 928, 1296], [96, 112, 80]
    rows = []
    for session in range(sessions):
        for turn in range(turns):
            tokens = inputs[turn]
            shared = 320 // block
            ids = [*range(shared), *(1_000 * (session + 1) + place for place in range(shared, -(-tokens // block)))]
            if tokens % block:
                ids[-1] += 100_000 * (turn + 1)  # a block that is not full has an id of its own
            row = {"timestamp": (session * 10 + turn * 32) / unit, "input_length": tokens,
                   "output_length": outputs[turn], "hash_ids": ids}  # fmt: skip
            if parents:
                row |= {"chat_id": 10 * session + turn, "turn": turn + 1,
                        "parent_chat_id": 10 * session + turn - 1 if turn else -1}  # fmt: skip
            rows.append(row)
    return sorted(rows, key=lambda row: row["timestamp"])


def means(scenario: Scenario) -> tuple[float, ...]:
    return (
        scenario.turns, scenario.initial_prompt_tokens, scenario.new_tokens_per_turn,
        scenario.output_tokens_per_turn, scenario.think_time_s,
    )  # fmt: skip


RIGHT = (3, 624, 232, 96, 32)


@pytest.mark.parametrize("block", [8, 16, 32, 64])
@pytest.mark.parametrize("unit", [1.0, 1e-3, 1e-6])
@pytest.mark.parametrize("parents", [True, False])
def test_blocks_and_unit_are_settled_by_arithmetic(tmp_path: Path, block: int, unit: float, parents: bool) -> None:
    scenario, found = fitted(tmp_path / "t.jsonl", jsonl(block_rows(block, unit, parents=parents)))
    assert means(scenario) == RIGHT
    assert found.format == ("bailian" if parents else "mooncake")
    assert found.cache.cache_hit_rate == pytest.approx(1, abs=0.08)  # but for a last block that is not full
    assert any(f"blocks of {block} tokens" in note for note in found.notes)


@given(st.randoms(use_true_random=False), st.integers(0, 10**9), st.sampled_from([1.0, 1e-3, 1e-6]))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_order_of_rows_names_and_unit_change_nothing(
    tmp_path: Path, shuffle: random.Random, named: int, unit: float
) -> None:
    rows = [row | {"chat_id": row["chat_id"] + named,
                   "parent_chat_id": row["parent_chat_id"] + named if row["turn"] > 1 else -1}
            for row in block_rows(16, unit)]  # fmt: skip
    shuffle.shuffle(rows)
    assert means(fitted(tmp_path / "t.jsonl", jsonl(rows))[0]) == RIGHT


def test_a_template_shared_by_all_joins_no_sessions(tmp_path: Path) -> None:
    """Blocks of 256: the only full block of a first turn is everyone's."""
    rows = block_rows(16, 1e-3, parents=False)
    for row in rows:
        blocks = [tuple(row["hash_ids"][: 16 * (place + 1)]) for place in range(-(-row["input_length"] // 256))]
        row["hash_ids"] = [str(hash(block)) for block in blocks]
    scenario, found = fitted(tmp_path / "t.jsonl", jsonl(rows))
    assert (scenario.turns, found.sessions) == (3, 6)
    coarse = [row | {"hash_ids": [0] * (row["input_length"] // 512) + [n]} for n, row in enumerate(rows)]
    with pytest.raises(UserError, match=r"sessions cannot be told apart. Give session_id or parent_chat_id"):
        fitted(tmp_path / "u.jsonl", jsonl(coarse))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hash_ids": [1, 2, 3]}, "for no size of block"),
        ({"timestamp": 1}, None),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, change: dict[str, Any], said: str | None) -> None:
    rows = [row | change for row in block_rows(16, 1.0)]
    if said is None:
        assert fitted(tmp_path / "t.jsonl", jsonl(rows))[0].turns == 3
        return
    with pytest.raises(UserError, match=said):
        fitted(tmp_path / "t.jsonl", jsonl(rows))


ANTHROPIC = [
    ("s1", "2026-05-01T10:00:00Z", 4, 18000, 0, 310),
    ("s1", "2026-05-01T10:00:21Z", 5, 1295, 18000, 120),
    ("s1", "2026-05-01T10:01:02Z", 5, 2095, 19295, 480),
    ("s2", "2026-05-01T11:00:00Z", 4, 21000, 0, 200),
    ("s2", "2026-05-01T11:00:30Z", 6, 1194, 21000, 260),
    ("s2", "2026-05-01T11:02:00Z", 5, 1755, 22194, 150),
]
NAMES = [
    ("session_id", "timestamp", "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens",
     "output_tokens"),
    ("conversation_id", "started_at", "input", "cache_write", "cache_read", "output"),
    ("Session ID", "created_at", "prompt tokens", "cacheCreationTokens", "cacheReadTokens", "completion tokens"),
]  # fmt: skip


@pytest.mark.parametrize("names", NAMES)
def test_an_input_that_leaves_out_what_was_cached_is_completed(tmp_path: Path, names: tuple[str, ...]) -> None:
    rows = [dict(zip(names, row, strict=True)) for row in ANTHROPIC]
    for text in (csv_of(rows), jsonl(rows), json.dumps(rows)):
        scenario, found = fitted(tmp_path / "t", text)
        assert found.initial_prompt_tokens.mean == 19_504
        assert found.input_tokens.mean == pytest.approx(20_976.2, abs=0.1)
        assert (found.cache.reuse, scenario.cache) == ("observed", FixedCache(hit_rate=0.9998))
        assert scenario.think_time_s == 45.5


def test_an_input_that_holds_what_was_cached_is_not_completed(tmp_path: Path) -> None:
    def rows(of_input: str, total: bool) -> list[dict[str, Any]]:
        return [
            {"session_id": session, of_input: new + written + read, "cache_creation_input_tokens": written,
             "cache_read_input_tokens": read, "output_tokens": output}
            | ({"total_tokens": new + written + read + output} if total else {})
            for session, _, new, written, read, output in ANTHROPIC
        ]  # fmt: skip

    for told in (rows("input_tokens", True), rows("prompt_tokens", False), rows("total_input_tokens", False)):
        assert fitted(tmp_path / "t.csv", csv_of(told))[1].input_tokens.mean == pytest.approx(20_976.2, abs=0.1)
    with pytest.raises(UserError, match="may hold it or leave it out: name the column total_input_tokens"):
        fitted(tmp_path / "t.csv", csv_of(rows("input_tokens", False)))


def test_usage_of_an_openai_response_is_a_table_of_json(tmp_path: Path) -> None:
    rows = [
        {"conversation": {"id": "a"}, "conversation_id": "a", "created": 1_760_000_000 + at,
         "usage": {"prompt_tokens": tokens, "completion_tokens": 100, "total_tokens": tokens + 100,
                   "prompt_tokens_details": {"cached_tokens": cached}}, "cost": {"input_tokens": 0.2}}
        for at, tokens, cached in ((0, 2000, 0), (30, 2400, 1920), (70, 2900, 2304))
    ]  # fmt: skip
    scenario, found = fitted(tmp_path / "t.jsonl", jsonl(rows))
    assert means(scenario) == (3, 2000, 350, 100, 35)
    assert found.cache.reuse == "observed"
    assert any("cost.input_tokens" in note for note in found.notes)


def arrivals(name: str = "timestamp", unit: float = 1.0, begin: float = 0.0) -> list[dict[str, Any]]:
    return [
        {"session_id": session, name: begin + at / unit, "prompt_tokens": tokens, "completion_tokens": output,
         "cached_tokens": cached}
        for session, at, tokens, output, cached in (
            ("a", 0.0, 2000, 100, 0), ("a", 31.5, 2400, 150, 2000), ("a", 70.0, 3000, 120, 2400),
            ("b", 10.0, 1800, 90, 0), ("b", 55.0, 2300, 110, 1800),
        )
    ]  # fmt: skip


@pytest.mark.parametrize("unit", [1.0, 1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("begin", [0.0, 1.76e9])
@pytest.mark.parametrize("name", ["timestamp", "arrival_time", "created_at"])
def test_times_of_arrival_are_read_in_their_unit(tmp_path: Path, unit: float, begin: float, name: str) -> None:
    scenario, _ = fitted(tmp_path / "t.csv", csv_of(arrivals(name, unit, begin / unit)))
    assert scenario.think_time_s == pytest.approx(38.33, rel=1e-3)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (arrivals("when"), "has a column when that may be a time of arrival"),
        (arrivals("time_ms"), "by which its streams generate 3,175 tokens a second"),
        ([row | {"timestamp": "yesterday"} for row in arrivals()], "neither a number nor a time in ISO 8601"),
        ([row | {"cache_hits_tok": 5} | {"cached_tokens": ""} for row in arrivals("start_s")], None),
        ([{"cache_kept_tokens" if n == "cached_tokens" else n: v for n, v in row.items()} for row in arrivals()],
         "cache_kept_tokens that may be the tokens read from or written to a cache"),
        ([row | {"reasoning_tokens": 999} for row in arrivals()], "more tokens in reasoning_tokens than in completion"),
        ([row | {"timestamp": row["timestamp"] / 600} for row in arrivals()], "in any unit"),
        ([row | {"timestamp": 45_000 + row["timestamp"] / 86_400} for row in arrivals()], "in any unit"),
        ([{"cached_blocks" if n == "cached_tokens" else n: v for n, v in row.items()} for row in arrivals()],
         "cached_blocks that may be the tokens"),
        ([row | {"input_tokens": 7} for row in arrivals()], "two columns that may be its input tokens and differ"),
    ],
)  # fmt: skip
def test_likely_columns_are_asked_for(tmp_path: Path, rows: list[dict[str, Any]], said: str | None) -> None:
    if said is None:
        assert "cache_hits_tok" in fitted(tmp_path / "t.csv", csv_of(rows))[1].notes[0]
        return
    with pytest.raises(UserError, match=said):
        fitted(tmp_path / "t.csv", csv_of(rows))


def test_two_units_that_are_possible_are_asked_for(tmp_path: Path) -> None:
    rows = [row | {"completion_tokens": 60, "timestamp": turn * 300} for turn, row in enumerate(arrivals()[:3])]
    with pytest.raises(UserError, match=r"timestamp can be s or ms. Say it with --time-unit"):
        fitted(tmp_path / "t.csv", csv_of(rows))
    assert fitted(tmp_path / "t.csv", csv_of(rows), time_unit="ms")[0].think_time_s == 0.3


@given(st.randoms(use_true_random=False))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_shuffled_rows_of_a_table_are_put_in_order(tmp_path: Path, shuffle: random.Random) -> None:
    rows = arrivals()
    shuffle.shuffle(rows)
    assert fitted(tmp_path / "t.csv", csv_of(rows))[0].think_time_s == pytest.approx(38.33, rel=1e-3)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_tables_are_parted_by_commas_semicolons_or_tabs(tmp_path: Path, delimiter: str) -> None:
    text = csv_of(arrivals()).replace(",", delimiter)
    assert fitted(tmp_path / "t.csv", text)[0].think_time_s == pytest.approx(38.33, rel=1e-3)


def other_counts(inputs: list[float], outputs: list[float]) -> str:
    rows = [
        {"session_id": session, "turn": turn, "input_tokens": tokens, "output_tokens": output}
        for session in "ab"
        for turn, (tokens, output) in enumerate(zip(inputs, outputs, strict=True))
    ]
    return csv_of(rows)


@pytest.mark.parametrize(
    ("inputs", "outputs", "said"),
    [
        ([9000, 40, 300, 25, 70], [50, 60, 40, 70, 20], "shrink in 4 of 8 steps"),  # only what is new
        ([9000, 9500, 9900, 9990, 9995], [50, 110, 150, 220, 240], "its outputs rise in each of 8 steps"),
        (
            [100, 210, 340, 500, 700, 1000],
            [5, 6, 4, 7, 2, 3],
            "its inputs rise by the first one or more in each of 10 steps",
        ),
        ([1.5, 1.6, 1.9, 2.1, 2.5], [5, 6, 4, 7, 2], "no whole numbers"),
    ],
)
def test_counts_that_are_not_those_of_requests(
    tmp_path: Path, inputs: list[float], outputs: list[float], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        fitted(tmp_path / "t.csv", other_counts(inputs, outputs))


def test_small_hand_made_sessions_are_no_running_totals(tmp_path: Path) -> None:
    rows = [
        {"session_id": session, "turn": turn, "input_tokens": tokens, "output_tokens": output}
        for session in range(12)
        for turn, (tokens, output) in enumerate(((624, 96), (928, 112), (1296, 128)))
    ]
    assert fitted(tmp_path / "t.csv", csv_of(rows))[0].turns == 3


def test_failed_requests_and_those_without_a_session_are_left_out(tmp_path: Path) -> None:
    rows = [row | {"status_code": 200, "error": "0.0", "request_id": f"req-{n}"} for n, row in enumerate(arrivals())]
    rows += [
        rows[0],
        rows[2] | {"status_code": 500, "request_id": "req-9"},
        rows[2] | {"session_id": "", "request_id": "req-8"},
    ]
    scenario, found = fitted(tmp_path / "t.csv", csv_of(rows))
    assert means(scenario) == means(fitted(tmp_path / "u.csv", csv_of(arrivals()))[0])
    counts = found.counts
    assert (counts.failed_rows, counts.repeated_requests, counts.rows_without_session) == (1, 1, 1)


def test_numbers_of_requests_within_a_session_are_no_ids(tmp_path: Path) -> None:
    rows = [row | {"request_id": n % 3} for n, row in enumerate(arrivals())]
    assert fitted(tmp_path / "t.csv", csv_of(rows))[1].counts.repeated_requests == 0


BURST = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"


def test_burstgpt_with_sessions_and_without(tmp_path: Path) -> None:
    rows = ["5,7,4,GPT-4,200,90,290,Conversation log", "45,7,6,GPT-4,400,80,480,Conversation log",
            "145,7,6,GPT-4,900,80,980,Conversation log", "50,,6,ChatGPT,9,8,17,API log"]  # fmt: skip
    scenario, found = fitted(tmp_path / "t.csv", BURST + "\n".join(rows) + "\n")
    assert means(scenario) == (3, 200, (110 + 420) / 2, 83.33, (36 + 94) / 2)
    assert found.counts.rows_without_session == 1
    without = BURST.replace("Session ID,", "") + "5,4,GPT-4,200,90,290,API log\n"
    with pytest.raises(UserError, match="holds single requests without a session"):
        fitted(tmp_path / "t.csv", without)


def test_vllm_multi_turn(tmp_path: Path) -> None:
    header = "ttft_ms,tpot_ms,latency_ms,start_time_ms,input_num_turns,input_num_tokens,output_num_tokens,"
    header += "output_num_chunks,output_num_first_chunk_tokens,approx_cached_percent,conversation_id,client_id\n"
    rows = ["50,20,2000,1000,1,800,100,100,1,0,c1,0", "50,20,2000,13000,3,1000,100,100,1,80.0,c1,0"]
    scenario, found = fitted(tmp_path / "t.csv", header + "\n".join(rows) + "\n")
    assert means(scenario) == (2, 800, 100, 100, 10)
    assert found.cache.cache_hit_rate == 1
    config = {"filetype": "generate_conversations", "num_conversations": 24, "prompt_input": {"num_turns": {}}}
    with pytest.raises(UserError, match="configuration of vLLM's multi-turn benchmark"):
        fitted(tmp_path / "t.json", json.dumps(config))
    messages = [{"role": role, "content": "a" * size} for role, size in [("user", 35), ("assistant", 5)] * 2]
    talk = {"id": "x", "messages": messages}
    assert fitted(tmp_path / "t.json", json.dumps([talk, talk]))[0].turns == 2


def test_lmcache_messages(tmp_path: Path) -> None:
    first = [{"role": "user", "content": "a" * 395}]
    later = [*first, {"role": "assistant", "content": [{"type": "text", "text": "b" * 40}]},
             {"role": "user", "content": "c" * 40}]  # fmt: skip
    rows = [
        {"timestamp": 1_760_428_221_000_000 + at, "session_id": "s", "input": given, "output": "b" * 40}
        for at, given in ((0, first), (9_000_000, later))
    ]
    scenario, found = fitted(tmp_path / "t.jsonl", jsonl(rows))
    assert (found.format, scenario.turns, scenario.think_time_s, scenario.initial_prompt_tokens) == (
        "lmcache",
        2,
        9,
        100,
    )


def test_a_fit_chooses_a_cache_that_forgets_where_hits_depend_on_it(tmp_path: Path) -> None:
    header = "session,turn,input_tokens,output_tokens,hit_tok,pause_s\n"
    slow = header + "a,0,1000,9,0,\na,1,1100,9,1000,5\na,2,1200,9,1100,90\n"
    scenario, _ = fitted(tmp_path / "t.csv", slow)
    assert scenario.cache == LeastRecentlyUsedCache(most_hit_rate=1)
    assert "48% where prefixes are kept 10 s, 100% for ever, so a cache that forgets (lru)" in scenario.source
    quick, _ = fitted(tmp_path / "t.csv", slow.replace(",90\n", ",6\n"))
    assert quick.cache == FixedCache(hit_rate=1)


@pytest.mark.parametrize("holds_answer", [False, True])
def test_increments_that_hold_the_answer_are_refused(tmp_path: Path, holds_answer: bool) -> None:
    """Sessions of 6 turns: 2,000 tokens, answers of 40 to 300, then messages of 350 to 450 apart from the answer."""
    chance = random.Random(1)
    rows: list[dict[str, Any]] = []
    for session in range(5):
        answer = 0
        for turn in range(6):
            message = chance.randint(350, 450)
            new = 2000 if turn == 0 else message + answer * holds_answer
            answer = chance.randint(40, 300)
            rows.append({"session_id": str(session), "input_length": new, "output_length": answer}
                        | ({"delay": 900} if turn else {"timestamp": 1e5 * session}))  # fmt: skip
    if holds_answer:
        with pytest.raises(UserError, match="follow its length"):
            fitted(tmp_path / "t.jsonl", jsonl(rows))
    else:
        scenario, found = fitted(tmp_path / "t.jsonl", jsonl(rows))
        assert scenario.new_tokens_per_turn == pytest.approx(400, rel=0.1)
        assert any("what is new" in note for note in found.notes)


@pytest.mark.parametrize("tasks", [1, 3])
def test_tasks_that_share_a_session_id_are_said(tmp_path: Path, tasks: int) -> None:
    """Each task is 1,000, 1,500 and 2,000 tokens with answers of 100."""
    rows = [
        {"session_id": f"s{session}", "turn": 3 * task + turn, "input_tokens": 1000 + 500 * turn, "output_tokens": 100}
        for session in range(4)
        for task in range(tasks)
        for turn in range(3)
    ]
    _, found = fitted(tmp_path / "t.csv", csv_of(rows))
    assert (found.counts.compactions, found.counts.restarts) == (4 * (tasks - 1), 4 * (tasks - 1))
    assert any("another task under the same id" in note for note in found.notes) is (tasks > 1)


def test_a_compaction_to_more_than_the_beginning_is_no_restart(tmp_path: Path) -> None:
    rows = [
        {"session_id": "s", "turn": turn, "input_tokens": tokens, "output_tokens": 100}
        for turn, tokens in enumerate((1000, 3000, 9000, 2500, 4000))
    ]
    _, found = fitted(tmp_path / "t.csv", csv_of(rows))
    assert (found.counts.compactions, found.counts.restarts) == (1, 0)


@pytest.mark.parametrize("column", ["turn", "start_s", None])
def test_the_order_of_rows_without_turns_and_times_is_said(tmp_path: Path, column: str | None) -> None:
    rows: list[dict[str, Any]] = [
        {"session_id": "s", "input_tokens": 1000 * turn, "output_tokens": 10} | ({column: 30 * turn} if column else {})
        for turn in range(1, 5)
    ]
    _, found = fitted(tmp_path / "t.csv", csv_of(rows))
    assert any("order of the file" in note for note in found.notes) is (column is None)


def test_blocks_of_another_size_than_documented_are_said(tmp_path: Path) -> None:
    """Lengths in characters, four to a token, beside ids of blocks of 512 tokens: blocks of 2,048."""
    rows = []
    for session in range(5):
        for turn in range(4):
            tokens = 3_000 + 700 * turn + 11 * session
            ids = [session * 100 + place for place in range(-(-tokens // 512))]
            ids[-1] += 10_000 * (turn + 1)
            rows.append({"timestamp": 1000 * (300 * session + 40 * turn), "input_length": 4 * tokens,
                         "output_length": 400, "hash_ids": ids})  # fmt: skip
    _, found = fitted(tmp_path / "t.jsonl", jsonl(rows))
    assert any("blocks of 2,048" in note for note in found.notes)
    assert any("characters" in note for note in found.notes)
