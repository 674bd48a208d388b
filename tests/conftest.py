"""What all tests share: quiet Prefect in a folder of its own, Hypothesis profiles, the tables beside the repository."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from pipelines.runners.prefect_runtime import PrefectServer

SHARED = Path(os.environ.get("AGENT_PARETO_SHARED", Path(__file__).parents[2] / "shared"))

hypothesis.settings.register_profile("dev", deadline=None, print_blob=True)
hypothesis.settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_configure() -> None:
    """Before anything imports Prefect: neither the developer's server and settings nor their database.

    Output is as in a pipe, however wide a terminal or a test runner is.
    """
    os.environ.pop("COLUMNS", None)
    for name in [name for name in os.environ if name.startswith("PREFECT_")]:
        del os.environ[name]
    home = tempfile.mkdtemp(prefix="agent-pareto-tests-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)  # runs after the server's own, which comes later
    os.environ["PREFECT_HOME"] = home
    os.environ["XDG_CONFIG_HOME"] = home  # nor the models that the developer has added

    from pipelines.runners.prefect_runtime import configure_prefect

    configure_prefect()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What the fault suite has tried, and how much of it failed."""
    reports = [report for found in terminalreporter.stats.values() for report in found]
    said = [value for report in reports if getattr(report, "when", "") == "call"
            for name, value in report.user_properties if name == "tried"]  # fmt: skip
    if said:
        terminalreporter.section("faults tried")
        for line in sorted(said):
            terminalreporter.line(str(line))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real tables, traces and worked cases, kept outside the repository."""
    if not SHARED.is_dir():
        pytest.skip(f"no tables at {SHARED}; AGENT_PARETO_SHARED names the folder")
    return SHARED


@pytest.fixture(scope="session")
def prefect_server() -> "PrefectServer":
    """The product's own temporary Prefect server, once per session: for tests that run a flow for real."""
    from pipelines.runners.prefect_runtime import start_in_background

    server = start_in_background()
    server.wait()
    return server
