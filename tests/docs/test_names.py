"""Options, commands, targets, columns, files and links that the README names exist."""

import importlib.util
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import typer.main

from pipelines.cli import app
from pipelines.reading.catalogues import load_hardware, load_models
from schemas.caches import LeastRecentlyUsedCache, TimeToLiveCache
from schemas.fields import BINDING_LIMITS, FIELDS, INFEASIBLE_REASONS
from schemas.options import BuildOptions
from schemas.prices import Price
from schemas.scenarios import Scenario
from schemas.sidecar import Sidecar
from schemas.tables import TABLES
from tests.docs.page import PAGES, ROOT, TEXT, anchors, commands, links, spans
from transforms.sources.agent_turns import TURN_SCHEMA

COMMAND = typer.main.get_command(app)
#: Folders and endings by which a piece of code in the text is a file of the repository.
FOLDERS = ("data/", "pipelines/", "schemas/", "tests/", "transforms/", ".figures/", ".ci/")
#: Names in code that are no column, table or field of a file: programs of others, and Python in the text.
OTHER_WORDS = {
    "bench_serving", "h200_sxm", "connect_args", "read_only", "hive_partitioning", "as_serving_rows", "runs_frame",
    "first_record", "header_of", "closed_loop",
}  # fmt: skip
#: Symbols of the equations in ``docs/model.md``, which shows columns and fields only where a span is one name.
SYMBOLS = {"t_mix", "t_dec", "t_weight", "n_mix", "n_dec"}
#: Files that stand where the text says, outside the repository.
LAKE_FILES = {
    "source.yaml",
    "config.json",
    "current.json",
    "manifest.json",
    "agent_pareto.duckdb",
    "DATA_DICTIONARY.md",
}


def parameters_of(command: Any) -> list[Any]:
    """The command's parameters, as its help has them."""
    parameters: list[Any] = command.get_params(typer.Context(command))
    return parameters


def options_of(command: Any) -> set[str]:
    """The long options of a command, of its commands too."""
    own = {option for parameter in parameters_of(command) for option in parameter.opts + parameter.secondary_opts}
    return own.union(*(options_of(inner) for inner in getattr(command, "commands", {}).values()))


def command_of(words: list[str]) -> tuple[Any, list[str]]:
    """The command that the words name, and what follows it."""
    command: Any = COMMAND
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], words[1:]
    return command, words


def named_commands() -> list[list[str]]:
    """Every command of the program that the README names, in blocks and in the text."""
    in_text = [span.split() for span in spans(TEXT)]
    words = [command.words for command in commands(TEXT)] + [span for span in in_text if span]
    named = [given[1:] for given in words if given[0] == "agent-pareto"]
    return named + [span for span in in_text if span[0] in COMMAND.commands and len(span) > 1]  # type: ignore[attr-defined]


def test_commands_and_their_options_exist() -> None:
    named = named_commands()
    assert len(named) > 20
    for words in named:
        command, rest = command_of(words)
        assert not hasattr(command, "commands") or not rest, f"{words} is no command"
        given = {word for word in rest if re.fullmatch(r"--[a-z][a-z-]*", word)}
        assert given <= options_of(command), words


def test_options_in_the_text_exist() -> None:
    named = {option for span in spans(TEXT) for option in re.findall(r"(?<!\S)--[a-z][a-z-]*", span)}
    assert len(named) > 15
    assert named <= options_of(COMMAND) | {"--help"}


def test_make_targets_and_benches_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`(?:\S+ )?make ([a-z-]+)", TEXT)) <= targets
    benches = set(re.findall(r"BENCH_ARGS=([a-z_]+)`", TEXT)) | set(
        re.findall(r"^## .*\(`([a-z_]+)`\)$", TEXT, re.MULTILINE)
    )
    assert len(benches) >= 5
    for bench in benches:
        assert importlib.util.find_spec(f"tests.bench.bench_{bench}"), bench


def test_the_catalogues_are_as_large_as_the_pages_say() -> None:
    text = " ".join((TEXT + (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")).split())
    sizes = re.findall(r"(\d+) GPUs, (\d+) models", text)
    assert len(sizes) == 2
    assert set(sizes) == {(str(len(tuple(load_hardware()))), str(len(tuple(load_models()))))}


def known_words() -> set[str]:
    """Names of columns, tables, fields of files, reasons and limits."""
    models = (BuildOptions, Scenario, Sidecar, Price, LeastRecentlyUsedCache, TimeToLiveCache)
    fields = {name for model in models for name in model.model_fields}
    return {*FIELDS, *TABLES, *TURN_SCHEMA, *fields, *INFEASIBLE_REASONS, *BINDING_LIMITS}


#: Pages of columns in files of others, which tests of their readers hold.
OF_OTHERS = {"traces.md"}


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name not in OF_OTHERS], ids=lambda page: str(page.relative_to(ROOT))
)
def test_columns_and_fields_exist(page: Path) -> None:
    words = {
        word
        for span in spans(page.read_text(encoding="utf-8"))
        if (page.name != "model.md" or re.fullmatch(r"[a-z0-9_]+", span))
        and "/" not in span
        and not span.endswith((".py", ".duckdb", ".yaml"))
        and not re.match("make|python", span)
        for word in re.findall(r"[a-z*][a-z0-9*]*(?:_[a-z0-9*]+)+", span)
    }
    known = known_words()
    unknown = {word for word in words - OTHER_WORDS - SYMBOLS if not any(fnmatchcase(name, word) for name in known)}
    assert unknown == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_and_links_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    files = {
        span for span in spans(text) if re.fullmatch(r"[\w./-]+", span) and "NAME" not in span and (
            span.startswith(FOLDERS) or span.endswith((".py", ".md", ".yaml", ".lock", ".svg", ".toml"))
        )
    }  # fmt: skip
    missing = {name for name in files - LAKE_FILES if not (ROOT / name).exists() and not (page.parent / name).exists()}
    assert {name for name in missing if not list((ROOT / "transforms").rglob(name))} == set()
    for link in links(text):
        if not link.startswith(("http://", "https://")):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), link
            assert not anchor or anchor in anchors(target.read_text(encoding="utf-8")), link
