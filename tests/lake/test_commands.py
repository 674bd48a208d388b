"""`agent-pareto query` and `agent-pareto releases`."""

import csv
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
import typer
from typer.testing import CliRunner, Result

from pipelines.commands.query import query_command
from pipelines.commands.releases import releases_app
from pipelines.lake.release import begin_release
from schemas.errors import UserError
from tests.lake.factory import FIELDS, publish_number, seen_by_database, seen_by_query, write_partitioned

REPOSITORY = Path(__file__).parents[2]
COMMAND = "import typer; from pipelines.commands.query import query_command; typer.run(query_command)"

app = typer.Typer()
app.command("query")(query_command)
app.add_typer(releases_app, name="releases")


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture
def releases(lake: Path) -> list[str]:
    return [publish_number(lake, number).id for number in (1, 2, 3)]


SQL = "SELECT hardware, count(*) AS n, max(x) AS x FROM agent_points GROUP BY ALL ORDER BY ALL"


@pytest.mark.usefixtures("releases")
class TestQuery:
    def test_table(self, lake: Path) -> None:
        lines = [line.split() for line in run("query", SQL, "--lake", lake).stdout.splitlines()]
        assert [line for line in lines if line] == [
            ["hardware", "n", "x"],
            ["─" * 16],
            ["b200", "3", "4"],
            ["h100-sxm", "2", "1"],
            ["2", "rows"],
        ]

    def test_csv(self, lake: Path) -> None:
        result = run("query", SQL, "--lake", lake, "--format", "csv")
        assert result.stdout_bytes == b"hardware,n,x\r\nb200,3,4.0\r\nh100-sxm,2,1.0\r\n"

    def test_json(self, lake: Path) -> None:
        assert json.loads(run("query", SQL, "--lake", lake, "--format", "json").stdout) == [
            {"hardware": "b200", "n": 3, "x": 4.0},
            {"hardware": "h100-sxm", "n": 2, "x": 1.0},
        ]

    def test_a_table_says_how_many_rows_it_does_not_show(self, lake: Path) -> None:
        sql = "SELECT i FROM range(1234) t(i); -- all of them"
        assert run("query", sql, "--lake", lake).stdout.splitlines()[-1] == (
            "40 of 1,234 rows shown; --max-rows 0 shows all."
        )
        assert run("query", sql, "--lake", lake, "--max-rows", 0).stdout.splitlines()[-1] == "1,234 rows"
        assert run("query", sql, "--lake", lake, "--max-rows", 1234).stdout.splitlines()[-1] == "1,234 rows"
        assert run("query", "SELECT 1", "--lake", lake).stdout.splitlines()[-1] == "1 row"

    def test_csv_and_json_have_every_row(self, lake: Path) -> None:
        sql = "SELECT i FROM range(25000) t(i)"
        text = run("query", sql, "--lake", lake, "--format", "csv").stdout
        assert [int(row["i"]) for row in csv.DictReader(io.StringIO(text))] == list(range(25_000))
        assert len(json.loads(run("query", sql, "--lake", lake, "--format", "json").stdout)) == 25_000

    def test_an_error_writes_nothing(self, lake: Path) -> None:
        for output_format in ("table", "csv", "json"):
            result = CliRunner().invoke(app, ["query", "FROM x", "--lake", str(lake), "--format", output_format])
            assert isinstance(result.exception, UserError)
            assert result.stdout == ""

    def test_csv_is_utf8_whatever_the_locale(self, lake: Path) -> None:
        command = [
            sys.executable,
            "-c",
            COMMAND,
            "SELECT chr(9731) AS t",
            "--lake",
            str(lake),
            "--format",
            "csv",
        ]
        environment = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
        result = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, check=True)
        assert result.stdout == "t\r\n☃\r\n".encode()

    @pytest.mark.parametrize("output_format", ["table", "csv", "json"])
    def test_a_reader_that_goes_away_is_no_error(self, lake: Path, output_format: str) -> None:
        sql = "SELECT i, repeat('x', 100) FROM range(3000) t(i)"
        command = [
            sys.executable,
            "-c",
            COMMAND,
            sql,
            "--lake",
            str(lake),
            "--format",
            output_format,
            "--max-rows",
            "0",
        ]
        with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.read(10)
            process.stdout.close()
            assert process.stderr.read() == b""
        assert process.returncode == 0

    def test_start_up_imports_nothing_heavy(self, lake: Path) -> None:
        code = (
            "import sys; from pathlib import Path; from pipelines.commands.query import query_command;"
            "import pipelines.commands.releases;"
            f"query_command({SQL!r}, Path(sys.argv[1]), 'csv', 0);"
            "heavy = {'polars', 'pandera', 'prefect', 'pyarrow', 'pandas', 'numpy', 'rich.table'};"
            "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
        )
        command = [sys.executable, "-c", code, str(lake)]
        result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
        assert result.stderr == "[]\n"


