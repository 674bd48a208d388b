"""Hostile names through the doors of each medium: everywhere text."""

import ast
import io
import json
from pathlib import Path

import pytest

import pipelines
from pipelines.answering.figures import write_figure
from pipelines.commands.output import print_json
from pipelines.lake.formats import write_csv, write_json
from pipelines.terminal import print_table, say, terminal_text

NAMES = (
    "</script><script>window.INJECTED=1</script>",
    '<img src=x onerror="window.INJECTED=1">',
    "<!--<script>",
    "[link=http://example.invalid]here[/link] [/b] [bold]",
    "\x1b[31mred\x1b]0;title\x07\x9b1m",
    "=1+1",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_terminal_gets_text(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_table((name, "n"), [(name, "1")], caption=name)
    out = capsys.readouterr().out
    assert out.count(terminal_text(name)) == 3
    assert out.replace("\n", "").isprintable()


@pytest.mark.parametrize("name", NAMES[:3])
def test_a_page_holds_no_tag_of_a_name(name: str, tmp_path: Path) -> None:
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "title": name,
        "data": {"values": [{"engine": name}]},
        "mark": "point",
        "encoding": {"tooltip": [{"field": "engine", "title": name}]},
    }
    page = tmp_path / "page.html"
    write_figure(spec, "html", page)
    text = page.read_text()
    assert name not in text
    assert json.dumps(name)[1:-1].replace("<", "\\u003c") in text
    write_figure(spec, "svg", tmp_path / "figure.svg")
    assert "<script" not in (tmp_path / "figure.svg").read_text()


def test_no_cell_of_a_csv_begins_a_formula() -> None:
    out = io.StringIO()
    write_csv(out, ["=a", "b"], [["=1+1", -1.5], ["+1", -2], ["@x", None], ["-1", "\tx"], ["\rx", "plain"]])
    assert out.getvalue().split("\r\n") == [
        "'=a,b", "'=1+1,-1.5", "'+1,-2", "'@x,", "'-1,'\tx", "\"'\rx\",plain", "",
    ]  # fmt: skip


CONTROLS = "a\x1b[31m\x7f\x9b1mb"
#: What may print without the door: the door itself, figures of plotext, and the worker of another environment.
PRINTS = {"pipelines/terminal.py": 6, "pipelines/commands/frontier.py": 1, "pipelines/commands/output.py": 1,
          "pipelines/live/worker.py": 3}  # fmt: skip


def test_all_that_is_said_goes_through_one_door() -> None:
    package = Path(pipelines.__file__).parent
    found = {
        path.relative_to(package.parent).as_posix(): count
        for path in sorted(package.rglob("*.py"))
        if (count := sum(_writes_to_a_terminal(node) for node in ast.walk(ast.parse(path.read_text()))))
    }
    assert found == PRINTS


def _writes_to_a_terminal(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) in {
        "print", "typer.echo", "typer.secho", "click.echo", "rich.print", "sys.stdout.write", "sys.stderr.write",
    }  # fmt: skip


def test_what_is_said_holds_no_control_character(capsys: pytest.CaptureFixture[str]) -> None:
    say(CONTROLS)
    say(CONTROLS, err=True)
    assert capsys.readouterr() == ("a\\x1b[31m\\x7f\\x9b1mb\n",) * 2


def test_json_keeps_its_meaning_and_holds_no_control_character(capsys: pytest.CaptureFixture[str]) -> None:
    out = io.StringIO()
    write_json(out, [CONTROLS], [[CONTROLS], [{CONTROLS: [CONTROLS]}]])
    print_json({CONTROLS: CONTROLS})
    printed = capsys.readouterr().out
    assert json.loads(out.getvalue()) == [{CONTROLS: CONTROLS}, {CONTROLS: {CONTROLS: [CONTROLS]}}]
    assert json.loads(printed) == {CONTROLS: CONTROLS}
    assert (out.getvalue() + printed).replace("\n", "").isprintable()


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_csv_on_a_terminal_is_escaped_and_in_a_file_is_not() -> None:
    terminal, file = _Terminal(), io.StringIO()
    for out in (terminal, file):
        write_csv(out, ["name"], [[CONTROLS]])
    assert terminal.getvalue() == "name\r\na\\x1b[31m\\x7f\\x9b1mb\r\n"
    assert file.getvalue() == f"name\r\n{CONTROLS}\r\n"
