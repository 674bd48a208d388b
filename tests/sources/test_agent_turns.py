"""Logs of turns as agent runs: vLLM's multi-turn benchmark, AIPerf's single requests, a log of one's own.

One imaginary run in each form. Two sessions of three turns on one clock: a turn takes 2 s, 0.5 s of it to the first
token, then comes a pause of 3 s; prompts of 1,000, 1,200 and 1,400 tokens, answers of 101. The second session begins
1 s later. All later turns find what came before them but 100 tokens.
"""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.reading.catalogues import load_hardware, load_models
from tests.sources.judging import judged_runs
from tests.sources.results import FACTS, input_file, multi_turn_stats
from tests.sources.whole import read_file
from transforms.sources.rows import FileRejectedError

AGENTS = f"{FACTS}agent_run: true\n"


def turns() -> list[dict[str, Any]]:
    return [
        {
            "session": name, "start_s": 100.0 + later + 5.0 * turn, "latency_s": 2.0, "ttft_s": 0.5,
            "input_tokens": 1_000 + 200 * turn, "output_tokens": 101,
            **({"cached_tokens": 800 + 200 * turn} if turn else {}),
        }
        for name, later in (("a", 0.0), ("b", 1.0)) for turn in range(3)
    ]  # fmt: skip


def as_csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def as_aiperf(rows: list[dict[str, Any]]) -> str:
    """Lines of ``profile_export.jsonl``, a warm-up request before them."""
    records: list[dict[str, Any]] = []
    for at, row in enumerate(rows):
        metrics = {
            "request_latency": {"value": 1e3 * row["latency_s"], "unit": "ms"},
            "time_to_first_token": {"value": 1e3 * row["ttft_s"], "unit": "ms"},
            "input_sequence_length": {"value": row["input_tokens"], "unit": "tokens"},
            "output_sequence_length": {"value": row["output_tokens"], "unit": "tokens"},
        }
        if "cached_tokens" in row:
            metrics["usage_prompt_cache_read_tokens"] = {"value": row["cached_tokens"], "unit": "tokens"}
        metadata = {
            "x_request_id": f"r{at}", "x_correlation_id": row["session"], "turn_index": at % 3,
            "request_start_ns": int(1e9 * row["start_s"]), "benchmark_phase": "profiling",
        }  # fmt: skip
        records.append({"metadata": metadata, "metrics": metrics, "error": None})
    warm = {**records[0], "metadata": {**records[0]["metadata"], "benchmark_phase": "warmup", "request_start_ns": 0}}
    return "\n".join(json.dumps(record) for record in (warm, *records))


