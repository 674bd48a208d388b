"""Apache Superset reads a lake: a chart through its API has the lake's rows, and after the next release its rows."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import duckdb
import pytest

from schemas.dictionary import column_comments
from schemas.options import BuildOptions
from tests.pipelines.builds import build, write_small_table, write_small_tables

PYTHON = os.environ.get("AGENT_PARETO_SUPERSET")
CONFIG = """
SECRET_KEY = "of a test that is deleted with its folder, 32 bytes and more"
SQLALCHEMY_DATABASE_URI = "sqlite:///{home}/superset.db"
WTF_CSRF_ENABLED = False
TALISMAN_ENABLED = False
"""
#: From the wide table, where Superset's chart takes the star.
BEST = """
    SELECT h.hardware_name, f.scenario_name, c.configuration, max(f.tasks_per_hour_per_gpu) AS best
    FROM agent_frontier f JOIN hardware h USING (hardware) JOIN dim_configuration c USING (configuration_id)
    WHERE f.on_frontier GROUP BY ALL ORDER BY best DESC
"""


def best_of(lake: Path) -> list[list[object]]:
    with duckdb.connect(str(lake / "agent_pareto.duckdb"), read_only=True) as connection:
        return [list(row) for row in connection.execute(BEST).fetchall()]


@pytest.mark.slow
@pytest.mark.skipif(PYTHON is None, reason="AGENT_PARETO_SUPERSET names no Python that has Apache Superset")
def test_a_chart_has_the_rows_of_the_lake(tmp_path: Path) -> None:
    assert PYTHON is not None
    config, home = tmp_path / "superset_config.py", tmp_path / "superset"
    home.mkdir()
    config.write_text(CONFIG.format(home=home))
    environment = {**os.environ, "SUPERSET_CONFIG_PATH": str(config), "SUPERSET_HOME": str(home)}
    environment.pop("PYTHONPATH", None)
    for step in ("db upgrade", "init"):
        command = [str(Path(PYTHON).with_name("superset")), *step.split()]
        subprocess.run(command, env={**environment, "FLASK_APP": "superset"}, check=True, capture_output=True)

    tables = write_small_tables(tmp_path / "tables", rows=60)
    options = BuildOptions(tables=(tables,), out=tmp_path / "lake")
    build(options)
    script = Path(__file__).with_name("superset_chart.py")
    with subprocess.Popen(
        [PYTHON, str(script), str(options.out)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    ) as superset:  # fmt: skip
        first = answer(superset)
        assert first["columns"] == column_comments("fact_agent_frontier")
        assert first["rows"] == best_of(options.out)
        assert first["rows"]
        write_small_table(tables, "h100-qwen.csv", 10_000)
        build(options)  # publishes under Superset's eyes
        assert superset.stdin is not None
        superset.stdin.write("again\n")
        superset.stdin.flush()
        second = answer(superset)
        assert second["rows"] == best_of(options.out)
        assert second["rows"] != first["rows"]
        superset.stdin.close()
        assert superset.wait() == 0


def answer(superset: subprocess.Popen[str]) -> dict[str, Any]:
    """The next line of JSON; what else Superset prints is passed over."""
    assert superset.stdout is not None
    for line in superset.stdout:
        if line.startswith("{"):
            found: dict[str, Any] = json.loads(line)
            return found
    raise AssertionError(f"Superset ended with {superset.wait()}")
