"""`agent-pareto plan` on a small real lake."""

import csv
import io
import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from pipelines.answering.plan_table import legend
from pipelines.cli import app
from schemas.errors import UserError
from schemas.options import BuildOptions
from tests.docs.page import ROOT
from tests.pipelines.builds import CANDIDATES, build
from transforms.planning.question import Question

ARGS = ("--model", "llama-3.1-8b", "--scenario", "code-agent")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plan") / "lake"
    tables = tuple(CANDIDATES / f"{gpu}_sxm__llama-3.1-8b__isl4000_osl1000__agg.csv.gz" for gpu in ("h100", "h200"))
    build(BuildOptions(tables=tables, scenarios=("code-agent",), synthesize=False, out=folder))
    return folder


def run(lake: Path, *args: str) -> Result:
    return CliRunner().invoke(app, ["plan", *ARGS, "--lake", str(lake), *args])


def test_the_plan_reaches_the_rows_of_the_lake(lake: Path) -> None:
    """Every hardware of the lake, fewest GPUs first; JSON and CSV say the same."""
    result = run(lake, "--sessions", "500", "--max-turn-latency", "2", "--format", "json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert {row["hardware"] for row in rows} == {"h100-sxm", "h200-sxm"}
    assert [row["gpus"] for row in rows] == sorted(row["gpus"] for row in rows)
    for row in rows:
        assert row["turn_latency_ms"] <= 2_000
        assert row["gpus"] == row["replicas"] * row["gpus_per_replica"]
        assert row["sessions_per_replica"] == -(-500 // row["replicas"])
    table = csv.DictReader(
        io.StringIO(run(lake, "--sessions", "500", "--max-turn-latency", "2", "--format", "csv").stdout)
    )
    assert [int(row["gpus"]) for row in table] == [row["gpus"] for row in rows]


def test_names_and_the_table(lake: Path) -> None:
    result = run(lake, "--sessions", "40", "--hardware", "H100 SXM", "--hardware", "h200")
    assert result.exit_code == 0, result.output
    assert "h100-sxm" in result.stdout
    assert "one_replica" in result.stdout
    only = json.loads(run(lake, "--sessions", "40", "--hardware", "h200", "--format", "json").stdout)
    assert [row["hardware"] for row in only] == ["h200-sxm"]
    assert run(lake, "--sessions", "40", "--weight-dtype", only[0]["weight_dtype"], "--format", "json").exit_code == 0


def test_the_legend_explains_what_the_table_has(lake: Path) -> None:
    """Its limits and no others; roofline rows are marked where they stand beside rows by tables."""
    said = run(lake, "--sessions", "40", "--hardware", "h200").stdout
    assert "  one_replica: a single replica does; there are no fewer" in said
    assert "KV used: sessions over those that memory can serve;" in said
    assert "cache_hit_rate" not in said
    row: dict[str, object] = {"binding_limit": "cache_hit_rate", "transfer_method": "transfer", "low": None}

    def said_of(*shown: str) -> str:
        return "\n".join(legend([row], Question(sessions=40), "mean", shown))

    assert "  cache_hit_rate: the cache's hit rate falls between this row of the table" in said_of("limit")
    assert "one_replica" not in said_of("limit")
    assert said_of() == "Figures of the fuller replicas, at the mean."
    assert said_of("USD\na month").endswith("USD: all these GPUs, 730 hours a month, busy or not.")


def test_columns_that_a_narrow_terminal_drops_are_not_explained(lake: Path) -> None:
    arguments = ["plan", *ARGS, "--sessions", "40", "--lake", str(lake)]
    for columns, explained in (("80", False), ("400", True)):
        said = CliRunner().invoke(app, arguments, env={"COLUMNS": columns}).stdout
        assert ("KV used: sessions" in said) == explained
        assert ("Not shown in so narrow a terminal" in said) != explained


@pytest.mark.slow
def test_answers_of_the_roofline_stand_apart(tmp_path: Path) -> None:
    """A table of H100 and rooflines of the rest: two tables, the second with a warning; JSON says each row's kind."""
    folder = tmp_path / "lake"
    table = CANDIDATES / "h100_sxm__llama-3.1-8b__isl4000_osl1000__agg.csv.gz"
    build(BuildOptions(tables=(table,), scenarios=("code-agent",), synthesize=True, out=folder))
    said = run(folder, "--sessions", "40", "--hardware", "h100", "--hardware", "h200").stdout
    by_table, by_roofline = said.split(
        "By the roofline: what peak rates allow. Do not rank these against rows by tables."
    )
    assert "h100-sxm" in by_table
    assert "h200-sxm" not in by_table
    assert "h200-sxm" in by_roofline
    rows = json.loads(
        run(folder, "--sessions", "40", "--hardware", "h100", "--hardware", "h200", "--format", "json").stdout
    )
    assert {row["hardware"]: row["kind"] for row in rows} == {"h100-sxm": "table", "h200-sxm": "roofline"}


def test_the_nearest_values_do(lake: Path) -> None:
    """Where nothing is fast enough the options named are enough, for the hardware that named them."""
    limits = ("--max-turn-latency", "0.1", "--max-task-time", "4.5", "--min-speed", "1000")
    result = run(lake, "--sessions", "50", *limits, "--format", "json")
    assert result.exit_code == 1
    for row in json.loads(result.stdout):
        assert row["feasible"] is False
        assert row["reason"].startswith("Its fastest configuration takes ")
        named = row["reason"].partition("turn; ")[2].removesuffix(" would do.").split()
        assert named[::2] == list(limits[::2])
        again = run(lake, "--sessions", "50", "--hardware", row["hardware"], *named, "--format", "json")
        assert again.exit_code == 0, again.output


def test_what_is_wrong_is_said(lake: Path, tmp_path: Path) -> None:
    for args, sentence in (
        (("--hardware", "h300"), "The lake has no hardware 'h300'. Did you mean 'h100-sxm' or 'h200-sxm'?"),
        (("--hardware", "b200"), "The lake has no hardware 'b200'. It has: h100-sxm, h200-sxm."),
        (("--weight-dtype", "fp4"), "The lake has no point of llama-3-1-8b with weights in fp4 on h100-sxm, h200-sxm."),
        (("--price", "h200"), "--price h200: give a GPU and US dollars an hour of one, h200=3.50 say."),
        (("--price", "h300=2"), "Unknown hardware 'h300'."),
        (("--price", "h200=2", "--price", "h200-sxm=3"), "are of one GPU: give one of them."),
        (("--engine", "vlm"), "The lake has no point of llama-3-1-8b with engine 'vlm'. It has: trtllm."),
        (("--max-turn-latency", "nan"), "--max-turn-latency nan: must be a finite number above 0."),
        (("--min-speed", "0"), "must be a finite number above 0."),
    ):
        error = run(lake, "--sessions", "5", *args).exception
        assert isinstance(error, UserError)
        assert sentence.partition(" Did you")[0] in str(error)
    assert isinstance(run(tmp_path, "--sessions", "5").exception, UserError)
    assert run(lake, "--sessions", "0").exit_code == 2


def test_a_release_of_another_version(lake: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "lake"
    shutil.copytree(lake, copy)
    (path,) = copy.glob("releases/*/models.parquet")
    models = pl.read_parquet(path)
    path.unlink()
    models.drop("definition").write_parquet(path)
    error = run(copy, "--sessions", "5").exception
    assert isinstance(error, UserError)
    assert "Run `agent-pareto build` on the lake again." in str(error)


def test_speed_is_limited_at_every_percentile_of_a_release_that_has_it(lake: Path, tmp_path: Path) -> None:
    import shutil

    asked = ("--sessions", "500", "--min-speed", "40", "--hardware", "h200")
    gpus = [int(str(rows_of(lake, *asked, "--at", at)[0]["gpus"])) for at in ("p50", "p90", "p95", "p99")]
    assert gpus == sorted(gpus)
    assert gpus[-1] > gpus[0]
    # before schema version 1.2 there was the p90 alone
    copy = tmp_path / "lake"
    shutil.copytree(lake, copy)
    for path in copy.glob("releases/*/agent_points/*/*/*/*.parquet"):
        points = pl.read_parquet(path, hive_partitioning=False)
        path.unlink()
        points.drop(f"e2e_tokens_per_s_per_user_{at}" for at in ("p50", "p95", "p99")).write_parquet(path)
    assert run(copy, *asked, "--at", "p90").exit_code == 0
    error = run(copy, *asked, "--at", "p99").exception
    assert "has no e2e_tokens_per_s_per_user_p99: ask --at mean or --at p90" in str(error)


def rows_of(lake: Path, *args: str) -> list[dict[str, object]]:
    result = run(lake, *args, "--format", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)  # type: ignore[no-any-return]


def test_the_two_directions_meet(lake: Path) -> None:
    """So many GPUs as a plan asks for hold what it was asked for and its headroom, and no more."""
    limits = ("--hardware", "h200", "--max-turn-latency", "2", "--at", "p90", "--kv-dtype", "bf16")
    (plan,) = rows_of(lake, "--sessions", "500", *limits)
    (most,) = rows_of(lake, "--gpus", str(plan["gpus"]), *limits)
    assert float(str(most["sessions"])) >= 500
    assert float(str(most["turn_latency_s"])) <= 2
    (least,) = rows_of(lake, "--sessions", str(most["sessions"]), *limits)
    assert least["gpus"] == most["gpus"]
    (more,) = rows_of(lake, "--sessions", str(int(str(most["sessions"])) + 1), *limits)
    assert float(str(more["gpus"])) > float(str(most["gpus"]))
    (tasks,) = rows_of(lake, "--tasks-per-hour", str(most["tasks_per_hour"]), *limits)
    assert float(str(tasks["gpus"])) <= float(str(most["gpus"]))
    assert float(str(tasks["tasks_per_hour"])) >= float(str(most["tasks_per_hour"])) * (1 - 1e-9)


def test_money(lake: Path, tmp_path: Path) -> None:
    """GPUs x USD x 730 hours a month, over the tasks of an hour; the cheapest first; a single price before a list."""
    prices = tmp_path / "prices.yaml"
    prices.write_text(
        "prices:\n"
        "  - {hardware: h100, usd_per_gpu_hour: 2.0, source: made up, date: 2026-11-01}\n"
        "  - {hardware: h200, usd_per_gpu_hour: 3.0, source: made up, date: 2026-11-01}\n"
    )
    usd = {"h100-sxm": 2.0, "h200-sxm": 90.0}
    rows = rows_of(lake, "--sessions", "500", "--prices", str(prices), "--price", "H200=90")
    assert [row["hardware"] for row in rows] == ["h100-sxm", "h200-sxm"]
    for row in rows:
        an_hour = usd[str(row["hardware"])] * float(str(row["gpus"]))
        tasks = float(str(row["tasks_per_hour"]))
        assert row["usd_per_month"] == pytest.approx(730 * an_hour)
        assert row["usd_per_task"] == pytest.approx(an_hour / tasks)
        assert row["usd_per_million_output_tokens"] == pytest.approx(1e6 * an_hour / (tasks * 8 * 128))
        # 700 W a GPU
        assert row["kwh_per_task"] == pytest.approx(0.7 * float(str(row["gpus"])) / tasks)
        assert row["tasks_per_hour_per_mw"] == pytest.approx(1e6 * tasks / (700 * float(str(row["gpus"]))))
    dear = rows_of(lake, "--sessions", "500", "--price", "h100=80", "--price", "h200=1")
    assert [row["hardware"] for row in dear] == ["h200-sxm", "h100-sxm"]


def test_a_scenario_that_the_lake_does_not_have(lake: Path, tmp_path: Path) -> None:
    """Carried as a build would: the published scenario under another name gives the published plan."""
    shipped = (ROOT / "data" / "scenarios.yaml").read_text().split("  - slug: ")
    mine = tmp_path / "mine.yaml"
    mine.write_text("scenarios:\n  - slug: " + shipped[1].replace("code-agent", "my-agent", 1))
    limits = ("--sessions", "300", "--max-turn-latency", "3", "--format", "json", "--lake", str(lake))

    def planned(scenario: str) -> list[dict[str, object]]:
        result = CliRunner().invoke(app, ["plan", "--model", "llama-3.1-8b", "--scenario", scenario, *limits])
        assert result.exit_code == 0, result.output
        return [{**row, "scenario": None} for row in json.loads(result.stdout)]

    assert planned(str(mine)) == planned("code-agent")
    assert planned("chat-with-tools") != planned("code-agent")
    two = tmp_path / "two.yaml"
    two.write_text("scenarios:\n  - slug: " + "  - slug: ".join(shipped[1:3]))
    args = ["plan", "--model", "llama-3.1-8b", "--scenario", str(two), *limits]
    assert "has 2 scenarios (code-agent, research-agent): give a file of one." in str(
        CliRunner().invoke(app, args).exception
    )


def test_money_of_a_frontier_and_of_a_change(lake: Path) -> None:
    """At prices of the reading, where the build had none."""
    of = (*ARGS, "--lake", str(lake), "--hardware", "h200", "--format", "json")
    priced = CliRunner().invoke(app, ["frontier", *of, "--price", "h200=3.6", "--top", "2"])
    points = json.loads(priced.stdout)
    assert len(points) == 2
    for point in points:
        assert point["usd_per_task"] == pytest.approx(3.6 / point["tasks_per_hour_per_gpu"])
        assert point["usd_per_million_output_tokens"] == pytest.approx(1e6 * point["usd_per_task"] / (8 * 128))
    change = CliRunner().invoke(app, ["what-if", *of, "--think-time-s", "10", "--price", "h200=3.6"])
    rows = {row["figure"]: row for row in json.loads(change.stdout) if row["point"] == "most_tasks"}
    for side in ("before", "after"):
        assert rows["usd_per_task"][side] == pytest.approx(3.6 / rows["tasks_per_hour_per_gpu"][side])
    unpriced = json.loads(CliRunner().invoke(app, ["what-if", *of, "--think-time-s", "10"]).stdout)
    assert "usd_per_task" not in {row["figure"] for row in unpriced}


def test_one_question_at_a_time(lake: Path) -> None:
    assert run(lake).exit_code == 2
    assert run(lake, "--sessions", "5", "--gpus", "8").exit_code == 2
    assert run(lake, "--tasks-per-hour", "0").exit_code == 2
    alone = run(lake, "--gpus", "8", "--max-turn-latency", "0.001", "--format", "json")
    assert alone.exit_code == 1
    assert "--max-turn-latency" in json.loads(alone.stdout)[0]["reason"]


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_a_table_fits_the_terminal(lake: Path, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for args in (("--sessions", "500", "--price", "h200=3"), ("--gpus", "8", "--max-ttft", "0.3", "--at", "mean")):
        result = run(lake, *args)
        assert result.exit_code == 0, result.output
        assert max(map(len, result.stdout.splitlines())) <= columns
        assert "h200-sxm" in result.stdout
    assert ("Not shown in so narrow a terminal" in result.stdout) is (columns < 200)


@pytest.mark.parametrize("columns", [80, 120, 200])
@pytest.mark.parametrize(
    "command", ["frontier --price h200=3", "what-if --think-time-s 10 --sessions 9000 --gpus 8 --price h200=3"]
)
def test_a_frontier_and_a_change_fit_the_terminal(
    lake: Path, columns: int, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    result = CliRunner().invoke(app, [*command.split(), *ARGS, "--hardware", "h200", "--lake", str(lake)])
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines())) <= columns


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "dynamo"])
def test_a_launch(lake: Path, engine: str) -> None:
    (row,) = rows_of(lake, "--sessions", "500", "--hardware", "h200")
    script = run(lake, "--sessions", "500", "--hardware", "h200", "--emit", engine).stdout
    assert f"# 500 sessions on {row['gpus']} GPUs h200-sxm: {row['configuration']}" in script
    assert "meta-llama/" in script
    assert ("CHECK: the plan's figures are of trtllm" in script) is (engine in ("vllm", "sglang"))
    assert "NOT KNOWN" in script
    # all sessions of a replica in flight at once, to the end of a task
    each = str(row["sessions_per_replica"])
    most = {"vllm": f"--max-num-seqs {each}", "sglang": f"--max-running-requests {each}"}
    assert most.get(engine, f"max_batch_size: {each}") in script
    assert "20524" in script


def test_a_launch_is_a_script_and_nothing_else(lake: Path) -> None:
    """--emit beside a format for machines is wrong use, said in a sentence."""
    result = run(lake, "--sessions", "500", "--emit", "vllm", "--format", "json")
    assert result.exit_code == 2
    assert "--emit prints a script, not json" in " ".join(result.stderr.split())
