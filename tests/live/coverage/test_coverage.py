"""What is asked first, how answers are kept, and which rows are shipped."""

from dataclasses import replace
from pathlib import Path

import polars as pl

from pipelines.live.coverage.answers import Answers
from pipelines.live.coverage.asking import ask_all
from pipelines.live.coverage.shipping import COLUMNS, file_name, whole_curves, write_shipped, write_tables
from pipelines.live.coverage.wanted import Wanted
from pipelines.live.program import Program
from pipelines.live.questions import Question
from pipelines.reading.catalogues import COVERAGE_ACCOUNT, COVERAGE_TABLES, load_models
from pipelines.reading.inputs import find_files, open_file
from tests.transforms.factory import judged

STANDARD = Question("h200_sxm", "Qwen/Qwen3-8B", "trtllm", 8, "agg", 4000, 1000, (0,))
#: Answers from the shipped rows of one model; other models are refused.
_PROGRAM = """#!{python}
import json, sys
import polars as pl
rows = pl.read_parquet({table!r}).filter(system="h200_sxm")
for line in sys.stdin:
    asked = json.loads(line)
    reason = None
    if asked["question"]["serving_mode"] == "disagg":
        reason = "ValueError: no disaggregation here"
    elif asked["question"]["model"] == "Qwen/Qwen3-8B":
        rows.with_columns(system=pl.lit(asked["question"]["system"])).write_parquet(asked["table"])
    else:
        reason = "InsufficientMemoryError: no results, the model does not fit"
    print(json.dumps(dict(reason=reason, memory_bytes=0)), flush=True)
"""


def program(folder: Path) -> Program:
    import sys

    path = folder / "program"
    path.write_text(_PROGRAM.format(python=sys.executable, table=str(COVERAGE_TABLES / "qwen3-8b__agg.parquet")))
    path.chmod(0o755)
    systems = {"a100_sxm": ["vllm"], "h200_sxm": ["sglang", "trtllm"]}
    return Program(path, "0.12.0", systems, ["Qwen/Qwen3-8B", "Qwen/Qwen3-32B", "Qwen/Qwen3-32B-FP8", "unknown/one"])


def test_the_usual_precision_and_engine_come_first(tmp_path: Path) -> None:
    wanted = Wanted.of(program(tmp_path), load_models(None))
    assert wanted.engines == {"h200_sxm": ["trtllm", "sglang"], "a100_sxm": ["vllm"]}
    _, first = next(wanted.stages(Answers(tmp_path, "0.12.0")))
    asked = [(question.system, question.backend, question.model) for question in first]
    assert asked == [
        ("h200_sxm", "trtllm", "Qwen/Qwen3-8B"),
        ("h200_sxm", "trtllm", "Qwen/Qwen3-32B-FP8"),
        ("a100_sxm", "vllm", "Qwen/Qwen3-8B"),
        ("a100_sxm", "vllm", "Qwen/Qwen3-32B"),
    ]


def test_a_run_goes_on_where_it_was_and_tries_more_gpus_where_a_model_does_not_fit(tmp_path: Path) -> None:
    asked, answers = program(tmp_path), Answers(tmp_path / "answers", "0.12.0")
    wanted, said = Wanted.of(asked, load_models(None)), list[str]()
    assert ask_all(wanted, asked, answers, None, said.append)
    assert answers.table(STANDARD) is not None
    assert answers.kv_dtype(STANDARD) == "bfloat16"
    assert answers.table(replace(STANDARD, kv_dtype="fp8")) is not None
    refused = replace(STANDARD, model="Qwen/Qwen3-32B-FP8")
    for gpus in (8, 16, 32):
        assert "does not fit" in str(answers.refused(replace(refused, total_gpus=gpus)))
    assert not answers.is_asked(replace(refused, kv_dtype="fp8"))  # nothing to say the other KV of
    # a second run asks nothing, not even its program
    nobody = replace(asked, python=tmp_path / "gone")
    assert ask_all(wanted, nobody, answers, None, said.append)
    assert all(answers.is_asked(question) for question in wanted.every_question(answers))
    # another version of AIConfigurator has answers of its own
    assert not Answers(answers.folder, "0.13.0").is_asked(STANDARD)


def test_whole_curves_that_are_most_of_their_frontiers() -> None:
    curve = {"hardware": "h", "configuration_id": "c", "isl_tokens": 1.0, "osl_tokens": 1.0, "prefix_tokens": 0.0}
    points = pl.DataFrame(
        [
            {"point_id": f"{model}{context}{row}", "source_file": model, "source_row": row, "model": model,
             "context_requests_per_step": context, **curve}
            for model in "ab" for context in (None, 2.0) for row in (1, 2)
        ]
    )  # fmt: skip
    # a: one curve is on three frontiers, the other on one; b: one curve is on one, the other on none
    reached = pl.DataFrame({"point_id": ["aNone1", "a2.02", "bNone2"], "reached": [3, 1, 1]})

    def kept(most: int) -> list[str]:
        return whole_curves(points, reached, most).with_row_index().filter("reaches")["source_file"].to_list()

    assert kept(100) == ["a", "a", "a", "a", "b", "b"]
    assert kept(4) == ["a", "a", "b", "b"]  # each group's best curve before any group's second
    assert kept(3) == ["b", "b"]


def test_shipped_rows_are_those_of_the_answers(tmp_path: Path) -> None:
    asked, answers = program(tmp_path), Answers(tmp_path / "answers", "0.12.0")
    wanted = Wanted.of(asked, load_models(None))
    ask_all(wanted, asked, answers, None, lambda line: None)
    assert write_tables(wanted, answers, tmp_path / "tables") == len(list((tmp_path / "tables").iterdir()))
    rows = pl.DataFrame(
        {"source_file": [file_name(STANDARD)] * 3, "source_row": [1, 2, 3], "reaches": [True, False, True]}
    )
    account = write_shipped(wanted, answers, rows, tmp_path / "shipped")
    shipped = pl.read_parquet(tmp_path / "shipped" / "qwen3-8b__agg.parquet")
    table = pl.read_parquet(tmp_path / "tables" / file_name(STANDARD))
    assert shipped.equals(table[[0, 2]].select(COLUMNS["agg"]))
    states = dict(account.group_by("state").agg(pl.sum("rows_shipped")).iter_rows())
    assert states == {"answered": 2, "answered, not compared yet": 0, "refused": 0}


def test_what_is_shipped_is_as_the_account_says() -> None:
    account = pl.read_csv(COVERAGE_ACCOUNT, infer_schema_length=None)
    rows = 0
    for found in find_files([COVERAGE_TABLES]):
        model, mode = found.path.stem.split("__")
        good, bad = judged(open_file(found))
        assert bad.is_empty()
        assert good["database_mode"].unique().to_list() == ["SILICON"]
        assert good.height <= account.filter(model=model, serving_mode=mode)["rows_shipped"].sum()
        rows += pl.read_parquet(found.path).height
    assert rows == account["rows_shipped"].sum() <= 100_000
    assert sum(path.stat().st_size for path in COVERAGE_TABLES.iterdir()) < 15e6
    assert account.filter(state="refused")["reason"].null_count() == 0
