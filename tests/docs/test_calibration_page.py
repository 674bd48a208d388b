"""The walk through of docs/calibration.md: from four load tests to a plan, each command run on made results."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.reading.sidecars import parse_sidecar
from schemas.options import BuildOptions
from tests.calibration.test_command import SIDECAR, write_load_tests
from tests.docs.page import ROOT, Command, blocks, commands, lines_of
from tests.pipelines.builds import build
from tests.sources.whole import read_file
from transforms.sources.rows import InputFile

PAGE = (ROOT / "docs" / "calibration.md").read_text(encoding="utf-8")
CALIBRATE, BUILD, PLAN, *_PILOTS = commands(PAGE)


@pytest.fixture(scope="module", autouse=True)
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("calibration")
    write_load_tests(folder / "load-tests", (1_000, 1_000), (8_000, 500), loads=(4, 32))
    before = Path.cwd()
    os.chdir(folder)
    yield folder
    os.chdir(before)


def printed(command: Command) -> tuple[str, ...]:
    done = CliRunner().invoke(app, command.words[1:])
    assert done.exit_code == 0, done.output
    return lines_of(done.stdout)


def test_what_the_results_do_not_say() -> None:
    sidecar, log = (block.strip() for block in blocks(PAGE, "text"))
    assert sidecar == SIDECAR.strip()
    reading = read_file(InputFile("turns.csv", log.encode(), "", {}, parse_sidecar(f"{sidecar}\nmodel: x".encode())[0]))
    assert reading.agentic is not None
    assert reading.agentic["reason"].to_list() == [None]


def test_load_tests_become_a_plan_with_error_bars() -> None:
    assert printed(CALIBRATE) == CALIBRATE.shown
    assert BUILD.words[1:] == [
        "build", "--tables", "load-tests", "--engines", "engines.yaml", "--out", "measured-lake",
    ]  # fmt: skip
    options = BuildOptions(
        tables=(Path("load-tests"),), engines=Path("engines.yaml"), out=Path("measured-lake"), synthesize=False
    )
    assert build(options).release is not None
    assert printed(PLAN) == PLAN.shown


def test_no_plan_is_beyond_the_highest_measured_load() -> None:
    """The lake of above has such points; a plan takes them as little as a frontier does."""
    of = "from agent_points where scenario = 'code-agent' and feasible and transfer_method = 'calibrated'"
    asked = f"select unmeasured_load is not distinct from 'beyond' as beyond, max(sessions) as most {of} group by all"
    command = ["query", "--lake", "measured-lake", "--format", "json", asked]
    most = {row["beyond"]: row["most"] for row in json.loads(CliRunner().invoke(app, command).stdout)}
    assert most[True] > most[False] + 1
    lake = ["--lake", "measured-lake", "--model", "llama-3.1-70b", "--scenario", "code-agent", "--format", "json"]
    (row,) = json.loads(CliRunner().invoke(app, ["plan", *lake, "--gpus", "4"]).stdout)
    assert row["sessions"] == int(most[False])
    assert row["binding_limit"] == "table_range"
