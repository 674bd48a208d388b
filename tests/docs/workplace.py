"""A folder in which the README's commands run as written: ``lake``, and the tables, prices and traces of a reader."""

import shutil
import stat
import sys
from pathlib import Path

from pipelines.building import build_inputs, stages
from pipelines.lake.release import begin_release
from pipelines.reading.catalogues import SHIPPED, load_hardware, load_models, load_scenarios
from pipelines.reading.inputs import find_files
from pipelines.reading.read_inputs import read_inputs
from schemas.catalogue import HardwareCatalogue, ModelCatalogue
from schemas.options import BuildOptions
from tests.docs.page import ROOT, TEXT, blocks
from tests.pipelines.builds import carry_all
from tests.traces.test_command import table

#: What the README's questions are about. The default lake has the same rows of it: partitions know nothing of others.
TABLES = tuple(sorted((SHIPPED / "tables").rglob("*llama-3[.-]1-70b__*")))
HARDWARE = ("h100-sxm", "h200-sxm", "b200", "gb200", "mi355x", "h100-pcie")
MODEL = "llama-3-1-70b"

#: Programs that are not run here, by how their command begins, and why.
NOT_RUN = {
    "agent-pareto calibrate --tables load-tests --out": "tests/docs/test_calibration_page",
    "agent-pareto build --tables load-tests": "tests/docs/test_calibration_page",
    "agent-pareto plan --lake measured-lake": "tests/docs/test_calibration_page",
    "agent-pareto calibrate --tables load-tests --pilot": "needs measured agent runs; tests/agentic/test_pilots",
    "agent-pareto evaluate --runs": "needs measured agent runs; tests/agentic/test_pilots",
    "make run": "sets up an environment (tests/packaging); what it builds is built in test_default_lake",
    "pip install 'agent-pareto[aiconfigurator]'": "needs a package index and AIConfigurator",
    "agent-pareto build --source aiconfigurator": "needs AIConfigurator; tests/live has a stand-in for it",
    "agent-pareto schedule": "serves until stopped; tests/pipelines/building/test_schedule",
    "agent-pareto explorer --serve": "serves until stopped; tests/explorer/test_serve",
    "duckdb -readonly": "needs DuckDB's shell; tests/recipes/test_dashboards runs it in an environment of its own",
    "marimo run": "needs marimo; tests/recipes/test_dashboards runs it in an environment of its own",
    "pip install apache-superset": "needs Apache Superset; tests/recipes/test_superset",
}


def build_lake(folder: Path) -> None:
    """The default lake's rows of one model: four GPUs from the shipped tables, two from the roofline."""
    hardware = HardwareCatalogue(tuple(load_hardware().get(slug) for slug in HARDWARE))
    models = ModelCatalogue((load_models().get(MODEL),))
    options = BuildOptions(tables=TABLES, synthesize=True, out=folder)
    inputs = read_inputs(find_files(list(TABLES)), hardware, models)
    prepared = build_inputs.Prepared(options, hardware, models, tuple(load_scenarios()), inputs)
    with begin_release(folder) as release:
        carry_all(prepared, release)
        stages.publish(prepared, release)


def furnish(folder: Path) -> None:
    """What the README supposes beside the lake: the tables and prices that it shows, and traces."""
    write_files_shown(folder)
    tables, traces = folder / "my-tables", folder / "traces"
    traces.mkdir()
    shutil.copy(ROOT / "tests" / "sources" / "example" / "runs.csv", tables)
    (traces / "one.json").write_text(table())


def write_files_shown(folder: Path) -> None:
    """The files whose content the pages show, by the names that their commands have for them."""
    names = ("my-prices.yaml", "my-mix.yaml", "my-tables/source.yaml")
    for name, content in zip(names, blocks(TEXT, "yaml"), strict=True):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)


def install(folder: Path) -> None:
    """``.venv/bin/agent-pareto`` for shells: this interpreter and this checkout."""
    program = folder / ".venv" / "bin" / "agent-pareto"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m pipelines.cli "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
