"""`build --prices`: a typed file of the user's, the cost columns, and what is computed anew when it changes."""

from pathlib import Path

import polars as pl
import pytest

from pipelines.building import build_inputs
from pipelines.building.report import BuildReport
from pipelines.building.summary import print_summary
from pipelines.lake.query import open_lake
from pipelines.lake.reader import current_release
from pipelines.reading.catalogues import load_hardware, load_prices
from schemas.errors import UserError
from schemas.options import BuildOptions
from schemas.prices import unpriced
from tests.pipelines.builds import build, release_content, write_small_tables

H100 = "  - {hardware: H100, usd_per_gpu_hour: 2.5, source: made up for a test, date: 2026-01-15}\n"
H200 = "  - {hardware: h200-sxm, usd_per_gpu_hour: 4, source: made up for a test, date: 2026-02-01}\n"


def written(path: Path, *entries: str) -> Path:
    path.write_text("prices:\n" + "".join(entries))
    return path


def test_a_price_list_names_hardware_as_the_catalogue_does(tmp_path: Path) -> None:
    prices = load_prices(written(tmp_path / "prices.yaml", H100, H200), load_hardware())
    assert [(price.hardware, price.usd_per_gpu_hour, price.date.isoformat()) for price in prices] == [
        ("h100-sxm", 2.5, "2026-01-15"),
        ("h200-sxm", 4.0, "2026-02-01"),
    ]
    assert load_prices(None, load_hardware()) == ()


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (H100.replace("H100", "h100-smx"), "Unknown hardware 'h100-smx'. Did you mean"),
        (H100.replace("2.5", "'2.5'"), "must be a number"),
        (H100.replace("2.5", "0"), "must be more than 0"),
        (H100.replace("2.5", "-1"), "must be more than 0"),
        (H100.replace("2.5", ".inf"), "finite"),
        (H100.replace("2026-01-15", "yesterday"), "must be a date: 2026-03-01"),
        (H100.replace("2026-01-15", "2026"), "must be a date: 2026-03-01"),
        (H100.replace(", date: 2026-01-15", ""), "date"),
        (H100.replace("source", "sourse"), "source"),
        (H100.replace("usd_per_gpu_hour", "eur_per_gpu_hour"), "usd_per_gpu_hour"),
        (H100 + H100.replace("H100", "h100-sxm"), "'h100-sxm' has two prices"),
        ("", "prices.yaml"),
    ],
)
def test_what_is_wrong_with_a_price_list_is_said(tmp_path: Path, entry: str, said: str) -> None:
    with pytest.raises(UserError) as error:
        load_prices(written(tmp_path / "prices.yaml", entry), load_hardware())
    assert said in str(error.value)
    assert "prices.yaml" in str(error.value)


def test_no_catalogue_of_hardware_may_hold_a_price(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("hardware:\n  - {slug: mine, usd_per_gpu_hour: 2}\n")
    with pytest.raises(UserError, match="usd_per_gpu_hour"):
        load_hardware(own)


def test_hardware_without_a_price_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prices = load_prices(written(tmp_path / "prices.yaml", H100), load_hardware())
    slugs = ["h100-sxm", "b200-and-h100-sxm", "b200", "a100-sxm"]
    assert unpriced(prices, slugs) == ("a100-sxm", "b200")
    assert unpriced((), slugs) == ()
    tables = write_small_tables(tmp_path / "tables", rows=5)
    inputs = build_inputs.read(build_inputs.find(BuildOptions(tables=(tables,)))).inputs
    print_summary(BuildReport("ID", True, inputs, unpriced=("a100-sxm", "b200")), tmp_path, 1.0)
    assert "Without a price: a100-sxm, b200. Their cost columns are NULL.\n" in capsys.readouterr().out


COSTS = "usd_per_gpu_hour, usd_per_task, usd_per_million_output_tokens"


def costs(lake: Path, table: str) -> pl.DataFrame:
    sql = f"SELECT hardware, tasks_per_hour_per_gpu, {COSTS} FROM {table}"
    with open_lake(lake) as connection:
        return connection.frame(sql)


@pytest.mark.slow
def test_a_build_with_prices(tmp_path: Path) -> None:
    tables, prices = write_small_tables(tmp_path / "tables", rows=60), tmp_path / "prices.yaml"
    plain = BuildOptions(tables=(tables,), scenarios=("code-agent",), out=tmp_path / "lake")
    build(plain)
    for table in ("agent_points", "agent_frontier", "operating_points", "fact_agent_frontier"):
        assert costs(plain.out, table).select(COSTS.split(", ")).null_count().row(0) == (
            costs(plain.out, table).height,
        ) * 3  # fmt: skip
    with open_lake(plain.out) as connection:
        assert list(connection.query("FROM prices").rows()) == []

    priced = plain.model_copy(update={"prices": written(prices, H100)})
    first = build(priced)
    assert {record.hardware for record in first.computed} == {"h100-sxm"}
    assert {record.hardware for record in first.carried_over} == {"h200-sxm"}
    for table in ("agent_points", "agent_frontier", "operating_points", "fact_operating_points"):
        frame = costs(priced.out, table)
        on_h100, rest = frame.filter(hardware="h100-sxm"), frame.filter(pl.col("hardware") != "h100-sxm")
        off = on_h100["usd_per_task"] * on_h100["tasks_per_hour_per_gpu"] / 2.5 - 1
        assert off.null_count() == 0
        assert not on_h100.is_empty() or table == "agent_frontier"
        assert (off.abs() < 1e-12).all()
        assert rest["usd_per_task"].null_count() == rest.height > 0
    with open_lake(priced.out) as connection:
        rows = list(connection.query("FROM prices").rows())
    assert rows == [("h100-sxm", 2.5, "made up for a test", "2026-01-15")]
    assert current_release(priced.out).manifest["prices"] == [
        {"hardware": "h100-sxm", "usd_per_gpu_hour": 2.5, "source": "made up for a test", "date": "2026-01-15"}
    ]

    assert build(priced).release is None  # the same list: nothing to do
    written(prices, H100.replace("2026-01-15", "2026-01-16"))
    dated = build(priced)  # the table of prices changes, and no cost
    assert (dated.release is not None, dated.computed) == (True, [])
    written(prices, H100.replace("2.5", "3.5"), H200)
    assert {record.hardware for record in build(priced).computed} == {"h100-sxm", "h200-sxm"}
    assert costs(priced.out, "agent_points")["usd_per_task"].null_count() == 0
    other = priced.model_copy(update={"out": tmp_path / "other"})
    build(other)
    assert release_content(priced.out) == release_content(other.out)