def test_query_without_a_lake(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no lake at .*none: run `agent-pareto build --out .*none` first"):
        run("query", "SELECT 1", "--lake", tmp_path / "none")


def test_releases_list(lake: Path, releases: list[str]) -> None:
    rows = [line.split() for line in run("releases", "list", "--lake", lake).stdout.splitlines() if line.strip()]
    assert rows[0] == ["release", "current", "created_at", "code_version", "schema_version", "rows", "bytes"]
    assert [row[0] for row in rows[2:]] == releases
    assert [row[1] == "current" for row in rows[2:]] == [False, False, True]
    assert [row[-2] for row in rows[2:]] == ["7", "9", "11"]  # twice n + 2 points, and one GPU
    narrow = CliRunner().invoke(app, ["releases", "list", "--lake", str(lake)], env={"COLUMNS": "80"}).stdout
    assert max(map(len, narrow.splitlines())) <= 80
    assert all(release in narrow for release in releases)


def test_releases_list_says_that_the_current_one_is_gone(lake: Path, releases: list[str]) -> None:
    shutil.rmtree(lake / "releases" / releases[-1])
    listed = run("releases", "list", "--lake", lake)
    assert releases[0] in listed.stdout
    assert f"The current release {releases[-1]} is gone: its folder is not there" in listed.stderr
    assert "`releases rollback ID`" in listed.stderr
    for release_id in releases[:-1]:
        shutil.rmtree(lake / "releases" / release_id)
    with pytest.raises(UserError, match=f"The current release {releases[-1]} is gone: .* holds no release: run"):
        run("releases", "list", "--lake", lake)


def test_releases_list_as_json(lake: Path, releases: list[str]) -> None:
    run("releases", "rollback", releases[1], "--lake", lake)
    content = json.loads(run("releases", "list", "--lake", lake, "--format", "json").stdout)
    assert [(item["release"], item["current"]) for item in content] == [
        (releases[0], False),
        (releases[1], True),
        (releases[2], False),
    ]
    assert content[2]["rows"] == {"agent_frontier": 5, "agent_points": 5, "hardware": 1}
    assert content[2]["bytes"] == sum(
        path.stat().st_size for path in (lake / "releases" / releases[2]).rglob("*.parquet")
    )


def test_releases_rollback(lake: Path, releases: list[str]) -> None:
    assert run("releases", "rollback", releases[0], "--lake", lake).stdout == (
        f"{releases[0]} is now the current release of {lake}.\n"
    )
    assert seen_by_query(lake) == seen_by_database(lake) == 1
    with pytest.raises(UserError, match="not a release ID"):
        run("releases", "rollback", "yesterday", "--lake", lake)


def test_releases_prune(lake: Path, releases: list[str]) -> None:
    text = run("releases", "prune", "--keep", 2, "--lake", lake).stdout
    assert text == f"left    {releases[0]}: it was current less than 60 minutes ago\n"
    text = run("releases", "prune", "--keep", 2, "--lake", lake, "--grace-minutes", 0).stdout
    assert text == f"deleted {releases[0]}\n"
    assert run("releases", "prune", "--keep", 2, "--lake", lake).stdout == "Nothing to delete.\n"
    assert run("releases", "prune", "--keep", 0, "--lake", lake).exit_code == 2


def test_releases_without_a_release(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no release"):
        run("releases", "list", "--lake", tmp_path)


def test_the_grace_of_the_command_is_that_of_the_library() -> None:
    from pipelines.commands.releases import GRACE_MINUTES
    from pipelines.lake.retention import GRACE

    assert GRACE.total_seconds() == GRACE_MINUTES * 60


def test_a_query_of_a_table_without_rows(lake: Path) -> None:
    with begin_release(lake) as writer:
        write_partitioned(writer, "agent_points", pl.DataFrame({"hardware": [""], "x": [1.0]}).clear(), by=["hardware"])
        writer.publish(**FIELDS)
    assert run("query", "FROM agent_points", "--lake", lake, "--format", "csv").stdout_bytes == b"hardware,x\r\n"
    assert json.loads(run("query", "FROM agent_points", "--lake", lake, "--format", "json").stdout) == []
