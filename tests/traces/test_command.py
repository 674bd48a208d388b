"""`scenarios fit` and `scenarios list`."""

import gzip
import hashlib
import json
import tracemalloc
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipelines import progress
from pipelines.commands import scenarios
from pipelines.reading import traces
from pipelines.reading.catalogues import load_scenarios
from schemas.caches import LeastRecentlyUsedCache
from schemas.errors import UserError
from schemas.scenarios import Scenario

HEADER = "session,turn,input_tokens,output_tokens,reused_tokens,pause_s,prev_stop\n"


def table(sessions: int = 3) -> str:
    """Sessions of three turns: 1000, 1110, 1220 in, 100 out; 10 new a turn; a tool's 2 s, then a person's 60 s."""
    rows = []
    for name in range(sessions):
        rows += [
            f"{name},0,1000,100,400,,",
            f"{name},1,1110,100,1000,2,tool_use",
            f"{name},2,1220,100,1110,60,end_turn",
        ]
    return HEADER + "\n".join(rows) + "\n"


def fit(*arguments: str | Path) -> str:
    result = CliRunner().invoke(scenarios.app, ["fit", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.csv"
    path.write_text(table())
    return path


def test_the_file_is_a_scenario_that_a_build_takes(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "My agent.yaml"
    out.parent.mkdir()
    printed = fit(trace, "--out", out)
    (scenario,) = load_scenarios([str(out)])
    assert scenario.slug == "my-agent"
    assert (scenario.turns, scenario.think_time_s, scenario.initial_prompt_tokens) == (3, 31, 1000)
    assert (scenario.new_tokens_per_turn, scenario.output_tokens_per_turn) == (10, 100)
    assert (scenario.output_retention_fraction, scenario.shared_prefix_tokens) == (1, 400)
    assert scenario.first_turn_new_tokens == 600
    assert scenario.cache == LeastRecentlyUsedCache(most_hit_rate=1)  # at 10 s 47 % of it, for ever all
    assert "so a cache that forgets (lru)" in scenario.source
    found, varying = scenario.statistics, scenario.distributions
    assert found is not None
    assert varying is not None
    assert varying.turns is None  # three in each session
    mixture, longest = found.pauses_s.mixture, found.pauses_s.all
    assert mixture is not None
    assert longest is not None
    assert varying.think_time_s == mixture.as_distribution().model_copy(update={"most": longest.most})
    assert found.files[0].sha256 == hashlib.sha256(trace.read_bytes()).hexdigest()
    assert (found.files[0].name, found.files[0].bytes, found.files[0].requests) == ("trace.csv", len(table()), 9)
    assert found.linear_mean_context_tokens == found.input_tokens.mean == 1110
    assert "3 sessions, 9 requests" in printed
    assert f"Wrote {out}" in printed
    # Written again as JSON it is the same scenario.
    listed = CliRunner().invoke(scenarios.app, ["list", "--scenarios", str(out), "--format", "json"])
    again = tmp_path / "again.yaml"
    again.write_text(listed.output)
    assert load_scenarios([str(again)]) == (scenario,)
    assert list(out.parent.iterdir()) == [out]  # nothing left beside it


def test_gzip_folders_and_several_files(trace: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder" / "deep"
    folder.mkdir(parents=True)
    (folder / "b.csv.gz").write_bytes(gzip.compress(trace.read_bytes()))
    (folder / "notes.txt").write_text("not read")
    fit(trace, tmp_path / "folder", trace, "--out", tmp_path / "x.yaml")
    found = statistics(tmp_path / "x.yaml").statistics
    assert found is not None
    assert [file.name for file in found.files] == ["trace.csv", "b.csv.gz"]  # a file named twice counts once
    assert found.notes == ("Files of the folders that were passed over (1): notes.txt.",)
    assert found.sessions == 6  # session 0 of one file is not session 0 of the other


def statistics(path: Path) -> Scenario:
    return load_scenarios([str(path)])[0]


def test_options(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.yaml"
    fit(trace, "--out", out, "--slug", "s", "--name", "In words", "--cap-pauses", "20", "--cache-timeout", "5")
    scenario = statistics(out)
    assert (scenario.slug, scenario.name, scenario.think_time_s) == ("s", "In words", 11)
    assert scenario.cache_hit_rate == pytest.approx(1000 / 2110, rel=1e-4)  # only what follows the pause of 2 s
    assert scenario.statistics is not None
    assert scenario.statistics.counts.pauses_capped == 3


@pytest.mark.parametrize(
    ("name", "text", "options", "said"),
    [
        ("t.csv", "a,b\n1,2\n", [], "t.csv is no JSON, and its first line is no header"),
        ("t.csv", table(), ["--format", "wekka"], "--format wekka: unknown. Did you mean 'weka'?"),
        ("t.csv", HEADER + "s,0,-5,1,0,,\n", [], "no usable request of a session's main stream was read (impossible"),
        ("t.csv", table(), ["--slug", "Bad Slug"], "--slug 'Bad Slug': a slug is"),
        ("t.csv", table(), ["--cap-pauses", "inf"], "must be a finite number of seconds"),
        ("t.csv", table().replace("pause_s", "other"), ["--cache-timeout", "5"], "it tells no pauses"),
        ("t.csv", table(), ["--format", "weka"], "no usable request of a session's main stream was read (unreadable"),
        ("t.csv", "a,b\n1,2\n", ["--format", "table"], "t.csv is a table without a column session or session_id"),
        ("t.txt", "", [], "t.txt is empty."),
        ("t.csv.gz", "\x1f\x8b", [], "cannot be unpacked or read to its end"),
        ("t.csv", HEADER + 's,0,"' + "x" * 200_000 + '",1,0,,\n', [], "is not a CSV file to its end"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, name: str, text: str, options: list[str], said: str) -> None:
    path = tmp_path / name
    path.write_bytes(text.encode("latin-1"))
    out = tmp_path / "x.yaml"
    with pytest.raises(UserError) as caught:
        fit(path, "--out", out, *options)
    assert said in str(caught.value)
    assert not out.exists()


def test_paths_that_are_not_there_or_of_two_kinds(trace: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        fit(tmp_path / "nowhere", "--out", tmp_path / "x.yaml")
    with pytest.raises(UserError, match="is a folder; name a file"):
        fit(trace, "--out", tmp_path)
    with pytest.raises(UserError, match=r"there is no folder .*missing; make it first"):
        fit(trace, "--out", tmp_path / "missing" / "x.yaml")
    assert not (tmp_path / "missing").exists()
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps({"session_id": "a", "input_length": 10, "output_length": 1}) + "\n")
    with pytest.raises(UserError, match=r"different formats: table \(.*; aiperf \("):
        fit(trace, other, "--out", tmp_path / "x.yaml")


@pytest.mark.slow
def test_reading_takes_bounded_memory_and_shows_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty times the requests in as many sessions take no more memory than a few percent."""
    advanced = []
    monkeypatch.setattr(progress, "_display", type("Display", (), {
        "start": lambda _, stage, total: advanced.append(total), "advance": lambda _, stage: advanced.append(1),
    })())  # fmt: skip

    def peak(turns: int) -> int:
        path = tmp_path / f"{turns}.csv"
        path.write_text(HEADER + "".join(f"s{n % 10},{n // 10},1000,100,900,{n % 70},\n" for n in range(10 * turns)))
        tracemalloc.start()
        try:
            traces.fit_scenario([path], traces.FitOptions("x"))
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    small = peak(2_000)
    advanced.clear()
    assert peak(6_000) < 1.1 * small
    total, *steps = advanced
    assert total == len(steps) >= 2  # a step a megabyte


def test_list_marks_what_is_not_built_by_default() -> None:
    output = CliRunner().invoke(scenarios.app, ["list"]).output
    marked = {words[0] for words in map(str.split, output.splitlines()) if words and words[-1] == "*"}
    assert marked == {"agentx-replay", "mini-swe"}
    assert "built only when named" in output
    one = CliRunner().invoke(scenarios.app, ["list", "--scenarios", "mini-swe"]).output
    assert "*" not in one
