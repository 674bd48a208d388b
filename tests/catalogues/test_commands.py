"""`hardware` and `scenarios`: lists and templates."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.commands import hardware, scenarios
from pipelines.reading.catalogues import load_hardware, load_scenarios
from schemas.errors import UserError

ROOT = Path(__file__).parents[2]


def test_hardware_as_a_table() -> None:
    result = CliRunner().invoke(hardware.app, ["list"])
    assert result.exit_code == 0
    lines = {words[0]: words[1:] for words in map(str.split, result.output.splitlines()) if words}
    assert lines["h100-sxm"] == ["85.9", "3,350", "989", "1,979", "-", "8"]
    assert lines["b200"] == ["193.3", "8,000", "2,250", "4,500", "9,000", "8"]
    assert "GB/s" in result.output
    assert "TFLOP/s" in result.output
    assert "…" not in result.output


def test_hardware_as_json_is_a_catalogue_file(tmp_path: Path) -> None:
    result = CliRunner().invoke(hardware.app, ["list", "--format", "json"])
    entries = json.loads(result.output)["hardware"]
    assert [entry["slug"] for entry in entries] == [gpu.slug for gpu in load_hardware()]
    assert entries[0]["flops_per_s"] == {"bf16": 989e12, "fp8": 1979e12}
    path = tmp_path / "f.yaml"
    path.write_text(result.output)
    assert load_hardware(path) == load_hardware()


def test_hardware_with_a_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    gpu = load_hardware().get("l40s").model_dump(mode="json", exclude_none=True)
    path.write_text(json.dumps({"hardware": [gpu | {"slug": "l40s-oc", "name": "L40S OC", "aliases": []}]}))
    result = CliRunner().invoke(hardware.app, ["list", "--hardware", str(path)])
    assert "l40s-oc" in result.output


def test_scenarios_as_a_table() -> None:
    result = CliRunner().invoke(scenarios.app, ["list"])
    assert result.exit_code == 0
    lines = {words[0]: words[1:] for words in map(str.split, result.output.splitlines()) if words}
    assert lines["code-agent"] == [
        "8", "0.5", "16,000", "500", "128", "1", "0.95", "18,198", "20,524", "32", "8",
    ]  # fmt: skip
    assert "tokens" in result.output
    assert "…" not in result.output


def test_scenarios_as_json_is_a_scenario_file(tmp_path: Path) -> None:
    result = CliRunner().invoke(scenarios.app, ["list", "--format", "json", "--scenarios", "code-agent"])
    assert [entry["slug"] for entry in json.loads(result.output)["scenarios"]] == ["code-agent"]
    path = tmp_path / "f.yaml"
    path.write_text(result.output)
    assert load_scenarios([str(path)]) == load_scenarios(["code-agent"])


@pytest.mark.parametrize(
    ("app", "arguments"),
    [
        (hardware.app, ["list", "--hardware", "nowhere.yaml"]),
        (scenarios.app, ["list", "--scenarios", "nowhere"]),
    ],
)
def test_mistakes_reach_the_command_line_as_user_errors(app: typer.Typer, arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, UserError)


def test_commands_load_nothing_before_they_run() -> None:
    """Other commands share the program: to name these two must not cost them the catalogues."""
    probe = (
        "import sys; import pipelines.commands.hardware, pipelines.commands.scenarios;"
        "print(sorted(m for m in sys.modules if m in {'yaml', 'pydantic', 'pipelines.reading.catalogues', 'polars'}))"
    )
    done = subprocess.run([sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_data_of_a_folder_that_happens_to_be_called_data_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "__init__.py").write_text("")
    (tmp_path / "data" / "scenarios.yaml").write_text("scenarios: []")
    probe = f"import sys; sys.path[1:1] = [{str(ROOT)!r}];" + (
        "from pipelines.reading.catalogues import load_scenarios; print(len(load_scenarios()))"
    )
    done = subprocess.run([sys.executable, "-c", probe], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "5"


def test_templates_are_files_that_are_read(tmp_path: Path) -> None:
    """What is printed is a catalogue file, or a trace, as it stands; each field that means something is described."""
    files = {}
    for name, command in (
        ("gpu.yaml", ["hardware", "template"]),
        ("agent.yaml", ["scenarios", "template"]),
        ("trace.csv", ["scenarios", "template", "--trace"]),
    ):
        files[name] = tmp_path / name
        files[name].write_text(CliRunner().invoke(app, command).stdout)
    gpu, shipped = load_hardware(files["gpu.yaml"]).get("my-gpu"), load_hardware().get("h100-sxm")
    assert (gpu.figures, gpu.vendor) == (shipped.figures, "MyVendor")
    assert "# memory as the driver reports it\n" in files["gpu.yaml"].read_text()
    (agent,) = load_scenarios([str(files["agent.yaml"])])
    (code_agent,) = load_scenarios(["code-agent"])
    given = {"slug", "name", "source"}
    assert agent.model_dump(exclude=given) == code_agent.model_dump(exclude=given)
    out = tmp_path / "fitted.yaml"
    assert CliRunner().invoke(app, ["scenarios", "fit", str(files["trace.csv"]), "--out", str(out)]).exit_code == 0
    (fitted,) = load_scenarios([str(out)])
    # pauses of 2.5, 31 and 4 s; contexts of 12,000 and 11,800
    assert fitted.think_time_s == pytest.approx(12.5)
    assert fitted.initial_prompt_tokens == 11_900


@pytest.mark.parametrize(
    "command", [["hardware", "list"], ["models", "list"], ["scenarios", "list"], ["models", "show", "kimi-k2"]]
)
def test_catalogues_as_csv_have_what_their_json_has(command: list[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(CliRunner().invoke(app, [*command, "--format", "csv"]).stdout)))
    content = json.loads(CliRunner().invoke(app, [*command, "--format", "json"]).stdout)
    entries = next(iter(content.values())) if command[1] == "list" else [content]
    assert len(rows) == len(entries)
    for row, entry in zip(rows, entries, strict=True):
        for name, value in entry.items():
            if isinstance(value, str | int):
                assert row[name] == (str(value).lower() if isinstance(value, bool) else str(value))
