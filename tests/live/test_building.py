"""A build that has AIConfigurator asked, which a program with answers of known figures stands in for."""

import hashlib
import os
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.lake.query import open_lake
from pipelines.live import program as finding
from schemas.errors import UserError
from schemas.options import BuildOptions
from tests.live.stand_in import DEADLY, MISS, REFUSAL, VERSION, asked, install
from tests.pipelines.builds import build


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return install(tmp_path)


def options(program: Path, **changed: object) -> BuildOptions:
    given = {
        "source": "aiconfigurator", "system": ("h200-sxm",), "model": ("qwen3-32b",), "scenarios": ("code-agent",),
        "aiconfigurator": program, "aiconfigurator_cache": program.parent / "cache", "out": program.parent / "lake",
    }  # fmt: skip
    return BuildOptions.model_validate(given | changed)


def table(lake: Path, sql: str) -> pl.DataFrame:
    with open_lake(lake) as opened:
        return opened.frame(sql)


def test_answers_are_read_as_tables_are_and_asked_for_once(program: Path) -> None:
    assert build(options(program)).release is not None
    assert len(asked(program)) == 4
    lake = program.parent / "lake"
    assert_account(lake, program.parent / "cache")
    assert_direct(lake)
    # what had no answer is asked again; as it has none again, nothing has changed
    before = asked(program)
    assert build(options(program)).release is None
    assert {question.serving_mode for question in asked(program)[len(before) :]} == {"disagg"}
    # another program with the same answers changes nothing either
    other = program.parent / "other"
    other.mkdir()
    elsewhere = {"aiconfigurator": install(other), "aiconfigurator_cache": other / "cache"}
    assert build(options(program, **elsewhere)).release is None
    assert len(asked(other / program.name)) == 4
    # of a second scenario only its own workload: Lbar = 24,000 + 7 * 3,064, of which a hit prefills 3,000
    before = asked(program)
    again = build(options(program, scenarios=("code-agent", "research-agent")))
    new = [question for question in asked(program)[len(before) :] if question.serving_mode == "agg"]
    assert [(question.isl, question.prefixes) for question in new] == [(45_448, (42_448, 0))]
    assert again.release is not None


def assert_account(lake: Path, cache: Path) -> None:
    sources = table(lake, "select * from sources order by path")
    assert sources["path"].str.starts_with("aiconfigurator/h200_sxm__Qwen--Qwen3-32B__trtllm__8gpus__isl").all()
    refused = sources.filter(pl.col("path").str.ends_with("__disagg.csv"))
    assert refused["rejected_reason"].to_list() == [f"AIConfigurator {VERSION} cannot answer: {REFUSAL}"] * 2
    answered = sources.filter(pl.col("path").str.ends_with("__agg.csv"))
    assert set(answered["sha256"]) == {hashlib.sha256(path.read_bytes()).hexdigest() for path in cache.iterdir()}
    assert answered["rows_accepted"].to_list() == answered["rows_read"].to_list()
    files = table(lake, "select distinct source, source_file from serving_points order by source_file")
    assert files.rows() == [("aiconfigurator", path) for path in answered["path"]]


def assert_direct(lake: Path) -> None:
    """Of every load the hit and the miss row, mixed 0.95 : 0.05; the miss has eight times its times."""
    points = table(lake, "select * from agent_points where not interpolated")
    assert set(points["transfer_method"]) == {"direct"}
    hits = table(lake, "select batch_per_rank, ttft_ms, tpot_ms from serving_points where prefix_tokens = 17698")
    both = points.join(hits, on="batch_per_rank", suffix="_stated")
    assert both.height == hits.height == points.height > 5
    for name in ("ttft_ms", "tpot_ms"):
        expected = both[f"{name}_stated"] * (0.95 + 0.05 * MISS)
        assert both[name].to_list() == pytest.approx(expected.to_list(), rel=1e-9)


def test_a_program_that_dies_is_a_reason(program: Path) -> None:
    with pytest.raises(UserError, match="No row of the tables can be used") as error:
        build(options(program, model=(DEADLY,)))
    assert "AIConfigurator was ended by signal 9" in str(error.value)
    assert list((program.parent / "cache").iterdir()) == []


def test_a_cache_that_cannot_be_written(program: Path) -> None:
    file = program.parent / "file"
    file.write_text("")
    with pytest.raises(UserError, match="Name another folder with --aiconfigurator-cache"):
        build(options(program, aiconfigurator_cache=file / "cache"))


@pytest.mark.parametrize("tree", ["bin/python", "bin/aiconfigurator", ""])
def test_the_environment_is_named_in_three_ways(tmp_path: Path, tree: str) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("python", "aiconfigurator"):
        (tmp_path / "bin" / name).write_text("")
    link = tmp_path / "linked"
    link.symlink_to(tmp_path / "bin" / "aiconfigurator")
    assert finding.find_python(tmp_path / tree) == finding.find_python(link) == tmp_path / "bin" / "python"


def test_none_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'agent-pareto\[aiconfigurator\]'"):
        finding.find_python(None)
    with pytest.raises(UserError, match="does not exist"):
        finding.find_python(tmp_path / "no")
    with pytest.raises(UserError, match="there is no Python in"):
        finding.find_python(tmp_path)
    silent = tmp_path / "python"
    silent.write_text("#!/bin/sh\necho 'No module named aiconfigurator' >&2; exit 1\n")
    silent.chmod(0o755)
    with pytest.raises(UserError, match=r"\(No module named aiconfigurator\). Install aiconfigurator==0.12.0 into it"):
        finding.find_program(silent)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--system", "h200_sxm"], "--system says what AIConfigurator is asked: give --source aiconfigurator too."),
        (["--source", "aiconfigurator", "--system", "h200_sxm"], "needs a GPU and a model"),
        (["--backend", "tgi"], "--backend: input should be 'trtllm', 'vllm' or 'sglang'."),
        (["--workload", "4000"], "--workload: '4000' is not tokens in and tokens out, such as 4000/1000."),
    ],
)
def test_options_that_do_not_go_together(arguments: list[str], sentence: str) -> None:
    result = CliRunner().invoke(app, ["build", *arguments])
    assert isinstance(result.exception, UserError)
    assert sentence in str(result.exception)
