"""Names that hold a script, markup and terminal escapes are text in the figure, the explorer and every command."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.explorer.site import Site
from pipelines.explorer.write import write_site
from schemas.options import BuildOptions
from tests.explorer.browser import chromium, needs_chromium, served, watched_page
from tests.pipelines.builds import build

SCRIPT = "</script><script>window.INJECTED=1</script><img src=x onerror='window.INJECTED=1'>"
TABLE = """prompt,output,users,ttft,tpot,tok/s
4000,1000,8,0.42,14.1,551.0
4000,1000,16,0.55,17.0,909.0
4000,1000,32,0.90,23.5,1303.0
"""
SIDECAR = f"""
run: spring
measured_at: 2026-03-01
hardware: h100-sxm
model: llama-3-1-70b
weight_dtype: fp8
kv_dtype: fp8
attention_dtype: bf16
backend: "{SCRIPT}\\e[31mX\\e]0;title\\a[link=http://example.invalid]y[/link] [/b]"
tp: 4
format: generic
columns:
  isl_tokens: {{column: prompt, unit: tokens}}
  osl_tokens: {{column: output, unit: tokens}}
  concurrency_reported: {{column: users, unit: requests}}
  ttft_ms: {{column: ttft, unit: s}}
  tpot_ms: {{column: tpot, unit: ms}}
  output_tokens_per_s: {{column: tok/s, unit: tokens/s}}
"""
SCENARIO = f"""
scenarios:
- slug: plain
  name: "{SCRIPT}=1+1"
  source: "made up [link=http://example.invalid]here[/link] [/b]"
  turns: 8
  think_time_s: 0.5
  initial_prompt_tokens: 16000
  first_turn_new_tokens: 500
  new_tokens_per_turn: 500
  output_tokens_per_turn: 128
  output_retention_fraction: 1.0
  cache_hit_rate: 0.95
  sessions: 32
  gpus: 8
"""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("names")
    (folder / "tables").mkdir()
    (folder / "tables" / "runs.csv").write_text(TABLE)
    (folder / "tables" / "source.yaml").write_text(SIDECAR)
    (folder / "scenarios.yaml").write_text(SCENARIO)
    tables, scenarios = (folder / "tables",), (str(folder / "scenarios.yaml"),)
    build(BuildOptions(tables=tables, scenarios=scenarios, synthesize=False, out=folder / "lake"), full=True)
    return folder / "lake"


POINT = ("--model", "llama-3-1-70b", "--scenario", "plain")


@pytest.mark.parametrize(
    "arguments",
    [
        ("frontier", "--hardware", "h100-sxm", *POINT),
        ("what-if", *POINT, "--think-time-s", "3"),
        ("plan", *POINT, "--sessions", "32"),
        ("query", "select distinct backend, scenario_name from agent_points"),
        ("query", "select distinct backend, scenario_name from agent_points", "--format", "json"),
        ("releases", "list"),
    ],
)
def test_commands_print_text(hostile: Path, arguments: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*arguments, "--lake", str(hostile)])
    assert result.exception is None, result.exception
    assert result.output.replace("\n", "").isprintable()


@pytest.mark.slow
def test_no_page_runs_a_script_of_a_name(hostile: Path, tmp_path: Path) -> None:
    needs_chromium()
    figure = ("--html", str(tmp_path / "figure.html"), "--svg", str(tmp_path / "figure.svg"))
    result = CliRunner().invoke(app, ["frontier", "--hardware", "h100-sxm", *POINT, "--lake", str(hostile), *figure])
    assert result.exception is None, result.exception
    write_site(Site(hostile), tmp_path / "site")
    with chromium() as browser, served(tmp_path) as address:
        page = browser.new_page()
        page.goto(f"{address}/figure.html")
        page.wait_for_selector("svg.marks")
        assert page.evaluate("window.INJECTED") is None
        assert SCRIPT in page.locator("svg.marks").inner_html().replace("&lt;", "<").replace("&gt;", ">")
        page.goto(f"{address}/figure.svg")
        assert page.evaluate("window.INJECTED") is None
        with watched_page(browser, f"{address}/site") as watched:
            watched.open()
            assert watched.js("window.INJECTED") is None
            assert (watched.complaints, watched.outside) == ([], [])


def test_the_dictionary_holds_no_tag(hostile: Path) -> None:
    (dictionary,) = hostile.glob("releases/*/DATA_DICTIONARY.md")
    assert "<script" not in dictionary.read_text()
