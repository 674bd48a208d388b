"""Prefect with no server to run, no account and no telemetry, and with as little start-up as possible.

Prefect keeps its runs behind an HTTP API. Where the user has no server it starts a temporary one, in sequence
and with services that a single flow has no use for. Here the same server (`prefect_server.py`) is started as a
child while the caller still reads its files, and Prefect finds it through `PREFECT_API_URL`:

    server = start_in_background()
    ...                                # read the inputs, import prefect
    server.wait()
    a_flow()

The child ends with this process, also when that is killed. Whatever the user has set is left alone; an API URL
in the environment, a profile, `prefect.toml`, `.env` or `pyproject.toml` means that no server is started.
"""

from __future__ import annotations

import atexit
import importlib.metadata
import logging
import os
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import IO, Any

from pipelines.user_cache import user_cache
from schemas.errors import UserError

START_TIMEOUT_SECONDS = 120
STOP_TIMEOUT_SECONDS = 12.0

#: What a build needs and no more. Each is a default: a value that the user has set wins.
DEFAULTS = {
    # No telemetry: the library's own (it reports from interactive terminals) and the server's.
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    # The progress display belongs to the command; Prefect speaks up from WARNING on.
    "PREFECT_LOGGING_LEVEL": "WARNING",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    "PREFECT_SERVER_UI_ENABLED": "false",
    # For the server that Prefect starts itself, should a flow run without ours: 20 s is too short when cold.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": str(START_TIMEOUT_SECONDS),
    # Registering the block types takes 0.8 s on a cold database, and comparing them imports every Prefect
    # integration that is installed; no block is used here.
    "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "false",
    "PREFECT_SERVER_MEMOIZE_BLOCK_AUTO_REGISTRATION": "false",
    # A SQLite file has one writer. With the feed of events written beside the runs, and the task runs one by
    # one, most flows of 20 tasks met a locked database and lost 2 s to the client's first back-off.
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "50",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "50",
    # Whole seconds: a fraction is cut to 0, and the server then spins on one core.
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
}


def configure_prefect() -> None:
    """Set Prefect's defaults in the environment; call it before anything imports Prefect."""
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    if not os.environ.get("PREFECT_HOME") and user_api_url() is None:
        os.environ["PREFECT_HOME"] = str(_own_home())


def _own_home() -> Path:
    """The folder of Prefect's database: not the user's `~/.prefect`, and one per Prefect version.

    It is a cache: deleting it costs the history of runs and one slow start.
    """
    version = importlib.metadata.version("prefect")
    try:
        home = user_cache() / f"prefect-{version}"
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home):
            return home
    except (OSError, RuntimeError):  # no home folder, or one that cannot be written
        temporary = Path(tempfile.mkdtemp(prefix="agent-pareto-prefect-"))
        atexit.register(shutil.rmtree, temporary, ignore_errors=True)
        return temporary


def user_api_url() -> str | None:
    """The API URL that the user has chosen for Prefect, from the places where Prefect looks, or None."""
    if "prefect.context" in sys.modules:  # Prefect has already looked
        from prefect.settings import get_current_settings

        return get_current_settings().api.url
    home = Path(os.environ.get("PREFECT_HOME") or Path("~/.prefect")).expanduser()
    profiles = Path(os.environ.get("PREFECT_PROFILES_PATH") or home / "profiles.toml").expanduser()
    profile = os.environ.get("PREFECT_PROFILE") or _toml_text(profiles, "active") or ""
    return (
        os.environ.get("PREFECT_API_URL")
        or _dotenv_text(Path(".env"), "PREFECT_API_URL")
        or _toml_text(Path("prefect.toml"), "api", "url")
        or _toml_text(Path("pyproject.toml"), "tool", "prefect", "api", "url")
        or _toml_text(profiles, "profiles", profile, "PREFECT_API_URL")
    )


def _toml_text(path: Path, *keys: str) -> str | None:
    """The text at `keys` of a TOML file; None where there is none, or no readable file."""
    try:
        value: Any = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return None
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) and value else None


