"""`prefect.yaml` on a real work pool: deployed as it says, a worker runs the build in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pipelines.building.summary import FIRST_QUERY
from pipelines.lake.reader import current_release
from tests.pipelines.builds import write_small_tables

if TYPE_CHECKING:
    from pipelines.runners.prefect_runtime import PrefectServer

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.prefect
def test_a_worker_of_the_pool_runs_the_deployed_build(tmp_path: Path, prefect_server: "PrefectServer") -> None:
    """The commands that stand in prefect.yaml, with parameters for a small build."""
    tables, lake = write_small_tables(tmp_path / "tables", rows=10), tmp_path / "lake"
    environment = {**os.environ, "PREFECT_API_URL": prefect_server.url, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}

    def prefect(*arguments: str) -> str:
        command = [sys.executable, "-m", "prefect", *arguments]
        done = subprocess.run(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    prefect("work-pool", "create", "agent-pareto", "--type", "process")
    prefect("--no-prompt", "deploy", "--name", "nightly")
    options = {"out": str(lake), "tables": [str(tables)], "scenarios": ["code-agent"], "synthesize": False}
    prefect(
        "deployment", "run", "agent-pareto scheduled build/nightly",
        "--param", f"options={json.dumps(options)}", "--param", 'run={"keep": 5}',
    )  # fmt: skip
    said = prefect("worker", "start", "--pool", "agent-pareto", "--run-once")
    release = current_release(lake)
    assert f"Release {release.id} in {lake}" in said
    assert f'Try: agent-pareto query "{FIRST_QUERY}" --lake {lake}' in said
    assert release.manifest["tables"]["agent_points"]["rows"] > 0
