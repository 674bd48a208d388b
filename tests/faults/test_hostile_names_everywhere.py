"""Hostile names of GPUs, models, engines, versions, settings, scenarios, prices, releases: text in every output.

Nothing runs, nothing leaves its folder, no answer drives the terminal, no command ends in a traceback.
"""

import csv
import io
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from pipelines.cli import app
from pipelines.lake.formats import _FORMULA_STARTS
from pipelines.reading.catalogues import load_models
from schemas.errors import UserError
from schemas.slugs import is_slug
from tests.faults.hostile_lake import NAMES, TRACE, build_lake
from tests.faults.tries import Tally

pytestmark = pytest.mark.slow

#: Programs that an emitted script starts: they write down their arguments.
PROGRAMS = ("vllm", "python3", "trtllm-serve")
SETTINGS = "select distinct setting from agent_points"
LAUNCHERS = ("vllm", "sglang", "trtllm", "dynamo")
CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "torch_dtype": "bfloat16", "tie_word_embeddings": False, "max_position_embeddings": 8192, "hidden_act": "silu",
}  # fmt: skip


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("hostile")
    built = build_lake(folder / "in")
    yield built
    assert sorted(path.name for path in folder.iterdir()) == ["in"]
    assert not list(folder.rglob(TRACE))


def run(*arguments: object) -> Result:
    """The command, which answers or refuses in a sentence, on a terminal's terms but for CSV, which a file gets."""
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit | UserError), result.exception
    assert result.exit_code in (0, 1, 2)
    if "csv" not in arguments:
        assert result.output.replace("\n", "").isprintable()
    return result


