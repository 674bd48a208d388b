"""Prefect's start-up: a flow for real in a process of its own, with no outside connection, and nothing left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest

from pipelines.runners import prefect_runtime
from schemas.errors import UserError

ROOT = Path(__file__).parents[2]

# Every Python process of the run, the server included, notes whom it connects to and which names it looks up.
WATCH_CONNECTIONS = """
import os, sys

def note(event, arguments):
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    elif event == "socket.getaddrinfo":
        host = arguments[0]
    else:
        return
    with open(os.environ["CONNECTIONS"], "a") as file:
        print(event, host, file=file)

sys.addaudithook(note)
"""

FLOW = """
import json
from pipelines.runners.prefect_runtime import start_in_background

server = start_in_background()
from prefect import flow, task
from prefect.artifacts import Artifact, create_table_artifact
from prefect.task_runners import ThreadPoolTaskRunner

@task
def square(number):
    return number * number

@flow(task_runner=ThreadPoolTaskRunner(max_workers=2))
def squares():
    results = square.map([3, 4]).result()
    create_table_artifact(key="squares", table=[{"square": result} for result in results])
    return results

server.wait()
results = squares()
print(json.dumps({"results": results, "artifact": json.loads(Artifact.get("squares").data)}))
"""

WAIT_TO_BE_ENDED = """
import sys, time
from pipelines.runners.prefect_runtime import start_in_background

server = start_in_background()
print(server._child.pid, flush=True)
if sys.argv[1] == "running":
    from prefect import flow

    @flow
    def slow():
        print("running", flush=True)
        time.sleep(60)

    server.wait()
    slow()
time.sleep(60)
"""


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a script as a process; what still runs after the test is ended."""
    started: list[subprocess.Popen[str]] = []

    def start_script(script: str, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
        started.append(_start(script, *arguments, **environment))
        return started[-1]

    yield start_script
    for run in started:
        run.kill()
        run.communicate()


def _start(script: str, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
    path = os.pathsep.join([environment.pop("PYTHONPATH", ""), str(ROOT)]).strip(os.pathsep)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        env={**inherited, "PREFECT_HOME": os.environ["PREFECT_HOME"], "PYTHONPATH": path, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.slow
@pytest.mark.prefect
def test_two_first_runs_at_once_need_no_server_and_no_network(start: Start, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WATCH_CONNECTIONS)
    connections = tmp_path / "connections"
    environment = {
        "PREFECT_HOME": str(tmp_path / "home"),
        "PYTHONPATH": str(tmp_path),
        "CONNECTIONS": str(connections),
        "HTTP_PROXY": "http://192.0.2.1:9",  # a proxy that nothing may be sent to
        "HTTPS_PROXY": "http://192.0.2.1:9",
    }
    runs = [start(FLOW, **environment) for _ in range(2)]
    for run in runs:
        output, errors = run.communicate(timeout=180)
        assert (run.returncode, errors) == (0, "")
        assert json.loads(output) == {"results": [9, 16], "artifact": [{"square": 9}, {"square": 16}]}
    hosts = {line.split()[1] for line in connections.read_text().splitlines()}
    assert "127.0.0.1" in hosts, "the watch saw nothing"
    assert all(ip_address(host).is_loopback for host in hosts), hosts


def process_runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.prefect
@pytest.mark.parametrize(
    ("moment", "how"),
    [("starting", signal.SIGKILL), ("running", signal.SIGKILL), ("running", signal.SIGINT)],
)
def test_the_server_ends_with_the_process(start: Start, moment: str, how: signal.Signals) -> None:
    run = start(WAIT_TO_BE_ENDED, moment)
    assert run.stdout is not None
    server = int(run.stdout.readline())
    if moment == "running":
        assert run.stdout.readline() == "running\n"
    os.killpg(run.pid, how)
    run.communicate(timeout=30)
    assert run.returncode == -how
    deadline = time.monotonic() + 15
    while process_runs(server) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not process_runs(server)


@pytest.mark.prefect
def test_a_broken_database_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "prefect.db").write_text("not a database")
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setattr(prefect_runtime, "_current", None)
    monkeypatch.setattr(prefect_runtime, "user_api_url", lambda: None)
    server = prefect_runtime.start_in_background()
    with pytest.raises(UserError, match=r"did not start: .*file is not a database.*Delete the folder") as caught:
        server.wait()
    assert str(tmp_path) in str(caught.value)
    assert "PREFECT_API_URL" not in os.environ


def test_a_home_that_cannot_be_made_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "file" / "home"))
    monkeypatch.setattr(prefect_runtime, "_current", None)
    monkeypatch.setattr(prefect_runtime, "user_api_url", lambda: None)
    with pytest.raises(UserError, match=r"could not be started in .*file/home: .*Not a directory"):
        prefect_runtime.start_in_background()


