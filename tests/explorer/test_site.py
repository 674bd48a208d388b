"""The files of the explorer: the release's rows and values, the page, the libraries as recorded."""

import hashlib
import io
import json
import re
import shutil
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.explorer.columns import AGENT_COLUMNS, CURVE, SERVING_COLUMNS
from pipelines.explorer.site import INDEX, Site
from pipelines.explorer.write import write_site
from schemas.errors import UserError
from schemas.fields import FIELDS
from schemas.tables import TABLES
from transforms.agent_points.single_turns import ON_HIT, ON_MISS

EXPLORER = Path(__file__).parents[2] / "pipelines" / "explorer"


@pytest.fixture(scope="module")
def site(lake: Path) -> Site:
    return Site(lake)


def published(site: Site, path: str) -> pl.DataFrame:
    """The release's own rows of a partition."""
    return pl.read_parquet(site.release.path / path, hive_partitioning=False)


def test_every_partition_has_the_release_s_rows_and_values(site: Site) -> None:
    paths = [path for path in site.paths() if path.startswith(("agent_points/", "serving_points/"))]
    assert len(paths) == 2 * 3 + 2  # two GPUs at three scenarios, and their serving points
    for path in paths:
        content = site.content(path)
        assert content is not None
        page, release = pl.read_parquet(io.BytesIO(content)), published(site, path)
        wanted = AGENT_COLUMNS if path.startswith("agent_points") else SERVING_COLUMNS
        # a column that is NULL throughout is left out
        names = [name for name in wanted if name in release.columns and release[name].count() > 0]
        assert page.drop(CURVE, strict=False).columns == names
        assert_frame_equal(page.select(names), release.select(names), check_dtypes=False)
        assert pl.Int64() not in page.dtypes  # 64 bits are no numbers in JavaScript


def test_a_curve_is_one_configuration_at_several_loads(site: Site) -> None:
    path = "agent_points/hardware=h100-sxm/model=llama-3-1-70b/scenario=code-agent/part-0.parquet"
    content = site.content(path)
    assert content is not None
    rows = published(site, path).with_columns(pl.read_parquet(io.BytesIO(content))[CURVE])
    shape = ["serving_mode", "tp", "pp", "decode_workers", "prefill_workers", "backend", "context_requests_per_step"]
    assert rows.group_by(CURVE).agg(pl.struct(shape).n_unique().alias("shapes"))["shapes"].max() == 1
    loads = rows.filter(~pl.col("interpolated") & (pl.col("serving_mode") == "agg"))
    assert not loads.select(CURVE, "batch_per_rank").is_duplicated().any()


def test_turns_stand_row_by_row_beside_the_points(site: Site) -> None:
    partition = "hardware=h200-sxm/model=llama-3-1-70b/scenario=research-agent/part-0.parquet"
    turns, points = (
        pl.read_parquet(io.BytesIO(site.content(f"{table}/{partition}") or b"")) for table in ("turns", "agent_points")
    )
    assert turns.columns == [*ON_HIT, *ON_MISS]
    assert turns["hit_first_ms"].is_null().to_list() == points["interpolated"].to_list()
    # a mean turn lies between a hit and a miss; at a hit rate of 0.7 most of the way to the hit
    assert (turns.filter(~points["interpolated"]).select(pl.max_horizontal(ON_HIT).max()).item()) < 0
    assert (turns.filter(~points["interpolated"]).select(pl.min_horizontal(ON_MISS).min()).item()) > 0
    # and of the published first turn, in which 70 % hit, the same is left as of the table's own
    first = published(site, f"agent_points/{partition}")["first_turn_latency_ms"] - points["turn_latency_ms"]
    mixed = 0.7 * turns["hit_first_ms"] + 0.3 * turns["miss_first_ms"]
    assert (first - mixed).abs().max() < 0.01 * points["turn_latency_ms"].max()  # type: ignore[operator]


