"""Clients of DuckDB 1.4 and of the newest one open the lake's DuckDB file and see the same."""

import json
import sys
from pathlib import Path

import pytest

from schemas.options import BuildOptions
from schemas.tables import TABLES
from tests.pipelines.builds import build, write_small_tables
from tests.recipes.environments import environment, run

SEES = """
import duckdb, json, sys
with duckdb.connect(sys.argv[1], read_only=True) as connection:
    def rows(sql):
        return connection.execute(sql).fetchall()
    tables = sorted(name for name, *_ in rows("SHOW TABLES"))
    best = rows('''
        SELECT hardware_name, scenario_name, configuration, max(tasks_per_hour_per_gpu) AS best
        FROM fact_agent_frontier JOIN dim_hardware USING (hardware) JOIN dim_scenario USING (scenario)
        JOIN dim_configuration USING (configuration_id) WHERE on_frontier GROUP BY ALL ORDER BY ALL''')
    print(json.dumps({
        "version": duckdb.__version__,
        "counts": {name: rows(f"SELECT count(*) FROM {name}")[0][0] for name in tables},
        "comments": rows(
            "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal ORDER BY ALL"
        ),
        "best": best,
    }))
"""


@pytest.mark.slow
def test_duckdb_1_4_sees_what_the_newest_sees(tmp_path: Path) -> None:
    python = environment(tmp_path / "venv", ["duckdb==1.4.*"])
    tables = write_small_tables(tmp_path / "tables", rows=60)
    build(BuildOptions(tables=(tables,), out=tmp_path / "lake"))
    database = str(tmp_path / "lake" / "agent_pareto.duckdb")
    older, newer = (json.loads(run(path, SEES, database)) for path in (python, Path(sys.executable)))
    assert older.pop("version").startswith("1.4.")
    assert newer.pop("version").startswith("2.")
    assert older == newer
    assert set(older["counts"]) == set(TABLES) - {"measured_agentic", "evaluation"}
    assert min(older["counts"][name] for name in TABLES if name.startswith(("dim_", "fact_"))) > 0
    assert older["best"]
    assert all(comment for *_, comment in older["comments"])