def _dotenv_text(path: Path, name: str) -> str | None:
    """The value of `name` in a file of NAME=value lines; None where there is none, or no readable file."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    for line in lines:
        left, _, value = line.strip().removeprefix("export ").partition("=")
        if left.strip() == name:
            return value.strip(" '\"") or None
    return None


class PrefectServer:
    """The user's own server, or a child process that serves this process and ends with it."""

    def __init__(
        self,
        url: str,
        child: subprocess.Popen[bytes] | None = None,
        log: IO[bytes] | None = None,
        *,
        heartbeats: bool = True,
    ) -> None:
        self.url = url
        self._child = child
        self._log = log
        self._heartbeats = heartbeats
        self._owner = os.getpid()
        self._ready = False

    @property
    def alive(self) -> bool:
        """Whether a child of this process serves, or is about to."""
        return self._child is not None and self._child.poll() is None and self._owner == os.getpid()

    def wait(self, timeout: float = START_TIMEOUT_SECONDS) -> None:
        """Block until the server answers, at most `timeout` seconds. Raises UserError if it does not."""
        if self._ready:
            return
        if self._child is None:
            _ask(self.url)
            self._ready = True
            return
        assert self._child.stdout is not None
        if not select.select([self._child.stdout], [], [], timeout)[0]:
            self._fail(f"it gave no answer within {timeout:g} s")
        if self._child.stdout.readline().strip() != b"ready":
            self._fail("it ended at once")
        self._ready = True
        # At exit it warns of what it has still to send, even where that takes a moment only.
        logging.getLogger("EventsWorker").setLevel(logging.ERROR)
        if not self._heartbeats:
            _silence_heartbeats()

    def stop(self) -> None:
        """End the child and wait for it: at exit, once Prefect has sent its last events. Harmless twice."""
        child, self._child = self._child, None
        if child is None or os.getpid() != self._owner:
            return
        atexit.unregister(self.stop)
        try:
            _end(child, STOP_TIMEOUT_SECONDS if self._ready else 0.0)
        finally:
            if self._log is not None:
                self._log.close()
            if os.environ.get("PREFECT_API_URL") == self.url:
                del os.environ["PREFECT_API_URL"]
                _refresh_settings()

    def _fail(self, why: str) -> None:
        log_line = ""
        if self._log is not None:
            self._log.seek(0)
            lines = self._log.read().decode("utf-8", "replace").strip().splitlines()
            errors = [line for line in lines if re.match(r"[\w.]+(Error|Exception): ", line)]
            log_line = f" Its log says: {(errors or lines)[-1].strip(' .')}." if lines else ""
        self.stop()
        raise UserError(
            f"Prefect's local server did not start: {why}.{log_line} Delete the folder "
            f"{os.environ.get('PREFECT_HOME')} and try again, or set PREFECT_API_URL to a server that runs."
        )


def _ask(url: str) -> None:
    """Raises UserError where the user's own server does not answer; a password in its address is not repeated."""
    from prefect.client.orchestration import get_client

    problem: Exception | None
    try:
        with get_client(sync_client=True) as client:
            problem = client.api_healthcheck()
    except (OSError, RuntimeError) as error:  # of another version, too
        problem = error
    if problem is not None:
        address = re.sub(r"//[^/@]*@", "//", url)
        why = (str(problem).splitlines() or [""])[0].replace(url, address) or type(problem).__name__
        raise UserError(
            f"No Prefect server can be used at {address} ({why.strip(' .')}). Start it, or unset PREFECT_API_URL: then "
            "this process has a server of its own."
        )


def _end(child: subprocess.Popen[bytes], timeout: float) -> None:
    """Close the child's standard input, by which it ends; kill it if it has not after `timeout` seconds."""
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        child.stdin.close()
        child.wait(timeout)
    except subprocess.TimeoutExpired:
        pass
    finally:  # also when Ctrl-C comes while we wait
        child.kill()
        child.wait()
        child.stdout.close()


_current: PrefectServer | None = None


def start_in_background(*, scheduler: bool = False) -> PrefectServer:
    """Start the local server without waiting for it (some 10 ms); a second call gives the same server.

    `scheduler` adds the services that start scheduled runs, for a process that serves deployments. Raises
    UserError where no process, socket or folder can be made.
    """
    global _current
    if _current is not None and _current.alive:
        return _current
    configure_prefect()
    if (url := user_api_url()) is not None:
        _current = PrefectServer(url)
        return _current
    home = Path(os.environ["PREFECT_HOME"]).expanduser()
    log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop
    try:
        home.mkdir(parents=True, exist_ok=True)
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(128)
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/api"
            program = [sys.executable, "-P", str(Path(__file__).with_name("prefect_server.py"))]
            arguments = [str(listener.fileno()), str(home / "start.lock")]
            child = subprocess.Popen(
                program + arguments + (["--scheduler"] if scheduler else []),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None if "PREFECT_SERVER_LOGGING_LEVEL" in os.environ else log,
                pass_fds=[listener.fileno()],
                start_new_session=True,  # the terminal's Ctrl-C is not for it
            )
    except OSError as error:
        log.close()
        raise UserError(f"Prefect's local server could not be started in {home}: {error}.") from error
    _current = PrefectServer(url, child, log, heartbeats=scheduler)
    atexit.register(_current.stop)
    os.environ["PREFECT_API_URL"] = url
    _bypass_proxies()
    _refresh_settings()
    return _current


def _bypass_proxies() -> None:
    """Keep the loopback address off a proxy that the environment names."""
    for name in ("NO_PROXY", "no_proxy"):
        hosts = os.environ.get(name, "")
        if hosts != "*" and "127.0.0.1" not in hosts.split(","):
            os.environ[name] = f"{hosts},127.0.0.1".lstrip(",")


def _refresh_settings() -> None:
    """Make a Prefect that is already imported read the environment again."""
    if "prefect.context" in sys.modules:
        from prefect.context import refresh_global_settings_context

        refresh_global_settings_context()


def _silence_heartbeats() -> None:
    """Switch off the heartbeats of flow runs, which make the end of each flow wait for up to 1 s.

    They let a server notice a run that died; this server dies with the run. The setting's "never" is None,
    which no environment variable can say.
    """
    if "PREFECT_FLOWS_HEARTBEAT_FREQUENCY" in os.environ:
        return
    from prefect.settings import get_current_settings

    get_current_settings().flows.heartbeat_frequency = None
