"""The star in the DuckDB file: facts are the rows of the wide tables, and every key has its dimension."""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import polars as pl
import pytest

from pipelines.building.catalogue_tables import hardware_table
from pipelines.building.star import put_aside, with_pairs
from pipelines.lake.query import open_lake
from pipelines.lake.reader import current_release
from pipelines.lake.retention import relink, rollback
from pipelines.reading.catalogues import load_hardware
from schemas.dictionary import dictionary_table
from schemas.fields import FIELDS
from schemas.frames import conform, empty_frame
from schemas.options import BuildOptions
from schemas.star import STORED_FACTS
from schemas.tables import TABLES
from tests.pipelines.builds import CANDIDATES, build, release_content, write_small_table, write_small_tables

STAR = [name for name in TABLES if name.startswith(("dim_", "fact_"))]
FACTS = {"fact_agent_points": "agent_points", **STORED_FACTS}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of aggregated and disaggregated points."""
    folder = tmp_path_factory.mktemp("star")
    tables = write_small_tables(folder / "tables", rows=60)
    disagg = "h200_sxm__qwen3-32b__isl4000_osl1000__disagg.csv.gz"
    shutil.copy(CANDIDATES / disagg, tables / disagg)
    build(BuildOptions(tables=(tables,), out=folder / "lake"))
    return folder / "lake"


@pytest.fixture
def database(built: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(str(built / "agent_pareto.duckdb"), read_only=True) as connection:
        yield connection


def number(connection: duckdb.DuckDBPyConnection, sql: str) -> int:
    ((found,),) = connection.execute(sql).fetchall()
    assert isinstance(found, int)
    return found


@pytest.mark.parametrize(("fact", "wide"), FACTS.items())
def test_facts_are_the_rows_of_the_wide_table(database: duckdb.DuckDBPyConnection, fact: str, wide: str) -> None:
    columns = ", ".join(TABLES[fact].field_names)
    assert number(database, f"SELECT count(*) FROM {fact}") == number(database, f"SELECT count(*) FROM {wide}") > 10
    for one, other in ((fact, wide), (wide, fact)):
        more = f"SELECT {columns} FROM {one} EXCEPT ALL SELECT {columns} FROM {other}"
        assert number(database, f"SELECT count(*) FROM ({more})") == 0


@pytest.mark.parametrize("fact", FACTS)
def test_every_key_of_a_fact_has_its_dimension(database: duckdb.DuckDBPyConnection, fact: str) -> None:
    references = TABLES[fact].references
    assert set(references) == {"hardware", "model", "scenario", "configuration_id"}
    joins = " ".join(f"JOIN {dimension} USING ({column})" for column, dimension in references.items())
    rows = number(database, f"SELECT count(*) FROM {fact}")
    assert number(database, f"SELECT count(*) FROM {fact} {joins}") == rows


def test_a_dimension_says_what_the_wide_table_says(database: duckdb.DuckDBPyConnection) -> None:
    said = [name for name in TABLES["dim_configuration"].field_names if name in TABLES["agent_points"].field_names]
    differs = " OR ".join(f"d.{name} IS DISTINCT FROM p.{name}" for name in said)
    assert {"tp", "weight_dtype", "backend_version", "decode_workers", "gpus_per_replica"} <= set(said)
    joined = "agent_points p JOIN dim_configuration d USING (configuration_id)"
    assert number(database, f"SELECT count(*) FROM {joined} WHERE {differs}") == 0
    assert number(database, "SELECT count(*) FROM dim_scenario WHERE scenario_name = 'Code agent' AND turns = 8") == 1
    assert number(database, "SELECT hbm_bytes FROM dim_hardware WHERE hardware = 'h200-sxm'") == (
        load_hardware().get("h200-sxm").hbm_bytes
    )


def test_what_the_file_holds_and_what_it_reads(database: duckdb.DuckDBPyConnection) -> None:
    held = {
        name for (name,) in database.execute("SELECT table_name FROM duckdb_tables() WHERE NOT internal").fetchall()
    }
    assert held == set(STAR) - {"fact_agent_points"} == {name for name, table in TABLES.items() if table.stored}
    keys = database.execute(
        "SELECT table_name, constraint_column_names FROM duckdb_constraints() WHERE constraint_type = 'PRIMARY KEY'"
    ).fetchall()
    assert dict(keys) == {name: list(TABLES[name].key) for name in STAR if name.startswith("dim_")}


def test_every_table_and_column_is_described(database: duckdb.DuckDBPyConnection) -> None:
    there = "(SELECT table_name, comment FROM duckdb_tables() WHERE NOT internal " \
            "UNION ALL SELECT view_name, comment FROM duckdb_views() WHERE NOT internal)"  # fmt: skip
    assert dict(database.execute(f"FROM {there}").fetchall()).items() <= {
        (name, table.description) for name, table in TABLES.items()
    }
    assert number(database, "SELECT count(*) FROM duckdb_columns() WHERE NOT internal AND comment IS NULL") == 0
    key = "SELECT comment FROM duckdb_columns() WHERE table_name = '{}' AND column_name = 'model'"
    for fact in FACTS:
        ((comment,),) = database.execute(key.format(fact)).fetchall()
        assert comment.endswith("; key of dim_model")


def test_the_dictionary_as_rows(database: duckdb.DuckDBPyConnection) -> None:
    there = "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal"
    said = "SELECT table_name, column_name, data_type FROM data_dictionary"
    assert number(database, f"SELECT count(*) FROM ({there} EXCEPT {said})") == 0
    row = database.execute(
        "SELECT unit, nullable, description, origin FROM data_dictionary "
        "WHERE table_name = 'agent_points' AND column_name = 'task_time_s'"
    ).fetchall()
    assert row == [("s", False, f"{FIELDS['task_time_s'].description}.", "Step 3")]
    assert dictionary_table().height == sum(len(table.field_names) for table in TABLES.values())


def test_queries_see_the_star_too(built: Path) -> None:
    with open_lake(built) as lake:
        assert set(STAR) <= set(lake.tables)
        best = "SELECT configuration FROM fact_agent_frontier JOIN dim_configuration USING (configuration_id) " \
               "WHERE hardware = 'h200-sxm' ORDER BY tasks_per_hour_per_gpu DESC LIMIT 1"  # fmt: skip
        ((words,),) = lake.query(best).rows()
        assert ", KV " in words


def facts_of(lake: Path) -> dict[str, int]:
    with duckdb.connect(str(lake / "agent_pareto.duckdb"), read_only=True) as connection:
        return {name: number(connection, f"SELECT count(*) FROM {name}") for name in STAR}


def test_rollback_and_relink_bring_their_own_star(tmp_path: Path) -> None:
    tables = write_small_tables(tmp_path / "tables", rows=6)
    options = BuildOptions(tables=(tables,), scenarios=("code-agent",), out=tmp_path / "lake")
    build(options)
    first, before = current_release(options.out).id, facts_of(options.out)
    write_small_table(tables, "h100-qwen.csv", 20)
    build(options)  # more points; the operating points and the frontier may stay
    after = facts_of(options.out)
    assert after["fact_agent_points"] > before["fact_agent_points"]
    rollback(options.out, first)
    assert facts_of(options.out) == before
    moved = options.out.rename(tmp_path / "moved")
    relink(moved)
    assert facts_of(moved) == before
    (moved / "agent_pareto.duckdb").unlink()
    with duckdb.connect(str(moved / "agent_pareto.duckdb")) as connection:  # views of the right names, no tables
        connection.execute("CREATE TABLE dim_model (model VARCHAR)")
    relink(moved)
    assert facts_of(moved) == before


@pytest.mark.parametrize("damage", ["gone", "changed"])
def test_facts_of_the_release_before_that_cannot_be_used_are_read_from_its_parts(tmp_path: Path, damage: str) -> None:
    tables = write_small_tables(tmp_path / "tables", rows=6)
    options = BuildOptions(tables=(tables,), scenarios=("code-agent",), out=tmp_path / "lake")
    build(options)
    release = current_release(options.out).path
    file = release / "fact_agent_frontier.parquet"
    if damage == "gone":
        file.unlink()
    else:
        pl.read_parquet(file).with_columns(turn_latency_ms=pl.lit(1.0)).write_parquet(file)
    write_small_table(tables, "h100-qwen.csv", 12)
    assert build(options).carried_over
    other = options.model_copy(update={"out": tmp_path / "other"})
    build(other)
    assert release_content(options.out) == release_content(other.out)


def test_facts_that_do_not_match_their_table_are_not_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = write_small_tables(tmp_path / "tables", rows=20)
    monkeypatch.setattr("pipelines.building.carrying.put_aside", lambda release, table, rows: None)
    with pytest.raises(ValueError, match=r"fact_\w+: 0 rows, but \d+ in"):
        build(BuildOptions(tables=(tables,), scenarios=("code-agent",), out=tmp_path / "lake"))


def test_a_pair_of_gpus_has_the_figures_of_the_decoding_one() -> None:
    pair = {"hardware": "h100-sxm-and-h200-sxm", "prefill_hardware": "h100-sxm", "decode_hardware": "h200-sxm"}
    alone = {"hardware": "b200", "prefill_hardware": "b200", "decode_hardware": "b200"}
    every = with_pairs(hardware_table(load_hardware()), pl.DataFrame([pair, alone, pair]))
    assert conform(every, "dim_hardware").height == len(load_hardware()) + 1
    (row,) = every.filter(pl.col("hardware") == pair["hardware"]).to_dicts()
    assert row["hardware_name"] == "H100 SXM and H200 SXM"
    assert row["hbm_bytes"] == load_hardware().get("h200-sxm").hbm_bytes
    assert (row["prefill_hardware"], row["decode_hardware"]) == ("h100-sxm", "h200-sxm")


def test_shares_that_put_the_same_rows_aside_at_once(tmp_path: Path) -> None:
    """None, in most builds: both threads had none on a frontier, and wrote one file."""
    rows = empty_frame("agent_frontier")
    with ThreadPoolExecutor(4) as threads:
        for _ in threads.map(lambda number: put_aside(tmp_path, "agent_frontier", rows), range(400)):
            pass
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert pl.read_parquet(file).is_empty()
