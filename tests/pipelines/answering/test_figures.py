"""`frontier --png/--svg/--html`: the figure's numbers are the lake's, its axes say what and in which unit."""

import re
import struct
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from pipelines.answering import figures
from pipelines.cli import app
from pipelines.lake.query import open_lake
from schemas.errors import UserError
from schemas.options import BuildOptions
from tests.pipelines.builds import build, write_small_table, write_small_tables

GPUS = ("h200-sxm", "h100-sxm")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("figures")
    tables = write_small_tables(folder / "tables", rows=60)
    write_small_table(tables, "h100-qwen.csv", 10_000)
    build(BuildOptions(tables=(tables,), scenarios=("code-agent",), out=folder / "lake"))
    return folder / "lake"


def frontier(lake: Path, *options: str, model: str = "qwen3-32b") -> Result:
    command = ["frontier", "--model", model, "--scenario", "code-agent", "--lake", str(lake), *options]
    return CliRunner().invoke(app, command)


@pytest.fixture
def spec(lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The specification that the command makes of two GPUs."""
    kept: list[dict[str, Any]] = []
    monkeypatch.setattr(figures, "write_figure", lambda spec, kind, path: kept.append(spec))
    gpus = [word for gpu in GPUS for word in ("--hardware", gpu)]
    result = frontier(lake, *gpus, "--svg", str(tmp_path / "f.svg"))
    assert result.exit_code == 0, result.output
    return kept[0]


def test_its_values_are_those_of_the_lake(lake: Path, spec: dict[str, Any]) -> None:
    with open_lake(lake) as connection:
        drawable = "model = 'qwen3-32b' AND (feasible OR infeasible_reason LIKE 'kv_capacity%')"
        columns = "hardware, turn_latency_ms, tasks_per_hour_per_gpu, sessions, on_frontier, feasible, weight_dtype"
        rows = list(connection.query(f"SELECT {columns} FROM agent_points WHERE {drawable}").rows())
    kinds = {(True, True): "on the frontier", (False, True): "below it", (False, False): "beyond the KV wall"}
    expected = sorted(
        (gpu, ms / 1e3, tasks, c, kinds[best, fits], dtype) for gpu, ms, tasks, c, best, fits, dtype in rows
    )
    drawn = sorted(
        (row["hardware"], row["turn_latency_s"], row["tasks_per_hour_per_gpu"], row["sessions"], row["kind"],
         row["weights"])
        for row in spec["data"]["values"]
    )  # fmt: skip
    assert drawn == expected
    assert {kind for *_, kind, _ in drawn} == set(kinds.values())
    assert {gpu for gpu, *_ in drawn} == set(GPUS)


def test_its_axes_say_what_and_the_unit(spec: dict[str, Any]) -> None:
    for layer in spec["layer"]:
        x, y = layer["encoding"]["x"], layer["encoding"]["y"]
        assert (x["field"], x["title"]) == ("turn_latency_s", "turn latency, mean over the turns (s)")
        assert (y["field"], y["title"]) == ("tasks_per_hour_per_gpu", "tasks an hour per GPU (1/h/GPU)")
    assert spec["title"]["text"] == "qwen3-32b, Code agent"
    colours = spec["layer"][1]["encoding"]["color"]["scale"]
    assert colours["domain"] == list(GPUS)
    assert len(set(colours["range"])) == 2


def test_points_below_and_beyond_are_lighter(spec: dict[str, Any]) -> None:
    light, line, best = spec["layer"]
    assert light["transform"] == [{"filter": "datum.kind != 'on the frontier'"}]
    assert line["transform"] == best["transform"] == [{"filter": "datum.kind == 'on the frontier'"}]
    opacity = best["encoding"]["opacity"]["scale"]
    assert opacity["domain"] == ["on the frontier", "below it", "beyond the KV wall"]
    assert opacity["range"] == sorted(opacity["range"], reverse=True)
    assert opacity["range"][0] == 1 > 2 * opacity["range"][1]


def point(**changed: object) -> dict[str, object]:
    return {
        "hardware": "b200", "weight_dtype": "fp8", "transfer_method": "transfer", "turn_latency_ms": 1500.0,
        "tasks_per_hour_per_gpu": 100.0, "sessions": 4.0, "max_sessions": 9.0, "shape": "tp4", "backend": "trtllm",
        "binding_limit": "kv_memory", "on_frontier": True, "feasible": True, "infeasible_reason": None, **changed,
    }  # fmt: skip


def test_what_memory_does_not_forbid_but_something_else_is_left_out() -> None:
    wall = point(on_frontier=False, feasible=False, infeasible_reason="kv_capacity")
    other = point(on_frontier=False, feasible=False, infeasible_reason="weights_do_not_fit")
    rows = figures.frontier_spec([point(), wall, other], "m", "s")["data"]["values"]
    assert [row["kind"] for row in rows] == ["on the frontier", "beyond the KV wall"]


def test_a_roofline_is_called_one() -> None:
    spec = figures.frontier_spec([point(), point(transfer_method="roofline", weight_dtype="bf16")], "m", "s")
    assert spec["layer"][1]["encoding"]["color"]["scale"]["domain"] == ["b200", "b200, roofline"]
    assert any("roofline" in line for line in spec["title"]["subtitle"])
    assert spec["layer"][1]["encoding"]["strokeDash"]["sort"] == ["fp8", "bf16"]
    assert "strokeDash" not in figures.frontier_spec([point()], "m", "s")["layer"][1]["encoding"]


def test_the_command_writes_all_three(lake: Path, tmp_path: Path) -> None:
    files = {kind: tmp_path / f"f.{kind}" for kind in ("png", "svg", "html")}
    given = [word for kind, path in files.items() for word in (f"--{kind}", str(path))]
    result = frontier(lake, "--hardware", "H200", *given)
    assert result.exit_code == 0, result.output
    assert "tasks/h" in result.stdout
    assert "tasks an hour per GPU" in result.stdout  # the plot in the terminal stays
    png = files["png"].read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", png[16:24])
    assert width > 2 * figures.WIDTH
    assert height > 2 * figures.HEIGHT
    svg = files["svg"].read_text()
    for text in ("qwen3-32b, Code agent", figures.X_TITLE, figures.Y_TITLE, "beyond the KV wall", "h200-sxm"):
        assert text in svg
    page = files["html"].read_text()
    assert figures.X_TITLE in page
    outside = re.sub(r"(<script[^>]*>).*?</script>", r"\1", page, flags=re.S)
    assert len(outside) < 2_000
    assert not re.search(r"(src|href)\s*=|@import|url\(", outside)


def test_several_hardware_stand_in_one_table(lake: Path) -> None:
    result = frontier(lake, "--hardware", "h200-sxm", "--hardware", "H100", "--hardware", "h200-sxm")
    assert result.exit_code == 0, result.output
    assert result.stdout.index("h200-sxm") < result.stdout.index("h100-sxm")
    alone = frontier(lake, "--hardware", "h200-sxm")
    assert "hardware" not in alone.stdout.splitlines()[1]


def test_hardware_without_a_frontier_is_said(lake: Path) -> None:
    assert frontier(lake, "--hardware", "h200-sxm", model="llama-3-1-8b").exit_code == 0
    both = frontier(lake, "--hardware", "h200-sxm", "--hardware", "h100-sxm", model="llama-3-1-8b")
    assert both.exit_code == 0
    assert "No feasible point of llama-3-1-8b on h100-sxm" in both.stderr
    none = frontier(lake, "--hardware", "h100-sxm", model="llama-3-1-8b")
    assert isinstance(none.exception, UserError)
    assert "No feasible point" in str(none.exception)


def test_a_place_that_cannot_be_written(lake: Path, tmp_path: Path) -> None:
    """Is said before anything is printed."""
    for option, path, sentence in (
        ("--svg", str(tmp_path / "nowhere" / "f.svg"), r"there is no folder .*nowhere; make it first"),
        ("--svg", "", r"the path names no file; give one, say frontier\.svg\."),
        ("--png", str(tmp_path), r"is a folder; name a file, say .*frontier\.png\."),
        ("--png", str(tmp_path / "f.svg"), r"the name of its file ends in \.png; say frontier\.png\."),
        ("--html", str(tmp_path / "f"), r"the name of its file ends in \.html or \.htm;"),
    ):
        result = frontier(lake, "--hardware", "h200-sxm", option, path)
        assert isinstance(result.exception, UserError)
        assert re.match(rf"{option}.*: {sentence}", str(result.exception))
        assert result.stdout == ""


def test_more_hardware_than_colours() -> None:
    """Seven have a colour each, in the legend's order; eight are refused, not drawn in a colour twice."""
    points = [
        {"hardware": f"gpu-{number}", "on_frontier": True, "feasible": True, "infeasible_reason": None,
         "transfer_method": "transfer", "weight_dtype": "fp8", "turn_latency_ms": 1e3, "tasks_per_hour_per_gpu": 1.0,
         "sessions": 1.0, "max_sessions": 2.0, "shape": "tp1", "backend": "trtllm", "binding_limit": "kv_capacity"}
        for number in range(8)
    ]  # fmt: skip
    scale = figures.frontier_spec(points[:7], "m", "s")["layer"][1]["encoding"]["color"]["scale"]
    assert len(set(scale["range"])) == len(scale["domain"]) == 7
    with pytest.raises(UserError, match=r"at most 7 GPUs apart by colour, and these are 8: give fewer --hardware"):
        figures.frontier_spec(points, "m", "s")