@pytest.fixture
def fresh_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder as working directory and home, and a process that has not imported Prefect."""
    for name in [name for name in os.environ if name.startswith("PREFECT_") or name == "XDG_CACHE_HOME"]:
        monkeypatch.delenv(name)
    monkeypatch.delitem(sys.modules, "prefect.context", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


URL = "http://prefect.example:4200/api"
PROFILES = f"""
active = "mine"
[profiles.mine]
PREFECT_API_URL = "{URL}"
[profiles.other]
PREFECT_API_URL = "http://other.example/api"
"""


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (".env", f"A=1\nexport PREFECT_API_URL='{URL}'\n"),
        ("prefect.toml", f'[api]\nurl = "{URL}"\n'),
        ("pyproject.toml", f'[tool.prefect.api]\nurl = "{URL}"\n'),
        (".prefect/profiles.toml", PROFILES),
    ],
)
def test_a_server_that_the_user_has_chosen_is_used(fresh_look: Path, file: str, text: str) -> None:
    path = fresh_look / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    assert prefect_runtime.user_api_url() == URL
    prefect_runtime.configure_prefect()
    assert "PREFECT_HOME" not in os.environ


def test_the_environment_chooses_the_server_first(fresh_look: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (fresh_look / "prefect.toml").write_text('[api]\nurl = "http://other.example/api"\n')
    monkeypatch.setenv("PREFECT_API_URL", URL)
    assert prefect_runtime.user_api_url() == URL


def test_the_environment_chooses_the_profile(fresh_look: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (fresh_look / ".prefect").mkdir()
    (fresh_look / ".prefect" / "profiles.toml").write_text(PROFILES)
    monkeypatch.setenv("PREFECT_PROFILE", "other")
    assert prefect_runtime.user_api_url() == "http://other.example/api"


@pytest.mark.parametrize("text", ["", "not [ toml", 'active = "mine"\n[profiles.mine]\n', "active = 3"])
def test_no_server_is_chosen(fresh_look: Path, text: str) -> None:
    (fresh_look / ".prefect").mkdir()
    (fresh_look / ".prefect" / "profiles.toml").write_text(text)
    assert prefect_runtime.user_api_url() is None


def test_the_users_own_home_is_not_touched(fresh_look: Path) -> None:
    prefect_runtime.configure_prefect()
    home = Path(os.environ["PREFECT_HOME"])
    assert home.parent == fresh_look / ".cache" / "agent-pareto"
    assert not (fresh_look / ".prefect").exists()


def test_what_the_user_has_set_is_kept(fresh_look: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = {"PREFECT_LOGGING_LEVEL": "DEBUG", "DO_NOT_TRACK": "0", "PREFECT_HOME": str(fresh_look / "mine")}
    for name, value in mine.items():
        monkeypatch.setenv(name, value)
    prefect_runtime.configure_prefect()
    assert {name: os.environ[name] for name in mine} == mine


def test_the_recorder_is_not_made_to_spin() -> None:
    # Prefect cuts the interval to whole seconds; at 0 its server keeps one core busy.
    assert int(float(prefect_runtime.DEFAULTS["PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL"])) >= 1


@pytest.mark.parametrize(
    ("before", "after"),
    [("", "127.0.0.1"), ("a.example", "a.example,127.0.0.1"), ("127.0.0.1", "127.0.0.1"), ("*", "*")],
)
def test_the_loopback_address_bypasses_a_proxy(before: str, after: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", before)
    prefect_runtime._bypass_proxies()
    assert os.environ["NO_PROXY"] == after
