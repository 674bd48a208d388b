"""The page on dashboards and notebooks, run as it is written, in an environment of its own."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from pipelines.lake.query import open_lake
from schemas.options import BuildOptions
from tests.pipelines.builds import build, write_small_tables
from tests.recipes.environments import environment, run

REPOSITORY = Path(__file__).parents[2]
PACKAGES = ("duckdb==2.0.1", "duckdb-cli==1.5.6", "pandas==3.1.1", "marimo==0.25.2", "altair==6.3.0")


def blocks(language: str) -> list[str]:
    """The fenced blocks of the section."""
    page = (REPOSITORY / "docs" / "dashboards.md").read_text(encoding="utf-8")
    section = page.split("## Dashboards and notebooks\n")[1].split("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```$", section, re.S | re.M)


@pytest.mark.slow
def test_shell_pandas_and_notebook(tmp_path: Path) -> None:
    python = environment(tmp_path / "venv", PACKAGES)
    tables = write_small_tables(tmp_path / "tables", rows=60)
    build(BuildOptions(tables=(tables,), out=python.parent / "lake"))
    with open_lake(python.parent / "lake") as lake:
        best = lake.frame(
            "SELECT hardware, scenario, max(tasks_per_hour_per_gpu) AS best FROM agent_frontier WHERE on_frontier "
            "GROUP BY ALL"
        )
    shell, notebook, superset = blocks("console")
    (pandas,) = blocks("python")

    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    shown = subprocess.run(
        ["sh", "-c", shell], cwd=python.parent, env={**os.environ, "PATH": path}, check=True, capture_output=True,
        text=True,
    ).stdout  # fmt: skip
    code_agent = best.filter(scenario="code-agent")["best"].max()
    assert f"{round(float(str(code_agent)))}.0" in shown
    assert "H200 SXM" in shown

    printed = run(python, f"{pandas}\nprint(best.stack().to_csv(header=False), end='')")
    seen = {tuple(line.split(",")[:2]): float(line.split(",")[2]) for line in printed.split()}
    assert seen == {(gpu, scenario): value for gpu, scenario, value in best.rows()}

    words = notebook.split()
    assert words[:2] == ["marimo", "run"]
    page = tmp_path / "notebook.html"
    command = [str(python.with_name("marimo")), "export", "html", str(REPOSITORY / words[2]), "-o", str(page)]
    subprocess.run([*command, *words[3:]], cwd=python.parent, check=True, capture_output=True)
    assert "points on the frontiers" in page.read_text()
    assert superset.startswith("pip install apache-superset")