def as_vllm(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    (form,) = multi_turn_stats()[:1]
    return [
        form | {
            "conversation_id": row["session"], "client_id": 0, "start_time_ms": 1e3 * row["start_s"],
            "latency_ms": 2_000.0, "ttft_ms": 500.0, "tpot_ms": 15.0, "input_num_tokens": row["input_tokens"],
            "output_num_tokens": 101, "approx_cached_percent": 100 * row.get("cached_tokens", 0) / row["input_tokens"],
        }
        for row in rows
    ]  # fmt: skip


def run_of(content: object, says: str = AGENTS) -> dict[str, Any]:
    reading = read_file(input_file(content, says))
    assert reading.agentic is not None
    assert reading.rows.is_empty()
    (row,) = reading.agentic.to_dicts()
    return row


#: 6 turns in 13 s: the first begins at 100 s, the last ends at 113 s. Pauses are 4 times 3 s over 6 turns.
RUN = {
    "sessions": 2.0, "duration_s": 13.0, "requests_total": 6.0, "requests_successful": 6.0,
    "mean_input_tokens": 1_200.0, "mean_output_tokens": 101.0, "output_tokens_per_s": 606 / 13,
    "output_tokens_per_s_per_gpu": 606 / 13 / 8, "pause_s": 2.0, "turns_per_session": 3.0,
    "context_spread_fraction": 0.13608276, "ttft_ms": 500.0, "turn_latency_ms": 2_000.0, "itl_ms": 15.0,
    "turn_latency_p90_ms": 2_000.0, "gpus_per_replica": 8,
}  # fmt: skip


@pytest.mark.parametrize(
    ("content", "says", "hits"),
    [
        (as_csv(turns()), FACTS, 4_400 / 7_200),
        (turns(), FACTS, 4_400 / 7_200),
        (as_aiperf(turns()), FACTS, 4_400 / 7_200),
        (as_vllm(turns()), AGENTS, None),
        (as_vllm(turns()), f"{AGENTS}cache_hit_rate: 0.5\n", 0.5),
        (as_vllm(turns()), f"{AGENTS}prefix_tokens: 600\n", 0.5),
    ],
    ids=["csv", "json", "aiperf", "vllm", "vllm and its log", "vllm and its tokens"],
)
def test_the_one_imaginary_run(content: object, says: str, hits: float | None) -> None:
    row = run_of(content, says)
    assert row["reason"] is None, row["detail"]
    assert {name: row[name] for name in RUN} == pytest.approx(RUN)
    assert row["server_gpu_cache_hit_rate"] == pytest.approx(hits)
    assert (row["precision_name"], row["cache_precision_name"], row["backend"]) == ("fp8", "bf16", "vllm")


def test_what_a_cache_without_end_would_find() -> None:
    """Prompt and answer of the turn before: 1,101 of 1,200 and 1,301 of 1,400 tokens; what vLLM says is its own."""
    assert run_of(as_csv(turns()))["theoretical_cache_hit_rate"] == pytest.approx(2 * (1_101 + 1_301) / 7_200)
    assert run_of(as_vllm(turns()))["theoretical_cache_hit_rate"] == pytest.approx(4_400 / 7_200)


def test_figures_are_of_one_replica() -> None:
    row = run_of(as_csv(turns()), f"{FACTS}replicas: 2\n")
    assert (row["sessions"], row["requests_total"]) == (1.0, 3.0)
    assert row["output_tokens_per_s_per_gpu"] == pytest.approx(606 / 13 / 16)
    assert row["mean_input_tokens"] == 1_200


def test_the_run_is_judged_like_any_other() -> None:
    reading = read_file(input_file(as_csv(turns())))
    assert reading.agentic is not None
    good, bad = judged_runs(reading.agentic, "log.csv", None)
    assert (good.height, bad.height) == (1, 0)
    assert good["model"][0] == "llama-3-1-70b"


@pytest.mark.parametrize(
    ("change", "reason", "words"),
    [
        ({"latency_s": -2.0}, "out_of_range", "latency_s is not above 0"),
        ({"ttft_s": 3.0}, "out_of_range", "ttft_s is not between 0 and latency_s in 6 turns"),
        ({"input_tokens": 0}, "out_of_range", "input_tokens is below 1"),
        ({"output_tokens": 0}, "out_of_range", "output_tokens is below 1"),
        ({"cached_tokens": 5_000}, "out_of_range", "cached_tokens is not between"),
        ({"latency_s": 6.0}, "turns_overlap", "4 turns begin before their session's last one ends"),
        ({"failed": True}, "failed_requests", "0 of 6 turns were answered"),
    ],
)
def test_figures_of_no_run(change: dict[str, Any], reason: str, words: str) -> None:
    row = run_of([turn | change for turn in turns()])
    assert row["reason"] == reason
    assert words in row["detail"]


def test_a_failed_turn_of_six_is_too_many() -> None:
    rows = turns()
    rows[2] = {"session": "a", "start_s": 110.0, "failed": True}
    assert run_of(rows)["reason"] == "failed_requests"


def test_single_requests_are_no_run_of_agents() -> None:
    rows = [turn | {"session": at} for at, turn in enumerate(turns())]
    assert run_of(rows)["reason"] == "no_agent_run"


def test_sessions_that_come_and_go_are_no_one_load() -> None:
    """Four sessions at once for a moment, one of them for long."""
    rows = [*turns(), *(turn | {"session": f"{turn['session']}2"} for turn in turns())]
    rows += [turns()[0] | {"session": "a", "start_s": 115.0 + 5 * number} for number in range(20)]
    assert run_of(rows)["reason"] == "load_not_steady"


def test_a_later_turn_that_tells_no_hits_leaves_them_open() -> None:
    rows = turns()
    del rows[2]["cached_tokens"]
    assert run_of(rows)["server_gpu_cache_hit_rate"] is None


def test_two_words_on_the_cache_are_one_too_many() -> None:
    assert run_of(turns(), f"{FACTS}cache_hit_rate: 0.5\n")["reason"] == "sidecar_disagrees"


@pytest.mark.parametrize(
    ("content", "says", "words"),
    [
        (as_csv(turns()).replace("ttft_s", "ttft_ms"), FACTS, "not in a form that can be read"),
        ([turn | {"model": "x"} for turn in turns()], FACTS, "turn 1 has 'model', which a log of turns does not"),
        ([turn | {"ttft_s": "soon"} for turn in turns()], FACTS, "turn 1 has ttft_s 'soon', not a number"),
        ([turn | {"failed": "perhaps"} for turn in turns()], FACTS, "must be true or false"),
        ([turn | {"session": 1.5} for turn in turns()], FACTS, "must be a name or a whole number"),
        (as_aiperf(turns()).replace('"unit": "ms"', '"unit": "min"'), FACTS, "in 'min', not one of"),
        (as_vllm(turns()), f"{FACTS}cache_hit_rate: 0.5\n", "which is of runs of agents"),
        (multi_turn_stats()[0] | {"hw": 1}, f"{FACTS}cache_hit_rate: 1.5\n", "cache_hit_rate"),
    ],
)
def test_what_is_refused(content: object, says: str, words: str) -> None:
    with pytest.raises(Exception, match=words) as refused:
        read_file(input_file(content, says))
    assert type(refused.value).__name__ in ("FileRejectedError", "UserError")


def test_requests_of_single_turns_stay_refused() -> None:
    """AIPerf's file of a run without turns: its summary is the row."""
    records = [json.loads(line) for line in as_aiperf(turns()).splitlines()]
    for record in records:
        record["metadata"]["turn_index"] = 0
    with pytest.raises(FileRejectedError, match="single requests of an AIPerf run"):
        read_file(input_file("\n".join(map(json.dumps, records))))


def test_given_as_a_run_a_log_is_one(tmp_path: Path) -> None:
    """`--runs` and `--pilot` say what a file is; in tables it is a standard row unless ``agent_run`` says else."""
    from pipelines.reading.inputs import find_files
    from pipelines.reading.read_inputs import read_inputs

    (tmp_path / "stats.json").write_text(json.dumps(as_vllm(turns())))
    (tmp_path / "source.yaml").write_text(FACTS)
    for as_runs, runs in ((True, 1), (False, 0)):
        inputs = read_inputs(find_files([tmp_path], as_runs=as_runs), load_hardware(), load_models())
        assert inputs.measured_agentic.height == runs
        assert inputs.faults == 1 - runs


def test_a_session_whose_name_cannot_be_stored_is_refused() -> None:
    log = json.dumps([{**turn, "session": "\ud800"} for turn in turns()]).encode()
    with pytest.raises(FileRejectedError, match="turn 1 has a session whose name is no text"):
        read_file(input_file(log, FACTS))
