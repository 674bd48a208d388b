"""Hostile inputs: nothing leaves the lake's folder, nothing outside is read, no secret is written down."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from pipelines.building import incremental
from pipelines.cli import app
from pipelines.lake.parts import Part
from pipelines.lake.query import open_lake
from pipelines.lake.reader import current_release
from pipelines.reading.inputs import find_files, open_file
from schemas.errors import UserError
from schemas.options import BuildOptions
from tests.pipelines.builds import build, write_small_table, write_small_tables
from tests.sources.results import AIPERF_CSV
from transforms.sources.rows import FileRejectedError

ROOT = Path(__file__).parents[2]
SECRET = "correct-horse-battery-staple"
SECRETS = {
    "PREFECT_API_KEY": SECRET, "PREFECT_API_AUTH_STRING": f"admin:{SECRET}", "AWS_ACCESS_KEY_ID": f"AKIA{SECRET}",
    "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_SESSION_TOKEN": SECRET, "HF_TOKEN": SECRET,
}  # fmt: skip


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    return write_small_tables(tmp_path / "tables", rows=10)


@pytest.fixture
def options(tmp_path: Path, tables: Path) -> BuildOptions:
    return BuildOptions(tables=(tables,), scenarios=("code-agent",), out=tmp_path / "lake")


def files_outside(folder: Path, lake: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and lake not in path.parents}


def rejections(lake: Path) -> dict[str, str]:
    with open_lake(lake) as opened:
        sql = "SELECT path, rejected_reason FROM sources WHERE rejected_reason IS NOT NULL"
        return dict(opened.query(sql).rows())


HOSTILE = ("../../escaped", "/tmp/escaped", "..", ".", "a/b", "a\\b", "h100-sxm/../../x", "~root", "x\ny", "%2e%2e", "")


def test_names_in_tables_make_no_paths(options: BuildOptions, tables: Path, tmp_path: Path) -> None:
    table = (tables / "h100-qwen.csv").read_text().splitlines()
    names = table[0].split(",")
    for number, name in enumerate(HOSTILE):
        cells = table[1].split(",")
        for column in ("system", "model", "backend", "version"):
            cells[names.index(column)] = f'"{name}"'
        (tables / f"hostile-{number}.csv").write_text(f"{table[0]}\n{','.join(cells)}\n")
    (tables / "x;rm -rf $(HOME) '\".csv").write_text("\n".join(table[:3]))
    before = files_outside(tmp_path, options.out)
    build(options)
    assert files_outside(tmp_path, options.out) == before
    release = current_release(options.out).path
    for path in release.rglob("*"):
        assert path.resolve().is_relative_to(release)
    with open_lake(options.out) as lake:
        sql = "SELECT count(*) FROM quarantine WHERE source_file LIKE 'hostile-%'"
        assert list(lake.query(sql).rows()) == [(len(HOSTILE),)]
        assert next(lake.query("SELECT count(DISTINCT hardware || model) FROM agent_points").rows()) == (3,)


@pytest.mark.parametrize("option", ["hardware", "models", "scenarios"])
@pytest.mark.parametrize("slug", HOSTILE)
def test_slugs_of_catalogues_make_no_paths(options: BuildOptions, tmp_path: Path, option: str, slug: str) -> None:
    entry = {"slug": slug, "name": "mine"}
    (tmp_path / "mine.yaml").write_text(json.dumps({option: [entry]}))
    mine = tmp_path / "mine.yaml"
    changed = {option: (str(mine),) if option == "scenarios" else mine}
    with pytest.raises(UserError, match=r"slug is "):
        build(options.model_copy(update=changed))
    assert not (options.out / "current.json").exists()


def test_links_that_lead_out_of_the_tables(options: BuildOptions, tables: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "more").mkdir(parents=True)
    write_small_table(outside, "h200-llama.csv", 12)
    (outside / "private.yaml").write_text(f"password: {SECRET}\n")
    (tables / "linked.csv").symlink_to(outside / "h200-llama.csv")
    (tables / "below").mkdir()
    (tables / "below" / "source.yaml").symlink_to(outside / "private.yaml")
    (tables / "below" / "b.csv").write_text(AIPERF_CSV)
    (tables / "inside.csv").symlink_to(tables / "h100-qwen.csv")  # the same file, once
    build(options)
    assert rejections(options.out) == {
        "linked.csv": "a link that leads out of the folder of tables; name the file itself to have it read",
        "below/b.csv": "source.yaml beside it is a link that leads out of the folder of tables",
    }
    assert all(SECRET.encode() not in path.read_bytes() for path in options.out.rglob("*") if path.is_file())
    (named,) = find_files([tables / "linked.csv"])
    assert open_file(named).content == (outside / "h200-llama.csv").read_bytes()


def test_what_has_no_end_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (Path("/dev/zero"), tmp_path / "pipe"):
        (found,) = find_files([path])
        with pytest.raises(FileRejectedError, match="a pipe, a folder or a device; save the table to a file"):
            open_file(found)


@pytest.mark.parametrize("path", ["agent_points/../../x.parquet", "/etc/passwd"])
def test_a_release_that_names_files_elsewhere_is_not_carried_over(
    options: BuildOptions, tmp_path: Path, path: str
) -> None:
    first = build(options)
    record = current_release(options.out).path / incremental.PARTITIONS_FILE
    content = json.loads(record.read_text())
    part = next(part for item in content["partitions"] for part in item["parts"] if part["table"] == "agent_points")
    part["path"] = path
    record.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="is no file of table agent_points"):
        Part(**part)
    assert len(build(options).computed) == len(first.computed)
    assert {item.name for item in tmp_path.iterdir()} == {"tables", "lake"}


def run(folder: Path, environment: Mapping[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    command = [
        sys.executable,
        "-c",
        "from pipelines.cli import main; main()",
        "build",
        "--tables",
        "tables",
        *arguments,
    ]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=240,
        env={**inherited, "PYTHONPATH": str(ROOT), **environment},
    )  # fmt: skip


def where_secrets_are(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


@pytest.mark.slow
@pytest.mark.prefect
def test_no_secret_of_the_environment_is_written_down(tables: Path, tmp_path: Path) -> None:
    home = tmp_path / "prefect"
    secrets = {**SECRETS, "PREFECT_HOME": str(home), "PREFECT_LOGGING_LEVEL": "DEBUG"}
    ran = run(tmp_path, secrets, "--scenarios", "code-agent", "--scenarios", "deep-reasoning")
    assert ran.returncode == 0, ran.stderr
    assert SECRET not in ran.stdout + ran.stderr
    assert where_secrets_are(tmp_path) == []
    assert (home / "prefect.db").exists()
    assert current_release(tmp_path / "lake").manifest["config"]["scenarios"] == ["code-agent", "deep-reasoning"]


@pytest.mark.slow
@pytest.mark.prefect
def test_a_server_that_is_not_there_is_named_without_its_password(tables: Path, tmp_path: Path) -> None:
    address = {"PREFECT_API_URL": f"http://admin:{SECRET}@127.0.0.1:9/api", "PREFECT_HOME": str(tmp_path / "prefect")}
    ran = run(tmp_path, {**SECRETS, **address}, "--scenarios", "code-agent")
    assert ran.returncode == 1
    assert "Error: No Prefect server can be used at http://127.0.0.1:9/api (" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert SECRET not in ran.stdout + ran.stderr
    assert where_secrets_are(tmp_path) == []


ADDRESSES = (f"s3://AKIA:{SECRET}@lakes/nightly", f"s3:/{SECRET}@lakes/nightly", f"gs://u:{SECRET}@lakes/nightly")


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize(
    "arguments", [("build", "--out"), ("schedule", "--cron", "0 2 * * *", "--out"), ("query", "SELECT 1", "--lake"),
                  ("releases", "list", "--lake")]
)  # fmt: skip
def test_credentials_in_the_address_of_a_lake_are_refused_unsaid(arguments: tuple[str, ...], address: str) -> None:
    ran = CliRunner().invoke(app, [*arguments, address])
    assert isinstance(ran.exception, UserError)
    assert "the address has a user or a password before the @" in str(ran.exception)
    assert SECRET not in str(ran.exception) + ran.output
    with pytest.raises(ValidationError):
        BuildOptions(out=Path(address))