def answered(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.output


def check_cells(text: str) -> None:
    """No cell of text begins a formula."""
    for row in csv.reader(io.StringIO(text, newline="")):
        for cell in row:
            assert not cell.startswith(_FORMULA_STARTS) or re.fullmatch(r"-?[\d.e+-]+", cell), cell[:80]


def check_script(script: str, checkpoint: str, folder: Path) -> None:
    """The script runs its engine, the checkpoint one of its arguments, and nothing else."""
    programs = folder / "bin"
    programs.mkdir(parents=True)
    for name in PROGRAMS:
        (programs / name).write_text('#!/bin/sh\nprintf "%s\\n" "$0" "$@" >> "$OUT"\n')
        (programs / name).chmod(0o755)
    work = folder / "work"
    work.mkdir()
    ran = subprocess.run(
        ["/bin/sh", "-eu"], input=script, text=True, cwd=work, timeout=20, check=True, capture_output=True,
        env={"PATH": f"{programs}:/usr/bin:/bin", "OUT": str(folder / "arguments")},
    )  # fmt: skip
    assert ran.stderr == ""
    assert checkpoint in (folder / "arguments").read_text().splitlines()
    assert {path.name for path in work.iterdir()} <= {"engine.yaml"}


def check_page(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert f"<script>window.{TRACE}" not in text
    assert "<img src=x" not in text


def point(lake: Path, number: int) -> tuple[object, ...]:
    return "--model", f"m-{number}", "--scenario", "plain", "--lake", lake


def figures(lake: Path, number: int, folder: Path) -> None:
    page, picture = folder / "page.html", folder / "figure.svg"
    answered("frontier", "--hardware", f"gpu-{number}", *point(lake, number), "--html", page, "--svg", picture)
    check_page(page)
    check_page(picture)


def tables(lake: Path, number: int, folder: Path) -> None:
    frontier = ("frontier", "--hardware", f"gpu-{number}", *point(lake, number))
    plan = ("plan", "--sessions", 32, *point(lake, number))
    check_cells(answered(*frontier, "--format", "csv"))
    assert json.loads(answered(*frontier, "--format", "json"))
    answered(*plan)
    check_cells(answered(*plan, "--format", "csv"))
    answered("what-if", *point(lake, number), "--think-time-s", 3)


def launches(lake: Path, number: int, folder: Path) -> None:
    checkpoint = load_models(lake.parent / "models.yaml").get(f"m-{number}").checkpoint
    for launcher in LAUNCHERS:
        script = answered("plan", *point(lake, number), "--sessions", 32, "--emit", launcher)
        check_script(script, checkpoint or "CHECKPOINT", folder / launcher)


def asked_for(lake: Path, number: int, folder: Path) -> None:
    name = NAMES[number]
    run("frontier", f"--hardware={name}", *point(lake, number))
    run("plan", *point(lake, number), "--sessions", 32, f"--engine={name}")
    run("plan", *point(lake, number), "--sessions", 32, f"--price={name}=3")
    run("models", "show", "--catalogue", lake.parent / "models.yaml", "--", f"{name} model")
    run("releases", "rollback", "--lake", lake, "--", name)
    run("query", f"select 1 as {json.dumps(name)}", "--lake", lake)


def test_answers(lake: Path, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    tally = Tally(record_property, "hostile names")
    for number, name in enumerate(NAMES):
        for attempt in (figures, tables, launches, asked_for):
            folder = tmp_path / f"{number}-{attempt.__name__}"
            folder.mkdir()
            tally.trial(attempt.__name__, partial(attempt, lake, number, folder), repr(name[:30]))
    tally.finish()


def test_whole_lake(lake: Path, tmp_path: Path) -> None:
    """SQL in every format, the explorer's files, engines fitted and read again, catalogues, partitions."""
    given = ("--hardware", lake.parent / "hardware.yaml", "--models", lake.parent / "models.yaml")
    for table in ("dim_configuration", "agent_points", "hardware", "models", "prices", "scenarios", "serving_points"):
        for form in ("table", "json"):
            answered("query", f"from {table}", "--lake", lake, "--format", form)
        check_cells(answered("query", f"from {table}", "--lake", lake, "--format", "csv"))
    settings = json.loads(answered("query", SETTINGS, "--lake", lake, "--format", "json"))
    assert {row["setting"] for row in settings} == set(NAMES)
    answered("explorer", "--lake", lake, "--out", tmp_path / "site")
    for path in (tmp_path / "site").rglob("*.html"):
        check_page(path)
    engines = tmp_path / "engines.yaml"
    said = answered("calibrate", "--tables", lake.parent / "tables", *given, "--out", engines)
    tests = [test for engine in yaml.safe_load(engines.read_text())["engines"] for test in engine["next_tests"]]
    assert tests
    assert TRACE not in {word for line in (*said.splitlines(), *tests) for word in line.split()[:1]}
    answered("hardware", "list", "--hardware", given[1])
    answered("models", "list", "--catalogue", given[3])
    answered("check", "--tables", lake.parent / "tables", *given)
    partitions = [path for path in (lake / "releases").rglob("*=*") if path.is_dir()]
    assert partitions
    assert all(re.fullmatch(r"[a-z]+=[a-z0-9-]+", path.name) for path in partitions)


def test_models_that_are_added(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    catalogue = tmp_path / "models.yaml"
    for name in NAMES:
        run("models", "add", tmp_path / "config.json", f"--name={name}", "--catalogue", catalogue)
        run("models", "list", "--catalogue", catalogue)
    run("models", "add", tmp_path / "config.json", "--name=a\0b", "--catalogue", catalogue)
    shipped = {spec.slug for spec in load_models()}
    added = [spec for spec in load_models(catalogue) if spec.slug not in shipped]
    assert len(added) > 15
    assert all(is_slug(spec.slug) for spec in added)
    assert {path.name for path in tmp_path.iterdir()} == {"config.json", "models.yaml"}
    again = run("models", "add", tmp_path / "config.json", "--name=CAF\u00c9", "--catalogue", catalogue)
    assert again.exit_code != 0  # the same name but for its case


def test_folders_that_are_no_releases(lake: Path, tmp_path: Path) -> None:
    """Folders of hostile names beside the releases are none: listed as such or passed over, never followed."""
    own = tmp_path / "lake"
    shutil.copytree(lake, own)
    for name in NAMES:
        if "/" not in name and len(name) < 200 and name != "..":
            (own / "releases" / name).mkdir()
            (own / "releases" / name / "manifest.json").write_text(json.dumps({"id": name}))
    for command in (("list",), ("verify",), ("prune", "--keep", 1), ("relink",)):
        run("releases", *command, "--lake", own)
    answered("query", "select count(*) from agent_points", "--lake", own)
