"""The README's commands on the default lake's rows of one model: they run, and print what the README shows."""

import glob
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from tests.docs.page import PROSE, ROOT, TEXT, Command, commands, lines_of
from tests.docs.workplace import NOT_RUN, build_lake, furnish

COMMANDS = list(dict.fromkeys(commands(TEXT)))
RUN = [command for command in COMMANDS if not command.text.startswith(tuple(NOT_RUN))]
#: Builds run a flow, and other models are not in the lake here; test_default_lake has both.
HERE = [
    command for command in RUN
    if command.words[1] != "build" and set(re.findall(r"--model (\S+)", command.text)) <= {"llama-3.1-70b"}
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("readme")
    build_lake(folder / "lake")
    furnish(folder)
    before = Path.cwd()
    os.chdir(folder)
    yield folder
    os.chdir(before)


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_every_command_is_run_or_has_a_reason() -> None:
    assert [command.text for command in RUN if command.words[0] != "agent-pareto"] == []
    for beginning in NOT_RUN:
        assert [command.text for command in COMMANDS if command.text.startswith(beginning)], beginning
    assert len(HERE) >= 7
    assert sum(command.shown is not None for command in HERE) >= 2


@pytest.mark.parametrize("command", HERE, ids=lambda command: " ".join(command.words[1:3])[:30])
def test_a_command_runs_and_prints_what_is_shown(command: Command) -> None:
    words = [path for word in command.words[1:] for path in (sorted(glob.glob(word)) if "*" in word[:20] else [word])]
    printed = run(*words)
    if command.shown is not None:
        assert lines_of(printed) == command.shown


def marks(picture: Path) -> list[tuple[str, float, float]]:
    """Look and place of every point of a figure, in thousandths of a pixel."""
    found = re.findall(r'<path transform="translate\(([-.0-9]+),([-.0-9]+)\)" (d="[^>]*)/>', picture.read_text())
    return sorted((look, round(float(x), 3), round(float(y), 3)) for x, y, look in found)


def test_the_picture_is_made_by_the_command_below_it(workplace: Path) -> None:
    """The same points in the same places, whatever letters the machine draws with."""
    (command,) = (command for command in HERE if "--svg" in command.words)
    run(*command.words[1:])
    shown = marks(ROOT / ".figures" / "frontier.svg")
    assert len(shown) > 1_000
    assert marks(workplace / command.words[-1]) == shown


def test_what_longer_pauses_do() -> None:
    (sentence,) = re.findall(r"per H200 fall from (\S+) to (\S+), on (\S+) sessions a GPU in\s+place of (\S+)\.", PROSE)
    (command,) = (command for command in HERE if command.words[1] == "what-if" and "--think-time-s" in command.words)
    changes = json.loads(run(*command.words[1:], "--format", "json"))
    tasks, sessions = (
        next(row for row in changes if (row["point"], row["figure"]) == ("most_tasks", figure))
        for figure in ("tasks_per_hour_per_gpu", "sessions_per_gpu")
    )
    shown = [f"{tasks['before']:.0f}", f"{tasks['after']:.0f}"]
    assert sentence == (*shown, f"{sessions['after']:.1f}", f"{sessions['before']:.1f}")


def test_the_operating_point() -> None:
    (sentence,) = re.findall(r"turn in (\S+) s \(p99 (\S+) s\); eight B200\s+in (\S+) s \(p99 (\S+) s", PROSE)
    rows = json.loads(
        run(
            "query",
            "select min(turn_latency_ms) as mean, arg_min(turn_latency_p99_ms, turn_latency_ms) as p99 "
            "from operating_points where scenario = 'code-agent' and weight_dtype = 'bf16' and feasible "
            "and sessions_admitted = 32 and hardware in ('h100-sxm', 'b200') group by hardware order by hardware desc",
            "--format",
            "json",
        )
    )
    assert list(sentence) == [f"{row[name] / 1000:.1f}" for row in rows for name in ("mean", "p99")]