def test_a_release_of_an_earlier_version_has_a_page_without_turns(site: Site, lake: Path, tmp_path: Path) -> None:
    old = tmp_path / "lake"
    shutil.copytree(lake, old)
    for name in ("scenarios", "models"):
        path = old / "releases" / site.release.id / f"{name}.parquet"
        pl.read_parquet(path).with_columns(definition=pl.lit("{}")).write_parquet(path)
    page = Site(old)
    assert not any(path.startswith("turns/") for path in page.paths())
    index = json.loads(page.content(INDEX) or b"")
    assert set(index["turns_missing"]) == {"code-agent", "research-agent", "deep-reasoning"}
    assert "Run `agent-pareto build` on the lake again" in index["turns_missing"]["code-agent"]


def test_the_index_counts_the_rows(site: Site) -> None:
    content = site.content(INDEX)
    assert content is not None
    index = json.loads(content)
    counted = {
        (model, scenario, gpu): rows
        for model, scenarios in index["agent_points"].items()
        for scenario, gpus in scenarios.items()
        for gpu, rows in gpus.items()
    }
    agents = pl.scan_parquet(site.release.path / "agent_points/**/*.parquet", hive_partitioning=True)
    rows = agents.group_by("model", "scenario", "hardware").len().collect().rows()
    assert counted == {(model, scenario, gpu): count for model, scenario, gpu, count in rows}
    assert index["first"] == {"model": "llama-3-1-70b", "scenario": "code-agent", "hardware": ["h100-sxm", "h200-sxm"]}
    assert [gpu["hardware_name"] for gpu in index["hardware"]] == ["H100 SXM", "H200 SXM"]


def test_the_columns_are_fields_of_the_tables() -> None:
    for name in (*AGENT_COLUMNS, *SERVING_COLUMNS):
        assert name in FIELDS, name
    agent_fields = {field.name for field in TABLES["agent_points"].fields}
    assert set(AGENT_COLUMNS) <= agent_fields


def test_writing(site: Site, tmp_path: Path) -> None:
    out = tmp_path / "page"
    files, size = write_site(site, out)
    written = {path.relative_to(out).as_posix(): path.stat().st_size for path in out.rglob("*") if path.is_file()}
    assert set(written) == set(site.paths())
    assert (files, size) == (len(written), sum(written.values()))
    (out / "left-over.parquet").write_bytes(b"")
    write_site(site, out)  # an explorer is replaced as a whole
    assert not (out / "left-over.parquet").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["page"]


def test_a_folder_of_something_else_is_left_alone(site: Site, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(UserError, match="name another folder with --out"):
        write_site(site, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_the_command_says_what_it_wrote(lake: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["explorer", "--lake", str(lake), "--out", str(tmp_path / "page")])
    assert result.exit_code == 0, result.output
    assert re.search(r"\d+ files, [\d.]+ MB in .*page: release 20", result.output)


def test_neither_out_nor_serve_is_an_error(lake: Path) -> None:
    result = CliRunner().invoke(app, ["explorer", "--lake", str(lake)])
    assert isinstance(result.exception, UserError)
    assert "--out DIR writes it, --serve shows it" in str(result.exception)


def test_the_libraries_are_those_that_are_recorded() -> None:
    vendor = EXPLORER / "vendor"
    recorded = json.loads((vendor / "versions.json").read_text())
    assert set(recorded["sha256"]) == {"vega.min.js", "hyparquet.min.js", "LICENSES.txt"}
    for name, sha256 in recorded["sha256"].items():
        assert hashlib.sha256((vendor / name).read_bytes()).hexdigest() == sha256, name
    wanted = json.loads((vendor / "package.json").read_text())["devDependencies"]
    for name, version in wanted.items():
        assert name == "esbuild" or f"{name}@{version}" in recorded["packages"]
    licences = (vendor / "LICENSES.txt").read_text()
    assert all(f"{package} ({licence})" in licences for package, licence in recorded["packages"].items())
    assert set(recorded["packages"].values()) <= {"BSD-3-Clause", "ISC", "MIT"}


def test_the_page_names_no_other_server() -> None:
    """The libraries name addresses of schemas and namespaces; the page's own code and style name none."""
    known = {"http://www.w3.org/2000/svg", "https://vega.github.io/schema/vega-lite/v6.json"}
    for path in (EXPLORER / "page").rglob("*.*"):
        assert set(re.findall(r"https?://[^\s\"'`)]+", path.read_text())) <= known, path
    assert "sourceMappingURL" not in "".join(path.read_text() for path in (EXPLORER / "vendor").glob("*.js"))
