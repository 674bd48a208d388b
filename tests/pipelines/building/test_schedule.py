"""The schedule fires; a run that is killed is recorded as crashed and followed by a good one."""

import asyncio
import inspect
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from pipelines.cli import app
from pipelines.lake.reader import current_release, list_releases
from schemas.errors import UserError
from schemas.options import BuildOptions, RunOptions
from tests.pipelines.builds import write_small_table, write_small_tables

ROOT = Path(__file__).parents[3]

SERVE = """
import sys
from datetime import timedelta
from pathlib import Path
from pipelines.runners.prefect_runtime import start_in_background

server = start_in_background(scheduler=True)
from prefect.schedules import Interval
from pipelines.building.schedule import serve_builds
from schemas.options import BuildOptions, RunOptions

server.wait()
print(server.url, flush=True)
options = BuildOptions(tables=(Path("tables"),), scenarios=("code-agent",), out=Path("lake"))
serve_builds(options, RunOptions(), Interval(timedelta(seconds=3)), server)
"""
STATES = """
import asyncio, json
from prefect import get_client

async def states():
    async with get_client() as client:
        runs = await client.read_flow_runs()
        print(json.dumps([[run.state.type.value, run.name] for run in runs if run.deployment_id and run.state]))

asyncio.run(states())
"""


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    """Waits until the condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.prefect
def test_a_killed_run_is_seen_and_followed_by_a_good_one(tmp_path: Path) -> None:
    tables = write_small_tables(tmp_path / "tables", rows=10)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")},
        "PREFECT_HOME": os.environ["PREFECT_HOME"],
        "PREFECT_RUNNER_POLL_FREQUENCY": "1",
        "PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS": "1",
        "PYTHONPATH": str(ROOT),
    }
    serving = subprocess.Popen(
        [sys.executable, "-c", SERVE], cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    lock = tmp_path / "lake" / ".build.lock"
    try:
        assert serving.stdout is not None
        url = serving.stdout.readline().strip()
        victims: list[int] = []

        def killed() -> bool:
            try:
                victims.append(json.loads(lock.read_text())["pid"])
            except (OSError, ValueError):
                return False
            os.kill(victims[-1], signal.SIGKILL)
            return True

        wait_until(killed, 120)
        wait_until(lambda: (tmp_path / "lake" / "current.json").exists(), 120)
        first = current_release(tmp_path / "lake").id
        write_small_table(tables, "h100-qwen.csv", 12)  # so that a later run has something to do
        wait_until(lambda: current_release(tmp_path / "lake").id != first, 120)
        asked = subprocess.run(
            [sys.executable, "-c", STATES], env={**environment, "PREFECT_API_URL": url},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    finally:
        os.killpg(serving.pid, signal.SIGTERM)
        try:
            serving.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(serving.pid, signal.SIGKILL)
            serving.communicate()
    states = Counter(state for state, _ in json.loads(asked.stdout.splitlines()[-1]))
    assert states["CRASHED"] == 1, states
    assert states["COMPLETED"] >= 1, states
    assert states["FAILED"] == 0, states
    assert len(list_releases(tmp_path / "lake")) == 2


@pytest.mark.slow
@pytest.mark.prefect
def test_the_command_builds_when_its_cron_says(tmp_path: Path) -> None:
    """Cron's shortest interval is a minute: the command is served until a minute has begun, and has built then."""
    write_small_tables(tmp_path / "tables", rows=10)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")},
        "PREFECT_HOME": os.environ["PREFECT_HOME"], "PREFECT_RUNNER_POLL_FREQUENCY": "1", "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    command = [sys.executable, "-c", "from pipelines.cli import main; main()", "schedule", "--cron", "* * * * *"]
    began = datetime.now(UTC)
    serving = subprocess.Popen(
        [*command, "--timezone", "Asia/Kolkata", "--tables", "tables", "--scenarios", "code-agent"], cwd=tmp_path,
        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        wait_until(lambda: (tmp_path / "lake" / "current.json").exists(), 180)
    finally:
        os.killpg(serving.pid, signal.SIGTERM)
        said, _ = serving.communicate(timeout=60)
    assert f"Building {tmp_path}/lake at * * * * * (Asia/Kolkata); stop with Ctrl-C." in said
    built = datetime.fromisoformat(current_release(tmp_path / "lake").manifest["created_at"])
    next_minute = began.replace(second=0, microsecond=0) + timedelta(minutes=1)
    assert built > next_minute, "it did not wait for its cron"


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
def test_runs_of_an_earlier_process_are_recorded_as_crashed() -> None:
    from prefect import get_client
    from prefect.states import Completed, Running

    from pipelines.building.schedule import DEPLOYMENT, _mark_dead_runs, scheduled_build

    async def run() -> list[str]:
        async with get_client() as client:
            deployment = await client.create_deployment(await client.create_flow(scheduled_build), DEPLOYMENT)
            states: list[Any] = [Running(), Completed()]
            runs = [await client.create_flow_run_from_deployment(deployment, state=state) for state in states]
            other = await client.create_flow_run(scheduled_build, state=states[0])
            await _mark_dead_runs()
            after = [await client.read_flow_run(run.id) for run in [*runs, other]]
            return [run.state.type.value for run in after if run.state is not None]

    assert asyncio.run(run()) == ["CRASHED", "COMPLETED", "RUNNING"]


def test_cron_fires_at_the_hour_of_its_time_zone() -> None:
    from prefect.server.schemas.schedules import CronSchedule

    from pipelines.building.schedule import cron_schedule

    ours = cron_schedule("30 4 * * *", "Europe/Berlin")
    served = CronSchedule.model_validate({"cron": ours.cron, "timezone": ours.timezone})
    # the clocks of Berlin are put forward on 29 March 2026
    fires = asyncio.run(served.get_dates(2, start=datetime(2026, 3, 28, tzinfo=UTC)))
    assert [moment.astimezone(UTC) for moment in fires] == [
        datetime(2026, 3, 28, 3, 30, tzinfo=UTC),
        datetime(2026, 3, 29, 2, 30, tzinfo=UTC),
    ]


@pytest.mark.parametrize(
    ("cron", "timezone", "message"),
    [
        ("every night", "UTC", "--cron 'every night' is not five fields of cron"),
        ("61 2 * * *", "UTC", "--cron '61 2"),
        ("0 2 * * *", "Mars/Olympus", "--timezone 'Mars/Olympus' is not the name of a time zone"),
        ("0 2 * * *", "../../etc/passwd", "--timezone '../../etc/passwd' is not"),
        ("0 2 * * *", "", "--timezone '' is not"),
    ],
)
def test_what_is_no_schedule_is_said_in_a_sentence(cron: str, timezone: str, message: str) -> None:
    from pipelines.building.schedule import cron_schedule

    with pytest.raises(UserError, match=re.escape(message)):
        cron_schedule(cron, timezone)


def test_schedule_takes_the_options_of_build() -> None:
    build = {name for option in _options("build") for name in option.opts}
    assert len(build) == len(BuildOptions.model_fields) + len(RunOptions.model_fields)
    assert {name for option in _options("schedule") for name in option.opts} == build | {"--cron", "--timezone"}


def _options(command: str) -> list[Any]:
    named: Any = typer.main.get_command(app).commands[command]  # type: ignore[attr-defined]
    return [option for option in named.get_params(typer.Context(named)) if option.name != "help"]


def test_options_mean_the_same_in_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipelines.building.schedule import with_absolute_paths

    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").touch()
    options = BuildOptions(
        tables=(Path("a"), Path("/b")), scenarios=("code-agent", "mine.yaml"), models=Path("m.yaml"), out=Path("lake")
    )
    absolute = with_absolute_paths(options)
    assert absolute.tables == (tmp_path / "a", Path("/b"))
    assert absolute.scenarios == ("code-agent", str(tmp_path / "mine.yaml"))
    assert (absolute.models, absolute.hardware, absolute.out) == (tmp_path / "m.yaml", None, tmp_path / "lake")
    assert BuildOptions.model_validate(absolute.model_dump(mode="json")) == absolute


def test_the_deployment_file_names_the_flow_and_its_parameters() -> None:
    from prefect.flows import load_flow_from_entrypoint

    from pipelines.building.schedule import cron_schedule, scheduled_build

    content = yaml.safe_load((ROOT / "prefect.yaml").read_text())
    (deployment,) = content["deployments"]
    path, _, name = deployment["entrypoint"].partition(":")
    assert (ROOT / path).is_file()
    assert load_flow_from_entrypoint(f"{ROOT / path}:{name}").name == scheduled_build.name
    BuildOptions.model_validate(deployment["parameters"]["options"])
    RunOptions.model_validate(deployment["parameters"]["run"])
    assert set(deployment["parameters"]) <= set(inspect.signature(scheduled_build.fn).parameters)
    for schedule in deployment["schedules"]:
        cron_schedule(schedule["cron"], schedule["timezone"])
