"""Hostile names through the doors of each medium: everywhere text."""

import io
import json
from pathlib import Path

import pytest

from pipelines.answering.figures import write_figure
from pipelines.lake.formats import write_csv
from pipelines.terminal import print_table, terminal_text

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
